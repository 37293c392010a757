/*
 * The CUDA driver, loaded at run time by programs that declare the functions they use themselves: no build needs CUDA, and no machine
 * a GPU.
 */
#ifndef GPUCOLL_CUDA_SYMBOLS_H
#define GPUCOLL_CUDA_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

struct cuda_symbol {
    const char *name;
    size_t offset; /* of the pointer to it, in the program's struct */
};
#define CUDA_SYMBOL(table, name)                                                                             \
    {                                                                                                        \
#name, offsetof(table, name)                                                                         \
    }

/* Fills in the pointers and starts the driver. False, with the reason, if there is none that has all of them, or it does not start. */
bool cuda_load(void *functions, const struct cuda_symbol *symbols, size_t count, char *reason,
               size_t reason_bytes);

/* The driver's word for an error, once it is loaded. */
const char *cuda_error_text(int error);

#endif
