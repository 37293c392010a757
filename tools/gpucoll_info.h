/*
 * gpucoll_info: what was built, what is found on this machine, what can be set, and what would be chosen. Each section is
 * one function; tools/gpucoll_info.c has the table of them.
 */
#ifndef GPUCOLL_INFO_H
#define GPUCOLL_INFO_H

#include <stdbool.h>
#include <stdint.h>
#include "core/gpucoll.h"
#include "core/plan/model.h"

/* The defaults, with what the environment sets (OMPI_MCA_coll_gpucoll_NAME). Values that are not accepted keep the default. */
struct info {
    struct gpucoll_config config;
    struct gpucoll_log log;
    bool tuned; /* info_model has found constants in the tuning file */
    /* Of info_messages.c. */
    struct gpucoll_log engine; /* what `log` does with everything but topology files */
    bool topology_option;      /* --topology FILE has named the file, not the environment */
    bool topology_said;        /* that it cannot be used */
};

/* Sets `log`: standard error, with the texts of the help file. */
void info_messages_open(struct info *info);

/* Each returns false if it found something wrong, which it has said. */
bool info_build(struct info *info);
bool info_accelerators(struct info *info);
bool info_gpus(struct info *info);
bool info_topology(struct info *info);
bool info_transports(struct info *info);
bool info_network(struct info *info);
bool info_algorithms(struct info *info);
bool info_constants(struct info *info);
bool info_parameters(struct info *info);

/* docs/parameters.md. */
void info_parameters_markdown(void);
/* docs/collectives.md. */
void info_collectives_markdown(void);
/* Sets what the environment has set. A value that is not accepted leaves the default: the listing shows which, and
 * info_say_unaccepted says it on standard error, for what the other options answer by, and names that are no parameter's. */
void info_read_environment(struct info *info);
void info_say_unaccepted(const struct info *info);

/* The GPUs of this machine as the cost model knows them. */
struct info_machine {
    int gpus;
    bool nvlink;      /* between the first two */
    bool shared;      /* by ranks that a query is about */
    bool peer_access; /* between all, as far as is known: a topology file does not say */
    bool bulk;        /* all run kernels in bulk; also where their compute capability is not known */
    char name[96];
};
void info_machine(const struct info *info, struct info_machine *machine);

/* The constants that count for such GPUs: built in, or set by the tuning file. Returns the index of the entry built in. */
int info_model(struct info *info, const char *gpu, bool whole_lines, struct gpucoll_model *model);
void info_print_source(const struct info *info, const struct info_machine *machine, int entry);
/* False: a tuning file is named, but nothing of it counts, which info_model has said. */
bool info_constants_count(const struct info *info);

/* Options with arguments. *_count checks them before anything is answered: how many there are, the option included; 0 if they are not
 * understood, which it has said. Then the other answers: 0 fine, 1 something failed. */
/* --tune [--ranks N] [--max SIZE] [--seconds S] [--output FILE] */
int info_tune_count(char **argv);
int info_tune(struct info *info, char **argv);
/* --explain COLLECTIVE SIZE [--ranks N] [--topology FILE] [--peer-access yes|no] */
int info_explain_count(char **argv);
int info_explain(struct info *info, char **argv);
/* --select QUERY: what the selector would take for "coll=allreduce,ranks=4,bytes=64K"; without bytes, over all sizes. */
int info_select_count(char **argv);
int info_select(struct info *info, char **argv);
/* Is it --topology FILE, rather than --topology alone? */
bool info_names_topology(char **argv);

/* Does coll_gpucoll_topology_file stand in for this machine? Then `links` gets what *nranks ranks on its GPUs have; a number of 0 is
 * set to that of the GPUs of its first host, at least 2. `*local` is how many of the ranks are on the first host. `*fine` is false after
 * an error that has been shown. */
struct gpucoll_topology_links;
bool info_topology_links(const struct info *info, uint32_t *nranks, uint32_t *local,
                         struct gpucoll_topology_links *links, bool *fine);

/* What this machine's GPUs have, with a rank for each. False: it is not known. */
bool info_machine_links(struct gpucoll_topology_links *links);

/* Writes the topology that info_topology prints as XML; "-" is standard output. */
bool info_topology_xml(struct info *info, const char *path);

/* Text broken into lines of at most `width` columns, each behind `indent` spaces. */
void info_print_wrapped(const char *text, int indent, int width);
/* The same behind what stands in the first line already, as wide as the indent. */
void info_print_wrapped_on(const char *text, int indent, int width);

#endif
