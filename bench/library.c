#include "bench/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In front of a folder the value of an environment variable, where one is named. */
static const struct {
    const char *variable;
    const char *folder;
    bool packages; /* of Python, not a folder of libraries */
} places[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages", true},
    {"CONDA_PREFIX", "/lib/python3*/site-packages", true},
    {"CONDA_PREFIX", "/lib", false},
    {"PYTHONPATH", "", true},
    {"HOME", "/.local/lib/python3*/site-packages", true},
    {NULL, "/usr/local/lib/python3*/dist-packages", true},
    {NULL, "/usr/local/lib/python3*/site-packages", true},
    {NULL, "/usr/lib/python3*/dist-packages", true},
    {NULL, "/usr/lib/python3*/site-packages", true},
    {NULL, "/opt/*/lib/python3*/site-packages", true},
    {NULL, "/usr/local/cuda/lib64", false},
};

static void *load(const char *name, char *path, size_t path_bytes)
{
    snprintf(path, path_bytes, "%s", name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void *load_matching(const char *pattern, char *path, size_t path_bytes)
{
    glob_t found;
    void *handle = NULL;
    if (glob(pattern, 0, NULL, &found) != 0)
        return NULL;
    for (size_t i = 0; i < found.gl_pathc && !handle; i++)
        handle = load(found.gl_pathv[i], path, path_bytes);
    globfree(&found);
    return handle;
}

void *bench_library_load(const struct bench_library *library, const char *name, char *path, size_t path_bytes)
{
    void *handle = NULL;
    if (strcmp(name, "auto") != 0)
        return load(name, path, path_bytes);
    for (int i = 0; library->sonames[i] && !handle; i++)
        handle = load(library->sonames[i], path, path_bytes);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]) && !handle; i++) {
        char pattern[1024];
        const char *prefix = places[i].variable ? getenv(places[i].variable) : "";
        if (!prefix)
            continue;
        snprintf(pattern, sizeof(pattern), "%s%s/%s", prefix, places[i].folder,
                 places[i].packages ? library->in_packages : library->in_lib);
        handle = load_matching(pattern, path, path_bytes);
    }
    return handle;
}
