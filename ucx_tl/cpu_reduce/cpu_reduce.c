/*
 * cpu_reduce: the outbox of shm, and beside it sums in host memory by CPU cores (sum.h, pool.h): what is reduced crosses each PCIe
 * link once in each direction, and no kernel runs.
 */
#include "ucx_tl/cpu_reduce/cores.h"
#include "ucx_tl/shm/shm.h"

static gpucoll_status offer(struct gpucoll_device *device, size_t bytes, struct gpucoll_segment *outbox,
                            struct gpucoll_tl_card *card)
{
    struct gpucoll_cores *cores = gpucoll_cores_open();
    card->cores = gpucoll_cores_name(cores);
    gpucoll_cores_close(cores);
    return gpucoll_shm_offer(device, bytes, outbox, card);
}

const struct gpucoll_tl_ops gpucoll_tl_cpu_reduce = {
    .name = "cpu_reduce",
    .help = "as shm, and reductions by CPU cores on the chunks in host memory: uses no SM",
    .does = GPUCOLL_TL_PIPES | GPUCOLL_TL_SUMS,
    .query = gpucoll_shm_query,
    .offer = offer,
    .withdraw = gpucoll_shm_withdraw,
    .connect = gpucoll_shm_connect,
    .disconnect = gpucoll_shm_disconnect,
    .pipe = &gpucoll_shm_pipe,
};
