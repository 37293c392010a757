/*
 * The courier: bytes fetched from a GPU's memory and delivered there, at every alignment, with pauses in which its kernel leaves. What the memory
 * has to hold is kept on the host beside it.
 */
#include "core/courier.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "test/gpu/tests.h"

enum { MEMORY_BYTES = 1024, GUARD_BYTES = 16 };

struct memory {
    struct gpus *gpus;
    struct gpucoll_device *device;
    struct gpucoll_courier courier;
    char *memory;
    char kept[MEMORY_BYTES];
    unsigned state; /* of rand_r */
    unsigned taken;
};

static unsigned below(struct memory *memory, unsigned end)
{
    return (unsigned)rand_r(&memory->state) % end;
}

static bool wait_for_it(struct memory *memory)
{
    const uint64_t end = gpucoll_now_ns() + 10000000000u;
    while (memory->courier.passed != memory->courier.taken) {
        if (gpucoll_courier_look(&memory->courier) != GPUCOLL_OK || gpucoll_now_ns() > end) {
            return false;
        }
    }
    return true;
}

static bool move(struct memory *memory, const struct gpucoll_copy *copy, bool to_host)
{
    struct gpucoll_accel *accel = memory->gpus->accel;
    if (gpucoll_courier_take(&memory->courier, memory->device, copy, to_host)) {
        memory->taken++;
        return wait_for_it(memory);
    }
    return accel->ops->copy(accel, copy->to, copy->from, copy->bytes) == GPUCOLL_OK;
}

static bool fetch(struct memory *memory, uint32_t at, uint32_t bytes)
{
    char got[GPUCOLL_COURIER_BYTES + 2 * GUARD_BYTES];
    memset(got, 0x5a, sizeof(got));
    const struct gpucoll_copy copy = {got + GUARD_BYTES, memory->memory + at, bytes};
    bool right = move(memory, &copy, true) && memcmp(got + GUARD_BYTES, memory->kept + at, bytes) == 0;
    for (uint32_t i = 0; i < GUARD_BYTES; i++) {
        right &= got[i] == 0x5a && got[GUARD_BYTES + bytes + i] == 0x5a;
    }
    return right;
}

static bool deliver(struct memory *memory, uint32_t at, uint32_t bytes)
{
    char sent[GPUCOLL_COURIER_BYTES];
    for (uint32_t i = 0; i < bytes; i++) {
        sent[i] = (char)below(memory, 256);
    }
    const struct gpucoll_copy copy = {memory->memory + at, sent, bytes};
    memcpy(memory->kept + at, sent, bytes);
    return move(memory, &copy, false);
}

static bool is_as_kept(struct memory *memory)
{
    char got[MEMORY_BYTES];
    struct gpucoll_accel *accel = memory->gpus->accel;
    return accel->ops->copy(accel, got, memory->memory, MEMORY_BYTES) == GPUCOLL_OK &&
           memcmp(got, memory->kept, MEMORY_BYTES) == 0;
}

static bool run(struct memory *memory, unsigned rounds)
{
    struct gpucoll_accel *accel = memory->gpus->accel;
    bool right = accel->ops->copy(accel, memory->memory, memory->kept, MEMORY_BYTES) == GPUCOLL_OK;
    for (unsigned i = 0; i < rounds && right; i++) {
        const uint32_t bytes = 1 + below(memory, below(memory, 2) ? GPUCOLL_COURIER_BYTES : 16);
        const uint32_t at = below(memory, MEMORY_BYTES - bytes);
        right = below(memory, 2) ? fetch(memory, at, bytes) : deliver(memory, at, bytes);
        right = right && (i % 16 != 0 || is_as_kept(memory));
        if (below(memory, 8) == 0) {
            usleep(below(memory, 60));
        }
    }
    return right && is_as_kept(memory);
}

void test_courier(struct gpus *gpus, bool quick, uint64_t seed)
{
    struct memory memory = {.gpus = gpus, .state = (unsigned)seed};
    const struct gpucoll_accel_ops *ops = gpus->accel->ops;
    memory.memory = gpus_alloc(gpus, 0, MEMORY_BYTES);
    for (uint32_t i = 0; i < MEMORY_BYTES; i++) {
        memory.kept[i] = (char)below(&memory, 256);
    }
    bool right = ops->device_open(gpus->accel, memory.memory, &memory.device) == GPUCOLL_OK;
    if (right) {
        right = run(&memory, quick ? 200 : 20000);
        gpucoll_courier_close(&memory.courier);
        ops->device_close(memory.device);
    }
    gpus_report(gpus, right && memory.taken > (quick ? 20u : 2000u), "the courier took %u sets of bytes",
                memory.taken);
    gpus_free(gpus, 0, memory.memory);
}
