/*
 * The table of collectives in docs/collectives.md against what happens: for each cell (collective and form) the call is made on
 * device memory, and gpucoll's counters must say that it ran as the cell says. `--over=T`: only that transport is allowed, and what
 * the column T calls staged must be. `--staged`: none is allowed, and what the table calls native must be staged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/mpi/collective.h"
#include "test/mpi/counters.h"
#include "test/mpi/memory.h"
#include "test/mpi/support.h"

enum { TIMES = 3, COUNT = 40, COLUMNS = 16, LINE = 2000 };

enum way { NOT_THERE, NATIVE, STAGED, UNKNOWN_WAY };

static const char *const way_names[] = {"n/a", "native", "staged", "neither native nor staged"};

static bool expect_staged;
static const char *over; /* NULL: no column of transports counts */
static const struct test_comm *world, *cart;

/* Cuts a line of a markdown table; how many cells, blanks around them removed. */
static int split(char *line, char **cells)
{
    int count = 0;
    char *at = strchr(line, '|');

    while (at != NULL && count < COLUMNS) {
        char *end = strchr(++at, '|');
        size_t length;
        if (end == NULL)
            break;
        *end = '\0';
        at += strspn(at, " ");
        length = strlen(at);
        while (length > 0 && at[length - 1] == ' ')
            at[--length] = '\0';
        cells[count++] = at;
        at = end;
    }
    return count;
}

static enum way way_of(const char *cell)
{
    for (int way = NOT_THERE; way < UNKNOWN_WAY; way++)
        if (strcmp(cell, way_names[way]) == 0)
            return (enum way)way;
    return UNKNOWN_WAY;
}

static void run_collective(const struct test_collective *row, enum test_form form)
{
    struct test_call call = {.row = row,
                             .form = form,
                             .comm = row->neighbors ? cart : world,
                             .request = MPI_REQUEST_NULL,
                             .key = test_mix2(test.seed, (uint64_t)row->coll),
                             .alone = true,
                             .plain = true,
                             .fixed_count = COUNT,
                             .kinds = {TEST_DEVICE, TEST_DEVICE}};
    bool persistent = form == TEST_PERSISTENT_FORM;

    test_choose_root(&call, 0);
    (row->reduces ? test_reduce_plan : test_move_plan)(&call);
    snprintf(call.text, sizeof call.text, "%s %s", test_form_name(form), row->name);
    if (persistent && !test_ok(test_issue(&call), "the initialisation"))
        return;
    for (int round = 0; round < TIMES; round++) {
        (row->reduces ? test_reduce_fill : test_move_fill)(&call, round);
        test_ok(persistent ? MPI_Start(&call.request) : test_issue(&call), call.text);
        if (form != TEST_BLOCKING)
            test_ok(MPI_Wait(&call.request, MPI_STATUS_IGNORE), "MPI_Wait");
        test_side_check(&call.recv.side, "receive", call.text);
        test_side_check(&call.send.side, "send", call.text);
    }
    if (persistent)
        test_ok(MPI_Request_free(&call.request), "MPI_Request_free");
    test_call_close(&call);
}

/* A persistent call may be counted as staged once, when it is made. */
static bool as_said(enum way said, enum test_form form, unsigned long long native, unsigned long long staged)
{
    unsigned long long least = form == TEST_PERSISTENT_FORM ? 1 : TIMES;

    if (said == NATIVE)
        return native == TIMES && staged == 0;
    return native == 0 && staged >= least && staged <= TIMES;
}

/* `carried`: the cell of the transport, or NULL. */
static void check_cell(const struct test_collective *row, enum test_form form, const char *cell,
                       const char *carried)
{
    MPI_T_pvar_handle native, staged;
    unsigned long long native_calls, staged_calls;
    enum way said = way_of(cell);

    if (!test_begin("%s/%s/%s", row->name, test_form_name(form), said == NOT_THERE ? "none" : cell))
        return;
    if (said == UNKNOWN_WAY || (carried != NULL && way_of(carried) == UNKNOWN_WAY))
        test_fail("the table says '%s', which is neither native, staged nor n/a", cell);
    if (!test_form_exists(form))
        test_skip("this Open MPI has no persistent collectives");
    if (said == NATIVE && carried != NULL && way_of(carried) == STAGED)
        said = STAGED;
    /* A barrier has no buffers: nothing can stage it. Neither it nor what is local needs a transport. */
    if (said == NATIVE && expect_staged && !row->has_no_data && !row->is_local)
        said = STAGED;
    if ((said == NATIVE || said == STAGED) && test_form_exists(form)) {
        native = test_counter_open("coll_gpucoll_native_calls");
        staged = test_counter_open("coll_gpucoll_staged_calls");
        run_collective(row, form);
        native_calls = test_counter_close(native);
        staged_calls = test_counter_close(staged);
        if (!as_said(said, form, native_calls, staged_calls))
            test_fail("of %d calls %llu ran natively and %llu were staged, where %s was to be expected",
                      TIMES, native_calls, staged_calls, way_names[said]);
    }
    test_end();
}

static int find_column(char **cells, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(cells[i], name) == 0)
            return i;
    return -1;
}

/* Where the forms, and then the transport, stand in the table; false for a line that is not its head. */
static bool find_columns(char **cells, int count, int *columns)
{
    bool all = true;

    for (int form = 0; form < TEST_FORMS; form++)
        columns[form] = find_column(cells, count, test_form_name((enum test_form)form));
    columns[TEST_FORMS] = over != NULL ? find_column(cells, count, over) : 0;
    for (int i = 0; i <= TEST_FORMS; i++)
        all = all && columns[i] >= 0;
    return all;
}

static const struct test_collective *find_row(const char *name)
{
    for (int i = 0; i < test_collective_count; i++)
        if (strcmp(test_collectives[i].name, name) == 0)
            return &test_collectives[i];
    return NULL;
}

/* True for each collective that the table has. */
static void check_line(char **cells, const int *columns, bool *seen)
{
    const struct test_collective *row = find_row(cells[0]);

    if (row == NULL) {
        if (test_begin("%s", cells[0])) {
            test_fail("the table has a row that this test does not know");
            test_end();
        }
        return;
    }
    seen[row - test_collectives] = true;
    for (int form = 0; form < TEST_FORMS; form++)
        check_cell(row, (enum test_form)form, cells[columns[form]],
                   over != NULL ? cells[columns[TEST_FORMS]] : NULL);
}

static void check_table(const char *path)
{
    bool seen[TEST_COLLS] = {false};
    bool inside = false;
    int columns[TEST_FORMS + 1];
    char line[LINE], *cells[COLUMNS];
    FILE *file = fopen(path, "r");

    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        int count = split(line, cells);
        if (!inside)
            inside = find_columns(cells, count, columns);
        else if (count > TEST_FORMS && strncmp(cells[0], "---", 3) != 0)
            check_line(cells, columns, seen);
    }
    if (file != NULL)
        fclose(file);
    if (!test_begin("complete"))
        return;
    if (!inside)
        test_fail("%s has no table of collectives, their forms and %s", path,
                  over != NULL ? over : "transports");
    for (int i = 0; i < test_collective_count; i++)
        if (!seen[i] && !test_collectives[i].has_no_data)
            test_fail("the table has no row %s", test_collectives[i].name);
    test_end();
}

int main(int argc, char **argv)
{
    static const char *table;
    static const struct test_option own[] = {
        {.name = "table", .text = &table, .help = "the markdown file"},
        {.name = "over", .text = &over, .help = "the transport, a column of the table"},
        {.name = "staged", .flag = &expect_staged, .help = "nothing can be native"},
        {.name = NULL}};
    struct test_comm comms[TEST_COMMS_MAX];
    int comm_count;

    test_start(&argc, &argv, MPI_THREAD_SINGLE, own);
    test_counters_start();
    comm_count = test_comms_make(comms);
    for (int i = 0; i < comm_count; i++)
        if (strcmp(comms[i].name, "cart") == 0)
            cart = &comms[i];
    world = &comms[0];
    test_layouts_make();
    check_table(table != NULL ? table : "docs/collectives.md");
    test_layouts_free();
    test_comms_free(comms, comm_count);
    test_counters_stop();
    return test_finish();
}
