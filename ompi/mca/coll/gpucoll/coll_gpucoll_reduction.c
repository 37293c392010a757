/*
 * Two tables, indexed by Open MPI's numbers and written by their symbols, since the numbers differ between
 * versions. A number type is of a family and has the width that its datatype says: that of MPI_LONG or of
 * Fortran's INTEGER is the build's choice.
 */
#include "coll_gpucoll_reduction.h"

enum { WIDTHS = 5 }; /* 1, 2, 4, 8, 16 bytes */
enum family { NONE, SIGNED, UNSIGNED, REAL, COMPLEX, FAMILY_COUNT };

/* One more than the type, so that what is not named is zero. */
static const unsigned char families[FAMILY_COUNT][WIDTHS] = {
    [SIGNED] = {GPUCOLL_INT8 + 1, GPUCOLL_INT16 + 1, GPUCOLL_INT32 + 1, GPUCOLL_INT64 + 1},
    [UNSIGNED] = {GPUCOLL_UINT8 + 1, GPUCOLL_UINT16 + 1, GPUCOLL_UINT32 + 1, GPUCOLL_UINT64 + 1},
    [REAL] = {0, GPUCOLL_FLOAT16 + 1, GPUCOLL_FLOAT32 + 1, GPUCOLL_FLOAT64 + 1},
    [COMPLEX] = {0, 0, 0, GPUCOLL_COMPLEX64 + 1, GPUCOLL_COMPLEX128 + 1},
};

struct type_row {
    unsigned char family;
    unsigned char pair; /* one more than the type */
};

/* clang-format off */
#define FAMILY(name) {.family = name}
#define PAIR(type) {.pair = GPUCOLL_##type + 1}

static const struct type_row types[OMPI_OP_BASE_TYPE_MAX] = {
    [OMPI_OP_BASE_TYPE_INT8_T] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_UINT8_T] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_INT16_T] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_UINT16_T] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_INT32_T] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_UINT32_T] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_INT64_T] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_UINT64_T] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_LONG] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_UNSIGNED_LONG] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_INTEGER] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_INTEGER1] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_INTEGER2] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_INTEGER4] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_INTEGER8] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_FLOAT] = FAMILY(REAL),
    [OMPI_OP_BASE_TYPE_DOUBLE] = FAMILY(REAL),
    [OMPI_OP_BASE_TYPE_REAL] = FAMILY(REAL),
    [OMPI_OP_BASE_TYPE_REAL2] = FAMILY(REAL),
    [OMPI_OP_BASE_TYPE_REAL4] = FAMILY(REAL),
    [OMPI_OP_BASE_TYPE_REAL8] = FAMILY(REAL),
    [OMPI_OP_BASE_TYPE_DOUBLE_PRECISION] = FAMILY(REAL),
    GPUCOLL_SHORT_FLOAT_ROW(FAMILY(REAL))
    [OMPI_OP_BASE_TYPE_C_FLOAT_COMPLEX] = FAMILY(COMPLEX),
    [OMPI_OP_BASE_TYPE_C_DOUBLE_COMPLEX] = FAMILY(COMPLEX),
    /* Logical values are integers of which only zero or not counts. */
    [OMPI_OP_BASE_TYPE_LOGICAL] = FAMILY(SIGNED),
    [OMPI_OP_BASE_TYPE_BOOL] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_BYTE] = FAMILY(UNSIGNED),
    [OMPI_OP_BASE_TYPE_2REAL] = PAIR(FLOAT_FLOAT),
    [OMPI_OP_BASE_TYPE_2DOUBLE_PRECISION] = PAIR(DOUBLE_DOUBLE),
    [OMPI_OP_BASE_TYPE_2INTEGER] = PAIR(INT_INT),
    [OMPI_OP_BASE_TYPE_2INT] = PAIR(INT_INT),
    [OMPI_OP_BASE_TYPE_SHORT_INT] = PAIR(SHORT_INT),
    [OMPI_OP_BASE_TYPE_LONG_INT] = PAIR(LONG_INT),
    [OMPI_OP_BASE_TYPE_FLOAT_INT] = PAIR(FLOAT_INT),
    [OMPI_OP_BASE_TYPE_DOUBLE_INT] = PAIR(DOUBLE_INT),
};

static const unsigned char ops[OMPI_OP_BASE_FORTRAN_OP_MAX] = {
    [OMPI_OP_BASE_FORTRAN_MAX] = GPUCOLL_MAX + 1,
    [OMPI_OP_BASE_FORTRAN_MIN] = GPUCOLL_MIN + 1,
    [OMPI_OP_BASE_FORTRAN_SUM] = GPUCOLL_SUM + 1,
    [OMPI_OP_BASE_FORTRAN_PROD] = GPUCOLL_PROD + 1,
    [OMPI_OP_BASE_FORTRAN_LAND] = GPUCOLL_LAND + 1,
    [OMPI_OP_BASE_FORTRAN_BAND] = GPUCOLL_BAND + 1,
    [OMPI_OP_BASE_FORTRAN_LOR] = GPUCOLL_LOR + 1,
    [OMPI_OP_BASE_FORTRAN_BOR] = GPUCOLL_BOR + 1,
    [OMPI_OP_BASE_FORTRAN_LXOR] = GPUCOLL_LXOR + 1,
    [OMPI_OP_BASE_FORTRAN_BXOR] = GPUCOLL_BXOR + 1,
    [OMPI_OP_BASE_FORTRAN_MAXLOC] = GPUCOLL_MAXLOC + 1,
    [OMPI_OP_BASE_FORTRAN_MINLOC] = GPUCOLL_MINLOC + 1,
};
/* clang-format on */

/* One more than gpucoll's type, or 0. */
static int type_after(const struct type_row *row, size_t bytes)
{
    if (row->pair != 0) {
        return row->pair;
    }
    int width = __builtin_ctzll(bytes | (1u << WIDTHS));
    return width < WIDTHS ? families[row->family][width] : 0;
}

bool gpucoll_reduction(const ompi_op_t *op, const ompi_datatype_t *dtype, enum gpucoll_op *out_op,
                       enum gpucoll_type *out_type)
{
    if (!ompi_op_is_intrinsic((ompi_op_t *)op) || !ompi_datatype_is_predefined(dtype)) {
        return false;
    }
    int index = ompi_op_ddt_map[dtype->id];
    if (index < 0 || index >= OMPI_OP_BASE_TYPE_MAX || op->o_func.intrinsic.fns[index] == NULL) {
        return false;
    }
    size_t bytes = (size_t)(dtype->super.ub - dtype->super.lb);
    /* Open MPI reduces offsets as unsigned numbers; MPI says that they are signed. */
    int type = dtype == MPI_OFFSET ? families[SIGNED][__builtin_ctzll(sizeof(MPI_Offset))]
                                   : type_after(&types[index], bytes);
    int known_op = ops[op->o_f_to_c_index];
    if (type == 0 || known_op == 0) {
        return false;
    }
    *out_type = (enum gpucoll_type)(type - 1);
    *out_op = (enum gpucoll_op)(known_op - 1);
    return gpucoll_type_size(*out_type) == bytes && gpucoll_functor(*out_op, *out_type) >= 0;
}
