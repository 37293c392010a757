#include "core/stats_report.h"

#include <stdlib.h>
#include <string.h>

struct totals {
    uint64_t calls[GPUCOLL_WAY_COUNT];
    double waiting_us;
    double running_us;
};

static double time_of(const struct gpucoll_stats_entry *entry)
{
    return entry->waiting_us + entry->running_us;
}

static int by_time(const void *a, const void *b)
{
    double left = time_of(a);
    double right = time_of(b);
    return left < right ? 1 : left > right ? -1 : 0;
}

/* Those rows that hold something, the costliest first. Freed by the caller; none if there is no memory. */
static struct gpucoll_stats_entry *collect(const struct gpucoll_stats *stats, int *count)
{
    struct gpucoll_stats_entry *entries = malloc(GPUCOLL_STATS_ROWS * sizeof *entries);
    *count = 0;
    for (int i = 0; entries != NULL && i < GPUCOLL_STATS_ROWS; i++) {
        *count += gpucoll_stats_read(stats, i, &entries[*count]);
    }
    if (*count > 0) {
        qsort(entries, (size_t)*count, sizeof *entries, by_time);
    }
    return entries;
}

static struct totals add_up(const struct gpucoll_stats_entry *entries, int count)
{
    struct totals totals = {0};
    for (int i = 0; i < count; i++) {
        totals.calls[entries[i].key.way] += entries[i].calls;
        totals.waiting_us += entries[i].waiting_us;
        totals.running_us += entries[i].running_us;
    }
    return totals;
}

/* Bytes to a power of two, as 512, 64K, 2M. */
static void size_text(uint64_t bytes, char *text, size_t size)
{
    static const char suffixes[] = " KMGTPE";
    int power = 0;
    while (bytes >= 1024 && power < 6) {
        bytes /= 1024;
        power++;
    }
    snprintf(text, size, "%llu%.*s", (unsigned long long)bytes, power > 0, &suffixes[power]);
}

static uint64_t class_low(uint8_t size_class)
{
    return size_class < 2 ? 0 : (uint64_t)1 << (size_class - 2);
}

static void class_text(uint8_t size_class, char *text, size_t size)
{
    char low[24];
    char high[24];
    size_text(class_low(size_class), low, sizeof low);
    size_text(class_low((uint8_t)(size_class + 1)), high, sizeof high);
    snprintf(text, size, "%s%s%s", low, size_class > 2 ? "-" : "", size_class > 2 ? high : "");
}

static void way_text(const struct gpucoll_stats_key *key, char *text, size_t size)
{
    char way[64];
    gpucoll_stats_way((enum gpucoll_way)key->way, key->detail, way, sizeof way);
    if (key->way == GPUCOLL_WAY_NATIVE && key->ctas > 0) {
        snprintf(text, size, "%s, %u CTAs%s", way, key->ctas, key->linger ? " that linger" : "");
    } else if (key->way == GPUCOLL_WAY_STAGED) {
        snprintf(text, size, "%s: %s", way, gpucoll_reason_text((enum gpucoll_reason)key->detail));
    } else {
        snprintf(text, size, "%s", way);
    }
}

/* GB/s: bytes of a call over its mean time. */
static double bandwidth(const struct gpucoll_stats_entry *entry)
{
    double us = time_of(entry);
    return us > 0 ? (double)entry->bytes / us / 1e3 : 0;
}

static double waiting_share(double waiting, double running)
{
    return waiting + running > 0 ? waiting / (waiting + running) : 0;
}

static void print_row(const struct gpucoll_stats_source *source, const struct gpucoll_stats_entry *entry,
                      FILE *out)
{
    char bytes[56];
    char way[160];
    char waiting[16] = "-";
    class_text(entry->key.size_class, bytes, sizeof bytes);
    way_text(&entry->key, way, sizeof way);
    if (entry->key.way == GPUCOLL_WAY_NATIVE) {
        snprintf(waiting, sizeof waiting, "%.0f %%",
                 100 * waiting_share(entry->waiting_us, entry->running_us));
    }
    fprintf(out, "  %-20s %-11s %11s %9llu %11.1f %9.3f %8s  %s\n", source->names[entry->key.coll],
            gpucoll_form_name((enum gpucoll_form)entry->key.form), bytes, (unsigned long long)entry->calls,
            time_of(entry) / (double)entry->calls, bandwidth(entry), waiting, way);
}

void gpucoll_stats_print(const struct gpucoll_stats_source *source, FILE *out)
{
    int count;
    struct gpucoll_stats_entry *entries = collect(source->stats, &count);
    const struct totals totals = add_up(entries, count);
    fprintf(out,
            "rank %u of %u on %s: %llu calls native, %llu staged, %llu on host memory; %.3f s in them, "
            "%.3f s of it waiting for other ranks\n",
            source->rank, source->ranks, source->host, (unsigned long long)totals.calls[GPUCOLL_WAY_NATIVE],
            (unsigned long long)totals.calls[GPUCOLL_WAY_STAGED],
            (unsigned long long)totals.calls[GPUCOLL_WAY_PASSED],
            (totals.waiting_us + totals.running_us) / 1e6, totals.waiting_us / 1e6);
    if (count > 0) {
        fprintf(out, "  %-20s %-11s %11s %9s %11s %9s %8s  %s\n", "collective", "form", "bytes", "calls",
                "mean us", "GB/s", "waiting", "how");
    }
    for (int i = 0; i < count; i++) {
        print_row(source, &entries[i], out);
    }
    uint64_t left_out = __atomic_load_n(&source->stats->left_out, __ATOMIC_RELAXED);
    if (left_out > 0) {
        fprintf(out, "  and %llu calls of further kinds\n", (unsigned long long)left_out);
    }
    free(entries);
}

/* With a point for whatever locale the application has set. */
static void print_json_us(const char *name, double us, FILE *out)
{
    const unsigned long long ns = us > 0 ? (unsigned long long)(us * 1000 + 0.5) : 0;
    fprintf(out, ", \"%s\": %llu.%03llu", name, ns / 1000, ns % 1000);
}

static void print_json_row(const struct gpucoll_stats_source *source, const struct gpucoll_stats_entry *entry,
                           FILE *out)
{
    const struct gpucoll_stats_key *key = &entry->key;
    char way[64];
    gpucoll_stats_way((enum gpucoll_way)key->way, key->detail, way, sizeof way);
    fprintf(out, "{\"collective\": \"%s\", \"form\": \"%s\", \"way\": \"%s\", \"bytes_from\": %llu, ",
            source->names[key->coll], gpucoll_form_name((enum gpucoll_form)key->form),
            gpucoll_way_name((enum gpucoll_way)key->way), (unsigned long long)class_low(key->size_class));
    if (key->way == GPUCOLL_WAY_NATIVE) {
        fprintf(out, "\"plan\": \"%s\", \"ctas\": %u, \"lingers\": %s, ", way, key->ctas,
                key->linger ? "true" : "false");
    } else if (key->way == GPUCOLL_WAY_STAGED) {
        fprintf(out, "\"why\": \"%s\", ", gpucoll_reason_text((enum gpucoll_reason)key->detail));
    }
    fprintf(out, "\"calls\": %llu, \"bytes\": %llu", (unsigned long long)entry->calls,
            (unsigned long long)entry->bytes);
    print_json_us("waiting_us", entry->waiting_us, out);
    print_json_us("running_us", entry->running_us, out);
    fputs("}", out);
}

void gpucoll_stats_print_json(const struct gpucoll_stats_source *source, FILE *out)
{
    int count;
    struct gpucoll_stats_entry *entries = collect(source->stats, &count);
    fprintf(out, "{\"version\": \"%s\", \"rank\": %u, \"ranks\": %u, \"host\": \"%s\", \"left_out\": %llu,\n",
            GPUCOLL_VERSION, source->rank, source->ranks, source->host,
            (unsigned long long)__atomic_load_n(&source->stats->left_out, __ATOMIC_RELAXED));
    fputs(" \"calls\": [", out);
    for (int i = 0; i < count; i++) {
        fputs(i > 0 ? ",\n  " : "\n  ", out);
        print_json_row(source, &entries[i], out);
    }
    fputs("\n ]}\n", out);
    free(entries);
}
