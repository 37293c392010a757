/*
 * The options of kernels_test.
 */
#include <stdlib.h>
#include <string.h>
#include "test/gpu/ranks.h"
#include "test/gpu/tests.h"

static bool kernel_named(const char *name, enum gpucoll_kernel *kernel)
{
    for (int i = 0; i < GPUCOLL_KERNEL_COUNT; i++) {
        if (kernel_names[i] != NULL && strcmp(name, kernel_names[i]) == 0) {
            *kernel = (enum gpucoll_kernel)i;
            return true;
        }
    }
    return false;
}

bool test_options_read(int argc, char **argv, struct test_options *options)
{
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--quick") == 0) {
            options->quick = true;
            continue;
        }
        if (value == NULL) {
            return false;
        }
        if (strcmp(argv[i], "--seed") == 0) {
            options->seed = strtoull(value, NULL, 0);
        } else if (strcmp(argv[i], "--repeat") == 0) {
            options->repeat = atoi(value);
        } else if (strcmp(argv[i], "--ranks") == 0) {
            options->ranks = (uint32_t)strtoul(value, NULL, 0);
        } else if (strcmp(argv[i], "--only") != 0 || !kernel_named(value, &options->only)) {
            return false;
        }
        i++;
    }
    return options->repeat > 0 && options->ranks <= MOST_RANKS;
}
