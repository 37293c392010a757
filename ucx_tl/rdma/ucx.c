#include "ucx_tl/rdma/ucx.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucm/api/ucm.h>

static const char library[] = "libucp.so.0";

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct gpucoll_ucx ucx;
static bool loaded;
static bool too_old;
static char failure[256]; /* why not */

#define SYMBOL(name) {#name, offsetof(struct gpucoll_ucx, name)},
static const struct {
    const char *name;
    size_t offset;
} symbols[] = {GPUCOLL_UCX_FUNCTIONS(SYMBOL)};

/* UCX's memory library patches munmap and its like in the C library as soon as it is told its settings, which UCX does when it is loaded;
 * only the first telling counts. So gpucoll is first, unless the user has settings for it. */
static void prevent_hooks(void)
{
    void (*set)(const ucm_global_config_t *settings);
    void *memory = NULL;
    if (getenv("UCX_MEM_EVENTS") == NULL && getenv("UCX_MEM_MMAP_HOOK_MODE") == NULL) {
        memory = dlopen("libucm.so.0", RTLD_LAZY | RTLD_LOCAL); /* it needs libucs, which comes later */
    }
    if (memory != NULL) {
        /* The library's own: what else it has, which depends on its version, stays. */
        ucm_global_config_t *settings = dlsym(memory, "ucm_global_opts");
        *(void **)&set = dlsym(memory, "ucm_set_global_opts");
        if (settings != NULL && set != NULL) {
            settings->enable_events = 0;
            set(settings);
        }
    }
}

/* UCX's library takes signals such as SIGSEGV as it is loaded. The application's handlers are put back, unless the user wants UCX's. */
static void *load_quietly(void)
{
    enum { SIGNALS = 32 };
    struct sigaction before[SIGNALS];
    struct sigaction after;
    bool wanted = getenv("UCX_HANDLE_ERRORS") != NULL || getenv("UCX_ERROR_SIGNALS") != NULL;
    for (int i = 1; i < SIGNALS; i++) {
        sigaction(i, NULL, &before[i]);
    }
    prevent_hooks();
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    for (int i = 1; i < SIGNALS && !wanted; i++) {
        sigaction(i, NULL, &after);
        if (after.sa_handler != before[i].sa_handler) {
            sigaction(i, &before[i], NULL);
        }
    }
    return handle;
}

static void load(void)
{
    void *before = dlopen("libucs.so.0", RTLD_NOW | RTLD_NOLOAD);
    void *handle = before == NULL ? load_quietly() : dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(failure, sizeof(failure), "%s", dlerror());
        return;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address) {
            snprintf(failure, sizeof(failure), "%s has no %s: gpucoll needs UCX 1.13 or newer", library,
                     symbols[i].name);
            too_old = true;
            return;
        }
        memcpy((char *)&ucx + symbols[i].offset, &address, sizeof(address));
    }
    ucx.alone = before == NULL;
    loaded = true;
}

const struct gpucoll_ucx *gpucoll_ucx(const struct gpucoll_log *log)
{
    pthread_once(&once, load);
    if (!loaded) {
        gpucoll_log(log, too_old ? GPUCOLL_LOG_WARN : GPUCOLL_LOG_SETUP, "no UCX: %s", failure);
    }
    return loaded ? &ucx : NULL;
}
