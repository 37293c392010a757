#include "coll_gpucoll_meeting.h"
#include "ompi/mca/pml/pml.h"

/* Not the application's, whose tags are not negative, nor of any collective or other use in Open MPI 4.1 and
 * 5.0 (ompi/mca/coll/base/coll_tags.h begins at -7). */
static const int meeting_tag = -6;

static int post_receive(struct gpucoll_meeting *meeting, void *to, size_t bytes, int from)
{
    ompi_request_t **request = &meeting->requests[meeting->count];
    int rc = MCA_PML_CALL(irecv(to, bytes, MPI_BYTE, from, meeting_tag, meeting->comm, request));
    meeting->count += rc == OMPI_SUCCESS;
    return rc;
}

static int post_send(struct gpucoll_meeting *meeting, const void *from, size_t bytes, int to)
{
    ompi_request_t **request = &meeting->requests[meeting->count];
    int rc = MCA_PML_CALL(
        isend(from, bytes, MPI_BYTE, to, meeting_tag, MCA_PML_BASE_SEND_STANDARD, meeting->comm, request));
    meeting->count += rc == OMPI_SUCCESS;
    return rc;
}

/* Blocks that the present step brings: as many as there are, unless fewer are missing. */
static int step_blocks(const struct gpucoll_meeting *meeting)
{
    const int missing = ompi_comm_size(meeting->comm) - meeting->held;
    return missing < meeting->held ? missing : meeting->held;
}

static int begin_step(struct gpucoll_meeting *meeting)
{
    const int size = ompi_comm_size(meeting->comm);
    const int rank = ompi_comm_rank(meeting->comm);
    const size_t bytes = (size_t)step_blocks(meeting) * meeting->bytes;
    char *end = meeting->blocks + (size_t)meeting->held * meeting->bytes;
    int rc = post_receive(meeting, end, bytes, (rank + meeting->held) % size);
    return rc == OMPI_SUCCESS
               ? post_send(meeting, meeting->blocks, bytes, (rank + size - meeting->held) % size)
               : rc;
}

static void finish(struct gpucoll_meeting *meeting)
{
    const size_t size = (size_t)ompi_comm_size(meeting->comm);
    const size_t rank = (size_t)ompi_comm_rank(meeting->comm);
    memcpy(meeting->all + rank * meeting->bytes, meeting->blocks, (size - rank) * meeting->bytes);
    memcpy(meeting->all, meeting->blocks + (size - rank) * meeting->bytes, rank * meeting->bytes);
    free(meeting->blocks);
    meeting->blocks = NULL;
    meeting->held = 0;
}

int gpucoll_meeting_allgather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct gpucoll_meeting *meeting = arg;
    const size_t size = (size_t)ompi_comm_size(meeting->comm);
    meeting->blocks = malloc(size * bytes);
    if (meeting->blocks == NULL) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    memcpy(meeting->blocks, mine, bytes);
    meeting->count = 0;
    meeting->held = 1;
    meeting->all = all;
    meeting->bytes = bytes;
    return size > 1 ? begin_step(meeting) : OMPI_SUCCESS;
}

/* Have the messages of the present step passed? */
static gpucoll_status test_step(struct gpucoll_meeting *meeting)
{
    while (meeting->count > 0) {
        ompi_request_t **request = &meeting->requests[meeting->count - 1];
        if (!REQUEST_COMPLETE(*request)) {
            return GPUCOLL_IN_PROGRESS;
        }
        if ((*request)->req_status.MPI_ERROR != MPI_SUCCESS) {
            return GPUCOLL_ERR_EXCHANGE;
        }
        ompi_request_free(request);
        meeting->count--;
    }
    return GPUCOLL_OK;
}

void gpucoll_meeting_missing(const struct gpucoll_meeting *meeting, char *text, size_t size)
{
    const int from = (ompi_comm_rank(meeting->comm) + meeting->held) % ompi_comm_size(meeting->comm);
    if (meeting->count > 0 && !REQUEST_COMPLETE(meeting->requests[0])) {
        snprintf(text, size, "%d, or one whose message that rank passes on", from);
    } else if (meeting->count == 0) {
        snprintf(text, size, "none: all have answered, and connections between hosts are being tried");
    } else {
        snprintf(text, size, "none, but they have not taken this rank's message");
    }
}

gpucoll_status gpucoll_meeting_test(void *arg)
{
    struct gpucoll_meeting *meeting = arg;
    while (meeting->held > 0) {
        gpucoll_status status = test_step(meeting);
        if (status != GPUCOLL_OK) {
            return status;
        }
        meeting->held += step_blocks(meeting);
        if (meeting->held == ompi_comm_size(meeting->comm)) {
            finish(meeting);
        } else if (begin_step(meeting) != OMPI_SUCCESS) {
            return GPUCOLL_ERR_EXCHANGE;
        }
    }
    return GPUCOLL_OK;
}

/* A message that cannot be called back keeps its memory for good: the network may still use it. */
void gpucoll_meeting_abort(struct gpucoll_meeting *meeting)
{
    bool busy = false;
    while (meeting->count > 0) {
        ompi_request_t **request = &meeting->requests[--meeting->count];
        if (!REQUEST_COMPLETE(*request)) {
            ompi_request_cancel(*request);
            busy |= !REQUEST_COMPLETE(*request);
        }
        ompi_request_free(request);
    }
    if (!busy) {
        free(meeting->blocks);
    }
    meeting->blocks = NULL;
    meeting->held = 0;
}
