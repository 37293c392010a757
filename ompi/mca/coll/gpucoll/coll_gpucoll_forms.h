/*
 * The three forms of a collective (blocking, nonblocking, persistent), made from one description of its
 * buffers.
 *
 * A family's file writes for each collective a function that returns a struct gpucoll_call, and then
 *
 *     GPUCOLL_FORMS(allgather, (parameters), (arguments), description)
 *
 * with the parameters that stand before the communicator in the slot's signature, their names, and a call of
 * that function. Of a collective whose blocking form runs on the engine where all ranks bring device memory:
 *
 *     GPUCOLL_NATIVE_FORMS(allgather, ..., description, take, COLL, root, condition)
 *
 * where `condition` is equal on all ranks. Parameters are named `sbuf` and `rbuf` where they are the buffers:
 * when one is staged, its host copy takes its name.
 */
#ifndef COLL_GPUCOLL_FORMS_H
#define COLL_GPUCOLL_FORMS_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_native.h"
#include "coll_gpucoll_ordered.h"
#include "coll_gpucoll_request.h"
#include "coll_gpucoll_stage.h"

#define GPUCOLL_LIST(...) __VA_ARGS__
#define GPUCOLL_NEXT(slot) ((gpucoll_module *)module)->next.coll_##slot
#define GPUCOLL_NEXT_MODULE(slot) ((gpucoll_module *)module)->next.coll_##slot##_module

#define GPUCOLL_BOTH(call)                                                                                   \
    sbuf = (call)->send.pointer;                                                                             \
    rbuf = (call)->recv.pointer
#define GPUCOLL_RECV_ONLY(call) rbuf = (call)->recv.pointer

#define GPUCOLL_BLOCKING(function, slot, parameters, arguments, description, take)                           \
    int function(GPUCOLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module)         \
    {                                                                                                        \
        if (!gpucoll_device_active()) {                                                                      \
            return GPUCOLL_NEXT(slot)(GPUCOLL_LIST arguments, comm, GPUCOLL_NEXT_MODULE(slot));              \
        }                                                                                                    \
        struct gpucoll_call call = description;                                                              \
        call.name = #slot;                                                                                   \
        call.module = (gpucoll_module *)module;                                                              \
        int rc = gpucoll_stage_begin(&call);                                                                 \
        if (rc != OMPI_SUCCESS) {                                                                            \
            return rc;                                                                                       \
        }                                                                                                    \
        take(&call);                                                                                         \
        rc = GPUCOLL_NEXT(slot)(GPUCOLL_LIST arguments, comm, GPUCOLL_NEXT_MODULE(slot));                    \
        return gpucoll_stage_end(&call, rc);                                                                 \
    }

#define GPUCOLL_LATER(slot, parameters, arguments, description, take, persistent)                            \
    int gpucoll_##slot(GPUCOLL_LIST parameters, ompi_request_t **request, mca_coll_base_module_t *module)    \
    {                                                                                                        \
        struct gpucoll_outer *outer = NULL;                                                                  \
        if (gpucoll_device_active()) {                                                                       \
            struct gpucoll_call call = description;                                                          \
            call.name = #slot;                                                                               \
            call.module = (gpucoll_module *)module;                                                          \
            int rc = gpucoll_request_begin(&call, comm, persistent, &outer);                                 \
            if (rc != OMPI_SUCCESS) {                                                                        \
                return rc;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
        if (outer == NULL) {                                                                                 \
            return GPUCOLL_NEXT(slot)(GPUCOLL_LIST arguments, request, GPUCOLL_NEXT_MODULE(slot));           \
        }                                                                                                    \
        take(&outer->call);                                                                                  \
        int rc = GPUCOLL_NEXT(slot)(GPUCOLL_LIST arguments, &outer->inner, GPUCOLL_NEXT_MODULE(slot));       \
        return gpucoll_request_ready(outer, rc, request);                                                    \
    }

/* clang-format off */
#define GPUCOLL_NONBLOCKING(name, parameters, arguments, description, take)                                  \
    GPUCOLL_LATER(i##name, (GPUCOLL_LIST parameters, ompi_communicator_t *comm),                             \
                  (GPUCOLL_LIST arguments, comm), description, take, false)

#define GPUCOLL_PERSISTENT(name, parameters, arguments, description, take)                                   \
    GPUCOLL_LATER(name##_init, (GPUCOLL_LIST parameters, ompi_communicator_t *comm, ompi_info_t *info),      \
                  (GPUCOLL_LIST arguments, comm, info), description, take, true)
/* clang-format on */

#define GPUCOLL_ALL_FORMS(name, parameters, arguments, description, take)                                    \
    GPUCOLL_BLOCKING(gpucoll_##name, name, parameters, arguments, description, take)                         \
    GPUCOLL_NONBLOCKING(name, parameters, arguments, description, take)                                      \
    GPUCOLL_PERSISTENT(name, parameters, arguments, description, take)

#define GPUCOLL_NATIVE(name, parameters, arguments, description, coll, root, condition)                      \
    int gpucoll_##name(GPUCOLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module)   \
    {                                                                                                        \
        gpucoll_module *self = (gpucoll_module *)module;                                                     \
        int rc = OMPI_SUCCESS;                                                                               \
        if (self->native != GPUCOLL_NATIVE_OFF && (condition) &&                                             \
            gpucoll_native_joins(self, comm, gpucoll_device_active(), &rc)) {                                \
            const struct gpucoll_call call = description;                                                    \
            bool done = false;                                                                               \
            rc = gpucoll_native_exchange(self, coll, root, &call, comm, &done);                              \
            if (done) {                                                                                      \
                return rc;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
        return rc != OMPI_SUCCESS ? rc : staged_##name(GPUCOLL_LIST arguments, comm, module);                \
    }

#define GPUCOLL_NATIVE_FORMS(name, parameters, arguments, description, take, coll, root, condition)          \
    static GPUCOLL_BLOCKING(staged_##name, name, parameters, arguments, description, take)                   \
    GPUCOLL_NATIVE(name, parameters, arguments, description, coll, root, condition)                          \
    GPUCOLL_NONBLOCKING(name, parameters, arguments, description, take)                                      \
    GPUCOLL_PERSISTENT(name, parameters, arguments, description, take)

/* Of a reduction: as GPUCOLL_BLOCKING, but with coll_gpucoll_deterministic in rank order, by `ordered`. */
#define GPUCOLL_BLOCKING_REDUCTION(function, slot, parameters, arguments, description, take, ordered)        \
    static GPUCOLL_BLOCKING(next_##slot, slot, parameters, arguments, description, take)                     \
    static int function(GPUCOLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module)  \
    {                                                                                                        \
        gpucoll_module *self = (gpucoll_module *)module;                                                     \
        if (!gpucoll_ordered(self, #slot, op, dtype, comm)) {                                                \
            return next_##slot(GPUCOLL_LIST arguments, comm, module);                                        \
        }                                                                                                    \
        if (!gpucoll_device_active()) {                                                                      \
            return ordered;                                                                                  \
        }                                                                                                    \
        struct gpucoll_call call = description;                                                              \
        call.name = #slot;                                                                                   \
        call.module = self;                                                                                  \
        int rc = gpucoll_stage_begin(&call);                                                                 \
        if (rc != OMPI_SUCCESS) {                                                                            \
            return rc;                                                                                       \
        }                                                                                                    \
        take(&call);                                                                                         \
        rc = ordered;                                                                                        \
        return gpucoll_stage_end(&call, rc);                                                                 \
    }

#define GPUCOLL_NATIVE_REDUCTION(name, parameters, arguments, description, take, coll, root, condition,      \
                                 ordered)                                                                    \
    GPUCOLL_BLOCKING_REDUCTION(staged_##name, name, parameters, arguments, description, take, ordered)       \
    GPUCOLL_NATIVE(name, parameters, arguments, description, coll, root, condition)                          \
    GPUCOLL_NONBLOCKING(name, parameters, arguments, description, take)                                      \
    GPUCOLL_PERSISTENT(name, parameters, arguments, description, take)

#define GPUCOLL_FORMS(name, parameters, arguments, description)                                              \
    GPUCOLL_ALL_FORMS(name, parameters, arguments, description, GPUCOLL_BOTH)

#endif
