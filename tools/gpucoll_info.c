#include "tools/gpucoll_info.h"

#include <gpucoll_config.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct section {
    const char *name;
    const char *title;
    const char *help;
    bool (*print)(struct info *info);
} sections[] = {
    {"build", "Build", "version and what was built in", info_build},
    {"accelerators", "Accelerators", "what can hold the buffers, and whether it is here", info_accelerators},
    {"gpus", "GPUs", "the GPUs that this process sees, and whether they reach each other", info_gpus},
    {"topology", "Topology", "sockets, NUMA nodes, GPUs, NICs and the links between them", info_topology},
    {"transports", "Transports", "how bytes get from one GPU to another", info_transports},
    {"network", "Network", "what carries data between hosts, and by which devices", info_network},
    {"algorithms", "Algorithms", "how each collective can be run", info_algorithms},
    {"constants", "Constants", "what the cost model predicts with", info_constants},
    {"parameters", "Parameters", "what can be set, with defaults and present values", info_parameters},
};
enum { SECTIONS = sizeof(sections) / sizeof(sections[0]) };

static void show_help(void)
{
    printf(
        "Usage: gpucoll_info [OPTION]...\n"
        "Shows what gpucoll is, finds, and would choose on this machine. Without options: all sections.\n\n");
    for (int i = 0; i < SECTIONS; i++) {
        printf("  --%-20s %s\n", sections[i].name, sections[i].help);
    }
    printf("  --%-20s %s\n", "topology FILE", "the machine that FILE describes, also for the other options");
    printf("  --%-20s %s\n", "topology-xml FILE",
           "writes the topology to FILE as XML (\"-\": standard output)");
    printf("  --%-20s %s\n", "select QUERY", "what the selector would take, and why; QUERY is such as");
    printf("  %-22s %s\n", "", "coll=allreduce,ranks=4,bytes=64K (without bytes: over all sizes)");
    printf(
        "  %-22s %s\n", "",
        "more keys: op=sum type=float32 shared_gpu=no in_place=no peer_access=yes latency_us=0.6 bandwidth=350 (GB/s)");
    printf("  --%-20s %s\n", "explain COLL SIZE",
           "the same for one size: --explain allreduce 4M [--ranks N] [--peer-access no]");
    printf("  --%-20s %s\n", "tune",
           "measures the constants of the cost model on this machine, in about half a minute");
    printf("  %-22s %s\n", "", "[--output FILE] [--ranks N] [--max SIZE] [--seconds S]");
    printf("  --%-20s %s\n", "markdown", "the parameters as docs/parameters.md");
    printf("  --%-20s %s\n", "collectives", "what runs natively, as docs/collectives.md");
    printf("  --%-20s %s\n", "version", "the version alone");
    printf("\nParameters are taken from the environment (OMPI_MCA_coll_gpucoll_NAME). What Open MPI itself "
           "sees, its files and\n"
           "command line included: ompi_info --param coll gpucoll --level 9\n");
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

/* --topology FILE, rather than --topology alone? */
static bool names_topology(char **argv)
{
    return strcmp(argv[0], "--topology") == 0 && argv[1] && argv[1][0] != '-';
}

/* One option; `*took` says how many arguments it used. 0 fine, 1 something is wrong, 2 not understood. */
static int run_option(struct info *info, char **argv, int *took)
{
    const struct section *section = find_section(argv[0]);
    *took = 1;
    if (names_topology(argv)) {
        *took = 2;
    }
    if (section) {
        return !print_section(info, section);
    }
    if (strcmp(argv[0], "--help") == 0) {
        show_help();
        return 0;
    }
    if (strcmp(argv[0], "--version") == 0) {
        printf("%s\n", PACKAGE_VERSION);
        return 0;
    }
    if (strcmp(argv[0], "--markdown") == 0) {
        info_parameters_markdown();
        return 0;
    }
    if (strcmp(argv[0], "--collectives") == 0) {
        info_collectives_markdown();
        return 0;
    }
    if (strcmp(argv[0], "--topology-xml") == 0 && argv[1]) {
        *took = 2;
        return !info_topology_xml(info, argv[1]);
    }
    if (strcmp(argv[0], "--explain") == 0) {
        return info_explain(info, argv, took);
    }
    if (strcmp(argv[0], "--tune") == 0) {
        return info_tune(info, argv, took);
    }
    const char *query = strncmp(argv[0], "--select=", 9) == 0 ? argv[0] + 9 : NULL;
    if (strcmp(argv[0], "--select") == 0 && argv[1]) {
        query = argv[1];
        *took = 2;
    }
    if (query) {
        return info_select(info, query) ? 0 : 2;
    }
    fprintf(stderr, "gpucoll_info: %s: no such option, or it lacks its value; --help lists them\n", argv[0]);
    return 2;
}

void info_print_wrapped(const char *text, int indent, int width)
{
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
        printf("%*s%.*s\n", indent, "", (int)length, text);
        text += length;
        text += strspn(text, " ");
    }
}

int main(int argc, char **argv)
{
    struct info info;
    int status = 0;
    gpucoll_log_stderr(&info.log, GPUCOLL_LOG_WARN, NULL);
    gpucoll_config_init(&info.config);
    info_read_environment(&info);
    for (int i = 1; i < argc; i++) { /* wherever it stands, it is for all options */
        if (names_topology(&argv[i])) {
            info.config.topology_file = argv[i + 1];
        }
    }
    for (int i = 0; argc < 2 && i < SECTIONS; i++) {
        status |= !print_section(&info, &sections[i]);
    }
    for (int i = 1, took; i < argc && status != 2; i += took) {
        status |= run_option(&info, &argv[i], &took);
    }
    return status;
}
