#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "coll_gpucoll_messages.h"
#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <unistd.h>
#include "coll_gpucoll_compat.h"
#include "core/base/thread.h"
#include "opal/util/output.h"
#include "opal/util/show_help.h"

#define HELP_FILE "help-mpi-coll-gpucoll.txt"

struct message {
    struct message *next;
    char text[];
};

static struct {
    pthread_mutex_t lock;
    struct message *first;
    struct message **end;
    char help_path[4096];
} messages = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = &messages.first};

static void keep(const char *text)
{
    size_t bytes = strlen(text) + 1;
    struct message *message = malloc(sizeof *message + bytes);
    if (message == NULL) {
        return;
    }
    message->next = NULL;
    memcpy(message->text, text, bytes);
    pthread_mutex_lock(&messages.lock);
    *messages.end = message;
    __atomic_store_n(&messages.end, &message->next, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&messages.lock);
}

void gpucoll_messages_show(void)
{
    if (__atomic_load_n(&messages.end, __ATOMIC_RELAXED) == &messages.first) {
        return;
    }
    pthread_mutex_lock(&messages.lock);
    struct message *first = messages.first;
    messages.first = NULL;
    __atomic_store_n(&messages.end, &messages.first, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&messages.lock);
    while (first != NULL) {
        struct message *message = first;
        first = message->next;
        opal_output(0, "gpucoll: %s", message->text);
        free(message);
    }
}

static void print(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    if (gpucoll_on_own_thread()) {
        keep(line);
    } else {
        opal_output(0, "gpucoll: %s", line);
    }
}

static void help(void *arg, const char *topic, va_list args)
{
    (void)arg;
    if (!gpucoll_on_own_thread()) {
        opal_show_vhelp(HELP_FILE, topic, true, args);
        return;
    }
    char *text = gpucoll_help_text(messages.help_path, topic, args);
    keep(text != NULL ? text : topic);
    free(text);
}

/* The texts lie beside the component in a build folder, else where they were installed: Open MPI by itself
 * looks in its own prefix only. */
static void find_help(const void *component)
{
    Dl_info self;
    char *path = messages.help_path;
    const size_t size = sizeof messages.help_path;
    if (dladdr(component, &self) != 0 && self.dli_fname != NULL) {
        char name[4096];
        snprintf(name, sizeof name, "%s", self.dli_fname);
        const char *folder = dirname(name);
        int length = snprintf(path, size, "%s/" HELP_FILE, folder);
        if (length < (int)size && access(path, R_OK) == 0) {
            opal_show_help_add_dir(folder);
            return;
        }
    }
    snprintf(path, size, "%s/" HELP_FILE, GPUCOLL_PKGDATADIR);
    opal_show_help_add_dir(GPUCOLL_PKGDATADIR);
}

void gpucoll_messages_open(struct gpucoll_log *log, const void *component)
{
    log->print = print;
    log->help = help;
    find_help(component);
}
