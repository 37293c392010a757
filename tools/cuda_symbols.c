#include "tools/cuda_symbols.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Needed here; a CUresult is an int. */
static struct {
    int (*cuInit)(unsigned);
    int (*cuGetErrorString)(int, const char **);
} own;
static const struct cuda_symbol own_symbols[] = {
    CUDA_SYMBOL(__typeof__(own), cuInit),
    CUDA_SYMBOL(__typeof__(own), cuGetErrorString),
};

static bool find(void *library, void *functions, const struct cuda_symbol *symbols, size_t count,
                 char *reason, size_t reason_bytes)
{
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (address == NULL) {
            snprintf(reason, reason_bytes, "libcuda.so.1 lacks %s: too old a driver", symbols[i].name);
            return false;
        }
        memcpy((char *)functions + symbols[i].offset, &address, sizeof address);
    }
    return true;
}

bool cuda_load(void *functions, const struct cuda_symbol *symbols, size_t count, char *reason,
               size_t reason_bytes)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(reason, reason_bytes, "no CUDA driver: %s", dlerror());
        return false;
    }
    if (!find(library, &own, own_symbols, 2, reason, reason_bytes) ||
        !find(library, functions, symbols, count, reason, reason_bytes)) {
        return false;
    }
    int error = own.cuInit(0);
    if (error != 0) {
        snprintf(reason, reason_bytes, "the CUDA driver does not start: %s (CUDA error %d)",
                 cuda_error_text(error), error);
    }
    return error == 0;
}

const char *cuda_error_text(int error)
{
    const char *text = NULL;
    return own.cuGetErrorString(error, &text) == 0 && text != NULL ? text : "unknown error";
}
