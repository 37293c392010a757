/*
 * Configuration: one table of rows is the source of the MCA parameters (the component registers each row),
 * of gpucoll_info's listing and of docs/parameters.md. A row names a field of struct gpucoll_config.
 * Strings point to static defaults or to memory owned by whoever set them (Open MPI's variable system).
 */
#ifndef GPUCOLL_BASE_CONFIG_H
#define GPUCOLL_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/base/types.h"

struct gpucoll_config {
    bool enable;
    int priority;
    int verbose;
    char *accelerator;    /* auto | cuda | host | none */
    char *host_memory;    /* device | host: what plain memory counts as under accelerator=host */
    int host_devices;     /* devices that the processes of a host pretend to share; 0: one each */
    bool host_mps;        /* that such a device runs the kernels of several processes at once, as under MPS */
    int host_resident;    /* CTAs of a kernel that a pretended device holds at once; 0: all */
    bool host_free_waits; /* of the host accelerator, as cudaFree does */
    int hosts;            /* that the processes of a host pretend to be; 0: the real hosts */
    bool agree_hosts;     /* hosts tell each other what they bring to a call */
    int carry;            /* bytes of a call that go along with that */
    int flat;             /* bytes, of all ranks of a host, of a call that goes from rank to rank of several hosts */
    char *transports;     /* comma-separated names, or all, or none */
    char *p2p_level;      /* how far stores may go: auto, or one of a list */
    char *net_devices;    /* auto, all, or comma-separated names */
    int net_ties;         /* connections of two processes; 0: as many as seem right */
    char *net_gpu_memory; /* auto | yes | no: messages from and to the memory of GPUs */
    char *rail_algorithm; /* auto | doubling | ring | tree: between hosts */
    char *topology_file;  /* stands in for this machine; empty: this machine */
    char *algorithm[GPUCOLL_COLL_COUNT]; /* auto, or a name from the table of algorithms. So for protocol */
    char *protocol;
    char *tuning_file; /* path; empty: none */
    int linger;        /* microseconds */
    int linger_ctas;
    bool early;   /* small all-reduces may begin before all ranks have called */
    int channels; /* CTAs of every kernel; 0: the plan decides, up to max_ctas */
    int max_ctas;
    char *gates;          /* auto | always | never: kernels that wait ask the host first */
    int copy_queues;      /* of the GPU, that the copies of a reduction take turns in */
    size_t chunk;         /* bytes, of algorithms that go by copy engines; 0: the plan decides */
    int threads;          /* of a CTA */
    int lanes;            /* concurrent calls of one process that can run natively */
    size_t scratch_bytes; /* data area of one lane; 0: the accelerator's choice */
    size_t shm_bytes;     /* data area of one lane of the outbox in host memory */
    int cpu_threads;      /* that sum in host memory beside the caller; -1: as many as seems right */
    size_t pack_bytes;    /* most memory of one GPU for packed buffers */
    bool neighborhood;    /* neighborhood collectives run natively */
    bool nonblocking;     /* nonblocking and persistent forms run natively */
    bool progress_thread; /* moves nonblocking calls on beside the application */
    size_t zero_copy;     /* least bytes of a call that peers may write in place; 0: none */
    int timeout;          /* seconds; 0: never */
    bool sync_device;     /* debug: wait for the whole device before each call */
    bool deterministic;   /* reductions in rank order only, on the engine or not */
    char *warmup;         /* init | comm | lazy: when teams are made */
    char *summary;        /* none | rank0 | all, or a pattern of file names */
};

/* How long a kernel of a collective waits for the next call, as a rule. */
static inline uint32_t gpucoll_linger_ns(const struct gpucoll_config *config)
{
    return (uint32_t)config->linger * 1000;
}

enum gpucoll_config_type {
    GPUCOLL_CONFIG_BOOL,
    GPUCOLL_CONFIG_INT,
    GPUCOLL_CONFIG_SIZE,
    GPUCOLL_CONFIG_STRING
};

struct gpucoll_config_row {
    const char *name; /* MCA parameter coll_gpucoll_<name>, environment OMPI_MCA_coll_gpucoll_<name> */
    enum gpucoll_config_type type;
    size_t offset; /* of the field in struct gpucoll_config */
    const char *initial;
    /* What is accepted: "a|b|c" (strings, checked), "1..128" (numbers, checked), or NULL. The names of algorithms and
     * protocols are checked where their table is (core/plan/forced.h). */
    const char *values;
    int level; /* MPI_T verbosity level 1..9 */
    bool
        equal; /* on all ranks of a communicator, or it is not native (topic "settings-mismatch" names these) */
    const char *help; /* a sentence or some */
};

extern const struct gpucoll_config_row gpucoll_config_rows[];
extern const int gpucoll_config_row_count;

/* Sets every field to its row's default. */
void gpucoll_config_init(struct gpucoll_config *config);

/* Sets one field from text ("true", "12", "4M", "name"). GPUCOLL_ERR_INVALID if the name or the text is not accepted;
 * nothing is printed. `text` must outlive `config`. */
gpucoll_status gpucoll_config_set(struct gpucoll_config *config, const char *name,
                                  const char *text) GPUCOLL_CHECKED;

/* A hash of what has to be equal on all ranks. */
uint64_t gpucoll_config_hash(const struct gpucoll_config *config);

/* A number of bytes as sizes are written: 4096, 0x1000, 64K, 16M, 1G. False if it is not one, or negative. */
bool gpucoll_config_parse_size(const char *text, uint64_t *bytes);

/* Checks every field against its row's `values`. A field that fails is named by help topic "bad-parameter" and set
 * back to its default, so that the run goes on. */
void gpucoll_config_check(struct gpucoll_config *config, const struct gpucoll_log *log);

#endif
