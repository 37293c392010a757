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

/* Whom request i - 1 receives from. */
static int peer_behind(ompi_communicator_t *comm, int i)
{
    int size = ompi_comm_size(comm);
    return (ompi_comm_rank(comm) + size - i) % size;
}

int gpucoll_meeting_allgather(void *arg, const void *mine, void *all, size_t bytes)
{
    struct gpucoll_meeting *meeting = arg;
    const int size = ompi_comm_size(meeting->comm);
    const int rank = ompi_comm_rank(meeting->comm);
    int rc = OMPI_SUCCESS;
    meeting->count = 0;
    memcpy((char *)all + (size_t)rank * bytes, mine, bytes);
    for (int i = 1; i < size && rc == OMPI_SUCCESS; i++) {
        int from = peer_behind(meeting->comm, i);
        rc = post_receive(meeting, (char *)all + (size_t)from * bytes, bytes, from);
    }
    for (int i = 1; i < size && rc == OMPI_SUCCESS; i++) {
        rc = post_send(meeting, mine, bytes, (rank + i) % size);
    }
    return rc;
}

gpucoll_status gpucoll_meeting_test(void *arg)
{
    struct gpucoll_meeting *meeting = arg;
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
    size_t used = 0;
    text[0] = '\0';
    for (int i = 1; i < ompi_comm_size(meeting->comm) && i <= meeting->count && used < size; i++) {
        if (!REQUEST_COMPLETE(meeting->requests[i - 1])) {
            used += (size_t)snprintf(text + used, size - used, "%s%d", used > 0 ? ", " : "",
                                     peer_behind(meeting->comm, i));
        }
    }
    if (used == 0) {
        snprintf(text, size, "none, but they have not taken this rank's message");
    }
}

void gpucoll_meeting_abort(struct gpucoll_meeting *meeting)
{
    while (meeting->count > 0) {
        ompi_request_t **request = &meeting->requests[--meeting->count];
        if (!REQUEST_COMPLETE(*request)) {
            ompi_request_cancel(*request);
        }
        ompi_request_free(request);
    }
}
