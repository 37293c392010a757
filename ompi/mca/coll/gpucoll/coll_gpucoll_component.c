/*
 * The component: parameters and counters, and what lives as long as the process.
 */
#include "coll_gpucoll.h"
#include "coll_gpucoll_layout.h"
#include "coll_gpucoll_messages.h"
#include "coll_gpucoll_observe.h"
#include "coll_gpucoll_pool.h"
#include "coll_gpucoll_request.h"
#include "coll_gpucoll_selection.h"
#include "core/plan/forced.h"
#include "opal/mca/base/mca_base_vari.h"
#include "opal/runtime/opal_progress.h"

static int component_register(void);
static int component_open(void);
static int component_close(void);
static int init_query(bool enable_progress_threads, bool enable_mpi_threads);

struct gpucoll_component mca_coll_gpucoll_component = {
    .super =
        {
            .collm_version =
                {
                    GPUCOLL_COLL_BASE_VERSION,
                    .mca_component_name = "gpucoll",
                    .mca_register_component_params = component_register,
                    .mca_open_component = component_open,
                    .mca_close_component = component_close,
                },
            .collm_data = {MCA_BASE_METADATA_PARAM_NONE},
            .collm_init_query = init_query,
            .collm_comm_query = gpucoll_module_query,
        },
};

static struct gpucoll_component *const component = &mca_coll_gpucoll_component;

static void *field_of(struct gpucoll_config *config, const struct gpucoll_config_row *row)
{
    return (char *)config + row->offset;
}

static void register_parameter(const struct gpucoll_config_row *row)
{
    static const mca_base_var_type_t types[] = {
        [GPUCOLL_CONFIG_BOOL] = MCA_BASE_VAR_TYPE_BOOL,
        [GPUCOLL_CONFIG_INT] = MCA_BASE_VAR_TYPE_INT,
        [GPUCOLL_CONFIG_SIZE] = MCA_BASE_VAR_TYPE_SIZE_T,
        [GPUCOLL_CONFIG_STRING] = MCA_BASE_VAR_TYPE_STRING,
    };
    char help[1024];
    char names[GPUCOLL_FORCED_VALUES];
    const char *values = gpucoll_forced_values(row, names);
    snprintf(help, sizeof help, "%s%s%s%s", row->help, values != NULL ? " Values: " : "",
             values != NULL ? values : "", values != NULL ? "." : "");
    mca_base_component_var_register(&component->super.collm_version, row->name, help, types[row->type], NULL,
                                    0, 0, (mca_base_var_info_lvl_t)(OPAL_INFO_LVL_1 + row->level - 1),
                                    MCA_BASE_VAR_SCOPE_READONLY, field_of(&component->registered, row));
}

static void register_counter(const char *name, const char *help, int class, void *counter)
{
    mca_base_component_pvar_register(&component->super.collm_version, name, help, OPAL_INFO_LVL_4, class,
                                     MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MPI_T_BIND_NO_OBJECT,
                                     MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, NULL, NULL,
                                     NULL, counter);
}

static void register_counters(struct gpucoll_counters *counters)
{
    register_counter("native_calls", "Calls that ran on gpucoll's engine", MCA_BASE_PVAR_CLASS_COUNTER,
                     &counters->native);
    register_counter("native_bytes", "Bytes of this rank's buffer in calls that ran on gpucoll's engine",
                     MCA_BASE_PVAR_CLASS_AGGREGATE, &counters->native_bytes);
    register_counter("declined_calls", "Calls that the ranks agreed not to run on gpucoll's engine",
                     MCA_BASE_PVAR_CLASS_COUNTER, &counters->declined);
    register_counter("staged_calls", "Calls on device memory that ran on host copies",
                     MCA_BASE_PVAR_CLASS_COUNTER, &counters->staged);
    register_counter("staged_bytes",
                     "Bytes copied from and to device memory for calls that ran on host copies",
                     MCA_BASE_PVAR_CLASS_AGGREGATE, &counters->staged_bytes);
    register_counter("passed_calls",
                     "Calls on host memory passed to the next component, in a process that uses a device",
                     MCA_BASE_PVAR_CLASS_COUNTER, &counters->passed);
    register_counter("teams", "Communicators, and persistent requests, that were made ready for native calls",
                     MCA_BASE_PVAR_CLASS_COUNTER, &component->setups.teams);
    register_counter("links",
                     "Times that the ranks of a communicator connected their GPUs to each other: for each "
                     "communicator once, and again where a rank brings another GPU",
                     MCA_BASE_PVAR_CLASS_COUNTER, &component->setups.links);
    register_counter("early_calls",
                     "Small MPI_Allreduce calls that began before all ranks had been seen to make theirs",
                     MCA_BASE_PVAR_CLASS_COUNTER, &component->stats.early);
}

static int component_register(void)
{
    mca_base_component_t *base = &component->super.collm_version;
    sscanf(GPUCOLL_VERSION, "%d.%d.%d", &base->mca_component_major_version,
           &base->mca_component_minor_version, &base->mca_component_release_version);
    gpucoll_config_init(&component->registered);
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        register_parameter(&gpucoll_config_rows[i]);
    }
    register_counters(&component->counters);
    gpucoll_messages_open(&component->log, component);
    gpucoll_observe_register(base, &component->stats);
    gpucoll_selection_complete();
    return OMPI_SUCCESS;
}

static int component_open(void)
{
    gpucoll_requests_open();
    gpucoll_sequences_open();
    return OMPI_SUCCESS;
}

/* What a parameter was set to, as it stands in the environment, where mpirun puts what its command line has, or in a file of parameters;
 * NULL: nowhere. */
static const char *text_of(const struct gpucoll_config_row *row)
{
    char name[96];
    const mca_base_var_t *var = NULL;
    const int index = mca_base_var_find("ompi", "coll", "gpucoll", row->name);
    if (index < 0 || mca_base_var_get(index, &var) != OPAL_SUCCESS) {
        return NULL;
    }
    switch (var->mbv_source) {
    case MCA_BASE_VAR_SOURCE_COMMAND_LINE:
    case MCA_BASE_VAR_SOURCE_ENV:
        snprintf(name, sizeof name, "OMPI_MCA_coll_gpucoll_%s", row->name);
        return getenv(name);
    case MCA_BASE_VAR_SOURCE_FILE:
    case MCA_BASE_VAR_SOURCE_OVERRIDE:
        return var->mbv_file_value != NULL
                   ? ((const mca_base_var_file_value_t *)var->mbv_file_value)->mbvfv_value
                   : NULL;
    default:
        return NULL;
    }
}

/* Open MPI reads a number as far as it understands it, without a word: "abc" is 0, which for the timeout means for
 * ever, and 1T is 1. So numbers are read from their text. */
static void take_number(const struct gpucoll_config_row *row)
{
    const char *text = text_of(row);
    struct gpucoll_config read = component->config;
    if (text == NULL) {
        return;
    }
    gpucoll_status status = gpucoll_config_set(&read, row->name, text);
    if (status != GPUCOLL_OK) {
        gpucoll_help(&component->log, "bad-parameter", row->name, text, row->values, row->initial);
        status = gpucoll_config_set(&read, row->name, row->initial);
    }
    if (status == GPUCOLL_OK) {
        component->config = read;
    }
}

/* A checked copy: Open MPI frees a parameter's string, which must be its own, before it closes the component.
 */
static bool take_config(void)
{
    component->config = component->registered;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        if (row->type == GPUCOLL_CONFIG_INT || row->type == GPUCOLL_CONFIG_SIZE) {
            take_number(row);
        }
    }
    gpucoll_config_check(&component->config, &component->log);
    (void)gpucoll_forced_check(&component->config, &component->log);
    if (!component->config.enable) {
        /* Not absent: other ranks, where it may be enabled, are to learn that this one takes no part. */
        component->config.accelerator = "none";
    }
    bool complete = true;
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        const struct gpucoll_config_row *row = &gpucoll_config_rows[i];
        if (row->type == GPUCOLL_CONFIG_STRING) {
            char **field = field_of(&component->config, row);
            *field = strdup(*field);
            complete &= *field != NULL;
        }
    }
    return complete;
}

static void drop_config(void)
{
    for (int i = 0; i < gpucoll_config_row_count; i++) {
        if (gpucoll_config_rows[i].type == GPUCOLL_CONFIG_STRING) {
            char **field = field_of(&component->config, &gpucoll_config_rows[i]);
            free(*field);
            *field = NULL;
        }
    }
}

static bool takes_cores(void)
{
    return component->accel != NULL && component->accel->ops->takes_cores;
}

/* With as many ranks as cores a wait in MPI would else keep what it waits for off its core till the end of a time slice. mpirun, which
 * decides it as a rule (mpi_yield_when_idle), knows of no threads. Said in each turn of progress, since Open MPI sets the switch anew
 * whenever MPI, or a session, has been initialised. */
static int yield_when_idle(void)
{
    opal_progress_set_yield_when_idle(true);
    return 0;
}

/* MPI_Init has begun, and this component may take part. */
static int init_query(bool enable_progress_threads, bool enable_mpi_threads)
{
    (void)enable_progress_threads;
    const bool taken = take_config();
    component->log.verbosity = component->config.verbose;
    if (!taken ||
        gpucoll_context_create(&component->config, &component->log, &component->context) != GPUCOLL_OK) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    component->accel = gpucoll_context_accel(component->context);
    if (takes_cores()) {
        opal_progress_register(yield_when_idle);
    }
    gpucoll_context_count_in(component->context, &component->stats);
    gpucoll_context_count_setups_in(component->context, &component->setups);
    gpucoll_context_share_host(component->context, 1 + (uint32_t)opal_process_info.num_local_peers,
                               (uint32_t)opal_process_info.my_local_rank);
    if (enable_mpi_threads) {
        gpucoll_context_expect(component->context, "libnccl.so");
    }
    gpucoll_job_place(&component->rank, &component->ranks);
    gpucoll_summary_open();
    gpucoll_log(&component->log, GPUCOLL_LOG_SETUP, "version %s, accelerator %s", GPUCOLL_VERSION,
                component->accel != NULL ? component->accel->ops->name : "none");
    return OMPI_SUCCESS;
}

static void log_counters(struct gpucoll_counters *counters)
{
    gpucoll_log(&component->log, GPUCOLL_LOG_SETUP,
                "calls: %llu native (%llu bytes), %llu declined, %llu staged (%llu bytes copied), %llu on "
                "host memory",
                counters->native, counters->native_bytes, counters->declined, counters->staged,
                counters->staged_bytes, counters->passed);
}

static int component_close(void)
{
    if (component->context != NULL) {
        log_counters(&component->counters);
        gpucoll_summary_close();
        gpucoll_enter();
        gpucoll_requests_finalize(false);
        gpucoll_sequences_close();
        gpucoll_leave();
    }
    gpucoll_requests_close();
    gpucoll_layouts_clear();
    if (component->accel != NULL) {
        gpucoll_pool_empty(component->accel);
    }
    if (takes_cores()) {
        opal_progress_unregister(yield_when_idle);
    }
    gpucoll_context_destroy(component->context);
    component->context = NULL;
    component->accel = NULL;
    drop_config();
    return OMPI_SUCCESS;
}
