/*
 * --tune: starts the ranks, fits the constants to their times, shows both, and writes the tuning file.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "tools/gpucoll_info.h"
#include "tools/tune.h"

enum { CLOSE_PERCENT = 25, WORSE_PERCENT = 5 };
static const size_t most_host_bytes = (size_t)1 << 20;
static const size_t most_gpu_bytes = (size_t)1 << 28;
static const double default_seconds = 30;

static bool wrong(const char *option, const char *value, const char *accepted)
{
    fprintf(stderr, "gpucoll_info: %s %s: expected %s\n", option, value, accepted);
    return false;
}

static bool is_option(const char *text)
{
    static const char *const names[] = {"--ranks", "--max", "--seconds", "--output"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i]) == 0) {
            return true;
        }
    }
    fprintf(stderr,
            "gpucoll_info: --tune knows --ranks N, --max SIZE, --seconds S and --output FILE, not %s\n",
            text);
    return false;
}

static bool parse_option(const char *option, const char *value, struct tune_options *options)
{
    char *end;
    if (strcmp(option, "--ranks") == 0) {
        const unsigned long ranks = strtoul(value, &end, 10);
        options->ranks = (uint32_t)ranks;
        return (*end == '\0' && ranks >= 2 && ranks <= GPUCOLL_MAX_LOCAL) || wrong(option, value, "2 to 32");
    }
    if (strcmp(option, "--max") == 0) {
        uint64_t bytes = 0;
        bool fine = gpucoll_config_parse_size(value, &bytes) && bytes >= 1024;
        options->most_bytes = (size_t)bytes;
        return fine || wrong(option, value, "a size from 1K on, such as 64M");
    }
    if (strcmp(option, "--seconds") == 0) {
        options->seconds = strtod(value, &end);
        return (*end == '\0' && options->seconds > 0 && options->seconds <= 3600) ||
               wrong(option, value, "a number of seconds");
    }
    options->output = value;
    return true;
}

/* How many arguments there are, the option included; 0 if one is wrong. */
static int parse(char **argv, struct tune_options *options)
{
    int count = 1;
    for (; argv[count] != NULL; count += 2) {
        const char *value = argv[count + 1];
        if (!is_option(argv[count])) {
            return 0;
        }
        if (value == NULL || strncmp(value, "--", 2) == 0) {
            fprintf(stderr, "gpucoll_info: --tune: %s lacks its value\n", argv[count]);
            return 0;
        }
        if (!parse_option(argv[count], value, options)) {
            return 0;
        }
    }
    return count;
}

/* How many GPUs there are, asked in a process of its own: one that has started the driver must not fork. */
static uint32_t count_gpus(void)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        char reason[256];
        int count = device_count(reason, sizeof reason);
        if (count == 0) {
            fprintf(stderr, "gpucoll_info: --tune: %s\n", reason);
        }
        _exit(count < GPUCOLL_MAX_LOCAL ? count : GPUCOLL_MAX_LOCAL);
    }
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status)
               ? (uint32_t)WEXITSTATUS(status)
               : 0;
}

static bool complete(struct tune_options *options, bool host)
{
    const uint32_t gpus = host ? 2 : count_gpus();
    if (gpus == 0) {
        fprintf(stderr, "gpucoll_info: --tune: nothing to measure on (OMPI_MCA_coll_gpucoll_accelerator=host "
                        "measures the host accelerator)\n");
        return false;
    }
    options->ranks = options->ranks != 0 ? options->ranks : gpus < 2 ? 2 : gpus;
    options->most_bytes = options->most_bytes != 0 ? options->most_bytes
                          : host                   ? most_host_bytes
                                                   : most_gpu_bytes;
    if (options->ranks > gpus && !host) {
        printf(
            "%u ranks share %u GPU%s: only algorithms whose kernels never wait for each other are measured\n",
            options->ranks, gpus, gpus == 1 ? "" : "s");
    }
    return true;
}

/* One line a sample; returns how many predictions are close by the constants of `after`. */
static int print_samples(const struct tune_shared *shared, const struct gpucoll_config *config,
                         const struct gpucoll_model *before, const struct gpucoll_model *after)
{
    int close = 0;
    printf("\n  %-20s %-10s %-8s %10s %6s %-8s %10s  predicted %10s %10s\n", "collective", "algorithm",
           "protocol", "bytes", "<=CTAs", "kernel", "measured", "before", "now");
    for (int i = 0; i < shared->count; i++) {
        const struct tune_sample *sample = &shared->samples[i];
        const struct gpucoll_algorithm *row = gpucoll_algorithm_row(sample->row);
        const double now = tune_predict(sample, config, after);
        const double off = fabs(now / sample->measured_us - 1) * 100;
        close += off <= CLOSE_PERCENT;
        printf("  %-20s %-10s %-8s %10llu %6d %-8s %7.1f us  %9s %7.1f us %7.1f us%s\n",
               gpucoll_coll_name(sample->input.coll), row->name, row->protocol,
               (unsigned long long)sample->input.bytes, sample->max_ctas,
               sample->linger    ? "lingers"
               : row->needs != 0 ? "host"
               : row->spares_sms ? "copies"
               : row->bulk       ? "bulk"
                                 : "launch",
               sample->measured_us, "", tune_predict(sample, config, before), now,
               off <= CLOSE_PERCENT ? "" : "  off");
    }
    return close;
}

static void print_constants(const struct gpucoll_model *before, const struct gpucoll_tuning *fitted)
{
    struct gpucoll_model old = *before;
    struct gpucoll_model new = fitted->model;
    const struct gpucoll_model_constant *constant;
    printf("\n  %-22s %12s %12s\n", "constant", "before", "now");
    for (int i = 0; (constant = gpucoll_model_constant_at(i)) != NULL; i++) {
        printf("  %-22s %12.4g ", constant->name, *gpucoll_model_field(&old, constant) / constant->scale);
        if (fitted->set >> i & 1) {
            printf("%12.4g %-5s %s\n", *gpucoll_model_field(&new, constant) / constant->scale, constant->unit,
                   constant->help);
        } else {
            printf("%12s %-5s %s\n", "not measured", constant->unit, constant->help);
        }
    }
}

static bool same_call(const struct tune_sample *a, const struct tune_sample *b)
{
    return tune_same_choice(a, b) && a->max_ctas == b->max_ctas;
}

/* The choice that these constants make for the sample's call, and the one that was quickest. */
static void find_choice(const struct tune_shared *shared, const struct gpucoll_config *config,
                        const struct gpucoll_model *model, const struct tune_sample *call,
                        const struct tune_sample **chosen, const struct tune_sample **quickest)
{
    *chosen = call;
    *quickest = call;
    for (int i = 0; i < shared->count; i++) {
        const struct tune_sample *other = &shared->samples[i];
        if (!same_call(call, other)) {
            continue;
        }
        if (other->measured_us < (*quickest)->measured_us) {
            *quickest = other;
        }
        if (tune_predict(other, config, model) < tune_predict(*chosen, config, model)) {
            *chosen = other;
        }
    }
}

static bool is_first(const struct tune_shared *shared, const struct tune_sample *sample)
{
    const struct tune_sample *other = shared->samples;
    while (!same_call(sample, other)) {
        other++;
    }
    return other == sample;
}

/* How good are the choices by the new constants? Names those that are not. */
static void print_choices(const struct tune_shared *shared, const struct gpucoll_config *config,
                          const struct gpucoll_model *model)
{
    int calls = 0;
    int good = 0;
    int close = 0;
    printf("\n");
    for (int i = 0; i < shared->count; i++) {
        const struct tune_sample *call = &shared->samples[i];
        const struct tune_sample *chosen;
        const struct tune_sample *quickest;
        if (call->max_ctas != config->max_ctas || !is_first(shared, call)) {
            continue;
        }
        find_choice(shared, config, model, call, &chosen, &quickest);
        const double worse = (chosen->measured_us / quickest->measured_us - 1) * 100;
        const double off = fabs(tune_predict(chosen, config, model) / chosen->measured_us - 1) * 100;
        calls++;
        good += worse <= WORSE_PERCENT;
        close += off <= CLOSE_PERCENT;
        if (worse > WORSE_PERCENT) {
            const struct gpucoll_algorithm *taken = gpucoll_algorithm_row(chosen->row);
            const struct gpucoll_algorithm *best = gpucoll_algorithm_row(quickest->row);
            printf("  %s of %llu bytes: %s by %s%s is chosen, %s by %s%s is quicker by %.0f %%\n",
                   gpucoll_coll_name(call->input.coll), (unsigned long long)call->input.bytes, taken->name,
                   taken->protocol, chosen->linger ? ", lingering," : "", best->name, best->protocol,
                   quickest->linger ? ", lingering," : "", 100 - 10000 / (100 + worse));
        }
    }
    printf("  of %d calls, the choice is within %d %% of the quickest for %d, its prediction within %d %% "
           "for %d\n",
           calls, (int)WORSE_PERCENT, good, (int)CLOSE_PERCENT, close);
}

static void write_constants(FILE *file, const struct tune_shared *shared, const struct tune_options *options,
                            const struct gpucoll_tuning *fitted)
{
    char date[32];
    time_t now = time(NULL);
    strftime(date, sizeof date, "%Y-%m-%d", gmtime(&now));
    fprintf(file,
            "# Constants of gpucoll's cost model, for coll_gpucoll_tuning_file.\n"
            "# Measured by gpucoll_info --tune with %u ranks on %s, %s.\n",
            options->ranks, shared->gpu, date);
    gpucoll_tuning_write(file, fitted);
}

static bool cannot_write(const struct tune_options *options)
{
    fprintf(stderr, "gpucoll_info: --tune: writing %s: %s\n", options->output, strerror(errno));
    return false;
}

static bool save(const struct tune_shared *shared, const struct tune_options *options,
                 const struct gpucoll_tuning *fitted)
{
    if (options->output == NULL) {
        printf("\nThe file that --output FILE would write:\n\n");
        write_constants(stdout, shared, options, fitted);
        return true;
    }
    /* What stood there has stayed until now. A pipe or a device has no end to cut off. */
    const bool cut = ftruncate(fileno(options->file), 0) == 0 || errno == EINVAL;
    if (cut) {
        write_constants(options->file, shared, options, fitted);
    }
    if (!cut || fflush(options->file) != 0 || ferror(options->file)) {
        return cannot_write(options);
    }
    printf("\nWritten to %s; to use it: mpirun --mca coll_gpucoll_tuning_file %s ...\n", options->output,
           options->output);
    return true;
}

static bool report(struct info *info, const struct gpucoll_config *config, const struct tune_shared *shared,
                   const struct tune_options *options, double seconds_taken)
{
    struct gpucoll_tuning fitted;
    struct gpucoll_model before;
    (void)info_model(info, shared->gpu, shared->samples[0].input.whole_lines, &before);
    if (!tune_fit(shared->samples, shared->count, config, &before, &fitted)) {
        fprintf(stderr, "gpucoll_info: --tune: no memory for the fit\n");
        return false;
    }
    int close = print_samples(shared, config, &before, &fitted.model);
    print_constants(&before, &fitted);
    print_choices(shared, config, &fitted.model);
    printf("\n%u ranks on %s, %.0f s: %d of %d predictions are within %d %% of the time that was measured\n",
           options->ranks, shared->gpu, seconds_taken, close, shared->count, (int)CLOSE_PERCENT);
    return save(shared, options, &fitted);
}

static bool tune(struct info *info, struct tune_shared *shared, const struct tune_options *options, bool host)
{
    /* The ranks set what is forced; the file's constants are those to begin from. */
    struct gpucoll_config config = info->config;
    config.tuning_file = "";
    config.channels = 0;
    config.early = false; /* so that all constants are in each time */
    const uint64_t begin = gpucoll_now_ns();
    if (!tune_run_ranks(shared, options, host, &config, &info->log) || shared->count == 0) {
        fprintf(stderr, "gpucoll_info: --tune: %s\n",
                atomic_load(&shared->failed) ? shared->reason : "no algorithm can run here");
        return false;
    }
    return report(info, &config, shared, options, (double)(gpucoll_now_ns() - begin) / 1e9);
}

/* Before anything is measured: that it cannot be written is not to be found out half a minute later. */
static bool open_output(struct tune_options *options)
{
    const int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    int file = open(options->output, flags | O_EXCL, 0666);
    options->created = file >= 0;
    if (file < 0 && errno == EEXIST) {
        file = open(options->output, flags, 0666);
    }
    options->file = file >= 0 ? fdopen(file, "w") : NULL;
    return options->file != NULL || cannot_write(options);
}

/* A file that stays empty is left only where there was one. */
static bool close_output(struct tune_options *options, bool fine)
{
    if (fclose(options->file) != 0 && fine) {
        fine = cannot_write(options);
    }
    if (!fine && options->created) {
        unlink(options->output);
    }
    return fine;
}

static bool measure(struct info *info, struct tune_options *options)
{
    const bool host = strcmp(info->config.accelerator, "host") == 0;
    if (!complete(options, host)) {
        return false;
    }
    struct tune_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "gpucoll_info: --tune: no memory to share between the ranks: %s\n", strerror(errno));
        return false;
    }
    bool fine = tune(info, shared, options, host);
    munmap(shared, sizeof *shared);
    return fine;
}

int info_tune_count(char **argv)
{
    struct tune_options scratch;
    return parse(argv, &scratch);
}

int info_tune(struct info *info, char **argv)
{
    struct tune_options options = {.seconds = default_seconds};
    (void)parse(argv, &options);
    if (options.output != NULL && !open_output(&options)) {
        return 1;
    }
    bool fine = measure(info, &options);
    if (options.output != NULL) {
        fine = close_output(&options, fine);
    }
    return !fine;
}
