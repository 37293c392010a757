/*
 * The few functions of the CUDA driver that the tests' buffers need, loaded at run time so that the tests
 * build and run without CUDA. Names and signatures are the driver API's (the versions it exports as _v2 where
 * there are two).
 */
#ifndef GPUCOLL_TEST_MPI_CUDA_DRIVER_H
#define GPUCOLL_TEST_MPI_CUDA_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The driver's ABI for cuMemCreate and cuMemSetAccess. */
struct cuda_location {
    int type; /* 1: device */
    int id;
};
struct cuda_allocation_prop {
    int type;         /* 1: pinned */
    int handle_types; /* 0: not exportable */
    struct cuda_location location;
    void *windows_data;
    unsigned char flags[8];
};
struct cuda_access {
    struct cuda_location location;
    int flags; /* 3: read and write */
};

typedef uint64_t cuda_pointer;

struct cuda_driver {
    int (*init)(unsigned flags);
    int (*device_count)(int *count);
    int (*device_get)(int *device, int ordinal);
    int (*primary_retain)(void **context, int device);
    int (*primary_release)(int device);
    int (*set_current)(void *context);
    int (*context_synchronize)(void);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*mem_alloc)(cuda_pointer *pointer, size_t bytes);
    int (*mem_free)(cuda_pointer pointer);
    int (*mem_alloc_host)(void **pointer, size_t bytes);
    int (*mem_free_host)(void *pointer);
    int (*mem_alloc_managed)(cuda_pointer *pointer, size_t bytes, unsigned flags);
    int (*mem_alloc_async)(cuda_pointer *pointer, size_t bytes, void *stream);
    int (*mem_free_async)(cuda_pointer pointer, void *stream);
    int (*memcpy)(cuda_pointer to, cuda_pointer from, size_t bytes);
    int (*memset8)(cuda_pointer to, unsigned char value, size_t bytes);
    int (*memset8_async)(cuda_pointer to, unsigned char value, size_t bytes, void *stream);
    int (*capture_begin)(void *stream, int mode); /* 0: global */
    int (*capture_end)(void *stream, void **graph);
    int (*graph_instantiate)(void **ready, void *graph, unsigned long long flags);
    int (*graph_launch)(void *ready, void *stream);
    int (*graph_exec_destroy)(void *ready);
    int (*graph_destroy)(void *graph);
    int (*mem_info)(size_t *free, size_t *total);
    int (*granularity)(size_t *bytes, const struct cuda_allocation_prop *prop, int option);
    int (*mem_create)(unsigned long long *handle, size_t bytes, const struct cuda_allocation_prop *prop,
                      unsigned long long flags);
    int (*mem_release)(unsigned long long handle);
    int (*address_reserve)(cuda_pointer *pointer, size_t bytes, size_t alignment, cuda_pointer at,
                           unsigned long long flags);
    int (*address_free)(cuda_pointer pointer, size_t bytes);
    int (*mem_map)(cuda_pointer pointer, size_t bytes, size_t offset, unsigned long long handle,
                   unsigned long long flags);
    int (*mem_unmap)(cuda_pointer pointer, size_t bytes);
    int (*mem_set_access)(cuda_pointer pointer, size_t bytes, const struct cuda_access *access, size_t count);
    int (*error_name)(int error, const char **name);
};

/* False if there is no driver here, or no GPU that it can use. */
bool cuda_driver_load(struct cuda_driver *cuda, int *gpus);

#endif
