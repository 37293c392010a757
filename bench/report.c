#include "bench/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <gpucoll_config.h>

extern char **environ;

bool bench_report_open(struct bench_report *report, const char *path)
{
    memset(report, 0, sizeof(*report));
    if (!path)
        return true;
    report->file = fopen(path, "w");
    if (!report->file) {
        fprintf(stderr, "%s: cannot write %s: %s\n", bench_program, path, strerror(errno));
        return false;
    }
    fputs("{\n  \"context\": {", report->file);
    return true;
}

static void write_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fputc('\\', file);
        if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

void bench_report_context(struct bench_report *report, const char *key, const char *value)
{
    if (!report->file)
        return;
    fputs(report->entries++ ? ",\n    " : "\n    ", report->file);
    write_string(report->file, key);
    fputs(": ", report->file);
    write_string(report->file, value);
}

const char *bench_mpi_version(char *text, size_t bytes)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = '\0';
    snprintf(text, bytes, "%s", version);
    return text;
}

/* The argument without its folders: "/home/me/bench_x" is bench_x, "--json=/tmp/a.json" is --json=a.json. */
static void append_argument(char *text, size_t bytes, const char *argument)
{
    size_t length = strlen(text);
    const char *slash = strrchr(argument, '/');
    const char *equals = strchr(argument, '=');
    int option = equals && slash && equals < slash ? (int)(equals - argument) + 1 : 0;
    snprintf(text + length, bytes - length, "%s%.*s%s", length ? " " : "", option, argument,
             slash ? slash + 1 : argument);
}

static void append(char *text, size_t bytes, const char *more)
{
    size_t length = strlen(text);
    snprintf(text + length, bytes - length, "%s%s", length ? " " : "", more);
}

/* How mpirun's --mca options reach a process. Settings of this machine's transport and launcher are left out. */
static void mca_settings(char *text, size_t bytes)
{
    static const char *const prefixes[] = {"OMPI_MCA_coll=", "OMPI_MCA_coll_",
                                           "OMPI_MCA_pml=", "OMPI_MCA_btl=", "NCCL_"};
    text[0] = '\0';
    for (char **variable = environ; *variable; variable++)
        for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
            if (strncmp(*variable, prefixes[i], strlen(prefixes[i])) == 0)
                append(text, bytes, *variable);
}

void bench_common_context(const struct bench_group *group, const struct bench_device *device, int argc,
                          char **argv, void (*add)(void *arg, const char *key, const char *value), void *arg)
{
    char text[4096] = "";
    time_t now = time(NULL);
    struct tm utc;
    for (int i = 0; i < argc; i++)
        append_argument(text, sizeof(text), argv[i]);
    add(arg, "command", text);
    mca_settings(text, sizeof(text));
    add(arg, "settings", text);
    snprintf(text, sizeof(text), "%d", group->size);
    add(arg, "ranks", text);
    add(arg, "memory", device->cuda ? "cuda" : "host");
    snprintf(text, sizeof(text), "%d", device->count);
    add(arg, "gpus", text);
    add(arg, "device", device->name);
    if (device->cuda) {
        snprintf(text, sizeof(text), "%d.%d", device->cuda_version / 1000, device->cuda_version % 1000 / 10);
        add(arg, "cuda_driver", text);
    }
    if (device->mps)
        add(arg, "mps", "yes");
    add(arg, "mpi", bench_mpi_version(text, sizeof(text)));
    add(arg, "gpucoll_version", PACKAGE_VERSION);
    strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    add(arg, "date", text);
}

static void add_to_report(void *arg, const char *key, const char *value)
{
    bench_report_context(arg, key, value);
}

void bench_report_common(struct bench_report *report, const struct bench_group *group,
                         const struct bench_device *device, int argc, char **argv)
{
    if (report->file)
        bench_common_context(group, device, argc, argv, add_to_report, report);
}

static void write_overlap(FILE *file, const struct bench_overlap *overlap)
{
    fprintf(file,
            ", \"comm_us\": %.3f, \"compute_us\": %.3f, \"compute_beside_us\": %.3f, \"hidden\": %.4f"
            ", \"compute\": %.4f, \"computation\": \"%s\", \"in_a_row\": %d",
            overlap->comm_us, overlap->compute_us, overlap->compute_beside_us, overlap->hidden,
            overlap->compute, overlap->computation, overlap->calls);
    if (overlap->compute_by_tests > 0)
        fprintf(file, ", \"hidden_by_tests\": %.4f, \"compute_by_tests\": %.4f", overlap->hidden_by_tests,
                overlap->compute_by_tests);
}

void bench_report_row(struct bench_report *report, const struct bench_case *measured, const char *library,
                      const struct bench_row *row)
{
    const struct bench_times *times = &row->times;
    FILE *file = report->file;
    if (!file)
        return;
    fputs(report->rows_begun ? ",\n    {\"library\": " : "\n  },\n  \"rows\": [\n    {\"library\": ", file);
    report->rows_begun = true;
    write_string(file, library);
    fprintf(
        file,
        ", \"collective\": \"%s\", \"form\": \"%s\", \"buffers\": \"%s\", \"type\": \"%s\", \"op\": \"%s\""
        ", \"in_place\": %s, \"bytes\": %zu"
        ", \"ranks\": %d, \"iterations\": %d, \"median_us\": %.3f, \"p99_us\": %.3f, \"min_us\": %.3f"
        ", \"first_call_us\": %.3f, \"algbw\": %.4f, \"busbw\": %.4f, \"check\": \"%s\"",
        row->coll->name, row->overlap.is_measured ? "overlap" : bench_form_name(row->form),
        row->on_host ? "host" : "device", measured->type->name, measured->op->name,
        row->in_place ? "true" : "false", row->bytes, measured->group->size, times->iterations,
        times->median_us, times->p99_us, times->min_us, times->first_us,
        bench_algbw(row->bytes, times->median_us), bench_row_busbw(row, measured->group->size),
        bench_check_name(row->check));
    if (row->overlap.is_measured)
        write_overlap(file, &row->overlap);
    fputc('}', file);
}

void bench_report_figure(struct bench_report *report, const char *what, const char *when,
                         const struct bench_times *times)
{
    if (!report->file)
        return;
    fprintf(report->file, "%s", report->rows_begun ? ",\n    " : "\n  },\n  \"rows\": [\n    ");
    report->rows_begun = true;
    fprintf(report->file,
            "{\"what\": \"%s\", \"when\": \"%s\", \"iterations\": %d, \"median_us\": %.3f, \"p99_us\": %.3f"
            ", \"min_us\": %.3f}",
            what, when, times->iterations, times->median_us, times->p99_us, times->min_us);
}

bool bench_report_close(struct bench_report *report)
{
    FILE *file = report->file;
    if (!file)
        return true;
    report->file = NULL;
    fputs(report->rows_begun ? "\n  ]" : "\n  },\n  \"rows\": []", file);
    fprintf(file, ",\n  \"left_out\": %d\n}\n", report->left_out);
    bool written = !ferror(file);
    if (fclose(file) != 0 || !written) {
        fprintf(stderr, "%s: the results could not be written: %s\n", bench_program, strerror(errno));
        return false;
    }
    return true;
}

static void read_row(struct bench_earlier *earlier, const char *line)
{
    const char *library = strstr(line, "\"library\": \"");
    const char *bytes = strstr(line, "\"bytes\": ");
    const char *median = strstr(line, "\"median_us\": ");
    int most = (int)(sizeof(earlier->row) / sizeof(earlier->row[0]));
    if (!library || !bytes || !median || earlier->count == most)
        return;
    if (earlier->count == 0)
        sscanf(library + strlen("\"library\": \""), "%63[^\"]", earlier->library);
    earlier->row[earlier->count].bytes = strtoull(bytes + strlen("\"bytes\": "), NULL, 10);
    earlier->row[earlier->count].median_us = strtod(median + strlen("\"median_us\": "), NULL);
    earlier->count++;
}

bool bench_earlier_read(struct bench_earlier *earlier, const char *path)
{
    char line[2048];
    memset(earlier, 0, sizeof(*earlier));
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s: cannot read %s: %s\n", bench_program, path, strerror(errno));
        return false;
    }
    while (fgets(line, sizeof(line), file))
        read_row(earlier, line);
    fclose(file);
    if (earlier->count == 0)
        fprintf(stderr, "%s: %s holds no results: it must be a file written by --json\n", bench_program,
                path);
    return earlier->count > 0;
}

double bench_earlier_us(const struct bench_earlier *earlier, size_t bytes)
{
    for (int i = 0; i < earlier->count; i++)
        if (earlier->row[i].bytes == bytes)
            return earlier->row[i].median_us;
    return 0;
}
