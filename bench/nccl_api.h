/*
 * The few NCCL functions the comparison calls, found in libnccl.so.2 at run time: the program builds without NCCL and
 * takes whichever version --nccl names. Declared by ourselves from NCCL's public interface.
 */
#ifndef BENCH_NCCL_API_H
#define BENCH_NCCL_API_H

#include <stdbool.h>
#include <stddef.h>

struct bench_nccl_id {
    char bytes[128];
};

typedef void *bench_nccl_comm;
typedef void *bench_nccl_window;

enum { BENCH_NCCL_WINDOW_SYMMETRIC = 1 };

struct bench_nccl_api {
    char path[1024]; /* where it was found */
    int (*ncclGetVersion)(int *version);
    int (*ncclGetUniqueId)(struct bench_nccl_id *id);
    int (*ncclCommInitRank)(bench_nccl_comm *comm, int ranks, struct bench_nccl_id id, int rank);
    int (*ncclCommDestroy)(bench_nccl_comm comm);
    int (*ncclAllReduce)(const void *send, void *recv, size_t count, int type, int op, bench_nccl_comm comm,
                         void *stream);
    int (*ncclReduce)(const void *send, void *recv, size_t count, int type, int op, int root,
                      bench_nccl_comm comm, void *stream);
    int (*ncclBroadcast)(const void *send, void *recv, size_t count, int type, int root, bench_nccl_comm comm,
                         void *stream);
    int (*ncclAllGather)(const void *send, void *recv, size_t count, int type, bench_nccl_comm comm,
                         void *stream);
    int (*ncclReduceScatter)(const void *send, void *recv, size_t count, int type, int op,
                             bench_nccl_comm comm, void *stream);
    int (*ncclSend)(const void *send, size_t count, int type, int peer, bench_nccl_comm comm, void *stream);
    int (*ncclRecv)(void *recv, size_t count, int type, int peer, bench_nccl_comm comm, void *stream);
    int (*ncclGroupStart)(void);
    int (*ncclGroupEnd)(void);
    /* Since 2.28: NULL in older ones. */
    int (*ncclAlltoAll)(const void *send, void *recv, size_t count, int type, bench_nccl_comm comm,
                        void *stream);
    int (*ncclGather)(const void *send, void *recv, size_t count, int type, int root, bench_nccl_comm comm,
                      void *stream);
    int (*ncclScatter)(const void *send, void *recv, size_t count, int type, int root, bench_nccl_comm comm,
                       void *stream);
    const char *(*ncclGetErrorString)(int error);
    const char *(*ncclGetLastError)(bench_nccl_comm comm);
    /* Registered symmetric windows, since 2.27: NULL in older ones. */
    int (*ncclMemAlloc)(void **pointer, size_t bytes);
    int (*ncclMemFree)(void *pointer);
    int (*ncclCommWindowRegister)(bench_nccl_comm comm, void *buffer, size_t bytes, bench_nccl_window *window,
                                  int flags);
    int (*ncclCommWindowDeregister)(bench_nccl_comm comm, bench_nccl_window window);
};

/* In the environment, unless the user has them there: bench_nccl_load does so, too. What reports them is to do it before. */
void bench_nccl_settings(void);

/* `path`: a file, or auto for the dynamic linker's places, then those of Python's packages. False, with the reason, if there is no
 * such library. */
bool bench_nccl_load(struct bench_nccl_api *api, const char *path, char *reason, size_t reason_bytes);
bool bench_nccl_has_windows(const struct bench_nccl_api *api);

#endif
