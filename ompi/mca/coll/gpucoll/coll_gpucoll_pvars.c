/*
 * Performance variables that are sums over the table of statistics. Each is an array, by collective or by plan; while no
 * handle of one exists, and no summary is wanted, nothing is counted for them.
 */
#include "coll_gpucoll_observe.h"
#include "core/plan/algorithm.h"

enum value { CALLS, BYTES, NATIVE, STAGED, PASSED, WAITING, RUNNING };

struct row {
    const char *name;
    const char *help;
    enum value value;
    bool by_plan; /* else by collective */
    int class;
    mca_base_var_type_t type;
};

#define COUNTER MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG
#define AGGREGATE MCA_BASE_PVAR_CLASS_AGGREGATE, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG
#define SECONDS MCA_BASE_PVAR_CLASS_TIMER, MCA_BASE_VAR_TYPE_DOUBLE
static const struct row rows[] = {
    {"collective_calls", "Calls, by collective", CALLS, false, COUNTER},
    {"collective_bytes", "Bytes of the longest part that a rank sends another, by collective", BYTES, false,
     AGGREGATE},
    {"collective_native_calls", "Calls that ran on gpucoll's engine, by collective", NATIVE, false, COUNTER},
    {"collective_staged_calls", "Calls that ran on host copies, by collective", STAGED, false, COUNTER},
    {"collective_passed_calls", "Calls on host memory that went to the next component, by collective", PASSED,
     false, COUNTER},
    {"collective_waiting",
     "Seconds from this rank's call until the last rank had arrived, in native calls, by collective", WAITING,
     false, SECONDS},
    {"collective_running",
     "Seconds in calls once all ranks had arrived; of staged and passed calls all of their time, by "
     "collective",
     RUNNING, false, SECONDS},
    {"plan_calls", "Native calls, by algorithm and protocol", NATIVE, true, COUNTER},
};

static struct gpucoll_stats *observed;

static int plan_count(void)
{
    int count = 0;
    while (gpucoll_algorithm_row(count) != NULL) {
        count++;
    }
    return count;
}

static double value_of(const struct gpucoll_stats_entry *entry, enum value value)
{
    switch (value) {
    case CALLS:
        return (double)entry->calls;
    case BYTES:
        return (double)entry->bytes;
    case NATIVE:
    case STAGED:
    case PASSED:
        return entry->key.way == (uint8_t)(value - NATIVE) ? (double)entry->calls : 0;
    case WAITING:
        return entry->waiting_us / 1e6;
    case RUNNING:
        return entry->running_us / 1e6;
    }
    return 0;
}
_Static_assert(STAGED - NATIVE == GPUCOLL_WAY_STAGED && PASSED - NATIVE == GPUCOLL_WAY_PASSED,
               "the ways in their order");

static int length_of(const struct row *row)
{
    return row->by_plan ? plan_count() : GPUCOLL_OBSERVED_COUNT;
}

static int get_sums(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void)object;
    const struct row *row = pvar->ctx;
    const int length = length_of(row);
    double sums[UINT8_MAX + 1] = {0};
    for (int i = 0; i < GPUCOLL_STATS_ROWS; i++) {
        struct gpucoll_stats_entry entry;
        if (gpucoll_stats_read(observed, i, &entry)) {
            sums[row->by_plan ? entry.key.detail : entry.key.coll] += value_of(&entry, row->value);
        }
    }
    for (int i = 0; i < length; i++) {
        if (row->type == MCA_BASE_VAR_TYPE_DOUBLE) {
            ((double *)value)[i] = sums[i];
        } else {
            ((unsigned long long *)value)[i] = (unsigned long long)sums[i];
        }
    }
    return OPAL_SUCCESS;
}

static int notify(mca_base_pvar_t *pvar, mca_base_pvar_event_t event, void *object, int *count)
{
    (void)object;
    if (event == MCA_BASE_PVAR_HANDLE_BIND) {
        gpucoll_stats_start(observed);
        *count = length_of(pvar->ctx);
    }
    return OPAL_SUCCESS;
}

/* The plan of the latest call: 0 no call yet, then staged and passed, then the algorithms in the order of their table. */
enum { STATE_NONE, STATE_COPY, STATE_STAGED, STATE_PASSED, STATE_PLANS };
static const struct row latest_plans = {.name = "collective_plan",
                                        .help = "Which way the latest call went, by collective"};

static int get_plans(const mca_base_pvar_t *pvar, void *value, void *object)
{
    (void)pvar;
    (void)object;
    for (int i = 0; i < GPUCOLL_OBSERVED_COUNT; i++) {
        uint16_t latest = __atomic_load_n(&observed->latest[i], __ATOMIC_RELAXED);
        int way = (latest >> 8) - 1;
        int detail = latest & 0xff;
        ((int *)value)[i] = latest == 0                     ? STATE_NONE
                            : way == GPUCOLL_WAY_STAGED     ? STATE_STAGED
                            : way == GPUCOLL_WAY_PASSED     ? STATE_PASSED
                            : detail == GPUCOLL_DETAIL_COPY ? STATE_COPY
                                                            : STATE_PLANS + detail;
    }
    return OPAL_SUCCESS;
}

/* "Calls, by collective: 0 allreduce, 1 allgather, ..." */
static void describe(const struct row *row, char *text, size_t size)
{
    const int length = length_of(row);
    size_t used = (size_t)snprintf(text, size, "%s", row->help);
    for (int i = 0; i < length && used < size; i++) {
        char plan[48];
        gpucoll_stats_way(GPUCOLL_WAY_NATIVE, (uint8_t)i, plan, sizeof plan);
        used += (size_t)snprintf(text + used, size - used, "%s %d %s", i == 0 ? ":" : ",", i,
                                 row->by_plan ? plan : gpucoll_observed_names()[i]);
    }
}

/* "; values: 0 none, ...": in words, since ompi_info of Open MPI 4.1 does not survive a variable with an enumeration. */
static void describe_states(char *text, size_t size)
{
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, size - used,
                             "; values: %d none, %d copy, %d staged, %d passed, %d board, %d local, %d hosts",
                             STATE_NONE, STATE_COPY, STATE_STAGED, STATE_PASSED,
                             STATE_PLANS + GPUCOLL_DETAIL_BOARD, STATE_PLANS + GPUCOLL_DETAIL_LOCAL,
                             STATE_PLANS + GPUCOLL_DETAIL_HOSTS);
    for (int i = 0; i < plan_count() && used < size; i++) {
        char plan[48];
        gpucoll_stats_way(GPUCOLL_WAY_NATIVE, (uint8_t)i, plan, sizeof plan);
        used += (size_t)snprintf(text + used, size - used, ", %d %s", STATE_PLANS + i, plan);
    }
}

void gpucoll_observe_register(mca_base_component_t *component, struct gpucoll_stats *stats)
{
    const mca_base_pvar_flag_t flags = MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS;
    char help[2048];
    observed = stats;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        describe(row, help, sizeof help);
        mca_base_component_pvar_register(component, row->name, help, OPAL_INFO_LVL_4, row->class, row->type,
                                         NULL, MPI_T_BIND_NO_OBJECT, flags, get_sums, NULL, notify,
                                         (void *)row);
    }
    describe(&latest_plans, help, sizeof help);
    describe_states(help, sizeof help);
    mca_base_component_pvar_register(
        component, latest_plans.name, help, OPAL_INFO_LVL_4, MCA_BASE_PVAR_CLASS_STATE, MCA_BASE_VAR_TYPE_INT,
        NULL, MPI_T_BIND_NO_OBJECT, flags, get_plans, NULL, notify, (void *)&latest_plans);
}
