/*
 * What transports through shared host memory have in common: the outbox as an endpoint. As the table of ucx_tl/tl.h wants it.
 */
#ifndef GPUCOLL_SHM_H
#define GPUCOLL_SHM_H

#include "ucx_tl/tl.h"

extern const struct gpucoll_pipe_ops gpucoll_shm_pipe;

void gpucoll_shm_query(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                       struct gpucoll_tl_cost *cost);
gpucoll_status gpucoll_shm_offer(struct gpucoll_device *device, size_t bytes, struct gpucoll_segment *outbox,
                                 struct gpucoll_tl_card *card) GPUCOLL_CHECKED;
void gpucoll_shm_withdraw(struct gpucoll_device *device, struct gpucoll_segment *outbox);
gpucoll_status gpucoll_shm_connect(struct gpucoll_device *device, const struct gpucoll_tl_card *peer,
                                   struct gpucoll_endpoint *endpoint) GPUCOLL_CHECKED;
void gpucoll_shm_disconnect(struct gpucoll_endpoint *endpoint);

#endif
