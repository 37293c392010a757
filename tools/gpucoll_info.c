#include "tools/gpucoll_info.h"

#include <errno.h>
#include <gpucoll_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tools/info_query.h"

static const struct section {
    const char *name;
    const char *title;
    const char *help;
    bool settings; /* its words go by parameters; --parameters marks those not accepted itself */
    bool (*print)(struct info *info);
} sections[] = {
    {"build", "Build", "version and what was built in", false, info_build},
    {"accelerators", "Accelerators", "what can hold the buffers, and whether it is here", true,
     info_accelerators},
    {"gpus", "GPUs", "the GPUs that this process sees, and whether they reach each other", false, info_gpus},
    {"topology", "Topology", "sockets, NUMA nodes, GPUs, NICs and the links between them", true,
     info_topology},
    {"transports", "Transports", "how bytes get from one GPU to another", true, info_transports},
    {"network", "Network", "what carries data between hosts, and by which devices", true, info_network},
    {"algorithms", "Algorithms", "how each collective can be run", false, info_algorithms},
    {"constants", "Constants", "what the cost model predicts with", true, info_constants},
    {"parameters", "Parameters", "what can be set, with defaults and present values", false, info_parameters},
};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

static void print_option(const char *name, const char *help)
{
    printf("  --%-20s %s\n", name, help);
}

static void more(const char *help)
{
    printf("  %-22s %s\n", "", help);
}

static int show_help(struct info *info, char **argv)
{
    (void)info;
    (void)argv;
    printf(
        "Usage: gpucoll_info [OPTION]...\n"
        "Shows what gpucoll is, finds, and would choose on this machine. Without options: all sections.\n\n");
    for (int i = 0; i < SECTIONS; i++) {
        print_option(sections[i].name, sections[i].help);
    }
    print_option("topology FILE", "the machine that FILE describes, also for the other options");
    print_option("topology-xml FILE", "writes the topology to FILE as XML (\"-\": standard output)");
    print_option("explain COLL SIZE", "what the selector would take for one size, and why:");
    more("--explain allreduce 4M [--ranks N] [--peer-access yes|no]");
    print_option("select QUERY", "the same for a team and a call that QUERY describes, such as");
    more("coll=allreduce,ranks=4,bytes=64K (without bytes: over all sizes). Its keys:");
    info_query_print_keys(25);
    print_option("tune", "measures the constants of the cost model on this machine, in about half a minute");
    more("[--output FILE] [--ranks N] [--max SIZE] [--seconds S]");
    print_option("markdown", "the parameters as docs/parameters.md");
    print_option("collectives", "what runs natively, as docs/collectives.md");
    print_option("version", "the version alone");
    printf("\nParameters are taken from the environment (OMPI_MCA_coll_gpucoll_NAME). What Open MPI itself "
           "sees, its files and\n"
           "command line included: ompi_info --param coll gpucoll --level 9\n");
    return 0;
}

static bool print_section(struct info *info, const struct section *section)
{
    printf("%s\n", section->title);
    bool fine = section->print(info);
    printf("\n");
    return fine;
}

static const struct section *find_section(const char *option)
{
    for (int i = 0; i < SECTIONS; i++) {
        if (strncmp(option, "--", 2) == 0 && strcmp(option + 2, sections[i].name) == 0) {
            return &sections[i];
        }
    }
    return NULL;
}

bool info_names_topology(char **argv)
{
    return strcmp(argv[0], "--topology") == 0 && argv[1] && argv[1][0] != '-';
}

static int show_version(struct info *info, char **argv)
{
    (void)info;
    (void)argv;
    printf("%s\n", PACKAGE_VERSION);
    return 0;
}

static int show_markdown(struct info *info, char **argv)
{
    (void)info;
    (void)argv;
    info_parameters_markdown();
    return 0;
}

static int show_collectives(struct info *info, char **argv)
{
    (void)info;
    (void)argv;
    info_collectives_markdown();
    return 0;
}

static int count_xml(char **argv)
{
    const bool given = argv[1] != NULL && strncmp(argv[1], "--", 2) != 0;
    if (!given) {
        fprintf(stderr, "gpucoll_info: --topology-xml lacks its value, a file or \"-\"\n");
    }
    return given ? 2 : 0;
}

static int write_xml(struct info *info, char **argv)
{
    return !info_topology_xml(info, argv[1]);
}

/* All that is no section. */
static const struct option {
    const char *name;
    bool settings;             /* as of sections */
    int (*count)(char **argv); /* its arguments, as in gpucoll_info.h; NULL: it has none */
    int (*run)(struct info *info, char **argv);
} options[] = {
    {"--help", false, NULL, show_help},
    {"--version", false, NULL, show_version},
    {"--markdown", false, NULL, show_markdown},
    {"--collectives", false, NULL, show_collectives},
    {"--topology-xml", true, count_xml, write_xml},
    {"--explain", true, info_explain_count, info_explain},
    {"--select", true, info_select_count, info_select},
    {"--tune", true, info_tune_count, info_tune},
};

/* Its name may end with "=VALUE". */
static const struct option *find_option(const char *text)
{
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const size_t length = strlen(options[i].name);
        const bool joined = options[i].run == info_select && text[length] == '=';
        if (strncmp(text, options[i].name, length) == 0 && (text[length] == '\0' || joined)) {
            return &options[i];
        }
    }
    return NULL;
}

/* How many arguments one option has, itself included; 0 if it is not understood. Nothing is answered yet. */
static int check_option(char **argv, bool *settings)
{
    const struct section *section = find_section(argv[0]);
    const struct option *option = find_option(argv[0]);
    if (section) {
        *settings |= section->settings;
        return info_names_topology(argv) ? 2 : 1;
    }
    if (option) {
        *settings |= option->settings;
        return option->count ? option->count(argv) : 1;
    }
    fprintf(stderr, "gpucoll_info: %s: no such option; --help lists them\n", argv[0]);
    return 0;
}

/* 0 fine, 1 something is wrong. */
static int answer(struct info *info, char **argv)
{
    const struct section *section = find_section(argv[0]);
    return section ? !print_section(info, section) : find_option(argv[0])->run(info, argv);
}

/* Tuning forks, which a process that has started the driver for another answer must not. */
static bool comes_first(const char *text)
{
    const struct option *option = find_option(text);
    return option != NULL && option->run == info_tune;
}

void info_print_wrapped_on(const char *text, int indent, int width)
{
    int before = 0;
    while (*text) {
        size_t room = (size_t)(width - indent);
        size_t length = strlen(text);
        if (length > room) {
            length = room;
            while (length > 0 && text[length] != ' ') {
                length--;
            }
            length = length ? length : strcspn(text, " ");
        }
        printf("%*s%.*s\n", before, "", (int)length, text);
        text += length;
        text += strspn(text, " ");
        before = indent;
    }
}

void info_print_wrapped(const char *text, int indent, int width)
{
    printf("%*s", *text ? indent : 0, "");
    info_print_wrapped_on(text, indent, width);
}

/* What was answered, has it been written? */
static int written(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return status;
    }
    fprintf(stderr, "gpucoll_info: writing the answer: %s\n", strerror(errno));
    return status ? status : 1;
}

int main(int argc, char **argv)
{
    struct info info = {.tuned = false};
    bool settings = argc < 2;
    int status = 0;
    info_messages_open(&info);
    gpucoll_config_init(&info.config);
    for (int i = 1, count; i < argc; i += count) {
        count = check_option(&argv[i], &settings);
        if (count == 0) {
            return 2;
        }
    }
    info_read_environment(&info);
    if (settings) {
        info_say_unaccepted(&info);
    }
    for (int i = 1; i < argc; i++) { /* wherever it stands, it is for all options */
        if (info_names_topology(&argv[i])) {
            info.config.topology_file = argv[i + 1];
            info.topology_option = true;
        }
    }
    for (int i = 0; argc < 2 && i < SECTIONS; i++) {
        status |= !print_section(&info, &sections[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 1; i < argc; i += check_option(&argv[i], &settings)) {
            status |= comes_first(argv[i]) == (pass == 0) ? answer(&info, &argv[i]) : 0;
        }
    }
    return written(status);
}
