/*
 * Outer requests. One lock guards the list of active ones and their `active` and `freed`; copies are made
 * outside it, so that threads finish different requests at the same time. The lock is recursive: completing a
 * request may release objects whose destructors come back here.
 */
#include "coll_gpucoll_request.h"
#include <pthread.h>
#include "coll_gpucoll_observe.h"

static struct {
    pthread_mutex_t lock;
    struct gpucoll_outer *active;
    bool registered; /* with opal_progress: only while requests are active */
    struct gpucoll_outer
        *unused; /* the MPI layer looks into a request after freeing it: the memory must stay */
} requests;

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

void gpucoll_requests_open(void)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&requests.lock, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

static bool keep_regions(struct gpucoll_call *call)
{
    return gpucoll_region_keep(&call->send.in) && gpucoll_region_keep(&call->send.out) &&
           gpucoll_region_keep(&call->recv.in) && gpucoll_region_keep(&call->recv.out);
}

static void drop_regions(struct gpucoll_call *call)
{
    gpucoll_region_drop(&call->send.in);
    gpucoll_region_drop(&call->send.out);
    gpucoll_region_drop(&call->recv.in);
    gpucoll_region_drop(&call->recv.out);
}

static struct gpucoll_outer *take_unused(void)
{
    pthread_mutex_lock(&requests.lock);
    struct gpucoll_outer *outer = requests.unused;
    if (outer != NULL) {
        requests.unused = outer->next;
    }
    pthread_mutex_unlock(&requests.lock);
    return outer != NULL ? outer : OBJ_NEW(gpucoll_outer);
}

static struct gpucoll_outer *new_outer(const struct gpucoll_call *call, ompi_communicator_t *comm,
                                       bool persistent)
{
    struct gpucoll_outer *outer = take_unused();
    if (outer == NULL) {
        return NULL;
    }
    OMPI_REQUEST_INIT(&outer->super.super, persistent);
    outer->super.super.req_free = free_request; /* the MPI layer replaces it in some persistent requests */
    outer->super.super.req_mpi_object.comm = comm;
    outer->super.super.req_status.MPI_ERROR = MPI_SUCCESS;
    outer->call = *call;
    outer->inner = NULL;
    outer->next = NULL;
    outer->active = false;
    outer->freed = false;
    return outer;
}

static void release(struct gpucoll_outer *outer)
{
    gpucoll_stage_free(&outer->call);
    drop_regions(&outer->call);
    if (outer->inner != NULL) {
        ompi_request_free(&outer->inner);
        outer->inner = NULL;
    }
    OMPI_REQUEST_FINI(&outer->super.super);
    pthread_mutex_lock(&requests.lock);
    outer->next = requests.unused;
    requests.unused = outer;
    pthread_mutex_unlock(&requests.lock);
}

/* The inner request is complete: takes its result over. Returns the outer one's error code. */
static int finish(struct gpucoll_outer *outer)
{
    ompi_request_t *request = &outer->super.super;
    int rc = outer->inner->req_status.MPI_ERROR;
    if (rc == MPI_SUCCESS) {
        rc = gpucoll_stage_out(&outer->call);
    }
    request->req_status.MPI_ERROR = rc;
    gpucoll_observe_next_done(&outer->call);
    if (request->req_persistent) {
        outer->inner->req_state = OMPI_REQUEST_INACTIVE;
    } else {
        gpucoll_stage_free(&outer->call);
        drop_regions(&outer->call);
        ompi_request_free(&outer->inner);
        outer->inner = NULL;
    }
    return rc;
}

/* After this the request may be gone: its waiter frees it. */
static void complete(struct gpucoll_outer *outer)
{
    pthread_mutex_lock(&requests.lock);
    outer->active = false;
    bool freed = outer->freed;
    ompi_request_complete(&outer->super.super, true);
    if (freed) {
        release(outer);
    }
    pthread_mutex_unlock(&requests.lock);
}

/* Moves what is complete from the active list to one of its own. */
static struct gpucoll_outer *take_completed(void)
{
    struct gpucoll_outer *done = NULL;
    struct gpucoll_outer **link = &requests.active;
    while (*link != NULL) {
        struct gpucoll_outer *outer = *link;
        if (REQUEST_COMPLETE(outer->inner)) {
            *link = outer->next;
            outer->next = done;
            done = outer;
        } else {
            link = &outer->next;
        }
    }
    return done;
}

static int progress(void)
{
    if (pthread_mutex_trylock(&requests.lock) != 0) {
        return 0; /* another thread is at it */
    }
    struct gpucoll_outer *done = take_completed();
    if (requests.active == NULL && requests.registered) {
        requests.registered = false;
        opal_progress_unregister(progress);
    }
    pthread_mutex_unlock(&requests.lock);
    int events = 0;
    while (done != NULL) {
        struct gpucoll_outer *outer = done;
        done = outer->next;
        finish(outer);
        complete(outer);
        events++;
    }
    return events;
}

static void activate(struct gpucoll_outer *outer)
{
    pthread_mutex_lock(&requests.lock);
    outer->super.super.req_state = OMPI_REQUEST_ACTIVE;
    outer->active = true;
    outer->next = requests.active;
    requests.active = outer;
    if (!requests.registered) {
        requests.registered = true;
        opal_progress_register(progress);
    }
    pthread_mutex_unlock(&requests.lock);
}

void gpucoll_requests_close(void)
{
    if (requests.registered) {
        opal_progress_unregister(progress);
        requests.registered = false;
    }
    /* Requests that the application lost are still with the next component: their memory is left alone. */
    while (requests.unused != NULL) {
        struct gpucoll_outer *outer = requests.unused;
        requests.unused = outer->next;
        OBJ_RELEASE(outer);
    }
    pthread_mutex_destroy(&requests.lock);
}

int gpucoll_request_begin(const struct gpucoll_call *described, ompi_communicator_t *comm, bool persistent,
                          struct gpucoll_outer **outer)
{
    struct gpucoll_call call = *described;
    *outer = NULL;
    bool staged = gpucoll_stage_wanted(&call);
    gpucoll_observe_next(&call, staged);
    if (!staged) {
        gpucoll_observe_next_done(&call);
        return OMPI_SUCCESS;
    }
    struct gpucoll_outer *fresh = new_outer(&call, comm, persistent);
    if (fresh == NULL) {
        return MPI_ERR_NO_MEM;
    }
    int rc = keep_regions(&fresh->call) ? gpucoll_stage_alloc(&fresh->call) : MPI_ERR_NO_MEM;
    if (rc == OMPI_SUCCESS && !persistent) {
        rc = gpucoll_stage_in(&fresh->call);
    }
    if (rc != OMPI_SUCCESS) {
        release(fresh);
        return rc;
    }
    *outer = fresh;
    return OMPI_SUCCESS;
}

int gpucoll_request_ready(struct gpucoll_outer *outer, int rc, ompi_request_t **request)
{
    if (rc != OMPI_SUCCESS) {
        release(outer);
        return rc;
    }
    if (outer->super.super.req_persistent) {
        *request = &outer->super.super;
        return OMPI_SUCCESS;
    }
    if (REQUEST_COMPLETE(outer->inner)) { /* on a single rank, for example */
        rc = finish(outer);
        release(outer);
        *request = &ompi_request_empty;
        return rc;
    }
    *request = &outer->super.super;
    activate(outer);
    return OMPI_SUCCESS;
}

static int start_inner(struct gpucoll_outer *outer)
{
    if (outer->inner->req_type == OMPI_REQUEST_NOOP) { /* nothing to do on a single rank: complete as it is */
        outer->inner->req_state = OMPI_REQUEST_ACTIVE;
        return OMPI_SUCCESS;
    }
    return outer->inner->req_start(1, &outer->inner);
}

static int start(size_t count, ompi_request_t **list)
{
    for (size_t i = 0; i < count; i++) {
        struct gpucoll_outer *outer = (struct gpucoll_outer *)list[i];
        gpucoll_observe_next_start(&outer->call);
        int rc = gpucoll_stage_in(&outer->call);
        if (rc == OMPI_SUCCESS) {
            outer->super.super.req_complete = REQUEST_PENDING;
            outer->super.super.req_status.MPI_ERROR = MPI_SUCCESS;
            rc = start_inner(outer);
        }
        if (rc != OMPI_SUCCESS) {
            outer->super.super.req_complete = REQUEST_COMPLETED;
            return rc;
        }
        activate(outer);
    }
    return OMPI_SUCCESS;
}

static int free_request(ompi_request_t **request)
{
    struct gpucoll_outer *outer = (struct gpucoll_outer *)*request;
    pthread_mutex_lock(&requests.lock);
    if (outer->active) {
        outer->freed = true;
    } else {
        release(outer);
    }
    pthread_mutex_unlock(&requests.lock);
    *request = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}
