#include "test/mpi/memory.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/cuda_driver.h"
#include "test/mpi/support.h"

enum { GUARD_BYTES = TEST_GUARD_BYTES, MANAGED_MAX = 1 << 20, HOST_PIECE = 256 << 10 };

/* What --memory may say beyond one kind. */
enum { MEMORY_MIXED = TEST_MEMORY_KINDS, MEMORY_SPLIT, MEMORY_DRAWN };

static const char *const kind_names[] = {"host",   "pinned",  "device", "pool",  "vmm",
                                         "pieces", "managed", "mixed",  "split", "drawn"};

/* Where this process's device memory comes from. */
static struct {
    int asked;    /* an enum test_memory, or one of the two above */
    bool one_gpu; /* --gpu-map=0: every rank on GPU 0 */
    bool gpu;     /* the CUDA driver serves */
    bool found;   /* GPUs were looked for */
    int device;
    int gpus;      /* that this process sees */
    void *context; /* NULL until the first buffer is made: MPI_Init must not need it */
    struct cuda_driver cuda;
    size_t piece_bytes;                             /* of TEST_PIECES, once one was made */
    void *(*host_malloc)(size_t bytes, int memory); /* of the component's host accelerator, or NULL */
    void *(*host_malloc_pieces)(size_t bytes, size_t piece_bytes, bool shared);
    bool (*host_remap_pieces)(void *pointer);
    void (*host_free)(void *pointer);
    void (*host_synchronize)(void);
} memory = {.asked = TEST_DEVICE};

bool test_memory_parse(const char *text)
{
    for (size_t i = 0; i < sizeof kind_names / sizeof kind_names[0]; i++) {
        if (strcmp(text, kind_names[i]) == 0) {
            memory.asked = (int)i;
            return true;
        }
    }
    return false;
}

bool test_memory_map(const char *text)
{
    memory.one_gpu = strcmp(text, "0") == 0;
    return memory.one_gpu || strcmp(text, "local") == 0;
}

const char *test_memory_name(enum test_memory kind)
{
    return kind_names[kind];
}

bool test_memory_drawn(void)
{
    return memory.asked == MEMORY_DRAWN;
}

bool test_memory_all_on_device(void)
{
    return memory.asked == TEST_DEVICE;
}

static bool host_accelerator(void)
{
    const char *accelerator = getenv("OMPI_MCA_coll_gpucoll_accelerator");
    return accelerator != NULL && strcmp(accelerator, "host") == 0;
}

bool test_memory_apart(void)
{
    return memory.asked == MEMORY_SPLIT && !host_accelerator();
}

enum test_memory test_memory_kind(uint64_t key)
{
    switch (memory.asked) {
    case MEMORY_MIXED:
    case MEMORY_DRAWN:
        return (enum test_memory)(test_mix(key) % TEST_MEMORY_KINDS);
    case MEMORY_SPLIT:
        return test.rank % 2 == 0 ? TEST_DEVICE : TEST_HOST;
    default:
        return (enum test_memory)memory.asked;
    }
}

static void die(const char *what, const char *why)
{
    test_say("FAIL memory: %s on rank %d: %s\n", what, test.rank, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    abort();
}

static void check(int error, const char *what)
{
    const char *name = NULL;
    if (error == 0)
        return;
    memory.cuda.error_name(error, &name);
    die(what, name != NULL ? name : "unknown CUDA error");
}

/* The component is loaded by Open MPI with local symbols: opens it again, by the path it was mapped from. */
static void find_component(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");

    while (maps != NULL && memory.host_malloc == NULL && fgets(line, sizeof line, maps) != NULL) {
        char *path = strchr(line, '/');
        void *library;
        if (path == NULL || strstr(path, "/mca_coll_gpucoll.so") == NULL)
            continue;
        path[strcspn(path, "\n")] = '\0';
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (library == NULL)
            continue;
        memory.host_malloc = (void *(*)(size_t, int))dlsym(library, "gpucoll_host_malloc");
        memory.host_malloc_pieces =
            (void *(*)(size_t, size_t, bool))dlsym(library, "gpucoll_host_malloc_pieces");
        memory.host_remap_pieces = (bool (*)(void *))dlsym(library, "gpucoll_host_remap_pieces");
        memory.host_free = (void (*)(void *))dlsym(library, "gpucoll_host_free");
        memory.host_synchronize = (void (*)(void))dlsym(library, "gpucoll_host_synchronize");
    }
    if (maps != NULL)
        fclose(maps);
}

static void find_gpu(void)
{
    memory.found = true;
    if (host_accelerator() || !cuda_driver_load(&memory.cuda, &memory.gpus))
        return;
    memory.gpu = true;
    memory.device = memory.one_gpu ? 0 : test.local_rank % memory.gpus;
}

void test_memory_start(void)
{
    if (host_accelerator())
        find_component();
}

void test_memory_stop(void)
{
    if (memory.context != NULL)
        check(memory.cuda.primary_release(memory.device), "cuDevicePrimaryCtxRelease");
    memory.context = NULL;
}

bool test_memory_has_gpu(void)
{
    if (!memory.found)
        find_gpu();
    return memory.gpu;
}

int test_memory_gpus(void)
{
    return test_memory_has_gpu() ? memory.gpus : 0;
}

bool test_memory_gpu_is_clear(void)
{
    return !test_memory_has_gpu() || memory.context != NULL || memory.gpus == 1;
}

size_t test_memory_gpu_used(void)
{
    size_t unused = 0, total = 0;

    if (memory.context == NULL || memory.cuda.mem_info(&unused, &total) != 0)
        return 0;
    return total - unused;
}

void test_memory_thread(void)
{
    int device;
    if (!test_memory_has_gpu())
        return;
    if (memory.context == NULL) {
        check(memory.cuda.device_get(&device, memory.device), "cuDeviceGet");
        check(memory.cuda.primary_retain(&memory.context, device), "cuDevicePrimaryCtxRetain");
    }
    check(memory.cuda.set_current(memory.context), "cuCtxSetCurrent");
}

bool test_memory_yields(void)
{
    /* Sets the switch and returns how it was. */
    bool (*set)(bool) = (bool (*)(bool))dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle");
    if (test_memory_has_gpu() || set == NULL)
        return test_memory_has_gpu();
    const bool yields = set(true);
    set(yields);
    return yields;
}

int test_memory_synchronize(void)
{
    if (test_memory_has_gpu()) {
        test_memory_thread();
        return memory.cuda.context_synchronize();
    }
    if (memory.host_synchronize != NULL)
        memory.host_synchronize();
    return 0;
}

static void vmm_alloc(struct test_buffer *buffer, cuda_pointer *pointer)
{
    struct cuda_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = memory.device}};
    struct cuda_access access = {.location = prop.location, .flags = 3};
    size_t unit = 0;

    check(memory.cuda.granularity(&unit, &prop, 0), "cuMemGetAllocationGranularity");
    buffer->vmm_bytes = (buffer->total + unit - 1) / unit * unit;
    check(memory.cuda.mem_create(&buffer->vmm_handle, buffer->vmm_bytes, &prop, 0), "cuMemCreate");
    check(memory.cuda.address_reserve(pointer, buffer->vmm_bytes, 0, 0, 0), "cuMemAddressReserve");
    check(memory.cuda.mem_map(*pointer, buffer->vmm_bytes, 0, buffer->vmm_handle, 0), "cuMemMap");
    check(memory.cuda.mem_set_access(*pointer, buffer->vmm_bytes, &access, 1), "cuMemSetAccess");
}

static struct cuda_allocation_prop piece_prop(void)
{
    return (struct cuda_allocation_prop){
        .type = 1, .handle_types = 1, .location = {.type = 1, .id = memory.device}};
}

static size_t piece_bytes(void)
{
    struct cuda_allocation_prop prop;

    if (memory.piece_bytes == 0 && !test_memory_has_gpu())
        memory.piece_bytes = HOST_PIECE;
    if (memory.piece_bytes == 0) {
        test_memory_thread();
        prop = piece_prop();
        check(memory.cuda.granularity(&memory.piece_bytes, &prop, 0), "cuMemGetAllocationGranularity");
    }
    return memory.piece_bytes;
}

/* The mapping keeps the memory. */
static void pieces_map(const struct test_buffer *buffer, cuda_pointer begin, cuda_pointer end)
{
    struct cuda_allocation_prop prop = piece_prop();
    struct cuda_access access = {.location = prop.location, .flags = 3};
    unsigned long long handle;

    for (cuda_pointer at = begin; at < end; at += buffer->piece_bytes) {
        check(memory.cuda.mem_create(&handle, buffer->piece_bytes, &prop, 0), "cuMemCreate");
        check(memory.cuda.mem_map(at, buffer->piece_bytes, 0, handle, 0), "cuMemMap");
        check(memory.cuda.mem_release(handle), "cuMemRelease");
    }
    check(memory.cuda.mem_set_access(begin, (size_t)(end - begin), &access, 1), "cuMemSetAccess");
}

static void pieces_unmap(const struct test_buffer *buffer, cuda_pointer begin, cuda_pointer end)
{
    for (cuda_pointer at = begin; at < end; at += buffer->piece_bytes)
        check(memory.cuda.mem_unmap(at, buffer->piece_bytes), "cuMemUnmap");
}

static void pieces_alloc(struct test_buffer *buffer, cuda_pointer *pointer)
{
    buffer->vmm_bytes = (buffer->total + buffer->piece_bytes - 1) / buffer->piece_bytes * buffer->piece_bytes;
    check(memory.cuda.address_reserve(pointer, buffer->vmm_bytes, 0, 0, 0), "cuMemAddressReserve");
    pieces_map(buffer, *pointer, *pointer + buffer->vmm_bytes);
}

static void gpu_alloc(struct test_buffer *buffer)
{
    cuda_pointer pointer = 0;
    void *host = NULL;

    if (memory.context == NULL)
        test_memory_thread();
    switch (buffer->kind) {
    case TEST_PINNED:
        check(memory.cuda.mem_alloc_host(&host, buffer->total), "cuMemAllocHost");
        pointer = (cuda_pointer)(uintptr_t)host;
        break;
    case TEST_POOL:
        check(memory.cuda.mem_alloc_async(&pointer, buffer->total, NULL), "cuMemAllocAsync");
        check(memory.cuda.stream_synchronize(NULL), "cuStreamSynchronize");
        break;
    case TEST_VMM:
        vmm_alloc(buffer, &pointer);
        break;
    case TEST_PIECES:
        pieces_alloc(buffer, &pointer);
        break;
    case TEST_MANAGED:
        check(memory.cuda.mem_alloc_managed(&pointer, buffer->total, 1), "cuMemAllocManaged");
        break;
    default:
        check(memory.cuda.mem_alloc(&pointer, buffer->total), "cuMemAlloc");
        break;
    }
    buffer->base = (unsigned char *)(uintptr_t)pointer;
}

static void gpu_free(struct test_buffer *buffer)
{
    cuda_pointer pointer = (cuda_pointer)(uintptr_t)buffer->base;

    switch (buffer->kind) {
    case TEST_PINNED:
        check(memory.cuda.mem_free_host(buffer->base), "cuMemFreeHost");
        break;
    case TEST_POOL:
        check(memory.cuda.mem_free_async(pointer, NULL), "cuMemFreeAsync");
        break;
    case TEST_VMM:
        check(memory.cuda.mem_unmap(pointer, buffer->vmm_bytes), "cuMemUnmap");
        check(memory.cuda.address_free(pointer, buffer->vmm_bytes), "cuMemAddressFree");
        check(memory.cuda.mem_release(buffer->vmm_handle), "cuMemRelease");
        break;
    case TEST_PIECES:
        pieces_unmap(buffer, pointer, pointer + buffer->vmm_bytes);
        check(memory.cuda.address_free(pointer, buffer->vmm_bytes), "cuMemAddressFree");
        break;
    default:
        check(memory.cuda.mem_free(pointer), "cuMemFree");
        break;
    }
}

static void host_alloc(struct test_buffer *buffer)
{
    bool is_host = buffer->kind == TEST_HOST || buffer->kind == TEST_PINNED;

    if (memory.host_malloc == NULL || buffer->kind == TEST_POOL)
        buffer->base = malloc(buffer->total);
    else if (buffer->kind == TEST_PIECES && memory.host_malloc_pieces != NULL)
        buffer->base = memory.host_malloc_pieces(buffer->total, buffer->piece_bytes, true);
    else
        buffer->base = memory.host_malloc(buffer->total, is_host ? 0 : 1);
    if (buffer->base == NULL)
        die("allocation of host memory", "out of memory");
}

static void host_release(struct test_buffer *buffer)
{
    if (memory.host_malloc == NULL || buffer->kind == TEST_POOL)
        free(buffer->base);
    else
        memory.host_free(buffer->base);
}

void *test_stream_open(void)
{
    void *stream = NULL;

    check(memory.cuda.stream_create(&stream, 1), "cuStreamCreate"); /* not blocking */
    return stream;
}

void test_stream_wait(void *stream)
{
    check(memory.cuda.stream_synchronize(stream), "cuStreamSynchronize");
}

void test_stream_close(void *stream)
{
    check(memory.cuda.stream_destroy(stream), "cuStreamDestroy");
}

void test_capture_begin(void *stream, const struct test_buffer *filled, unsigned char value)
{
    check(memory.cuda.capture_begin(stream, 0), "cuStreamBeginCapture"); /* global */
    check(memory.cuda.memset8_async((cuda_pointer)(uintptr_t)filled->data, value, filled->bytes, stream),
          "cuMemsetD8Async");
}

int test_capture_end(void *stream)
{
    void *graph = NULL;
    void *ready = NULL;
    int error = memory.cuda.capture_end(stream, &graph);

    if (error == 0)
        error = memory.cuda.graph_instantiate(&ready, graph, 0);
    if (error == 0)
        error = memory.cuda.graph_launch(ready, stream);
    if (error == 0)
        error = memory.cuda.stream_synchronize(stream);
    if (ready != NULL)
        memory.cuda.graph_exec_destroy(ready);
    if (graph != NULL)
        memory.cuda.graph_destroy(graph);
    return error;
}

static bool on_gpu(const struct test_buffer *buffer)
{
    return buffer->kind != TEST_HOST && memory.gpu;
}

static void fill(struct test_buffer *buffer, unsigned char *at, int value, size_t bytes)
{
    if (bytes == 0)
        return;
    if (on_gpu(buffer)) {
        check(memory.cuda.memset8((cuda_pointer)(uintptr_t)at, (unsigned char)value, bytes), "cuMemsetD8");
        check(memory.cuda.stream_synchronize(NULL), "cuStreamSynchronize");
    } else {
        memset(at, value, bytes);
    }
}

/* A copy from pageable memory may return before its last bytes have reached the device: hence the wait. */
static void copy(const struct test_buffer *buffer, void *to, const void *from, size_t bytes)
{
    if (bytes == 0)
        return;
    if (on_gpu(buffer)) {
        check(memory.cuda.memcpy((cuda_pointer)(uintptr_t)to, (cuda_pointer)(uintptr_t)from, bytes),
              "cuMemcpy");
        check(memory.cuda.stream_synchronize(NULL), "cuStreamSynchronize");
    } else {
        memcpy(to, from, bytes);
    }
}

void test_buffer_make(struct test_buffer *buffer, enum test_memory kind, size_t bytes, size_t offset,
                      bool at_base)
{
    size_t align = 0;

    memset(buffer, 0, sizeof *buffer);
    if (kind == TEST_MANAGED && bytes > MANAGED_MAX)
        kind = TEST_DEVICE;
    buffer->kind = kind;
    buffer->bytes = bytes;
    buffer->front = at_base && offset == 0 ? 0 : GUARD_BYTES + offset;
    if (kind == TEST_PIECES) {
        buffer->piece_bytes = piece_bytes();
        if (buffer->front != 0 && bytes / 2 + GUARD_BYTES <= buffer->piece_bytes)
            buffer->front += buffer->piece_bytes - GUARD_BYTES - bytes / 2 / GUARD_BYTES * GUARD_BYTES;
    }
    /* malloc aligns to 16 only: room to move the data up to a 256-byte boundary. */
    buffer->total = buffer->front + bytes + 2 * GUARD_BYTES;
    if (kind != TEST_HOST && test_memory_has_gpu())
        gpu_alloc(buffer);
    else
        host_alloc(buffer);
    if (buffer->front != 0)
        align = (size_t)(-(uintptr_t)buffer->base % GUARD_BYTES);
    buffer->front += align;
    buffer->data = buffer->base + buffer->front;
    fill(buffer, buffer->base, TEST_GUARD, buffer->total);
    test_buffer_poison(buffer);
}

void test_buffer_poison(struct test_buffer *buffer)
{
    fill(buffer, buffer->data, TEST_POISON, buffer->bytes);
}

void test_buffer_write(struct test_buffer *buffer, size_t at, const void *from, size_t bytes)
{
    copy(buffer, buffer->data + at, from, bytes);
}

void test_buffer_read(const struct test_buffer *buffer, size_t at, void *to, size_t bytes)
{
    copy(buffer, to, buffer->data + at, bytes);
}

bool test_buffer_check(const struct test_buffer *buffer, const char *what)
{
    unsigned char guard[3 * GUARD_BYTES];
    size_t front = buffer->front < GUARD_BYTES ? buffer->front : GUARD_BYTES;
    size_t rear = buffer->total - buffer->front - buffer->bytes;

    copy(buffer, guard, buffer->data - front, front);
    copy(buffer, guard + front, buffer->data + buffer->bytes, rear);
    for (size_t i = 0; i < front + rear; i++) {
        if (guard[i] == TEST_GUARD)
            continue;
        if (i < front)
            test_fail("%s: the byte %zu before the buffer was written", what, front - i);
        else
            test_fail("%s: the byte %zu past the buffer's end was written", what, i - front);
        return false;
    }
    return true;
}

void test_buffer_free(struct test_buffer *buffer)
{
    if (buffer->base == NULL)
        return;
    if (!buffer->is_part && on_gpu(buffer))
        gpu_free(buffer);
    else if (!buffer->is_part)
        host_release(buffer);
    memset(buffer, 0, sizeof *buffer);
}

void test_buffer_remap(struct test_buffer *buffer)
{
    if (on_gpu(buffer)) {
        const cuda_pointer begin = (cuda_pointer)(uintptr_t)buffer->base;
        pieces_unmap(buffer, begin + buffer->piece_bytes, begin + buffer->vmm_bytes);
        pieces_map(buffer, begin + buffer->piece_bytes, begin + buffer->vmm_bytes);
    } else if (memory.host_remap_pieces != NULL &&
               !memory.host_remap_pieces(buffer->base + buffer->piece_bytes)) {
        die("other memory for a buffer's pieces", "out of memory");
    }
    fill(buffer, buffer->base, TEST_GUARD, buffer->total);
    test_buffer_poison(buffer);
}
