/*
 * Two processes measure the network between them (ucx_tl/net.h): `net_speed DEVICES FOLDER ME PEER` is run twice, on two hosts or in two
 * network namespaces, with the names exchanged. They find each other through files in a folder that both see. Both print nothing but
 * errors; the one whose name comes first prints "LATENCY_US BANDWIDTH_GB_PER_S BYTES". Status 77: there is no network here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "core/base/clock.h"
#include "ucx_tl/net.h"

static const struct gpucoll_net_ops *const ops = &gpucoll_net_ucx;

enum { MESSAGE = 1 << 20, AT_ONCE = 8, MESSAGES = 200, PINGS = 500, PATIENCE = 60 };

struct end {
    struct gpucoll_net *net;
    struct gpucoll_net_peer *peer;
    char *data[AT_ONCE];
    uint64_t start;
};

static void give_up(const char *what)
{
    fprintf(stderr, "net_speed: %s\n", what);
    exit(1);
}

static void wait_for(struct end *end, struct gpucoll_net_message *message)
{
    gpucoll_status status;
    while ((status = ops->test(end->net, message)) == GPUCOLL_IN_PROGRESS) {
        ops->progress(end->net);
        if (gpucoll_now_ns() - end->start > PATIENCE * 1000000000ull) {
            give_up("the other process does not answer");
        }
    }
    if (status != GPUCOLL_OK) {
        give_up("a message failed");
    }
}

static void publish(const struct gpucoll_net *net, const char *folder, const char *me)
{
    char path[512];
    char part[512];
    struct gpucoll_net_address address;
    ops->address(net, &address);
    snprintf(path, sizeof path, "%.200s/%.100s", folder, me);
    snprintf(part, sizeof part, "%.400s.new", path);
    FILE *file = fopen(part, "w");
    if (file == NULL || fwrite(&address, sizeof address, 1, file) != 1 || fclose(file) != 0 ||
        rename(part, path) != 0) {
        give_up("cannot write into the folder");
    }
}

static struct gpucoll_net_peer *meet(struct gpucoll_net *net, const char *folder, const char *name)
{
    char path[512];
    struct gpucoll_net_address address;
    struct gpucoll_net_peer *peer = NULL;
    FILE *file = NULL;
    snprintf(path, sizeof path, "%.200s/%.100s", folder, name);
    for (int i = 0; i < 100 * PATIENCE && (file = fopen(path, "r")) == NULL; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    if (file == NULL || fread(&address, sizeof address, 1, file) != 1) {
        give_up("the other process does not appear");
    }
    fclose(file);
    if (ops->connect(net, &address, &peer) != GPUCOLL_OK) {
        exit(1);
    }
    return peer;
}

static double ping(struct end *end, bool first)
{
    uint64_t start = 0;
    for (int i = -PINGS / 10; i < PINGS; i++) {
        struct gpucoll_net_message there;
        struct gpucoll_net_message back;
        char answer[8];
        if (i == 0) {
            start = gpucoll_now_ns();
        }
        ops->receive(end->net, end->peer, 1, answer, sizeof answer, NULL, &back);
        if (!first) {
            wait_for(end, &back);
        }
        ops->send(end->net, end->peer, 1, end->data[0], sizeof answer, NULL, &there);
        wait_for(end, &there);
        if (first) {
            wait_for(end, &back);
        }
    }
    return (double)(gpucoll_now_ns() - start) / (2e3 * PINGS);
}

/* The first sends, the other receives, and says when it has all. */
static double stream(struct end *end, bool first)
{
    struct gpucoll_net_message messages[AT_ONCE] = {{.status = GPUCOLL_OK}};
    struct gpucoll_net_message done;
    char word[1];
    uint64_t start = gpucoll_now_ns();
    for (int i = 0; i < MESSAGES; i++) {
        wait_for(end, &messages[i % AT_ONCE]);
        if (first) {
            ops->send(end->net, end->peer, 2, end->data[i % AT_ONCE], MESSAGE, NULL, &messages[i % AT_ONCE]);
        } else {
            ops->receive(end->net, end->peer, 2, end->data[i % AT_ONCE], MESSAGE, NULL,
                         &messages[i % AT_ONCE]);
        }
    }
    for (int i = 0; i < AT_ONCE; i++) {
        wait_for(end, &messages[i]);
    }
    if (first) {
        ops->receive(end->net, end->peer, 3, word, sizeof word, NULL, &done);
    } else {
        ops->send(end->net, end->peer, 3, end->data[0], sizeof word, NULL, &done);
    }
    wait_for(end, &done);
    return (double)MESSAGES * MESSAGE / (double)(gpucoll_now_ns() - start);
}

int main(int argc, char **argv)
{
    struct gpucoll_config config;
    struct gpucoll_log log;
    const struct gpucoll_net_place place = {.local_rank = -1};
    struct end end = {.start = gpucoll_now_ns()};
    if (argc != 5) {
        fprintf(stderr, "usage: net_speed DEVICES FOLDER ME PEER\n");
        return 2;
    }
    gpucoll_log_stderr(&log, GPUCOLL_LOG_SETUP, NULL);
    gpucoll_config_init(&config);
    config.net_devices = argv[1];
    gpucoll_status status = ops->open(&config, &log, &place, &end.net);
    if (status != GPUCOLL_OK) {
        return status == GPUCOLL_DECLINED ? 77 : 1;
    }
    for (int i = 0; i < AT_ONCE; i++) {
        end.data[i] = calloc(MESSAGE, 1);
        if (end.data[i] == NULL) {
            give_up("out of memory");
        }
    }
    bool first = strcmp(argv[3], argv[4]) < 0;
    publish(end.net, argv[2], argv[3]);
    end.peer = meet(end.net, argv[2], argv[4]);
    double latency_us = ping(&end, first);
    double bandwidth = stream(&end, first);
    if (first) {
        printf("%.1f %.3f %lld\n", latency_us, bandwidth, (long long)MESSAGES * MESSAGE);
    }
    ops->disconnect(end.net, end.peer);
    ops->close(end.net);
    for (int i = 0; i < AT_ONCE; i++) {
        free(end.data[i]);
    }
    return 0;
}
