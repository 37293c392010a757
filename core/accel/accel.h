/*
 * The accelerator interface: what the engine needs from the device that holds the buffers. Two
 * implementations: `cuda` (the driver, loaded at run time) and `host` (host memory as device memory, worker threads as
 * kernels), so that everything but the CUDA kernels runs on a machine without a GPU.
 *
 * Lifetimes: one `gpucoll_accel` a context; one `gpucoll_device` for each GPU the process really used, made at the
 * first buffer seen on it. No function here may be the first to create a CUDA context in a process that
 * has none: the application chooses its GPU, not us. The exception is device_open of what `only` tells, which a user asks for.
 * Thread safety: classify, copy and launch may be called from any thread, and so may stream_open and copier_open; open, close and the rest of
 * device set-up are serialised by the caller.
 */
#ifndef GPUCOLL_ACCEL_ACCEL_H
#define GPUCOLL_ACCEL_ACCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/base/config.h"
#include "core/base/log.h"
#include "core/base/segment.h"
#include "core/base/status.h"
#include "core/base/types.h"
#include "kernels/kernel_abi.h"
#include "kernels/layout_abi.h"

enum gpucoll_memory { GPUCOLL_MEMORY_HOST = 0, GPUCOLL_MEMORY_DEVICE = 1 };

/* What device_enter changed in the calling thread, for device_leave; all zero: nothing. */
struct gpucoll_entry {
    bool pushed;  /* another context was current */
    bool relaxed; /* the thread was in `mode` of capturing graphs */
    int mode;
};

struct gpucoll_buffer {
    enum gpucoll_memory memory; /* managed memory counts as DEVICE; pinned host memory as HOST */
    int device;                 /* ordinal in this process; -1 for HOST */
    uint64_t id;                /* of the allocation, never reused in a process; 0 if the driver gives none */
    bool migrates;              /* managed: its pages may be in other memory than the device's */
};

/* By what a peer process maps memory. */
enum gpucoll_handle_kind {
    GPUCOLL_HANDLE_OPAQUE, /* one allocation, by what the accelerator has put into `opaque` (CUDA IPC) */
    GPUCOLL_HANDLE_PIECES /* allocations one behind the other, each by a file descriptor (core/accel/pieces.h) */
};

/* The most allocations that are mapped as one. PyTorch's expandable segments have pieces of 20 MiB: enough for 1.2 GiB. */
enum { GPUCOLL_HANDLE_PIECES_MAX = 64 };

struct gpucoll_memory_piece {
    uint64_t bytes;
    int32_t fd; /* in the owner, which keeps it open as long as peers may map the memory */
    uint32_t reserved;
};

/* Device memory as a peer process can map it; plain data, exchanged as bytes. */
struct gpucoll_memory_handle {
    struct gpucoll_process_id owner;
    uint64_t
        address; /* in the owner: used as is by a peer in the same process, but not if it lies in pieces */
    uint64_t bytes;
    uint32_t kind;        /* enum gpucoll_handle_kind */
    uint32_t piece_count; /* PIECES */
    union {
        unsigned char opaque[64];
        struct gpucoll_memory_piece pieces[GPUCOLL_HANDLE_PIECES_MAX]; /* they add up to `bytes` */
    };
};

/* Identifies a GPU across processes, whatever CUDA_VISIBLE_DEVICES says in each. */
struct gpucoll_device_id {
    unsigned char uuid[16];
};

/* Equal pieces of a buffer: `rows` of `bytes` bytes, each `stride` bytes behind the one before. Offsets count from the buffer's. */
struct gpucoll_rows {
    ptrdiff_t offset;
    size_t bytes;
    ptrdiff_t stride;
    size_t rows;
};

/* Between two places that a device reaches. */
struct gpucoll_copy {
    void *to;
    const void *from;
    uint64_t bytes; /* not 0 */
};

/* Of copies that are queued together, among each other: each when the one before it has ended, or as engines are free, which takes the host
 * less time. */
enum gpucoll_copy_order { GPUCOLL_COPY_IN_TURN, GPUCOLL_COPY_AT_ONCE };

struct gpucoll_accel;
struct gpucoll_device;
struct gpucoll_stream; /* an in-order queue of kernels with its own status block */
struct gpucoll_copier; /* an in-order queue of copies */

/* The number of a stream's next kernel, its done_value. Never 0, as words are that no kernel has written yet: it is passed over once in 2^32. */
static inline uint32_t gpucoll_next_done(uint32_t *latest)
{
    *latest += *latest == UINT32_MAX ? 2 : 1;
    return *latest;
}

struct gpucoll_launch {
    enum gpucoll_kernel kernel;
    int functor; /* an index from gpucoll_functor(); any where the kernel takes none */
    unsigned ctas;
    unsigned threads;
    /* Not 0: another call of this kind is likely to follow soon on this stream, and the kernel may wait for it so long
     * after it has ended this one. Then `ctas` is its crew. */
    uint32_t linger_ns;
    bool
        waits_once; /* it waits so long for one call that has not this flag: the one after that has a launch of its own */
    bool by_threads; /* GPUCOLL_KERNEL_STORE moves by threads: not one that lingers */
    bool gate; /* the kernel asks the host before it stores anything (core/gate.h); not one that lingers */
    const struct gpucoll_kernel_args *args; /* copied; what belongs to the stream is filled in by it */
    const struct gpucoll_kernel_runs *runs; /* of an exchange; copied */
};

/* How kernels of one device reach the memory of another. */
enum gpucoll_link {
    GPUCOLL_LINK_NONE,
    GPUCOLL_LINK_PCIE,   /* stores of up to 8 bytes arrive whole */
    GPUCOLL_LINK_NVLINK, /* 128 bytes that a warp stores at once arrive whole (protocol LL128) */
    GPUCOLL_LINK_SAME    /* one device */
};

struct gpucoll_accel_ops {
    const char *name;
    const char *help;
    bool takes_cores;     /* its kernels and copies are threads of this process: who waits for them gives cores away */
    size_t scratch_bytes; /* data area of a lane that suits its kernels */
    /* GPUCOLL_ERR_UNSUPPORTED if there is no such accelerator here (not an error by itself, nothing shown unless
     * it was asked for by name). */
    gpucoll_status (*open)(const struct gpucoll_config *config, const struct gpucoll_log *log,
                           struct gpucoll_accel **accel) GPUCOLL_CHECKED;
    void (*close)(struct gpucoll_accel *accel);
    /* False only if this process certainly has no device memory: a few instructions, asked on every MPI call. */
    bool (*active)(struct gpucoll_accel *accel);
    /* NULL and whatever the driver does not know are HOST. Never fails. */
    void (*classify)(struct gpucoll_accel *accel, const void *pointer, struct gpucoll_buffer *buffer);
    /* Copies between any two kinds of memory and returns when the bytes have arrived. */
    gpucoll_status (*copy)(struct gpucoll_accel *accel, void *to, const void *from,
                           size_t bytes) GPUCOLL_CHECKED;
    /* Copies `count` > 0 sets of rows, which are not empty and of one allocation at either end, to where they lie in `to` from where they
     * lie in `from`; returns when all have arrived. */
    gpucoll_status (*copy_rows)(struct gpucoll_accel *accel, void *to, const void *from,
                                const struct gpucoll_rows *rows, size_t count) GPUCOLL_CHECKED;
    /* Host memory that copies run fast to and from. */
    gpucoll_status (*host_alloc)(struct gpucoll_accel *accel, size_t bytes, void **pointer) GPUCOLL_CHECKED;
    void (*host_free)(struct gpucoll_accel *accel, void *pointer);
    /* Waits for all work of the device that holds `pointer` (debugging aid). */
    gpucoll_status (*synchronize)(struct gpucoll_accel *accel, const void *pointer) GPUCOLL_CHECKED;

    /* The device that the calling thread uses, else the only one that its process uses, as if it had a buffer there, for device_open
     * with NULL; false: none, or several. */
    bool (*here)(struct gpucoll_accel *accel, struct gpucoll_buffer *buffer);
    /* Where the process uses none yet: the only one that it sees, likewise. To bind to that is the first use. NULL: `here` tells always. */
    bool (*only)(struct gpucoll_accel *accel, struct gpucoll_buffer *buffer);
    /* The id of the device of a buffer that `here` tells, which need not be open. NULL: only one that is open has an id. */
    bool (*identify)(struct gpucoll_accel *accel, const struct gpucoll_buffer *buffer,
                     struct gpucoll_device_id *id);
    /* Binds to the device that holds `pointer`, in the context that made it; NULL: to the one that `here` or else `only` tells. */
    gpucoll_status (*device_open)(struct gpucoll_accel *accel, const void *pointer,
                                  struct gpucoll_device **device) GPUCOLL_CHECKED;
    void (*device_close)(struct gpucoll_device *device);
    void (*device_id)(struct gpucoll_device *device, struct gpucoll_device_id *id);
    /* Can kernels linger on it? */
    bool (*device_lingers)(struct gpucoll_device *device);
    /* How many CTAs of any kernel are on this device at once: of one that waits for other ranks all have to be. */
    unsigned (*device_resident)(struct gpucoll_device *device);
    /* Do kernels of several processes run on it at the same time (as under MPS), rather than in turn? */
    bool (*device_concurrent)(struct gpucoll_device *device);
    /* Can it run GPUCOLL_KERNEL_REDUCE_BULK, and do GPUCOLL_KERNEL_STORE and SPREAD move in bulk on it? */
    bool (*device_bulk)(struct gpucoll_device *device);
    enum gpucoll_link (*device_link)(struct gpucoll_device *device, const struct gpucoll_device_id *peer);
    /* For libraries that look at which context is current: makes this device's the one of the calling thread, until
     * device_leave. NULL: the device's memory is host memory to all, and so are the next two. */
    struct gpucoll_entry (*device_enter)(struct gpucoll_device *device);
    void (*device_leave)(struct gpucoll_device *device, struct gpucoll_entry entry);
    /* What network devices have written into its memory, as the host knows, is there for kernels that are at work already. */
    gpucoll_status (*device_flush)(struct gpucoll_device *device) GPUCOLL_CHECKED;
    /* Zero-filled memory that peers can map. */
    gpucoll_status (*scratch_alloc)(struct gpucoll_device *device, size_t bytes, void **pointer,
                                    struct gpucoll_memory_handle *handle) GPUCOLL_CHECKED;
    void (*scratch_free)(struct gpucoll_device *device, void *pointer);
    gpucoll_status (*import)(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle,
                             void **pointer) GPUCOLL_CHECKED;
    void (*release)(struct gpucoll_device *device, const struct gpucoll_memory_handle *handle, void *pointer);
    /* The allocation of the application that holds device memory `pointer`. False if the driver does not tell. */
    bool (*extent)(struct gpucoll_device *device, const void *pointer, uintptr_t *begin, uint64_t *bytes);
    /* The allocation of the application that holds [pointer, pointer + bytes), or those, as peers can import them: all of them, and nothing
     * else. GPUCOLL_ERR_UNSUPPORTED, without a word, for memory that cannot be shared so. To be taken back by unexport_memory once no
     * peer begins to import it any more; those that have done so keep it. */
    gpucoll_status (*export_memory)(struct gpucoll_device *device, const void *pointer, uint64_t bytes,
                                    struct gpucoll_memory_handle *handle) GPUCOLL_CHECKED;
    void (*unexport_memory)(struct gpucoll_accel *accel, const struct gpucoll_memory_handle *handle);

    /* Memory of this process's own, with any content. A failure is not shown. */
    gpucoll_status (*memory_alloc)(struct gpucoll_device *device, size_t bytes,
                                   void **pointer) GPUCOLL_CHECKED;
    void (*memory_free)(struct gpucoll_device *device, void *pointer);

    gpucoll_status (*stream_open)(struct gpucoll_device *device,
                                  struct gpucoll_stream **stream) GPUCOLL_CHECKED;
    void (*stream_close)(struct gpucoll_stream *stream);
    /* Makes the stream's kernels give up and waits, not for ever, until they touch no buffer any more. */
    void (*stream_stop)(struct gpucoll_stream *stream);
    gpucoll_status (*launch)(struct gpucoll_stream *stream,
                             const struct gpucoll_launch *launch) GPUCOLL_CHECKED;
    /* Gives a call to a kernel that waits on the stream for one, as `launch` would, but before it is known whether all ranks make it: an all-reduce by
     * ONESHOT_EARLY, of one CTA. The kernel stores to peers' lanes, and nothing into the receive buffer before the data of all are there; if that takes
     * longer than it would wait for a call, it ends as if it had not heard this one. GPUCOLL_DECLINED, and nothing has happened: no such
     * kernel waits. Before anything else is asked of the stream comes one of the next two. */
    gpucoll_status (*ring_early)(struct gpucoll_stream *stream,
                                 const struct gpucoll_launch *launch) GPUCOLL_CHECKED;
    /* All ranks make it: from here on it is a call like others. */
    void (*confirm)(struct gpucoll_stream *stream);
    /* Some do not, and have not begun it. Returns when the kernel has ended. */
    void (*call_off)(struct gpucoll_stream *stream);
    /* The latest launch once more, after its kernel has retreated. */
    gpucoll_status (*launch_again)(struct gpucoll_stream *stream, uint32_t done_value) GPUCOLL_CHECKED;
    /* Starts packing or unpacking, between the kernels that are launched before and after; ends like those. `args` are copied;
     * what belongs to the stream is filled in by it. */
    gpucoll_status (*pack)(struct gpucoll_stream *stream,
                           const struct gpucoll_pack_args *args) GPUCOLL_CHECKED;
    /* The status block the stream's kernels write, as the host sees it. */
    struct gpucoll_kernel_status *(*stream_status)(struct gpucoll_stream *stream);
    /* Polls for the end of the latest call: GPUCOLL_OK, GPUCOLL_IN_PROGRESS, or an error that has been shown. */
    gpucoll_status (*stream_poll)(struct gpucoll_stream *stream) GPUCOLL_CHECKED;
    /* GPUCOLL_OK, or the error the device has met (shown by topic "device-error"); a system call, not for every poll. */
    gpucoll_status (*stream_health)(struct gpucoll_stream *stream) GPUCOLL_CHECKED;

    /* Makes host memory of this process, own or mapped from a peer, such that copiers take it without the host's help. An error is
     * shown, and the memory is then not to be given to copies. */
    gpucoll_status (*host_register)(struct gpucoll_device *device, void *pointer,
                                    size_t bytes) GPUCOLL_CHECKED;
    void (*host_unregister)(struct gpucoll_device *device, void *pointer);
    /* Copies by a copy engine, in order, but for those of one call if `order` says so. What is queued by one call has a number, 1, 2, ...;
     * `passed` is that of the latest of which all is complete, or an error that the device has met (shown by topic "device-error"). The
     * caller serialises the calls on one copier. `to_host`: all of its copies are into host memory. */
    gpucoll_status (*copier_open)(struct gpucoll_device *device, bool to_host,
                                  struct gpucoll_copier **copier) GPUCOLL_CHECKED;
    void (*copier_close)(struct gpucoll_copier *copier);
    gpucoll_status (*copier_queue)(struct gpucoll_copier *copier, const struct gpucoll_copy *copies,
                                   uint32_t count, enum gpucoll_copy_order order) GPUCOLL_CHECKED;
    /* Does it know GPUCOLL_COPY_AT_ONCE, of up to GPUCOLL_MAX_LOCAL copies? */
    bool (*copier_batches)(struct gpucoll_device *device);
    gpucoll_status (*copier_passed)(struct gpucoll_copier *copier, uint64_t *passed) GPUCOLL_CHECKED;
};

struct gpucoll_topology;

/* Every implementation begins with this. */
struct gpucoll_accel {
    const struct gpucoll_accel_ops *ops;
    const struct gpucoll_config *config;
    const struct gpucoll_log *log;
    /* What coll_gpucoll_topology_file describes, or this machine once that had to be known; owned by the context. NULL: links cost what
     * the devices say. */
    const struct gpucoll_topology *topology;
};

struct gpucoll_device {
    struct gpucoll_accel *accel;
    int ordinal;
    char name[64]; /* as the driver gives it */
    bool
        shared; /* other processes may use it, too, in turn; read and written without a lock. False at first */
};

struct gpucoll_stream {
    struct gpucoll_device *device;
};

struct gpucoll_copier {
    struct gpucoll_device *device;
    bool to_host;
};

/* Opens the accelerator that config->accelerator names; `auto` takes the first of the table that opens, else leaves
 * *accel NULL and returns GPUCOLL_OK: a process without a GPU. A named one that does not open is shown by topic
 * "accelerator-missing" and treated the same. */
gpucoll_status gpucoll_accel_open(const struct gpucoll_config *config, const struct gpucoll_log *log,
                                  struct gpucoll_accel **accel) GPUCOLL_CHECKED;
void gpucoll_accel_close(struct gpucoll_accel *accel); /* harmless on NULL */

/* Data area of each lane: the configuration's or the accelerator's choice, in whole pages. */
size_t gpucoll_scratch_bytes(const struct gpucoll_config *config, const struct gpucoll_accel_ops *ops);

/* Names and help of the implementations built in, for gpucoll_info; NULL past the end. */
const struct gpucoll_accel_ops *gpucoll_accel_row(int index);

/* `to[i] = a[i] op b[i]` on the host for `count` elements of the functor; `to` may equal `a` or `b`; any alignment. */
void gpucoll_host_reduce(int functor, void *to, const void *a, const void *b, size_t count);
/* Bytes of an element of the functor, as the reduction sees it (bitwise functors: 1). */
size_t gpucoll_host_functor_size(int functor);

/* The host accelerator's own allocator: memory that counts as `memory` whatever coll_gpucoll_host_memory says, in any
 * context of this process. Exported for tests and for programs that want device-like buffers without a GPU. */
void *gpucoll_host_malloc(size_t bytes, enum gpucoll_memory memory);
/* Device memory as applications make it by cuMemCreate and cuMemMap: at addresses that lie one behind the other, pieces of `piece_bytes`
 * (whole pages), each an allocation of its own. Peers can map it if it is `shared`. NULL: no memory, or too little of something else. */
void *gpucoll_host_malloc_pieces(size_t bytes, size_t piece_bytes, bool shared);
/* Other memory, filled with zeros, at the addresses of the piece that holds `pointer` and of those behind it. False: there is none, and
 * the program had better end. */
bool gpucoll_host_remap_pieces(void *pointer);
void gpucoll_host_free(void *pointer);
/* Waits until no kernel of this process runs, whichever context launched it. */
void gpucoll_host_synchronize(void);

#endif
