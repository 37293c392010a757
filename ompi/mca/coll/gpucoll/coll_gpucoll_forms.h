/*
 * The three forms of a collective (blocking, nonblocking, persistent), made from one description of its
 * buffers.
 *
 * A family's file writes for each collective a function that returns a struct gpucoll_call, and then
 *
 *     GPUCOLL_NATIVE_FORMS(allgather, (parameters), (arguments), description, take, COLL, root, condition)
 *
 * with the parameters that stand before the communicator in the slot's signature, their names (each a field of
 * struct gpucoll_arguments), a call of that function, and a `condition` that is equal on all ranks: then it runs on the engine where all bring
 * device memory. Parameters are named `sbuf` and `rbuf` where they are the buffers:
 * when one is staged, its host copy takes its name.
 */
#ifndef COLL_GPUCOLL_FORMS_H
#define COLL_GPUCOLL_FORMS_H

#include "coll_gpucoll.h"
#include "coll_gpucoll_han.h"
#include "coll_gpucoll_later.h"
#include "coll_gpucoll_native.h"
#include "coll_gpucoll_operator.h"
#include "coll_gpucoll_ordered.h"
#include "coll_gpucoll_stage.h"
#include "coll_gpucoll_tag.h"
#include "core/base/forms.h"

#define GPUCOLL_FORMS_ROW(name, blocking, nonblocking, persistent)                                           \
    gpucoll_##name##_blocking_form = GPUCOLL_RUNS_##blocking,                                                \
    gpucoll_##name##_nonblocking_form = GPUCOLL_RUNS_##nonblocking,                                          \
    gpucoll_##name##_persistent_form = GPUCOLL_RUNS_##persistent,
enum { GPUCOLL_COLLECTIVE_FORMS(GPUCOLL_FORMS_ROW) };

/* The table of core/base/forms.h says the same. */
#define GPUCOLL_CHECK_FORM(name, form, is_native)                                                            \
    _Static_assert(((int)gpucoll_##name##_##form##_form == (int)GPUCOLL_RUNS_NATIVE) == (is_native),         \
                   #name ": another " #form " form than in the table")

#define GPUCOLL_LIST(...) __VA_ARGS__
#define GPUCOLL_NEXT(slot) ((gpucoll_module *)module)->next.coll_##slot
#define GPUCOLL_NEXT_MODULE(slot) ((gpucoll_module *)module)->next.coll_##slot##_module

#define GPUCOLL_BOTH(call)                                                                                   \
    sbuf = (call)->send.pointer;                                                                             \
    rbuf = (call)->recv.pointer
#define GPUCOLL_RECV_ONLY(call) rbuf = (call)->recv.pointer

/* `run` is the call itself, an expression of the parameters; of those that name buffers on a device, `take` has it see host copies. */
#define GPUCOLL_ON_HOST(function, slot, parameters, description, take, run)                                  \
    int function(GPUCOLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module)         \
    {                                                                                                        \
        gpucoll_module *self = (gpucoll_module *)module;                                                     \
        int rc;                                                                                              \
        if (!gpucoll_device_active()) {                                                                      \
            GPUCOLL_RUN_BELOW(self, rc, run);                                                                \
            return rc;                                                                                       \
        }                                                                                                    \
        struct gpucoll_call call = description;                                                              \
        call.name = #slot;                                                                                   \
        call.module = self;                                                                                  \
        rc = gpucoll_stage_begin(&call);                                                                     \
        if (rc != OMPI_SUCCESS) {                                                                            \
            return rc;                                                                                       \
        }                                                                                                    \
        take(&call);                                                                                         \
        GPUCOLL_RUN_BELOW(self, rc, run);                                                                    \
        return gpucoll_stage_end(&call, rc);                                                                 \
    }

#define GPUCOLL_RUN_NEXT(slot, arguments)                                                                    \
    GPUCOLL_NEXT(slot)(GPUCOLL_LIST arguments, comm, GPUCOLL_NEXT_MODULE(slot))
#define GPUCOLL_BLOCKING(function, slot, parameters, arguments, description, take)                           \
    GPUCOLL_ON_HOST(function, slot, parameters, description, take, GPUCOLL_RUN_NEXT(slot, arguments))

/* Applies m to each of up to nine names. */
#define GPUCOLL_EACH_1(m, a) m(a)
#define GPUCOLL_EACH_2(m, a, ...) m(a), GPUCOLL_EACH_1(m, __VA_ARGS__)
#define GPUCOLL_EACH_3(m, a, ...) m(a), GPUCOLL_EACH_2(m, __VA_ARGS__)
#define GPUCOLL_EACH_4(m, a, ...) m(a), GPUCOLL_EACH_3(m, __VA_ARGS__)
#define GPUCOLL_EACH_5(m, a, ...) m(a), GPUCOLL_EACH_4(m, __VA_ARGS__)
#define GPUCOLL_EACH_6(m, a, ...) m(a), GPUCOLL_EACH_5(m, __VA_ARGS__)
#define GPUCOLL_EACH_7(m, a, ...) m(a), GPUCOLL_EACH_6(m, __VA_ARGS__)
#define GPUCOLL_EACH_8(m, a, ...) m(a), GPUCOLL_EACH_7(m, __VA_ARGS__)
#define GPUCOLL_EACH_9(m, a, ...) m(a), GPUCOLL_EACH_8(m, __VA_ARGS__)
#define GPUCOLL_PICK(a, b, c, d, e, f, g, h, i, picked, ...) picked
#define GPUCOLL_EACH(m, ...)                                                                                 \
    GPUCOLL_PICK(__VA_ARGS__, GPUCOLL_EACH_9, GPUCOLL_EACH_8, GPUCOLL_EACH_7, GPUCOLL_EACH_6,                \
                 GPUCOLL_EACH_5, GPUCOLL_EACH_4, GPUCOLL_EACH_3, GPUCOLL_EACH_2, GPUCOLL_EACH_1, )           \
    (m, __VA_ARGS__)

/* The arguments into struct gpucoll_arguments, and out of it as those of the next component's function. */
#define GPUCOLL_SAVE(name) .name = (name)
#define GPUCOLL_SAVED(name) saved->name
#define GPUCOLL_SAVE_ALL(...) GPUCOLL_EACH(GPUCOLL_SAVE, __VA_ARGS__)
#define GPUCOLL_SAVED_ALL(...) GPUCOLL_EACH(GPUCOLL_SAVED, __VA_ARGS__)

/* `condition` is evaluated where calls of this form can run natively at all, which is so on all ranks or none. */
#define GPUCOLL_LATER(slot, saved_arguments, passed, description, is_persistent, able, coll_id, root_rank,   \
                      condition)                                                                             \
    {                                                                                                        \
        gpucoll_module *self = (gpucoll_module *)module;                                                     \
        const struct gpucoll_arguments given = {GPUCOLL_SAVE_ALL saved_arguments};                           \
        const bool native = (able) && mca_coll_gpucoll_component.config.nonblocking &&                       \
                            ((is_persistent) || !gpucoll_may_be_open_mpis(coll_id, &given)) && (condition);  \
        if (gpucoll_goes_on(self, native) && !gpucoll_operator_replaced(given.op, given.dtype)) {            \
            const int32_t next = gpucoll_tag_next(self);                                                     \
            int rc = self->next.coll_##slot(GPUCOLL_LIST passed, request, self->next.coll_##slot##_module);  \
            gpucoll_tag_pass(self, next);                                                                    \
            return rc;                                                                                       \
        }                                                                                                    \
        struct gpucoll_call call = description;                                                              \
        call.name = #slot;                                                                                   \
        call.module = self;                                                                                  \
        const struct gpucoll_later later = {                                                                 \
            .call = &call,                                                                                   \
            .arguments = given,                                                                              \
            .next = next_##slot,                                                                             \
            .persistent = is_persistent,                                                                     \
            .native = native,                                                                                \
            .coll = coll_id,                                                                                 \
            .root = root_rank,                                                                               \
        };                                                                                                   \
        return gpucoll_call_later(self, &later, request);                                                    \
    }

/* clang-format off */
#define GPUCOLL_NONBLOCKING(name, parameters, arguments, description, coll, root, condition)                 \
    static int next_i##name(const struct gpucoll_arguments *saved, ompi_communicator_t *comm,                \
                            ompi_request_t **request, gpucoll_module *self)                                  \
    {                                                                                                        \
        return self->next.coll_i##name(GPUCOLL_SAVED_ALL arguments, comm, request,                           \
                                       self->next.coll_i##name##_module);                                    \
    }                                                                                                        \
    int gpucoll_i##name(GPUCOLL_LIST parameters, ompi_communicator_t *comm, ompi_request_t **request,        \
                        mca_coll_base_module_t *module)                                                      \
    GPUCOLL_LATER(i##name, arguments, (GPUCOLL_LIST arguments, comm), description, false,                    \
                  gpucoll_sequence_state(&self->calls) != GPUCOLL_NATIVE_OFF, coll, root, condition)

#define GPUCOLL_PERSISTENT(name, parameters, arguments, description, coll, root, condition)                  \
    static int next_##name##_init(const struct gpucoll_arguments *saved, ompi_communicator_t *comm,          \
                                  ompi_request_t **request, gpucoll_module *self)                            \
    {                                                                                                        \
        return self->next.coll_##name##_init(GPUCOLL_SAVED_ALL arguments, comm, saved->info, request,        \
                                             self->next.coll_##name##_init_module);                          \
    }                                                                                                        \
    int gpucoll_##name##_init(GPUCOLL_LIST parameters, ompi_communicator_t *comm, ompi_info_t *info,         \
                              ompi_request_t **request, mca_coll_base_module_t *module)                      \
    GPUCOLL_LATER(name##_init, (GPUCOLL_LIST arguments, info), (GPUCOLL_LIST arguments, comm, info),         \
                  description, true, self->possible, coll, root, condition)
/* clang-format on */

#define GPUCOLL_LATER_FORMS(name, parameters, arguments, description, coll, root, condition)                 \
    GPUCOLL_CHECK_FORM(name, nonblocking, (coll) != GPUCOLL_COLL_COUNT);                                     \
    GPUCOLL_CHECK_FORM(name, persistent, (coll) != GPUCOLL_COLL_COUNT);                                      \
    GPUCOLL_NONBLOCKING(name, parameters, arguments, description, coll, root, condition)                     \
    GPUCOLL_PERSISTENT(name, parameters, arguments, description, coll, root, condition)

#define GPUCOLL_NATIVE(name, parameters, arguments, description, coll, root, condition)                      \
    GPUCOLL_CHECK_FORM(name, blocking, true);                                                                \
    int gpucoll_##name(GPUCOLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module)   \
    {                                                                                                        \
        gpucoll_module *self = (gpucoll_module *)module;                                                     \
        int rc = OMPI_SUCCESS;                                                                               \
        if (gpucoll_sequence_state(&self->calls) != GPUCOLL_NATIVE_OFF && (condition) &&                     \
            gpucoll_native_joins(self, gpucoll_device_active(), &rc)) {                                      \
            const struct gpucoll_call call = description;                                                    \
            bool done = false;                                                                               \
            rc = gpucoll_native_exchange(self, coll, root, &call, comm, &done);                              \
            if (done) {                                                                                      \
                return rc;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
        return rc != OMPI_SUCCESS ? rc : staged_##name(GPUCOLL_LIST arguments, comm, module);                \
    }

/* With a condition for blocking calls, and one for the other forms. */
#define GPUCOLL_NATIVE_FORMS_IF(name, parameters, arguments, description, take, coll, root, blocking, later) \
    static GPUCOLL_BLOCKING(staged_##name, name, parameters, arguments, description, take)                   \
    GPUCOLL_NATIVE(name, parameters, arguments, description, coll, root, blocking)                           \
    GPUCOLL_LATER_FORMS(name, parameters, arguments, description, coll, root, later)

#define GPUCOLL_NATIVE_FORMS(name, parameters, arguments, description, take, coll, root, condition)          \
    GPUCOLL_NATIVE_FORMS_IF(name, parameters, arguments, description, take, coll, root, condition, condition)

/* `run` with the operator that the next component is to get. */
#define GPUCOLL_WITH_OPERATOR(function, run, slot, parameters, arguments)                                    \
    static int function(GPUCOLL_LIST parameters, ompi_communicator_t *comm, mca_coll_base_module_t *module)  \
    {                                                                                                        \
        op = gpucoll_operator_take(#slot, op, dtype);                                                        \
        if (op == NULL) {                                                                                    \
            return MPI_ERR_NO_MEM;                                                                           \
        }                                                                                                    \
        int rc = run(GPUCOLL_LIST arguments, comm, module);                                                  \
        gpucoll_operator_drop(op);                                                                           \
        return rc;                                                                                           \
    }

/* Of a reduction: as GPUCOLL_BLOCKING, but with coll_gpucoll_deterministic in rank order, by `ordered`. */
#define GPUCOLL_BLOCKING_REDUCTION(function, slot, parameters, arguments, description, take, ordered)        \
    static GPUCOLL_ON_HOST(                                                                                  \
        function##_with, slot, parameters, description, take,                                                \
        gpucoll_ordered(self, #slot, op, dtype, comm) ? ordered : GPUCOLL_RUN_NEXT(slot, arguments))         \
    GPUCOLL_WITH_OPERATOR(function, function##_with, slot, parameters, arguments)

#define GPUCOLL_NATIVE_REDUCTION(name, parameters, arguments, description, take, coll, root, condition,      \
                                 ordered)                                                                    \
    GPUCOLL_BLOCKING_REDUCTION(staged_##name, name, parameters, arguments, description, take, ordered)       \
    GPUCOLL_NATIVE(name, parameters, arguments, description, coll, root, condition)                          \
    GPUCOLL_LATER_FORMS(name, parameters, arguments, description, coll, root, condition)

#endif
