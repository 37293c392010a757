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

/* Is there FOLDER/SUBFOLDER/HELP_FILE? Then it is the one. */
static bool take_help(const char *folder, const char *subfolder)
{
    char path[sizeof messages.help_path];
    const int length = snprintf(path, sizeof path, "%s%s/" HELP_FILE, folder, subfolder);
    if (length >= (int)sizeof path || access(path, R_OK) != 0) {
        return false;
    }
    memcpy(messages.help_path, path, (size_t)length + 1);
    path[length - (int)strlen("/" HELP_FILE)] = '\0';
    opal_show_help_add_dir(path);
    return true;
}

/* The texts lie beside the component in a build folder. Installed they are in share/gpucoll above it (PREFIX/lib/openmpi,
 * PREFIX/lib/x86_64-linux-gnu/openmpi): looked for before the folder that was compiled in, which is not true any more where
 * the installation was moved, or configured anew for another prefix. Open MPI by itself looks in its own prefix only. */
static void find_help(const void *component)
{
    enum { LEVELS = 4 };
    Dl_info self;
    if (dladdr(component, &self) != 0 && self.dli_fname != NULL) {
        char name[4096];
        snprintf(name, sizeof name, "%s", self.dli_fname);
        char *folder = dirname(name);
        bool found = take_help(folder, "");
        for (int level = 0; level < LEVELS && !found && strchr(folder, '/') != NULL; level++) {
            folder = dirname(folder);
            found = take_help(folder, "/share/gpucoll");
        }
        if (found) {
            return;
        }
    }
    snprintf(messages.help_path, sizeof messages.help_path, "%s/" HELP_FILE, GPUCOLL_PKGDATADIR);
    opal_show_help_add_dir(GPUCOLL_PKGDATADIR);
}

void gpucoll_messages_open(struct gpucoll_log *log, const void *component)
{
    log->print = print;
    log->help = help;
    find_help(component);
}
