#include "bench/data.h"

#include <float.h>
#include <string.h>

/* Finaliser of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static inline uint64_t draw(const struct bench_key *key, int rank, uint64_t index)
{
    return mix(key->seed + (uint64_t)rank * 0xd1342543de82ef95u + index * 0x9e3779b97f4a7c15u);
}

/* Every value is one that its type holds exactly. Products stay near 1, so that no number of ranks overflows. */
static inline double real_value(const struct bench_key *key, int rank, uint64_t index, int bits)
{
    double unit = (double)(draw(key, rank, index) >> (64 - bits)) / (double)(1ull << bits); /* [0, 1) */
    return key->op == BENCH_PROD ? 0.5 + unit : 2.0 * unit - 1.0;
}

static inline double integer_value(const struct bench_key *key, int rank, uint64_t index)
{
    uint64_t random = draw(key, rank, index);
    if (key->op == BENCH_PROD)
        return random & 1 ? 1.0 : -1.0;
    return (double)(int64_t)(random % 2001) - 1000.0;
}

/* Bits: 23 so that 2u - 1 and 0.5 + u are floats, 52 for doubles. */
#define VALUE_float(key, rank, index) real_value(key, rank, index, 23)
#define VALUE_double(key, rank, index) real_value(key, rank, index, 52)
#define VALUE_int(key, rank, index) integer_value(key, rank, index)
#define VALUE_long(key, rank, index) integer_value(key, rank, index)

/* n - 1 roundings, each at most half a unit in the last place of a partial result, which is at most `magnitude`. Maximum and
 * minimum, and all of integers, are exact. */
static inline double tolerance(const struct bench_key *key, double epsilon, double magnitude)
{
    bool exact = key->op == BENCH_MAX || key->op == BENCH_MIN;
    return exact ? 0 : (double)(key->ranks - 1) * epsilon * magnitude;
}

/* `wide` is the type the reference is computed in, `epsilon` that of `element` (0: exact). */
#define DEFINE_TYPE(name, element, wide, epsilon)                                                            \
    static void fill_##name(void *to, uint64_t first, size_t count, const struct bench_key *key, int rank)   \
    {                                                                                                        \
        element *out = to;                                                                                   \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = (element)VALUE_##name(key, rank, first + i);                                            \
    }                                                                                                        \
                                                                                                             \
    static void check_##name(const void *result, uint64_t first, size_t count, const struct bench_key *key,  \
                             struct bench_mismatch *mismatch)                                                \
    {                                                                                                        \
        const element *got = result;                                                                         \
        for (size_t i = 0; i < count; i++) {                                                                 \
            wide expected = (wide)VALUE_##name(key, key->first_rank, first + i);                             \
            wide magnitude = expected < 0 ? -expected : expected;                                            \
            for (int other = 1; other < key->ranks; other++) {                                               \
                wide value = (wide)VALUE_##name(key, key->first_rank + other, first + i);                    \
                switch (key->op) {                                                                           \
                case BENCH_SUM:                                                                              \
                    expected += value;                                                                       \
                    magnitude += value < 0 ? -value : value;                                                 \
                    break;                                                                                   \
                case BENCH_PROD:                                                                             \
                    expected *= value;                                                                       \
                    magnitude = expected < 0 ? -expected : expected;                                         \
                    break;                                                                                   \
                case BENCH_MAX:                                                                              \
                    expected = value > expected ? value : expected;                                          \
                    break;                                                                                   \
                case BENCH_MIN:                                                                              \
                    expected = value < expected ? value : expected;                                          \
                    break;                                                                                   \
                }                                                                                            \
            }                                                                                                \
            wide error = (wide)got[i] - expected;                                                            \
            /* Written so that a NaN fails. */                                                               \
            if (!((error < 0 ? -error : error) <= (wide)tolerance(key, epsilon, (double)magnitude))) {       \
                *mismatch = (struct bench_mismatch){true, first + i, (double)got[i], (double)expected};      \
                return;                                                                                      \
            }                                                                                                \
        }                                                                                                    \
    }

DEFINE_TYPE(float, float, double, FLT_EPSILON)
DEFINE_TYPE(double, double, long double, DBL_EPSILON)
DEFINE_TYPE(int, int32_t, double, 0.0)
DEFINE_TYPE(long, int64_t, double, 0.0)

/* A double and a gap as wide, which is to stay as it is: all ones, as in what is received into. */
struct spaced {
    double value;
    uint64_t gap;
};

static void fill_spaced(void *to, uint64_t first, size_t count, const struct bench_key *key, int rank)
{
    struct spaced *out = to;
    for (size_t i = 0; i < count; i++)
        out[i] = (struct spaced){VALUE_double(key, rank, first + i), UINT64_MAX};
}

static void check_spaced(const void *result, uint64_t first, size_t count, const struct bench_key *key,
                         struct bench_mismatch *mismatch)
{
    const struct spaced *got = result;
    for (size_t i = 0; i < count && !mismatch->found; i++) {
        check_double(&got[i].value, first + i, 1, key, mismatch);
        if (!mismatch->found && got[i].gap != UINT64_MAX)
            *mismatch = (struct bench_mismatch){true, first + i, (double)got[i].gap, (double)UINT64_MAX};
    }
}

MPI_Datatype bench_type_mpi(const struct bench_type *type)
{
    static MPI_Datatype spaced = MPI_DATATYPE_NULL;
    if (!bench_type_is_derived(type))
        return type->mpi;
    if (spaced == MPI_DATATYPE_NULL) {
        MPI_Type_create_resized(MPI_DOUBLE, 0, sizeof(struct spaced), &spaced);
        MPI_Type_commit(&spaced);
    }
    return spaced;
}

/* The numbers are those of nccl.h: ncclInt32 2, ncclInt64 4, ncclFloat32 7, ncclFloat64 8; ncclSum 0, ncclProd 1,
 * ncclMax 2, ncclMin 3. */
const struct bench_type bench_types[] = {
    {"float", 4, MPI_FLOAT, 7, fill_float, check_float},
    {"double", 8, MPI_DOUBLE, 8, fill_double, check_double},
    {"int", 4, MPI_INT32_T, 2, fill_int, check_int},
    {"long", 8, MPI_INT64_T, 4, fill_long, check_long},
    {"spaced", sizeof(struct spaced), MPI_DATATYPE_NULL, -1, fill_spaced, check_spaced},
};
const int bench_type_count = sizeof(bench_types) / sizeof(bench_types[0]);

const struct bench_op bench_ops[] = {
    {"sum", BENCH_SUM, MPI_SUM, 0},
    {"prod", BENCH_PROD, MPI_PROD, 1},
    {"max", BENCH_MAX, MPI_MAX, 2},
    {"min", BENCH_MIN, MPI_MIN, 3},
};
const int bench_op_count = sizeof(bench_ops) / sizeof(bench_ops[0]);

const struct bench_type *bench_type_find(const char *name)
{
    for (int i = 0; i < bench_type_count; i++)
        if (strcmp(bench_types[i].name, name) == 0)
            return &bench_types[i];
    return NULL;
}

const struct bench_op *bench_op_find(const char *name)
{
    for (int i = 0; i < bench_op_count; i++)
        if (strcmp(bench_ops[i].name, name) == 0)
            return &bench_ops[i];
    return NULL;
}

uint64_t bench_digest(uint64_t digest, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    size_t i = 0;
    for (; i + 8 <= bytes; i += 8) {
        uint64_t word;
        memcpy(&word, byte + i, 8);
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    for (; i < bytes; i++)
        digest = (digest ^ byte[i]) * 0x9e3779b97f4a7c15u;
    return digest;
}
