/*
 * The tuning file: constants of the cost model that replace the built-in ones, as `gpucoll_info --tune` writes them. A line
 * is `name = value unit`, with the names and units of gpucoll_model_constant; `#` begins a comment. What the
 * file leaves out stays as it is built in.
 */
#ifndef GPUCOLL_TUNING_H
#define GPUCOLL_TUNING_H

#include <stdio.h>
#include "core/base/log.h"
#include "core/base/status.h"
#include "core/plan/model.h"

struct gpucoll_tuning {
    struct gpucoll_model model;
    uint32_t set; /* bit i: constant i is in the file */
};

/* Reads the file; an empty path sets nothing. What is wrong is shown by topic "tuning-file" with the line, and then nothing of
 * the file counts. */
gpucoll_status gpucoll_tuning_read(const char *path, const struct gpucoll_log *log,
                                   struct gpucoll_tuning *tuning) GPUCOLL_CHECKED;

/* Replaces the constants that the file sets. */
void gpucoll_tuning_apply(const struct gpucoll_tuning *tuning, struct gpucoll_model *model);

/* Writes the constants that are in `set`, each with its help. */
void gpucoll_tuning_write(FILE *file, const struct gpucoll_tuning *tuning);

#endif
