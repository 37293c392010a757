/*
 * Where the engine's words go: to standard error. The help file's text on topology files is of jobs, which go on with the costs of their
 * machine; here it is said what is wrong with the file that was named, once.
 */
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "tools/gpucoll_info.h"

static void print(void *arg, int level, const char *line)
{
    const struct info *info = arg;
    info->engine.print(info->engine.arg, level, line);
}

/* The topic's arguments: the path, the line, the error. */
static void say_topology(struct info *info, va_list args)
{
    const char *path = va_arg(args, const char *);
    const unsigned line = va_arg(args, unsigned);
    const char *error = va_arg(args, const char *);
    if (info->topology_said) {
        return;
    }
    info->topology_said = true;
    fprintf(stderr,
            "gpucoll_info: %s: %s: ", info->topology_option ? "--topology" : "coll_gpucoll_topology_file",
            path);
    if (line > 0) {
        fprintf(stderr, "line %u: ", line);
    }
    fprintf(stderr, "%s\n", error);
}

static void help(void *arg, const char *topic, va_list args)
{
    struct info *info = arg;
    if (strcmp(topic, "topology-file") == 0) {
        say_topology(info, args);
    } else {
        info->engine.help(info->engine.arg, topic, args);
    }
}

/* Beside the program's folder, where it is now; NULL: where the build installs it. */
static const char *find_help(void)
{
    static const char relative[] = "../share/gpucoll/help-mpi-coll-gpucoll.txt";
    static char path[4096];
    char program[2048];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length <= 0) {
        return NULL;
    }
    program[length] = '\0';
    snprintf(path, sizeof path, "%s/%s", dirname(program), relative);
    return access(path, R_OK) == 0 ? path : NULL;
}

void info_messages_open(struct info *info)
{
    gpucoll_log_stderr(&info->engine, GPUCOLL_LOG_WARN, find_help());
    info->log =
        (struct gpucoll_log){.verbosity = info->engine.verbosity, .print = print, .help = help, .arg = info};
}
