/*
 * Buffers for the MPI tests, of every kind of memory that an application may pass to MPI. With a GPU they
 * come from the CUDA driver, which is loaded at run time; without one from the component's host accelerator,
 * whose allocator is looked up in the component if it is loaded in this process, else from malloc. Every
 * buffer has guard bytes before and after it and is filled with poison when made.
 */
#ifndef GPUCOLL_TEST_MPI_MEMORY_H
#define GPUCOLL_TEST_MPI_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum test_memory {
    TEST_HOST,    /* malloc; host accelerator: memory that counts as host */
    TEST_PINNED,  /* cuMemAllocHost; host accelerator: as TEST_HOST */
    TEST_DEVICE,  /* cuMemAlloc; host accelerator: memory that counts as device */
    TEST_POOL,    /* cuMemAllocAsync; host accelerator: malloc, whatever that counts as */
    TEST_VMM,     /* cuMemCreate and cuMemMap, not exportable; host accelerator: as TEST_DEVICE */
    TEST_PIECES,  /* the same in several pieces, exportable; host accelerator: likewise */
    TEST_MANAGED, /* cuMemAllocManaged (above 1 MiB: cuMemAlloc); host accelerator: as TEST_DEVICE */
    TEST_MEMORY_KINDS
};

enum { TEST_POISON = 0xc3, TEST_GUARD = 0xa5, TEST_GUARD_BYTES = 256 };

struct test_buffer {
    unsigned char *data; /* what MPI is given */
    size_t bytes;
    unsigned char *base; /* the allocation, which begins `front` bytes before data */
    size_t front;
    size_t total;
    enum test_memory kind;
    unsigned long long vmm_handle; /* TEST_VMM */
    size_t vmm_bytes;
    size_t piece_bytes; /* TEST_PIECES */
    bool is_part;       /* of an allocation that another buffer has, and is freed with */
};

/* Options: `--memory=` and `--gpu-map=`. False if the text is not understood. */
bool test_memory_parse(const char *text);
bool test_memory_map(const char *text);

void test_memory_start(void); /* after MPI_Init */
void test_memory_stop(void);
/* Makes this process's GPU current in the calling thread; needed in threads other than the main one. */
void test_memory_thread(void);
bool test_memory_has_gpu(void);
int test_memory_gpus(void); /* that this process sees */
/* Before the first buffer: does this process use a GPU, or see one only? True without GPUs, for the host accelerator's memory. */
bool test_memory_gpu_is_clear(void);
/* Of this process's GPU, by all who use it; 0 without one, or before its first buffer. */
size_t test_memory_gpu_used(void);

/* Do waits in MPI give their core away? Asked of Open MPI itself; true with a GPU, whose kernels take none. */
bool test_memory_yields(void);

/* Waits until this process's device has no work left; the driver's error, 0 if it has none. */
int test_memory_synchronize(void);

/* The kind of buffer that `--memory` says for this rank; `key` decides where it says mixed. */
enum test_memory test_memory_kind(uint64_t key);
/* `--memory=split` on GPUs: the processes of some ranks have no device at all, so that no call runs natively. */
bool test_memory_apart(void);
/* Are the buffers of all ranks on the device, whatever the key? */
bool test_memory_all_on_device(void);
/* `--memory=drawn`: the program chooses; test_memory_kind gives any kind. */
bool test_memory_drawn(void);
const char *test_memory_name(enum test_memory kind);

/* `data` will stand `offset` bytes behind a 256-byte boundary; `at_base` puts it at the very start of its
 * allocation where offset is 0 (then there is no guard before it); else TEST_PIECES has the middle of a small buffer where two pieces
 * meet. Failure to allocate ends the program. */
void test_buffer_make(struct test_buffer *buffer, enum test_memory kind, size_t bytes, size_t offset,
                      bool at_base);
void test_buffer_write(struct test_buffer *buffer, size_t at, const void *from, size_t bytes);
void test_buffer_read(const struct test_buffer *buffer, size_t at, void *to, size_t bytes);
void test_buffer_poison(struct test_buffer *buffer);
/* False, with a failure noted that names `what`, if a guard byte changed. */
bool test_buffer_check(const struct test_buffer *buffer, const char *what);
void test_buffer_free(struct test_buffer *buffer);
/* Of a TEST_PIECES buffer: other memory at the same addresses, but for the first piece's; poisoned. */
void test_buffer_remap(struct test_buffer *buffer);

/* A stream of this process's GPU, in the thread's context, that waits for no other; where there is a GPU only. */
void *test_stream_open(void);
void test_stream_wait(void *stream);
void test_stream_close(void *stream);
/* Captures a graph on it in the mode `global`, which consists of filling a buffer on the device with `value`. Until the end nothing else of this
 * header may be called. */
void test_capture_begin(void *stream, const struct test_buffer *filled, unsigned char value);
/* Ends the capture and runs the graph once, till its end; the driver's first error, 0 if there is none. */
int test_capture_end(void *stream);

#endif
