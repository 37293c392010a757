/*
 * Which way the calls of a program went: on gpucoll's engine (natively), on host copies (staged) or on to the next component (passed),
 * and by which plan. A program that asks for this has two options more:
 *
 *   --native          every call that nothing keeps from running natively has to: each program knows which these are
 *   --expect=LIST     calls have to go by the plans that the run's parameters force
 *
 * LIST is items COLLECTIVE[+COLLECTIVE...]:ALGORITHM[/PROTOCOL][@PERCENT], one behind the other with commas between; `any` stands for every
 * algorithm. Of the calls of each of these collectives that an algorithm ran, so many have to have gone that way: all, if nothing is said, and
 * one at least. Ranks that share a GPU cannot run every plan: there the plans are not looked at.
 */
#ifndef GPUCOLL_TEST_MPI_WAYS_H
#define GPUCOLL_TEST_MPI_WAYS_H

#include <stdbool.h>

#include "test/mpi/support.h"

/* What the options say. */
extern bool test_ways_native;
extern const char *test_ways_expected;

/* Rows of a program's own options. */
#define TEST_WAYS_NATIVE                                                                                     \
    {                                                                                                        \
        .name = "native", .flag = &test_ways_native, .help = "calls that can run natively have to"           \
    }
#define TEST_WAYS_EXPECT                                                                                     \
    {                                                                                                        \
        .name = "expect", .text = &test_ways_expected,                                                       \
        .help = "COLLECTIVE[+COLLECTIVE]:ALGORITHM[/PROTOCOL][@PERCENT],..., the plans to go by"             \
    }

/* After test_start. Without one of the options this and all below does nothing. */
void test_ways_start(void);
/* Before and after calls, of which so many have to run natively; `what` names them. No other thread may make calls meanwhile. */
void test_ways_before(void);
void test_ways_after(unsigned natively, const char *what);
/* The latest call of the collective is complete: its plan counts. */
void test_ways_count(const char *collective);
/* A case for each item of the list. Before test_finish. */
void test_ways_stop(void);

#endif
