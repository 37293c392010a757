/*
 * What the administrator lets an interface send: the rate of a token bucket (tc-tbf) at its root, by netlink. The speed that sysfs
 * gives is that of the device alone.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
#include <linux/netlink.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include "core/topology/found.h"

/* The attribute of that type in a run of them; NULL: none. */
static const struct rtattr *find(const struct rtattr *first, size_t bytes, unsigned short type)
{
    int left = (int)bytes;
    for (const struct rtattr *at = first; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
        if (at->rta_type == type) {
            return at;
        }
    }
    return NULL;
}

/* False if there is no such attribute. */
static bool read_value(const struct rtattr *first, size_t bytes, unsigned short type, void *value,
                       size_t value_bytes)
{
    const struct rtattr *found = find(first, bytes, type);
    if (found == NULL || RTA_PAYLOAD(found) < value_bytes) {
        return false;
    }
    memcpy(value, RTA_DATA(found), value_bytes);
    return true;
}

/* Bytes/s; 0: not known. A rate that 32 bits do not hold is given again with 64. */
static double rate_of(const struct rtattr *options)
{
    const struct rtattr *first = RTA_DATA(options);
    size_t bytes = RTA_PAYLOAD(options);
    struct tc_tbf_qopt shaper;
    uint64_t wide = 0;
    if (read_value(first, bytes, TCA_TBF_RATE64, &wide, sizeof wide)) {
        return (double)wide;
    }
    return read_value(first, bytes, TCA_TBF_PARMS, &shaper, sizeof shaper) ? (double)shaper.rate.rate : 0;
}

static void limit(struct gpucoll_topology *found, int interface, double bytes_per_sec)
{
    char name[IF_NAMESIZE];
    const double bits = 8 * bytes_per_sec;
    if (bits <= 0 || if_indextoname((unsigned)interface, name) == NULL) {
        return;
    }
    for (int i = 0; i < found->count; i++) {
        struct gpucoll_topology_object *nic = &found->objects[i];
        if (nic->kind == GPUCOLL_TOPOLOGY_NIC && strcmp(nic->name, name) == 0 &&
            (nic->bits_per_sec <= 0 || nic->bits_per_sec > bits)) {
            nic->bits_per_sec = bits;
        }
    }
}

static void read_shaper(struct gpucoll_topology *found, const struct nlmsghdr *message)
{
    const struct tcmsg *shaper = NLMSG_DATA(message);
    if (message->nlmsg_type != RTM_NEWQDISC || message->nlmsg_len < NLMSG_LENGTH(sizeof *shaper) ||
        shaper->tcm_parent != TC_H_ROOT) {
        return;
    }
    const struct rtattr *first = (const struct rtattr *)((const char *)shaper + NLMSG_ALIGN(sizeof *shaper));
    size_t bytes = message->nlmsg_len - NLMSG_LENGTH(sizeof *shaper);
    const struct rtattr *kind = find(first, bytes, TCA_KIND);
    const struct rtattr *options = find(first, bytes, TCA_OPTIONS);
    if (kind != NULL && options != NULL && RTA_PAYLOAD(kind) == sizeof "tbf" &&
        memcmp(RTA_DATA(kind), "tbf", sizeof "tbf") == 0) {
        limit(found, shaper->tcm_ifindex, rate_of(options));
    }
}

/* One packet of the answer; false when it was the last. */
static bool read_packet(int socket, struct gpucoll_topology *found)
{
    _Alignas(struct nlmsghdr) char packet[32768];
    ssize_t length = recv(socket, packet, sizeof packet, 0);
    if (length <= 0) {
        return false;
    }
    size_t left = (size_t)length;
    for (const struct nlmsghdr *at = (const struct nlmsghdr *)packet; NLMSG_OK(at, left);
         at = NLMSG_NEXT(at, left)) {
        if (at->nlmsg_type == NLMSG_DONE || at->nlmsg_type == NLMSG_ERROR) {
            return false;
        }
        read_shaper(found, at);
    }
    return true;
}

void gpucoll_found_limits(struct gpucoll_topology *found)
{
    const struct {
        struct nlmsghdr header;
        struct tcmsg body;
    } question = {
        .header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct tcmsg)),
                   .nlmsg_type = RTM_GETQDISC,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.tcm_family = AF_UNSPEC},
    };
    const struct timeval patience = {.tv_sec = 1};
    int link = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (link < 0) {
        return;
    }
    setsockopt(link, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(link, &question, question.header.nlmsg_len, 0) > 0) {
        while (read_packet(link, found)) {
        }
    }
    close(link);
}
