# The network between hosts, of which network namespaces are a model.
check_PROGRAMS += test/net/net_speed
test_net_net_speed_SOURCES = test/net/net_speed.c
test_net_net_speed_LDADD = libgpucoll.la
TESTS += test/net/namespaces.sh
dist_noinst_SCRIPTS += test/net/namespaces.sh
