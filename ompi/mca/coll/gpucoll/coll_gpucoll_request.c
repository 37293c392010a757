#include "coll_gpucoll_request.h"
#include <pthread.h>
#include "coll_gpucoll_messages.h"
#include "coll_gpucoll_operator.h"
#include "coll_gpucoll_sequence.h"
#include "coll_gpucoll_watch.h"
#include "core/base/clock.h"
#include "ompi/runtime/mpiruntime.h"

static struct {
    pthread_mutex_t lock;
    int depth; /* of its recursion */
    struct gpucoll_outer *active;
    struct gpucoll_outer **end;
    unsigned pass;
    unsigned long count;           /* of those active */
    unsigned begun;                /* since the latest pass */
    bool registered;               /* with opal_progress: only while there is something to do */
    bool net_registered;           /* since there is a network between hosts */
    struct gpucoll_outer *dropped; /* to be freed when the lock is left */
    struct gpucoll_outer *failed;  /* freed, but for their communicators, the oldest first */
    bool finalizing;               /* no communicator is kept any more */
    struct gpucoll_outer
        *unused; /* the MPI layer looks into a request after freeing it: the memory must stay */
} requests;

/* Between two looks at the clock: some milliseconds of a thread that waits. */
static const unsigned passes_per_watch = 4096;

static int start(size_t count, ompi_request_t **list);
static int free_request(ompi_request_t **request);

static int cancel(ompi_request_t *request, int flag)
{
    (void)request;
    (void)flag;
    return MPI_ERR_REQUEST;
}

static void construct(struct gpucoll_outer *outer)
{
    ompi_request_t *request = &outer->super.super;
    request->req_type = OMPI_REQUEST_COLL;
    request->req_status._cancelled = 0;
    request->req_start = start;
    request->req_free = free_request;
    request->req_cancel = cancel;
}

OBJ_CLASS_INSTANCE(gpucoll_outer, ompi_coll_base_nbc_request_t, construct, NULL);

/* Once more where MPI is initialised again, by a session: nothing is left of the life before. */
void gpucoll_requests_open(void)
{
    pthread_mutexattr_t recursive;
    memset(&requests, 0, sizeof requests);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&requests.lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
    requests.end = &requests.active;
}

static void for_each_region(struct gpucoll_call *call, void (*drop)(struct gpucoll_region *region))
{
    drop(&call->send.in);
    drop(&call->send.out);
    drop(&call->recv.in);
    drop(&call->recv.out);
}

/* The MPI layer calls the error handler of a failed request's communicator after it has freed the request, whose reference may be the last. */
static const uint64_t failed_stay_ns = 1000000000u;

static void put_back(struct gpucoll_outer *outer)
{
    ompi_communicator_t *comm = outer->comm;
    outer->next = requests.unused;
    requests.unused = outer;
    OBJ_RELEASE(comm);
}

static void put_back_failed(bool all)
{
    const uint64_t now = gpucoll_now_ns();
    while (requests.failed != NULL && (all || now - requests.failed->freed_ns >= failed_stay_ns)) {
        struct gpucoll_outer *outer = requests.failed;
        requests.failed = outer->next;
        put_back(outer);
    }
}

static void keep_failed(struct gpucoll_outer *outer)
{
    struct gpucoll_outer **end = &requests.failed;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    outer->freed_ns = gpucoll_now_ns();
    outer->next = NULL;
    *end = outer;
}

static void release(struct gpucoll_outer *outer)
{
    if (outer->later.persistent && outer->sequence != NULL) {
        gpucoll_sequence_close(outer->sequence);
        free(outer->sequence);
    }
    gpucoll_stage_free(&outer->call);
    if (outer->inner != NULL) {
        ompi_request_free(&outer->inner);
    }
    for_each_region(&outer->call, gpucoll_region_drop);
    if (outer->later.arguments.op != NULL) {
        gpucoll_operator_drop(outer->later.arguments.op);
    }
    if (outer->later.arguments.info != NULL) {
        OBJ_RELEASE(outer->later.arguments.info);
    }
    const bool failed = outer->super.super.req_status.MPI_ERROR != MPI_SUCCESS;
    OMPI_REQUEST_FINI(&outer->super.super);
    if (failed && !requests.finalizing) {
        keep_failed(outer);
    } else {
        put_back(outer);
    }
}

void gpucoll_enter(void)
{
    pthread_mutex_lock(&requests.lock);
    requests.depth++;
}

void gpucoll_leave(void)
{
    while (requests.depth == 1 && requests.dropped != NULL) {
        struct gpucoll_outer *outer = requests.dropped;
        requests.dropped = outer->next;
        release(outer);
    }
    if (requests.depth == 1 && requests.failed != NULL && !requests.finalizing) {
        put_back_failed(false);
    }
    requests.depth--;
    pthread_mutex_unlock(&requests.lock);
}

void gpucoll_outer_drop(struct gpucoll_outer *outer)
{
    outer->next = requests.dropped;
    requests.dropped = outer;
}

void gpucoll_outer_drop_if_freed(struct gpucoll_outer *outer)
{
    bool connecting = outer->later.persistent && outer->sequence != NULL &&
                      outer->sequence->state == GPUCOLL_NATIVE_CONNECTING;
    if (outer->freed && !outer->active && !outer->in_order && !connecting) {
        outer->freed = false;
        gpucoll_outer_drop(outer);
    }
}

struct gpucoll_outer *gpucoll_outer_new(gpucoll_module *self, const struct gpucoll_later *later)
{
    /* For as long as the request lives: Open MPI itself keeps the application's for a nonblocking call only. */
    ompi_op_t *op = later->arguments.op;
    if (op != NULL) {
        op = gpucoll_operator_take(later->call->name, op, later->arguments.dtype);
        if (op == NULL) {
            return NULL;
        }
    }
    struct gpucoll_outer *outer = requests.unused;
    if (outer != NULL) {
        requests.unused = outer->next;
    } else {
        outer = OBJ_NEW(gpucoll_outer);
    }
    if (outer == NULL) {
        if (op != NULL) {
            gpucoll_operator_drop(op);
        }
        return NULL;
    }
    ompi_request_t *request = &outer->super.super;
    OMPI_REQUEST_INIT(request, later->persistent);
    request->req_free = free_request; /* the MPI layer replaces it in some persistent requests */
    request->req_mpi_object.comm = self->comm;
    request->req_status.MPI_ERROR = MPI_SUCCESS;
    memset((char *)outer + sizeof outer->super, 0, sizeof *outer - sizeof outer->super);
    outer->module = self;
    outer->number = ++self->later_calls;
    outer->comm = self->comm;
    OBJ_RETAIN(self->comm); /* MPI_Comm_free may come before the end */
    outer->later = *later;
    outer->call = *later->call;
    outer->later.call = &outer->call;
    outer->later.arguments.op = op;
    if (outer->later.arguments.info != NULL) {
        OBJ_RETAIN(
            outer->later.arguments.info); /* MPI_Info_free may come before the next component is asked */
    }
    return outer;
}

/* After this the request may be gone: its waiter frees it. */
static void complete(struct gpucoll_outer *outer)
{
    outer->active = false;
    ompi_request_complete(&outer->super.super, true);
    gpucoll_outer_drop_if_freed(outer);
}

/* A pass looks at the oldest and at some more, others each time: of thousands that are under way few can move on, most often the oldest, and to look at all
 * would make each pass as long as there are requests. */
enum { OLDEST = 64, MORE = 192 };

/* Those that have ended, in order. */
struct ended {
    struct gpucoll_outer *first;
    struct gpucoll_outer **end;
};

static void take_out(struct gpucoll_outer **link)
{
    struct gpucoll_outer *outer = *link;
    *link = outer->next;
    if (outer->next == NULL) {
        requests.end = link;
    }
    outer->next = NULL;
}

/* True if the request at `link` has ended, and is no more there. */
static bool advance(struct gpucoll_outer **link, struct ended *ended)
{
    struct gpucoll_outer *outer = *link;
    if (!gpucoll_later_advance(outer, requests.pass)) {
        return false;
    }
    take_out(link);
    requests.count--;
    *ended->end = outer;
    ended->end = &outer->next;
    return true;
}

static void append(struct gpucoll_outer *outer)
{
    *requests.end = outer;
    requests.end = &outer->next;
}

static struct gpucoll_outer *advance_some(void)
{
    struct ended ended = {.first = NULL, .end = &ended.first};
    struct gpucoll_outer **link = &requests.active;
    const struct gpucoll_outer *moved = NULL; /* the first that was put behind the others */
    requests.pass++;
    requests.begun = 0;
    for (int i = 0; i < OLDEST && *link != NULL; i++) {
        if (!advance(link, &ended)) {
            link = &(*link)->next;
        }
    }
    for (int i = 0; i < MORE && *link != moved; i++) {
        struct gpucoll_outer *outer = *link;
        if (!advance(link, &ended)) {
            take_out(link);
            append(outer);
            moved = moved != NULL ? moved : outer;
        }
    }
    return ended.first;
}

bool gpucoll_requests_crowd(void)
{
    const unsigned long many = 1024;
    return requests.depth == 1 && (requests.begun >= OLDEST || requests.count >= many);
}

static int progress(void)
{
    if (pthread_mutex_trylock(&requests.lock) != 0) {
        return 0; /* another thread is at it */
    }
    if (requests.depth > 0) { /* the next component's function, called from here, turns progress itself */
        pthread_mutex_unlock(&requests.lock);
        return 0;
    }
    requests.depth = 1;
    gpucoll_messages_show();
    if (ompi_mpi_state != OMPI_MPI_STATE_INIT_STARTED) {
        /* Communicators that MPI_Init makes are not to send messages before it ends. */
        gpucoll_sequences_progress();
    }
    struct gpucoll_outer *ended = advance_some();
    if (requests.pass % passes_per_watch == 0) {
        gpucoll_watch_waits(requests.active);
    }
    if (requests.active == NULL && !gpucoll_sequences_pending() && requests.registered) {
        requests.registered = false;
        opal_progress_unregister(progress);
    }
    int events = 0;
    while (ended != NULL) {
        struct gpucoll_outer *outer = ended;
        ended = outer->next;
        complete(outer);
        events++;
    }
    gpucoll_leave();
    return events;
}

void gpucoll_expect_progress(void)
{
    if (!requests.registered) {
        requests.registered = true;
        opal_progress_register(progress);
    }
}

/* Other ranks may wait for the end of a message of a call that is complete here, while this one waits for them in MPI. */
static int turn_net(void)
{
    return gpucoll_context_turn_net(mca_coll_gpucoll_component.context);
}

void gpucoll_expect_net(void)
{
    if (!requests.net_registered && gpucoll_context_has_net(mca_coll_gpucoll_component.context)) {
        requests.net_registered = true;
        opal_progress_register_lp(turn_net);
    }
}

void gpucoll_outer_activate(struct gpucoll_outer *outer)
{
    outer->super.super.req_state = OMPI_REQUEST_ACTIVE;
    outer->active = true;
    outer->waiting = (struct gpucoll_waiting){0};
    outer->next = NULL;
    append(outer);
    requests.count++;
    requests.begun++;
    gpucoll_expect_progress();
}

void gpucoll_requests_finalize(bool communicators)
{
    if (communicators) {
        put_back_failed(true);
    }
    requests.finalizing = true;
}

static void free_all(struct gpucoll_outer *first)
{
    while (first != NULL) {
        struct gpucoll_outer *outer = first;
        first = outer->next;
        OBJ_RELEASE(outer);
    }
}

void gpucoll_requests_close(void)
{
    if (requests.registered) {
        opal_progress_unregister(progress);
        requests.registered = false;
    }
    if (requests.net_registered) {
        opal_progress_unregister(turn_net);
        requests.net_registered = false;
    }
    gpucoll_messages_show();
    /* Requests that the application lost are still with the next component: their memory is left alone. */
    free_all(requests.unused);
    free_all(requests.failed); /* communicators are gone by now */
    pthread_mutex_destroy(&requests.lock);
}

/* What fails here fails in the status: MPI_Startall drops what this returns, and the requests behind are to be started all the same. */
static int start(size_t count, ompi_request_t **list)
{
    int rc = OMPI_SUCCESS;
    gpucoll_enter();
    for (size_t i = 0; i < count && rc == OMPI_SUCCESS; i++) {
        struct gpucoll_outer *outer = (struct gpucoll_outer *)list[i];
        if (outer->active) { /* an error of the application's */
            rc = MPI_ERR_REQUEST;
            break;
        }
        outer->super.super.req_complete = REQUEST_PENDING;
        outer->super.super.req_status.MPI_ERROR = MPI_SUCCESS;
        gpucoll_later_start(outer);
        gpucoll_outer_activate(outer);
    }
    gpucoll_leave();
    return rc;
}

static int free_request(ompi_request_t **request)
{
    struct gpucoll_outer *outer = (struct gpucoll_outer *)*request;
    gpucoll_enter();
    outer->freed = true;
    gpucoll_outer_drop_if_freed(outer);
    gpucoll_leave();
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}
