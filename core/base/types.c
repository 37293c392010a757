/*
 * Names and sizes of types and operators, and the look-up of a functor. A type's row says as which element
 * of kernels/functors.h each kind of operator sees it; whether that pair has a functor is up to that list.
 */
#include "core/base/types.h"
#include "kernels/functors.h"

enum element {
    NONE,
    E_i8,
    E_i16,
    E_i32,
    E_i64,
    E_u8,
    E_u16,
    E_u32,
    E_u64,
    E_f16,
    E_bf16,
    E_f32,
    E_f64,
    E_c64,
    E_c128,
    E_p_i16i32,
    E_p_i32i32,
    E_p_i64i32,
    E_p_f32i32,
    E_p_f64i32,
    E_p_f32f32,
    E_p_f64f64,
    ELEMENT_COUNT
};

/* What an operator looks at in an element. */
enum view { VIEW_RING, VIEW_ORDER, VIEW_TRUTH, VIEW_BITS, VIEW_PAIR, VIEW_COUNT };

struct type_row {
    const char *name;
    size_t bytes;
    unsigned char element[VIEW_COUNT];
};

/* clang-format off */
#define INTEGER(signed_or_not, wraps) { [VIEW_RING] = wraps, [VIEW_ORDER] = signed_or_not, [VIEW_TRUTH] = wraps, [VIEW_BITS] = E_u64 }
#define REAL(element)                 { [VIEW_RING] = element, [VIEW_ORDER] = element }
#define COMPLEX(element)              { [VIEW_RING] = element }
#define PAIR(element)                 { [VIEW_PAIR] = element }

static const struct type_row types[GPUCOLL_TYPE_COUNT] = {
    [GPUCOLL_INT8]          = { "int8",          1,  INTEGER(E_i8, E_u8) },
    [GPUCOLL_INT16]         = { "int16",         2,  INTEGER(E_i16, E_u16) },
    [GPUCOLL_INT32]         = { "int32",         4,  INTEGER(E_i32, E_u32) },
    [GPUCOLL_INT64]         = { "int64",         8,  INTEGER(E_i64, E_u64) },
    [GPUCOLL_UINT8]         = { "uint8",         1,  INTEGER(E_u8, E_u8) },
    [GPUCOLL_UINT16]        = { "uint16",        2,  INTEGER(E_u16, E_u16) },
    [GPUCOLL_UINT32]        = { "uint32",        4,  INTEGER(E_u32, E_u32) },
    [GPUCOLL_UINT64]        = { "uint64",        8,  INTEGER(E_u64, E_u64) },
    [GPUCOLL_FLOAT16]       = { "float16",       2,  REAL(E_f16) },
    [GPUCOLL_BFLOAT16]      = { "bfloat16",      2,  REAL(E_bf16) },
    [GPUCOLL_FLOAT32]       = { "float32",       4,  REAL(E_f32) },
    [GPUCOLL_FLOAT64]       = { "float64",       8,  REAL(E_f64) },
    [GPUCOLL_COMPLEX64]     = { "complex64",     8,  COMPLEX(E_c64) },
    [GPUCOLL_COMPLEX128]    = { "complex128",    16, COMPLEX(E_c128) },
    [GPUCOLL_SHORT_INT]     = { "short_int",     8,  PAIR(E_p_i16i32) },
    [GPUCOLL_INT_INT]       = { "int_int",       8,  PAIR(E_p_i32i32) },
    [GPUCOLL_LONG_INT]      = { "long_int",      16, PAIR(E_p_i64i32) },
    [GPUCOLL_FLOAT_INT]     = { "float_int",     8,  PAIR(E_p_f32i32) },
    [GPUCOLL_DOUBLE_INT]    = { "double_int",    16, PAIR(E_p_f64i32) },
    [GPUCOLL_FLOAT_FLOAT]   = { "float_float",   8,  PAIR(E_p_f32f32) },
    [GPUCOLL_DOUBLE_DOUBLE] = { "double_double", 16, PAIR(E_p_f64f64) },
};

static const struct {
    const char *name;
    enum view view;
} ops[GPUCOLL_OP_COUNT] = {
    [GPUCOLL_SUM]    = { "sum",    VIEW_RING },
    [GPUCOLL_PROD]   = { "prod",   VIEW_RING },
    [GPUCOLL_MAX]    = { "max",    VIEW_ORDER },
    [GPUCOLL_MIN]    = { "min",    VIEW_ORDER },
    [GPUCOLL_LAND]   = { "land",   VIEW_TRUTH },
    [GPUCOLL_LOR]    = { "lor",    VIEW_TRUTH },
    [GPUCOLL_LXOR]   = { "lxor",   VIEW_TRUTH },
    [GPUCOLL_BAND]   = { "band",   VIEW_BITS },
    [GPUCOLL_BOR]    = { "bor",    VIEW_BITS },
    [GPUCOLL_BXOR]   = { "bxor",   VIEW_BITS },
    [GPUCOLL_MAXLOC] = { "maxloc", VIEW_PAIR },
    [GPUCOLL_MINLOC] = { "minloc", VIEW_PAIR },
};
/* clang-format on */

static const struct {
    const char *name;
    bool reduces;
} colls[GPUCOLL_COLL_COUNT] = {
    [GPUCOLL_ALLREDUCE] = {"allreduce", true},
    [GPUCOLL_ALLGATHER] = {"allgather", false},
    [GPUCOLL_ALLGATHERV] = {"allgatherv", false},
    [GPUCOLL_ALLTOALL] = {"alltoall", false},
    [GPUCOLL_ALLTOALLV] = {"alltoallv", false},
    [GPUCOLL_ALLTOALLW] = {"alltoallw", false},
    [GPUCOLL_BCAST] = {"bcast", false},
    [GPUCOLL_EXSCAN] = {"exscan", true},
    [GPUCOLL_GATHER] = {"gather", false},
    [GPUCOLL_GATHERV] = {"gatherv", false},
    [GPUCOLL_NEIGHBOR_ALLGATHER] = {"neighbor_allgather", false},
    [GPUCOLL_NEIGHBOR_ALLGATHERV] = {"neighbor_allgatherv", false},
    [GPUCOLL_NEIGHBOR_ALLTOALL] = {"neighbor_alltoall", false},
    [GPUCOLL_NEIGHBOR_ALLTOALLV] = {"neighbor_alltoallv", false},
    [GPUCOLL_NEIGHBOR_ALLTOALLW] = {"neighbor_alltoallw", false},
    [GPUCOLL_REDUCE] = {"reduce", true},
    [GPUCOLL_REDUCE_SCATTER] = {"reduce_scatter", true},
    [GPUCOLL_REDUCE_SCATTER_BLOCK] = {"reduce_scatter_block", true},
    [GPUCOLL_SCAN] = {"scan", true},
    [GPUCOLL_SCATTER] = {"scatter", false},
    [GPUCOLL_SCATTERV] = {"scatterv", false},
};

/* One more than the functor, so that what the list does not name is zero. */
#define ENTRY(name, op, element, ...) [GPUCOLL_##op][E_##element] = GPUCOLL_FN_##name + 1,
static const unsigned char functor_after[GPUCOLL_OP_COUNT][ELEMENT_COUNT] = {GPUCOLL_FUNCTORS(ENTRY)};
#undef ENTRY

#define NAME(name, op, element, ...) [GPUCOLL_FN_##name] = #name,
static const char *const functor_names[GPUCOLL_FUNCTOR_COUNT] = {GPUCOLL_FUNCTORS(NAME)};
#undef NAME

#define RARE(name, op, element, reducer, variant)                                                            \
    [GPUCOLL_FN_##name] = GPUCOLL_REDUCER_##reducer >= GPUCOLL_REDUCER_rare,
static const bool functor_is_rare[GPUCOLL_FUNCTOR_COUNT] = {GPUCOLL_FUNCTORS(RARE)};
#undef RARE

static bool is_type(enum gpucoll_type type)
{
    return (unsigned)type < GPUCOLL_TYPE_COUNT;
}

static bool is_op(enum gpucoll_op op)
{
    return (unsigned)op < GPUCOLL_OP_COUNT;
}

size_t gpucoll_type_size(enum gpucoll_type type)
{
    return is_type(type) ? types[type].bytes : 0;
}

const char *gpucoll_type_name(enum gpucoll_type type)
{
    return is_type(type) ? types[type].name : "unknown type";
}

const char *gpucoll_op_name(enum gpucoll_op op)
{
    return is_op(op) ? ops[op].name : "unknown operator";
}

const char *gpucoll_coll_name(enum gpucoll_coll coll)
{
    if (coll == GPUCOLL_BARRIER) {
        return "barrier";
    }
    if (coll == GPUCOLL_WARMUP) {
        return "warm-up";
    }
    if (coll == GPUCOLL_REHEARSAL) {
        return "rehearsal";
    }
    return (unsigned)coll < GPUCOLL_COLL_COUNT ? colls[coll].name : "unknown collective";
}

bool gpucoll_coll_reduces(enum gpucoll_coll coll)
{
    return (unsigned)coll < GPUCOLL_COLL_COUNT && colls[coll].reduces;
}

int gpucoll_functor(enum gpucoll_op op, enum gpucoll_type type)
{
    if (!is_op(op) || !is_type(type)) {
        return -1;
    }
    return functor_after[op][types[type].element[ops[op].view]] - 1;
}

const char *gpucoll_functor_name(int functor)
{
    return functor >= 0 && functor < GPUCOLL_FUNCTOR_COUNT ? functor_names[functor] : "unknown functor";
}

bool gpucoll_functor_is_rare(int functor)
{
    return functor >= 0 && functor < GPUCOLL_FUNCTOR_COUNT && functor_is_rare[functor];
}
