/* The tables of values.h: MPI's predefined operators, and the types they apply to. */
#include "test/mpi/values.h"

#include "test/mpi/support.h"

struct op_row {
    const char *name;
    MPI_Op handle;
};

static const struct op_row ops[TEST_OPS] = {
    [TEST_SUM] = {"sum", MPI_SUM},          [TEST_PROD] = {"prod", MPI_PROD},
    [TEST_MAX] = {"max", MPI_MAX},          [TEST_MIN] = {"min", MPI_MIN},
    [TEST_LAND] = {"land", MPI_LAND},       [TEST_LOR] = {"lor", MPI_LOR},
    [TEST_LXOR] = {"lxor", MPI_LXOR},       [TEST_BAND] = {"band", MPI_BAND},
    [TEST_BOR] = {"bor", MPI_BOR},          [TEST_BXOR] = {"bxor", MPI_BXOR},
    [TEST_MAXLOC] = {"maxloc", MPI_MAXLOC}, [TEST_MINLOC] = {"minloc", MPI_MINLOC},
};

/* MPI-3.1, section 5.9.2: which operators each group of types has. */
enum {
    ORDERED = 1 << TEST_MAX | 1 << TEST_MIN,
    ADDED = 1 << TEST_SUM | 1 << TEST_PROD,
    LOGIC = 1 << TEST_LAND | 1 << TEST_LOR | 1 << TEST_LXOR,
    BITS = 1 << TEST_BAND | 1 << TEST_BOR | 1 << TEST_BXOR,
    C_INTEGER = ORDERED | ADDED | LOGIC | BITS,
    FORTRAN_INTEGER = ORDERED | ADDED | BITS, /* also the types of addresses and counts */
    FLOATING = ORDERED | ADDED,
    LOCATED = 1 << TEST_MAXLOC | 1 << TEST_MINLOC
};

#define SIGNED(T)                                                                                            \
    (sizeof(T) == 1 ? TEST_I8 : sizeof(T) == 2 ? TEST_I16 : sizeof(T) == 4 ? TEST_I32 : TEST_I64)
#define UNSIGNED(T)                                                                                          \
    (sizeof(T) == 1 ? TEST_U8 : sizeof(T) == 2 ? TEST_U16 : sizeof(T) == 4 ? TEST_U32 : TEST_U64)

#define INTEGER(handle, T)                                                                                   \
    {                                                                                                        \
#handle, handle, {TEST_PLAIN, {SIGNED(T), 0 }, 0, sizeof(T), false }, C_INTEGER                      \
    }
#define NATURAL(handle, T)                                                                                   \
    {                                                                                                        \
#handle, handle, {TEST_PLAIN, {UNSIGNED(T), 0 }, 0, sizeof(T), false }, C_INTEGER                    \
    }
#define ADDRESS(handle, T)                                                                                   \
    {                                                                                                        \
#handle, handle, {TEST_PLAIN, {SIGNED(T), 0 }, 0, sizeof(T), false }, FORTRAN_INTEGER                \
    }
#define REAL(handle, format, T)                                                                              \
    {                                                                                                        \
#handle, handle, {TEST_PLAIN, {format, 0 }, 0, sizeof(T), false }, FLOATING                          \
    }
#define COMPLEX(handle, format, T)                                                                           \
    {                                                                                                        \
#handle, handle, {TEST_COMPLEX, {format, format }, sizeof(T), 2 * sizeof(T), false }, ADDED          \
    }
#define LOGICAL(handle, T)                                                                                   \
    {                                                                                                        \
#handle, handle, {TEST_LOGICAL, {UNSIGNED(T), 0 }, 0, sizeof(T), false }, LOGIC                      \
    }
/* Open MPI takes MPI_OFFSET for unsigned, and 4.1 MPI_UNSIGNED_LONG for signed: values that are the same both
 * ways. */
#define CONFUSED(handle, T, format, ops)                                                                     \
    {                                                                                                        \
#handle, handle, {TEST_PLAIN, {format, 0 }, 0, sizeof(T), true }, ops                                \
    }
#define PAIR(handle, first, T, second, U)                                                                    \
    {                                                                                                        \
#handle, handle,                                                                                     \
            {TEST_PAIR, {first, second },                                                                    \
                         offsetof(                                                                           \
                             struct {                                                                        \
                                 T value;                                                                    \
                                 U location;                                                                 \
                             },                                                                              \
                             location),                                                                      \
                         sizeof(struct {                                                                     \
                             T value;                                                                        \
                             U location;                                                                     \
                         }),                                                                                 \
                         false },                                                                            \
             LOCATED                                                                                         \
    }

const struct test_type test_types[] = {
    INTEGER(MPI_SIGNED_CHAR, signed char),
    INTEGER(MPI_SHORT, short),
    INTEGER(MPI_INT, int),
    INTEGER(MPI_LONG, long),
    INTEGER(MPI_LONG_LONG, long long),
    NATURAL(MPI_UNSIGNED_CHAR, unsigned char),
    NATURAL(MPI_UNSIGNED_SHORT, unsigned short),
    NATURAL(MPI_UNSIGNED, unsigned),
    CONFUSED(MPI_UNSIGNED_LONG, unsigned long, UNSIGNED(unsigned long), C_INTEGER),
    NATURAL(MPI_UNSIGNED_LONG_LONG, unsigned long long),
    INTEGER(MPI_INT8_T, int8_t),
    INTEGER(MPI_INT16_T, int16_t),
    INTEGER(MPI_INT32_T, int32_t),
    INTEGER(MPI_INT64_T, int64_t),
    NATURAL(MPI_UINT8_T, uint8_t),
    NATURAL(MPI_UINT16_T, uint16_t),
    NATURAL(MPI_UINT32_T, uint32_t),
    NATURAL(MPI_UINT64_T, uint64_t),
    ADDRESS(MPI_AINT, MPI_Aint),
    CONFUSED(MPI_OFFSET, MPI_Offset, SIGNED(MPI_Offset), FORTRAN_INTEGER),
    ADDRESS(MPI_COUNT, MPI_Count),
    {"MPI_BYTE", MPI_BYTE, {TEST_PLAIN, {TEST_U8, 0}, 0, 1, false}, BITS},
    LOGICAL(MPI_C_BOOL, _Bool),
    LOGICAL(MPI_CXX_BOOL, _Bool),
    REAL(MPI_FLOAT, TEST_F32, float),
    REAL(MPI_DOUBLE, TEST_F64, double),
    REAL(MPI_LONG_DOUBLE, TEST_FLONG, long double),
    COMPLEX(MPI_C_FLOAT_COMPLEX, TEST_F32, float),
    COMPLEX(MPI_C_DOUBLE_COMPLEX, TEST_F64, double),
    COMPLEX(MPI_C_LONG_DOUBLE_COMPLEX, TEST_FLONG, long double),
    COMPLEX(MPI_CXX_FLOAT_COMPLEX, TEST_F32, float),
    COMPLEX(MPI_CXX_DOUBLE_COMPLEX, TEST_F64, double),
    COMPLEX(MPI_CXX_LONG_DOUBLE_COMPLEX, TEST_FLONG, long double),
    PAIR(MPI_SHORT_INT, TEST_I16, short, TEST_I32, int),
    PAIR(MPI_2INT, TEST_I32, int, TEST_I32, int),
    PAIR(MPI_LONG_INT, SIGNED(long), long, TEST_I32, int),
    PAIR(MPI_FLOAT_INT, TEST_F32, float, TEST_I32, int),
    PAIR(MPI_DOUBLE_INT, TEST_F64, double, TEST_I32, int),
    PAIR(MPI_LONG_DOUBLE_INT, TEST_FLONG, long double, TEST_I32, int),
    /* Fortran's, where the Open MPI was built with a Fortran compiler. */
    ADDRESS(MPI_INTEGER, int32_t),
    LOGICAL(MPI_LOGICAL, uint32_t),
    REAL(MPI_REAL, TEST_F32, float),
    REAL(MPI_DOUBLE_PRECISION, TEST_F64, double),
    COMPLEX(MPI_COMPLEX, TEST_F32, float),
    COMPLEX(MPI_DOUBLE_COMPLEX, TEST_F64, double),
    PAIR(MPI_2REAL, TEST_F32, float, TEST_F32, float),
    PAIR(MPI_2DOUBLE_PRECISION, TEST_F64, double, TEST_F64, double),
    PAIR(MPI_2INTEGER, TEST_I32, int32_t, TEST_I32, int32_t),
#ifdef MPI_INTEGER1
    ADDRESS(MPI_INTEGER1, int8_t),
#endif
#ifdef MPI_INTEGER2
    ADDRESS(MPI_INTEGER2, int16_t),
#endif
#ifdef MPI_INTEGER4
    ADDRESS(MPI_INTEGER4, int32_t),
#endif
#ifdef MPI_INTEGER8
    ADDRESS(MPI_INTEGER8, int64_t),
#endif
#ifdef MPI_LOGICAL1
    LOGICAL(MPI_LOGICAL1, uint8_t),
#endif
#ifdef MPI_LOGICAL2
    LOGICAL(MPI_LOGICAL2, uint16_t),
#endif
#ifdef MPI_LOGICAL4
    LOGICAL(MPI_LOGICAL4, uint32_t),
#endif
#ifdef MPI_LOGICAL8
    LOGICAL(MPI_LOGICAL8, uint64_t),
#endif
#ifdef MPI_REAL4
    REAL(MPI_REAL4, TEST_F32, float),
#endif
#ifdef MPI_REAL8
    REAL(MPI_REAL8, TEST_F64, double),
#endif
#ifdef MPI_COMPLEX8
    COMPLEX(MPI_COMPLEX8, TEST_F32, float),
#endif
#ifdef MPI_COMPLEX16
    COMPLEX(MPI_COMPLEX16, TEST_F64, double),
#endif
/* 16-bit floats, where both Open MPI and the compiler know them. */
#if defined(MPI_REAL2) && defined(__FLT16_MANT_DIG__)
    REAL(MPI_REAL2, TEST_F16, uint16_t),
#endif
#if defined(OMPI_HAVE_MPI_EXT_SHORTFLOAT) && defined(__FLT16_MANT_DIG__)
    REAL(MPIX_SHORT_FLOAT, TEST_F16, uint16_t),
    COMPLEX(MPIX_C_SHORT_FLOAT_COMPLEX, TEST_F16, uint16_t),
#endif
};

const int test_type_count = sizeof test_types / sizeof test_types[0];

const char *test_op_name(enum test_op op)
{
    return ops[op].name;
}

MPI_Op test_op_handle(enum test_op op)
{
    return ops[op].handle;
}

bool test_type_exists(const struct test_type *type)
{
    MPI_Aint low = 0;
    MPI_Aint extent = 0;
    int size = 0;
    MPI_Type_size(type->handle, &size);
    MPI_Type_get_extent(type->handle, &low, &extent);
    if (size == 0 || (size_t)extent != type->repr.size) {
        return false;
    }
    /* Without Fortran, its pair types are there, but have no operators. */
    return type->repr.shape != TEST_PAIR ||
           MPI_Reduce_local(&low, &extent, 0, type->handle, MPI_MAXLOC) == MPI_SUCCESS;
}
