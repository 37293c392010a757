/*
 * Kinds of memory: what the accelerator takes them for, also from a thread without a context, and copies
 * between all of them.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "test/gpu/elements.h"
#include "test/gpu/tests.h"

enum { BYTES = 100003, KINDS = 8 };

struct kind {
    const char *name;
    char *pointer;
    bool device;
    int ordinal;
};

/* Driver functions that only these tests need; a missing one leaves out its kind of memory. */
static void *function(const char *name)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return handle ? dlsym(handle, name) : NULL;
}

static char *alloc_managed(void)
{
    CUresult(CUDAAPI * alloc)(CUdeviceptr * pointer, size_t bytes, unsigned flags);
    void *address = function("cuMemAllocManaged");
    CUdeviceptr memory = 0;
    memcpy(&alloc, &address, sizeof(alloc));
    return alloc && alloc(&memory, BYTES, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS ? (char *)(uintptr_t)memory
                                                                                : NULL;
}

static char *alloc_pool(const struct gpus *gpus)
{
    CUresult(CUDAAPI * alloc)(CUdeviceptr * pointer, size_t bytes, CUstream stream);
    void *address = function("cuMemAllocAsync");
    CUdeviceptr memory = 0;
    memcpy(&alloc, &address, sizeof(alloc));
    if (!alloc || alloc(&memory, BYTES, NULL) != CUDA_SUCCESS ||
        gpus->cuda->cuStreamSynchronize(NULL) != CUDA_SUCCESS) {
        return NULL;
    }
    return (char *)(uintptr_t)memory;
}

static char *alloc_pinned(void)
{
    CUresult(CUDAAPI * alloc)(void **pointer, size_t bytes, unsigned flags);
    void *address = function("cuMemHostAlloc");
    void *memory = NULL;
    memcpy(&alloc, &address, sizeof(alloc));
    return alloc && alloc(&memory, BYTES, CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS ? memory : NULL;
}

/* Physical memory and addresses made apart; they live until the process ends. */
static char *alloc_mapped(void)
{
    CUresult(CUDAAPI * granularity)(size_t * bytes, const CUmemAllocationProp *prop,
                                    CUmemAllocationGranularity_flags flags);
    CUresult(CUDAAPI * create)(CUmemGenericAllocationHandle * handle, size_t bytes,
                               const CUmemAllocationProp *prop, unsigned long long flags);
    CUresult(CUDAAPI * reserve)(CUdeviceptr * pointer, size_t bytes, size_t alignment, CUdeviceptr at,
                                unsigned long long flags);
    CUresult(CUDAAPI * map)(CUdeviceptr pointer, size_t bytes, size_t at, CUmemGenericAllocationHandle handle,
                            unsigned long long flags);
    CUresult(CUDAAPI * set_access)(CUdeviceptr pointer, size_t bytes, const CUmemAccessDesc *access,
                                   size_t count);
    void *const addresses[] = {function("cuMemGetAllocationGranularity"), function("cuMemCreate"),
                               function("cuMemAddressReserve"), function("cuMemMap"),
                               function("cuMemSetAccess")};
    memcpy(&granularity, &addresses[0], sizeof(granularity));
    memcpy(&create, &addresses[1], sizeof(create));
    memcpy(&reserve, &addresses[2], sizeof(reserve));
    memcpy(&map, &addresses[3], sizeof(map));
    memcpy(&set_access, &addresses[4], sizeof(set_access));
    if (!granularity || !create || !reserve || !map || !set_access) {
        return NULL;
    }
    const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemAccessDesc access = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr pointer = 0;
    size_t unit = 1;
    if (granularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS) {
        return NULL;
    }
    size_t bytes = (BYTES + unit - 1) / unit * unit;
    bool made = create(&handle, bytes, &prop, 0) == CUDA_SUCCESS &&
                reserve(&pointer, bytes, 0, 0, 0) == CUDA_SUCCESS &&
                map(pointer, bytes, 0, handle, 0) == CUDA_SUCCESS &&
                set_access(pointer, bytes, &access, 1) == CUDA_SUCCESS;
    return made ? (char *)(uintptr_t)pointer : NULL;
}

static char *alloc_ours(const struct gpus *gpus)
{
    void *memory = NULL;
    return gpus->accel->ops->host_alloc(gpus->accel, BYTES, &memory) == GPUCOLL_OK ? memory : NULL;
}

struct question {
    struct gpus *gpus;
    struct kind *kinds;
    bool right[KINDS];
};

static void *classify_all(void *arg)
{
    struct question *question = arg;
    struct gpucoll_accel *accel = question->gpus->accel;
    for (int i = 0; i < KINDS; i++) {
        const struct kind *kind = &question->kinds[i];
        struct gpucoll_buffer first;
        struct gpucoll_buffer last;
        accel->ops->classify(accel, kind->pointer, &first);
        accel->ops->classify(accel, kind->pointer ? kind->pointer + BYTES - 1 : NULL, &last);
        question->right[i] = first.memory == (kind->device ? GPUCOLL_MEMORY_DEVICE : GPUCOLL_MEMORY_HOST) &&
                             first.memory == last.memory && first.device == kind->ordinal &&
                             first.id == last.id;
    }
    return NULL;
}

static void test_classify(struct gpus *gpus, struct kind *kinds, const char *where)
{
    struct question question = {.gpus = gpus, .kinds = kinds};
    pthread_t thread;
    if (strcmp(where, "a thread without a context") == 0 &&
        pthread_create(&thread, NULL, classify_all, &question) == 0) {
        pthread_join(thread, NULL);
    } else {
        classify_all(&question);
    }
    for (int i = 0; i < KINDS; i++) {
        if (kinds[i].pointer) {
            gpus_report(gpus, question.right[i], "%s is told from %s", kinds[i].name, where);
        }
    }
}

static void test_copy(struct gpus *gpus, const struct kind *to, const struct kind *from, uint64_t *random)
{
    static char sent[BYTES];
    static char got[BYTES];
    struct gpucoll_accel *accel = gpus->accel;
    size_t bytes = 1 + next_random(random) % (BYTES - 1);
    size_t at = next_random(random) % (BYTES - bytes + 1);
    fill_elements(0, sent, bytes, random);
    memset(got, 0, sizeof(got));
    bool right = accel->ops->copy(accel, from->pointer + at, sent, bytes) == GPUCOLL_OK &&
                 accel->ops->copy(accel, to->pointer, from->pointer + at, bytes) == GPUCOLL_OK &&
                 accel->ops->copy(accel, got, to->pointer, bytes) == GPUCOLL_OK &&
                 memcmp(sent, got, bytes) == 0;
    gpus_report(gpus, right, "copy from %s to %s", from->name, to->name);
}

/* Sets that share no byte: each has a third of the buffer. One goes downwards, one is a single row. */
static void draw_rows(struct gpucoll_rows rows[3], uint64_t *random)
{
    const size_t third = BYTES / 3;
    for (int i = 0; i < 3; i++) {
        const size_t bytes = 1 + next_random(random) % 64;
        const size_t stride = bytes + next_random(random) % 100;
        const size_t count = i == 2 ? 1 : 1 + (third - bytes) / stride;
        rows[i] = (struct gpucoll_rows){(ptrdiff_t)(third * (size_t)i), bytes, (ptrdiff_t)stride, count};
    }
    rows[1].offset += (ptrdiff_t)(rows[1].rows - 1) * rows[1].stride;
    rows[1].stride = -rows[1].stride;
}

static void test_copy_rows(struct gpus *gpus, const struct kind *to, const struct kind *from,
                           uint64_t *random)
{
    static char sent[BYTES];
    static char expected[BYTES];
    static char got[BYTES];
    enum { SHIFT = 4096 }; /* pointers that are not in the memory themselves */
    struct gpucoll_accel *accel = gpus->accel;
    struct gpucoll_rows rows[3];
    draw_rows(rows, random);
    fill_elements(0, sent, BYTES, random);
    memset(expected, 0xa5, BYTES);
    bool right = accel->ops->copy(accel, from->pointer, sent, BYTES) == GPUCOLL_OK &&
                 accel->ops->copy(accel, to->pointer, expected, BYTES) == GPUCOLL_OK;
    for (int i = 0; i < 3; i++) {
        for (size_t row = 0; row < rows[i].rows; row++) {
            const ptrdiff_t at = rows[i].offset + (ptrdiff_t)row * rows[i].stride;
            memcpy(expected + at, sent + at, rows[i].bytes);
        }
        rows[i].offset += SHIFT;
    }
    right = right &&
            accel->ops->copy_rows(accel, (char *)((uintptr_t)to->pointer - SHIFT),
                                  (char *)((uintptr_t)from->pointer - SHIFT), rows, 3) == GPUCOLL_OK &&
            accel->ops->copy(accel, got, to->pointer, BYTES) == GPUCOLL_OK &&
            memcmp(expected, got, BYTES) == 0;
    gpus_report(gpus, right, "copy rows from %s to %s", from->name, to->name);
}

void test_memory(struct gpus *gpus)
{
    int last = gpus->count - 1;
    uint64_t random = 1;
    struct kind kinds[KINDS] = {
        {"device memory", gpus_alloc(gpus, 0, BYTES), true, 0},
        {"another GPU's memory", last > 0 ? gpus_alloc(gpus, last, BYTES) : NULL, true, last},
        {"pageable memory", malloc(BYTES), false, -1},
        {"managed memory", NULL, true, 0},
        {"memory of a pool", NULL, true, 0},
        {"pinned memory", NULL, false, -1},
        {"memory of host_alloc", NULL, false, -1},
        {"mapped memory", NULL, true, 0},
    };
    gpus_use(gpus, 0);
    kinds[3].pointer = alloc_managed();
    kinds[4].pointer = alloc_pool(gpus);
    kinds[5].pointer = alloc_pinned();
    kinds[6].pointer = alloc_ours(gpus);
    kinds[7].pointer = alloc_mapped();
    test_classify(gpus, kinds, "a thread with a context");
    test_classify(gpus, kinds, "a thread without a context");
    for (int i = 0; i < KINDS * KINDS; i++) {
        const struct kind *to = &kinds[i / KINDS];
        const struct kind *from = &kinds[i % KINDS];
        if (to != from && to->pointer && from->pointer) {
            test_copy(gpus, to, from, &random);
            test_copy_rows(gpus, to, from, &random);
        }
    }
    struct gpucoll_buffer buffer;
    gpus->accel->ops->classify(gpus->accel, NULL, &buffer);
    gpus_report(gpus, buffer.memory == GPUCOLL_MEMORY_HOST && buffer.device == -1, "NULL is host memory");
    gpus->accel->ops->host_free(gpus->accel, kinds[6].pointer);
    gpus_free(gpus, 0, kinds[0].pointer);
    gpus_free(gpus, last, kinds[1].pointer);
    free(kinds[2].pointer);
}

void test_reset(struct gpus *gpus)
{
    const struct gpucoll_accel_ops *ops = gpus->accel->ops;
    CUresult(CUDAAPI * reset)(CUdevice device);
    void *address = function("cuDevicePrimaryCtxReset_v2");
    memcpy(&reset, &address, sizeof(reset));
    struct gpucoll_device *device = NULL;
    struct gpucoll_stream *stream = NULL;
    struct gpucoll_memory_handle handle;
    void *scratch = NULL;
    void *buffer = gpus_alloc(gpus, 0, BYTES);
    bool opened = ops->device_open(gpus->accel, buffer, &device) == GPUCOLL_OK &&
                  ops->scratch_alloc(device, BYTES, &scratch, &handle) == GPUCOLL_OK &&
                  ops->stream_open(device, &stream) == GPUCOLL_OK;
    if (!reset || !opened) {
        gpus_report(gpus, false, "a device to reset");
        return;
    }
    bool done = reset(0) == CUDA_SUCCESS;
    ops->stream_close(stream);
    ops->scratch_free(device, scratch);
    ops->device_close(device);
    gpus_report(gpus, done, "closing after the application has reset its device");
}
