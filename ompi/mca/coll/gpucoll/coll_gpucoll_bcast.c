/*
 * MPI_Bcast.
 */
#include "coll_gpucoll_forms.h"

static struct gpucoll_call describe(void *rbuf, struct gpucoll_region region, enum gpucoll_role role)
{
    struct gpucoll_call call = {.recv.user = rbuf};
    if (role == GPUCOLL_ROOT) {
        call.recv.in = region;
    } else if (role == GPUCOLL_LEAF) {
        call.recv.out = region;
    }
    return call;
}

GPUCOLL_NATIVE_FORMS(bcast, (void *rbuf, gpucoll_count count, ompi_datatype_t *dtype, int root),
                     (rbuf, count, dtype, root),
                     describe(rbuf, gpucoll_even(count, dtype, 0, 1), gpucoll_role(comm, root)),
                     GPUCOLL_RECV_ONLY, GPUCOLL_BCAST, root, gpucoll_has_data(count, dtype))
