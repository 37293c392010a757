#include "test/mpi/ways.h"

#include <stdio.h>
#include <string.h>

#include "test/mpi/counters.h"
#include "test/mpi/memory.h"

enum { NAME = 48, PLANS = 2 * TEST_VALUES_MAX };

bool test_ways_native;
const char *test_ways_expected;

static MPI_T_pvar_handle native, staged, passed, plans;
static unsigned long long native_before, staged_before, passed_before;
/* How often a plan was found, by collective and by the plan's number. */
static unsigned seen[TEST_VALUES_MAX][PLANS];

/* An item of the list. */
struct item {
    char collectives[300];
    char algorithm[NAME];
    char protocol[NAME]; /* empty: any */
    unsigned percent;
};

void test_ways_start(void)
{
    if (!test_ways_native && test_ways_expected == NULL)
        return;
    test_counters_start();
    native = test_counter_open("coll_gpucoll_native_calls");
    staged = test_counter_open("coll_gpucoll_staged_calls");
    passed = test_counter_open("coll_gpucoll_passed_calls");
    /* The last to be opened: what it says of itself stays in test_opened. */
    plans = test_variable_open("coll_gpucoll_collective_plan");
}

void test_ways_before(void)
{
    if (!test_ways_native)
        return;
    native_before = test_counter_read(native);
    staged_before = test_counter_read(staged);
    passed_before = test_counter_read(passed);
}

void test_ways_after(unsigned natively, const char *what)
{
    unsigned long long ran;

    if (!test_ways_native)
        return;
    ran = test_counter_read(native) - native_before;
    if (ran < natively)
        test_fail("%s: %llu calls ran natively, not %u; %llu were staged, %llu passed on", what, ran,
                  natively, test_counter_read(staged) - staged_before,
                  test_counter_read(passed) - passed_before);
}

void test_ways_count(const char *collective)
{
    int values[TEST_VALUES_MAX] = {0};
    int index;

    if (plans == NULL || test_ways_expected == NULL)
        return;
    index = test_opened_index(collective);
    if (MPI_T_pvar_read(test_counters_session, plans, values) != MPI_SUCCESS || values[index] < 0 ||
        values[index] >= PLANS)
        test_fail("the plan of %s cannot be read", collective);
    else
        seen[index][values[index]]++;
}

/* Reads the item at `*at` and moves behind it; false if it is not one. */
static bool read_item(const char **at, struct item *item)
{
    char text[400];
    const size_t length = strcspn(*at, ",");

    memset(item, 0, sizeof *item);
    item->percent = 100;
    snprintf(text, sizeof text, "%.*s", (int)length, *at);
    *at += length + ((*at)[length] == ',');
    if (length >= sizeof text || sscanf(text, "%299[^:]:%47[^/@]", item->collectives, item->algorithm) != 2)
        return false;
    if (strchr(text, '/') != NULL && sscanf(strchr(text, '/'), "/%47[^@]", item->protocol) != 1)
        return false;
    return strchr(text, '@') == NULL || sscanf(strchr(text, '@'), "@%u", &item->percent) == 1;
}

static bool is_of(const struct item *item, const char *plan)
{
    const char *protocol = strchr(plan, '/') + 1;
    const size_t length = (size_t)(protocol - 1 - plan);

    return (strcmp(item->algorithm, "any") == 0 ||
            (strlen(item->algorithm) == length && strncmp(item->algorithm, plan, length) == 0)) &&
           (item->protocol[0] == '\0' || strcmp(item->protocol, protocol) == 0);
}

/* What algorithms ran of a collective; calls of a single rank, barriers and the like have none. */
static void check_collective(const struct item *item, const char *collective)
{
    const int index = test_opened_index(collective);
    unsigned all = 0, expected = 0;
    char found[300] = "";

    for (int value = 0; value < PLANS; value++) {
        char plan[NAME];
        const size_t used = strlen(found);
        if (seen[index][value] == 0 || !test_opened_state(value, plan, sizeof plan) ||
            strchr(plan, '/') == NULL)
            continue;
        all += seen[index][value];
        expected += is_of(item, plan) ? seen[index][value] : 0;
        snprintf(found + used, sizeof found - used, " %s %u", plan, seen[index][value]);
    }
    if (test.rank == 0)
        printf("NOTE %s by%s\n", collective, all > 0 ? found : " no algorithm");
    if (expected == 0 || 100 * expected < item->percent * all)
        test_fail("%u of %u calls of %s went by %s%s%s, where %u %% are expected, and one at least:%s",
                  expected, all, collective, item->algorithm, item->protocol[0] != '\0' ? "/" : "",
                  item->protocol, item->percent, found);
}

static void check_item(struct item *item)
{
    char *rest = NULL;

    for (char *name = strtok_r(item->collectives, "+", &rest); name != NULL;
         name = strtok_r(NULL, "+", &rest))
        check_collective(item, name);
}

void test_ways_stop(void)
{
    if (!test_ways_native && test_ways_expected == NULL)
        return;
    for (const char *at = test_ways_expected; at != NULL && *at != '\0';) {
        const char *text = at;
        struct item item;
        bool understood = read_item(&at, &item);
        if (!test_begin("expected/%.*s", (int)strcspn(text, ","), text))
            continue;
        if (understood && test_memory_has_gpu() && test_memory_gpus() < test.size)
            test_skip("ranks share a GPU, where not every plan can run");
        else if (understood)
            check_item(&item);
        else
            test_fail("--expect: this is not COLLECTIVE[+COLLECTIVE...]:ALGORITHM[/PROTOCOL][@PERCENT]");
        test_end();
    }
    test_counter_close(native);
    test_counter_close(staged);
    test_counter_close(passed);
    test_counters_stop();
}
