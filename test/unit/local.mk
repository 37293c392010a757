TESTS += test/unit/cpus.sh

# The engine's tests: one GoogleTest program, no MPI.
if GTEST
check_PROGRAMS += test/unit/unit_tests
TESTS += test/unit/shards.sh
endif

test_unit_unit_tests_SOURCES = \
	test/relay/expected.c \
	test/relay/expected.h \
	test/relay/order.c \
	test/relay/order.h \
	tools/tune_fit.c \
	tools/tune_fit.h \
	test/unit/agreement_test.cc \
	test/unit/algorithms_test.cc \
	test/unit/allreduce_test.cc \
	test/unit/barrier_call_test.cc \
	test/unit/base_test.cc \
	test/unit/bcast_bulk_test.cc \
	test/unit/cluster_alarm_test.cc \
	test/unit/cluster_carry_test.cc \
	test/unit/cluster_differ_test.cc \
	test/unit/cluster_failure_test.cc \
	test/unit/cluster_flat_test.cc \
	test/unit/cluster_lanes_test.cc \
	test/unit/cluster_leave_test.cc \
	test/unit/cluster_pairs_test.cc \
	test/unit/cluster_reach_test.cc \
	test/unit/cluster_scarce_test.cc \
	test/unit/cluster_team_test.cc \
	test/unit/cluster_test.cc \
	test/unit/company_test.cc \
	test/unit/copy_list_test.cc \
	test/unit/cores_test.cc \
	test/unit/courier_test.cc \
	test/unit/device_pool_test.cc \
	test/unit/direct_test.cc \
	test/unit/early_test.cc \
	test/unit/hosts.cc \
	test/unit/hosts.h \
	test/unit/exchange_part.cc \
	test/unit/exchange_part.h \
	test/unit/exchange_test.cc \
	test/unit/failing.c \
	test/unit/failing.h \
	test/unit/failure_test.cc \
	test/unit/fake_net.cc \
	test/unit/fake_net.h \
	test/unit/few_bytes.cc \
	test/unit/few_bytes.h \
	test/unit/first_habit.c \
	test/unit/first_habit.h \
	test/unit/first_lane.c \
	test/unit/first_lane.h \
	test/unit/gate_hand.c \
	test/unit/gate_hand.h \
	test/unit/gate_steps_test.cc \
	test/unit/gate_test.cc \
	test/unit/habit_test.cc \
	test/unit/gate_wait.h \
	test/unit/host_accel_test.cc \
	test/unit/kernels_test.cc \
	test/unit/laid_runs_test.cc \
	test/unit/layout_test.cc \
	test/unit/net_ends.h \
	test/unit/net_process_test.cc \
	test/unit/net_tcp_test.cc \
	test/unit/net_test.cc \
	test/unit/net_ties_test.cc \
	test/unit/packed_once.c \
	test/unit/packed_once.h \
	test/unit/packing_test.cc \
	test/unit/pieces_test.cc \
	test/unit/queue_test.cc \
	test/unit/queued_copies.c \
	test/unit/queued_copies.h \
	test/unit/rail_hosts.h \
	test/unit/rail_test.cc \
	test/unit/ranks.cc \
	test/unit/ranks.h \
	test/unit/reducer.h \
	test/unit/reduce_bulk_test.cc \
	test/unit/reduce_copy_test.cc \
	test/unit/reduce_lines_test.cc \
	test/unit/reduce_local_test.cc \
	test/unit/reduce_pair_test.cc \
	test/unit/reduce_test.cc \
	test/unit/relay_shape_test.cc \
	test/unit/relay_test.cc \
	test/unit/resident_test.cc \
	test/unit/segment_test.cc \
	test/unit/selector_input.h \
	test/unit/selector_crew_test.cc \
	test/unit/selector_shape_test.cc \
	test/unit/selector_test.cc \
	test/unit/selector_unattended_test.cc \
	test/unit/small_float.cc \
	test/unit/small_float.h \
	test/unit/stats_test.cc \
	test/unit/steps_told.c \
	test/unit/steps_told.h \
	test/unit/team_test.cc \
	test/unit/sum.h \
	test/unit/tasks.h \
	test/unit/topology_file_test.cc \
	test/unit/topology_found_test.cc \
	test/unit/topology_samples.cc \
	test/unit/topology_samples.h \
	test/unit/topology_test.cc \
	test/unit/transports_test.cc \
	test/unit/tuning_test.cc \
	test/unit/unit.cc \
	test/unit/unit.h \
	test/unit/warmup_test.cc \
	test/unit/values.cc \
	test/unit/values.h
if UCX
test_unit_unit_tests_SOURCES += \
	test/unit/gpu_memory.c \
	test/unit/gpu_memory.h \
	test/unit/find_way.c \
	test/unit/find_way.h \
	test/unit/held_note.c \
	test/unit/held_note.h \
	test/unit/near_memory_test.cc \
	test/unit/net_choice_test.cc \
	test/unit/net_memory_test.cc \
	test/unit/net_note_test.cc
endif
if CUDA
test_unit_unit_tests_SOURCES += test/unit/cuda_context_test.cc
endif
test_unit_unit_tests_CPPFLAGS = $(AM_CPPFLAGS) $(CUDA_CPPFLAGS) $(UCX_CFLAGS) $(GTEST_CFLAGS) \
	-DGPUCOLL_TEST_SRCDIR='"$(abs_srcdir)"'
test_unit_unit_tests_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc -Wl,--wrap=fallocate
test_unit_unit_tests_LDADD = libgpucoll.la -lgtest_main $(GTEST_LIBS)
dist_noinst_SCRIPTS += test/unit/cpus.sh test/unit/shards.sh
EXTRA_DIST += test/README.md

# How long rails take, by hand.
check_PROGRAMS += test/unit/rail_speed
test_unit_rail_speed_SOURCES = test/unit/rail_speed.c
test_unit_rail_speed_LDADD = libgpucoll.la
