/*
 * The summary at the end: what coll_gpucoll_summary asks for.
 */
#include <errno.h>
#include <unistd.h>
#include "coll_gpucoll_observe.h"
#include "core/stats_report.h"

static struct {
    bool open;
    bool every_rank; /* else rank 0 alone */
    bool to_file;
} summary;

void gpucoll_summary_open(void)
{
    const char *wanted = mca_coll_gpucoll_component.config.summary;
    if (strcmp(wanted, "none") == 0 || wanted[0] == '\0') {
        return;
    }
    summary.open = true;
    summary.to_file = strcmp(wanted, "rank0") != 0 && strcmp(wanted, "all") != 0;
    summary.every_rank = strcmp(wanted, "all") == 0 ||
                         (summary.to_file && (strstr(wanted, "%r") != NULL || strstr(wanted, "%p") != NULL));
    gpucoll_stats_start(&mca_coll_gpucoll_component.stats);
}

/* The pattern with %r, %p and %h put in. */
static void file_name(const char *pattern, const struct gpucoll_stats_source *source, char *name, size_t size)
{
    size_t used = 0;
    for (const char *at = pattern; *at != '\0' && used + 1 < size; at++) {
        int wrote = 1;
        if (at[0] != '%' || strchr("rph", at[1]) == NULL || at[1] == '\0') {
            name[used] = *at;
            name[used + 1] = '\0';
        } else {
            at++;
            wrote = *at == 'r'   ? snprintf(name + used, size - used, "%u", source->rank)
                    : *at == 'p' ? snprintf(name + used, size - used, "%ld", (long)getpid())
                                 : snprintf(name + used, size - used, "%s", source->host);
        }
        used += (size_t)wrote;
    }
}

static void write_file(const struct gpucoll_stats_source *source)
{
    const struct gpucoll_component *component = &mca_coll_gpucoll_component;
    char name[4096] = "";
    file_name(component->config.summary, source, name, sizeof name);
    FILE *file = fopen(name, "we");
    bool written = file != NULL;
    if (file != NULL) {
        gpucoll_stats_print_json(source, file);
        written = ferror(file) == 0;
        written &= fclose(file) == 0;
    }
    if (!written) {
        gpucoll_help(&component->log, "summary-file", name, strerror(errno));
    }
}

/* One piece, so that the tables of several ranks do not mix. */
static void print(const struct gpucoll_stats_source *source)
{
    const struct gpucoll_component *component = &mca_coll_gpucoll_component;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        return;
    }
    gpucoll_stats_print(source, out);
    fclose(out);
    if (size > 0) {
        text[size - 1] = '\0'; /* the log ends the line */
        component->log.print(component->log.arg, GPUCOLL_LOG_WARN, text);
    }
    free(text);
}

void gpucoll_summary_close(void)
{
    if (!summary.open) {
        return;
    }
    summary.open = false;
    char host[256] = "?";
    gethostname(host, sizeof host - 1);
    const struct gpucoll_stats_source source = {
        .stats = &mca_coll_gpucoll_component.stats,
        .names = gpucoll_observed_names(),
        .rank = mca_coll_gpucoll_component.rank,
        .ranks = mca_coll_gpucoll_component.ranks,
        .host = host,
    };
    if (source.rank != 0 && !summary.every_rank) {
        return;
    }
    if (summary.to_file) {
        write_file(&source);
    } else {
        print(&source);
    }
}
