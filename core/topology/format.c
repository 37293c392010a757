#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
#include "core/topology/format.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/base/number.h"

bool gpucoll_topology_number(const char *text, unsigned long least, unsigned long most, unsigned long *number)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0') {
        return false;
    }
    *number = strtoul(text, NULL, 10);
    return *number >= least && *number <= most;
}

/* Takes digits of base 16 at *text, between `least` and `most` of them. */
static bool take_hex(const char **text, size_t least, size_t most, unsigned *number)
{
    size_t digits = strspn(*text, "0123456789abcdefABCDEF");
    if (digits < least || digits > most) {
        return false;
    }
    *number = (unsigned)strtoul(*text, NULL, 16);
    *text += digits;
    return true;
}

bool gpucoll_pci_parse(struct gpucoll_pci_address *pci, const char *text)
{
    *pci = (struct gpucoll_pci_address){.known = true};
    bool fine = take_hex(&text, 4, 8, &pci->domain) && *text++ == ':' && take_hex(&text, 2, 2, &pci->bus) &&
                *text++ == ':' && take_hex(&text, 2, 2, &pci->device) && pci->device < 32;
    if (fine && *text == '.') {
        text++;
        fine = take_hex(&text, 1, 1, &pci->function) && pci->function < 8;
    }
    return fine && *text == '\0';
}

static bool take_cpu(const char **text, unsigned long *cpu)
{
    size_t digits = strspn(*text, "0123456789");
    *cpu = strtoul(*text, NULL, 10);
    *text += digits;
    return digits > 0 && digits < 10 && *cpu < CPU_SETSIZE;
}

/* "0-3,8": in ascending order, numbers below CPU_SETSIZE. */
static bool parse_cpus(void *field, size_t field_bytes, const char *text)
{
    cpu_set_t *cpus = field;
    unsigned long next = 0; /* the least that may come now */
    (void)field_bytes;
    CPU_ZERO(cpus);
    do {
        unsigned long first;
        unsigned long last;
        if (!take_cpu(&text, &first) || first < next) {
            return false;
        }
        last = first;
        if (*text == '-') {
            text++;
            if (!take_cpu(&text, &last) || last < first) {
                return false;
            }
        }
        for (unsigned long cpu = first; cpu <= last; cpu++) {
            CPU_SET(cpu, cpus);
        }
        next = last + 1;
    } while (*text == ',' && *++text);
    return *text == '\0' && text[-1] != ',';
}

/* Cut off at a comma if `bytes` are too few. */
static bool format_cpus(const void *field, char *text, size_t bytes)
{
    const cpu_set_t *cpus = field;
    size_t used = 0;
    text[0] = '\0';
    for (int first = 0; first < CPU_SETSIZE; first++) {
        char item[32];
        int last = first;
        if (!CPU_ISSET(first, cpus)) {
            continue;
        }
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus)) {
            last++;
        }
        int length =
            snprintf(item, sizeof(item), first == last ? "%s%d" : "%s%d-%d", used ? "," : "", first, last);
        if (used + (size_t)length >= bytes) {
            break;
        }
        memcpy(text + used, item, (size_t)length + 1);
        used += (size_t)length;
        first = last;
    }
    return used > 0;
}

static bool parse_text(void *field, size_t field_bytes, const char *text)
{
    size_t length = strlen(text);
    if (length == 0 || length >= field_bytes) {
        return false;
    }
    memcpy(field, text, length + 1);
    return true;
}

static bool format_text(const void *field, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", (const char *)field);
    return text[0] != '\0';
}

static bool parse_id(void *field, size_t field_bytes, const char *text)
{
    unsigned long number;
    (void)field_bytes;
    if (!gpucoll_topology_number(text, 0, 65535, &number)) {
        return false;
    }
    *(int *)field = (int)number;
    return true;
}

static bool format_id(const void *field, char *text, size_t bytes)
{
    snprintf(text, bytes, "%d", *(const int *)field);
    return *(const int *)field >= 0;
}

static bool parse_mib(void *field, size_t field_bytes, const char *text)
{
    unsigned long number;
    (void)field_bytes;
    if (!gpucoll_topology_number(text, 1, ULONG_MAX >> 20, &number)) {
        return false;
    }
    *(uint64_t *)field = (uint64_t)number << 20;
    return true;
}

static bool format_mib(const void *field, char *text, size_t bytes)
{
    uint64_t mib = *(const uint64_t *)field >> 20;
    snprintf(text, bytes, "%llu", (unsigned long long)mib);
    return mib > 0;
}

static bool parse_pci(void *field, size_t field_bytes, const char *text)
{
    (void)field_bytes;
    return gpucoll_pci_parse(field, text);
}

static bool format_pci(const void *field, char *text, size_t bytes)
{
    const struct gpucoll_pci_address *pci = field;
    snprintf(text, bytes, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->device, pci->function);
    return pci->known;
}

static bool parse_generation(void *field, size_t field_bytes, const char *text)
{
    unsigned long number;
    (void)field_bytes;
    if (!gpucoll_topology_number(text, 1, 7, &number)) {
        return false;
    }
    *(unsigned *)field = (unsigned)number;
    return true;
}

static bool parse_lanes(void *field, size_t field_bytes, const char *text)
{
    unsigned long number;
    (void)field_bytes;
    if (!gpucoll_topology_number(text, 1, 32, &number)) {
        return false;
    }
    *(unsigned *)field = (unsigned)number;
    return true;
}

/* "9.0", as tens. */
static bool parse_compute(void *field, size_t field_bytes, const char *text)
{
    (void)field_bytes;
    const size_t digits = strspn(text, "0123456789");
    if (digits < 1 || digits > 2 || text[digits] != '.' || strspn(text + digits + 1, "0123456789") != 1 ||
        text[digits + 2] != '\0') {
        return false;
    }
    *(unsigned *)field = (unsigned)(atoi(text) * 10 + text[digits + 1] - '0');
    return *(unsigned *)field >= 10;
}

static bool format_compute(const void *field, char *text, size_t bytes)
{
    const unsigned compute = *(const unsigned *)field;
    snprintf(text, bytes, "%u.%u", compute / 10, compute % 10);
    return compute > 0;
}

static bool format_unsigned(const void *field, char *text, size_t bytes)
{
    snprintf(text, bytes, "%u", *(const unsigned *)field);
    return *(const unsigned *)field > 0;
}

/* The UUID's field comes right behind the flag that says whether there is one. */
_Static_assert(offsetof(struct gpucoll_topology_object, uuid) ==
                   offsetof(struct gpucoll_topology_object, has_uuid) + sizeof(bool),
               "an attribute reads both from one address");
static const char dashes[] = "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

bool gpucoll_uuid_parse(struct gpucoll_device_id *id, const char *text)
{
    unsigned char *byte = id->uuid;
    if (strlen(text) != strlen(dashes) || strncmp(text, "GPU-", 4) != 0) {
        return false;
    }
    for (int i = 4; dashes[i] != '\0';) {
        unsigned number;
        if (dashes[i] == '-') {
            if (text[i++] != '-') {
                return false;
            }
            continue;
        }
        const char digits[3] = {text[i], text[i + 1], '\0'};
        const char *at = digits;
        if (!take_hex(&at, 2, 2, &number)) {
            return false;
        }
        *byte++ = (unsigned char)number;
        i += 2;
    }
    return true;
}

static bool parse_uuid(void *field, size_t field_bytes, const char *text)
{
    bool *has_uuid = field;
    (void)field_bytes;
    *has_uuid = gpucoll_uuid_parse((struct gpucoll_device_id *)(has_uuid + 1), text);
    return *has_uuid;
}

static bool format_uuid(const void *field, char *text, size_t bytes)
{
    const unsigned char *byte = (const unsigned char *)field + sizeof(bool);
    size_t used = 0;
    for (size_t i = 0; dashes[i] != '\0' && used + 3 < bytes;) {
        if (dashes[i] == 'x') {
            used += (size_t)snprintf(text + used, bytes - used, "%02x", *byte++);
            i += 2;
        } else {
            text[used++] = dashes[i++];
        }
    }
    text[used] = '\0';
    return *(const bool *)field;
}

static bool parse_nic_kind(void *field, size_t field_bytes, const char *text)
{
    (void)field_bytes;
    for (int kind = 0; gpucoll_nic_kind_name((enum gpucoll_nic_kind)kind) != NULL; kind++) {
        if (strcmp(gpucoll_nic_kind_name((enum gpucoll_nic_kind)kind), text) == 0) {
            *(enum gpucoll_nic_kind *)field = (enum gpucoll_nic_kind)kind;
            return true;
        }
    }
    return false;
}

static bool format_nic_kind(const void *field, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", gpucoll_nic_kind_name(*(const enum gpucoll_nic_kind *)field));
    return true;
}

static bool parse_state(void *field, size_t field_bytes, const char *text)
{
    (void)field_bytes;
    *(bool *)field = strcmp(text, "up") == 0;
    return *(bool *)field || strcmp(text, "down") == 0;
}

static bool format_state(const void *field, char *text, size_t bytes)
{
    snprintf(text, bytes, "down");
    return !*(const bool *)field; /* up is what a file need not say */
}

static bool parse_gbits(void *field, size_t field_bytes, const char *text)
{
    char *end;
    (void)field_bytes;
    if (*text < '0' || *text > '9' || strspn(text, "0123456789.") != strlen(text)) {
        return false;
    }
    double number = gpucoll_strtod(text, &end);
    *(double *)field = number * 1e9;
    return *end == '\0' && number > 0 && number <= 1e6;
}

static bool format_gbits(const void *field, char *text, size_t bytes)
{
    double number = *(const double *)field / 1e9;
    snprintf(text, bytes, "%.10g", number);
    return number > 0;
}

static const struct gpucoll_topology_value
    a_text = {"a text that is not empty and not too long", parse_text, format_text},
    an_id = {"a number from 0 to 65535", parse_id, format_id},
    cpus = {"ascending CPU numbers below 1024, such as 0-31,64-95", parse_cpus, format_cpus},
    mib = {"a number of MiB, at least 1", parse_mib, format_mib},
    pci = {"a PCI address such as 0000:1b:00.0", parse_pci, format_pci},
    generation = {"a PCIe generation from 1 to 7", parse_generation, format_unsigned},
    lanes = {"a number of PCIe lanes from 1 to 32", parse_lanes, format_unsigned},
    compute = {"a compute capability such as 9.0", parse_compute, format_compute},
    uuid = {"GPU- and 32 hexadecimal digits in groups of 8-4-4-4-12", parse_uuid, format_uuid},
    nic_kind = {"infiniband, roce, ethernet, virtual, bridge or "
                "loopback",
                parse_nic_kind, format_nic_kind},
    state = {"up or down", parse_state, format_state},
    gbits = {"a number of Gbit/s above 0", parse_gbits, format_gbits};

#define FIELD(field)                                                                                         \
    offsetof(struct gpucoll_topology_object, field), sizeof(((struct gpucoll_topology_object *)0)->field)
static const struct gpucoll_topology_attribute
    host_attributes[] = {{"name", true, FIELD(name), &a_text}, {0}},
    socket_attributes[] = {{"id", true, FIELD(id), &an_id}, {"cpus", false, FIELD(cpus), &cpus}, {0}},
    numa_attributes[] = {{"id", true, FIELD(id), &an_id},
                         {"cpus", false, FIELD(cpus), &cpus},
                         {"memory_mib", false, FIELD(memory_bytes), &mib},
                         {0}},
    bridge_attributes[] = {{"pci", false, FIELD(pci), &pci}, {0}},
    gpu_attributes[] = {{"id", true, FIELD(id), &an_id},
                        {"name", false, FIELD(name), &a_text},
                        {"compute", false, FIELD(compute), &compute},
                        {"uuid", false, FIELD(has_uuid), &uuid},
                        {"pci", false, FIELD(pci), &pci},
                        {"pcie_generation", false, FIELD(pcie_generation), &generation},
                        {"pcie_lanes", false, FIELD(pcie_lanes), &lanes},
                        {"memory_mib", false, FIELD(memory_bytes), &mib},
                        {"board", false, FIELD(board), &a_text},
                        {0}},
    nic_attributes[] = {{"name", true, FIELD(name), &a_text},
                        {"kind", true, FIELD(nic), &nic_kind},
                        {"interface", false, FIELD(interface), &a_text},
                        {"pci", false, FIELD(pci), &pci},
                        {"pcie_generation", false, FIELD(pcie_generation), &generation},
                        {"pcie_lanes", false, FIELD(pcie_lanes), &lanes},
                        {"gbits", false, FIELD(bits_per_sec), &gbits},
                        {"state", false, FIELD(up), &state},
                        {0}};

#define IN(kind) (1u << GPUCOLL_TOPOLOGY_##kind)
enum { ANYWHERE = IN(HOST) | IN(SOCKET) | IN(NUMA) | IN(BRIDGE) | IN(SWITCH) };

const struct gpucoll_topology_element gpucoll_topology_elements[] = {
    [GPUCOLL_TOPOLOGY_HOST] = {"host", 0, host_attributes},
    [GPUCOLL_TOPOLOGY_SOCKET] = {"socket", IN(HOST), socket_attributes},
    [GPUCOLL_TOPOLOGY_NUMA] = {"numa", IN(HOST) | IN(SOCKET), numa_attributes},
    [GPUCOLL_TOPOLOGY_BRIDGE] = {"host_bridge", IN(HOST) | IN(SOCKET) | IN(NUMA), bridge_attributes},
    [GPUCOLL_TOPOLOGY_SWITCH] = {"pcie_switch", ANYWHERE, bridge_attributes},
    [GPUCOLL_TOPOLOGY_GPU] = {"gpu", ANYWHERE, gpu_attributes},
    [GPUCOLL_TOPOLOGY_NIC] = {"nic", ANYWHERE, nic_attributes},
};
