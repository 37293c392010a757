/*
 * Finding NVIDIA's libraries at run time: by the dynamic linker, else where Python's packages keep them.
 */
#ifndef BENCH_LIBRARY_H
#define BENCH_LIBRARY_H

#include <stddef.h>

struct bench_library {
    const char *sonames[4];  /* tried in turn; NULL ends them */
    const char *in_packages; /* a pattern (glob) below site-packages */
    const char *in_lib;      /* and below folders such as /usr/local/cuda/lib64 */
};

/* `name`: a file, or auto. A handle of dlopen, with the place in `path`; NULL if there is none. */
void *bench_library_load(const struct bench_library *library, const char *name, char *path,
                         size_t path_bytes);

#endif
