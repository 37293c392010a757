/*
 * The format of topology files, as one table that the reader and the writer share: which elements there are, where they may
 * stand, and which attributes they have. docs/topology.md describes it for users.
 */
#ifndef GPUCOLL_TOPOLOGY_FORMAT_H
#define GPUCOLL_TOPOLOGY_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include "core/topology/topology.h"

#define GPUCOLL_TOPOLOGY_ROOT "gpucoll_topology"
#define GPUCOLL_TOPOLOGY_VERSION "1"
#define GPUCOLL_TOPOLOGY_NVLINK "nvlink"

/* How a value is written: as text of at most `bytes` bytes with its zero byte, and back into the field. */
struct gpucoll_topology_value {
    const char *expected; /* "a number", "a PCI address such as 0000:1b:00.0" */
    bool (*parse)(void *field, size_t field_bytes, const char *text);
    /* False: the field holds nothing, and the attribute is left out. */
    bool (*format)(const void *field, char *text, size_t bytes);
};

struct gpucoll_topology_attribute {
    const char *name; /* NULL ends a table */
    bool needed;
    size_t offset; /* in struct gpucoll_topology_object */
    size_t bytes;
    const struct gpucoll_topology_value *value;
};

struct gpucoll_topology_element {
    const char *name;
    unsigned parents; /* bit k: may stand in an element of kind k */
    const struct gpucoll_topology_attribute *attributes;
};

/* By kind. */
extern const struct gpucoll_topology_element gpucoll_topology_elements[];
enum {
    GPUCOLL_TOPOLOGY_KINDS = GPUCOLL_TOPOLOGY_NIC + 1,
    GPUCOLL_TOPOLOGY_VALUE_BYTES = 5 * 1024 /* a list of every second CPU */
};

/* "0000:1b:00.0", or "0000:1b:00" for function 0. */
bool gpucoll_pci_parse(struct gpucoll_pci_address *pci, const char *text);
/* "GPU-00112233-4455-6677-8899-aabbccddeeff", as NVML writes it too. */
bool gpucoll_uuid_parse(struct gpucoll_device_id *id, const char *text);

/* A whole number from `least` to `most`. */
bool gpucoll_topology_number(const char *text, unsigned long least, unsigned long most,
                             unsigned long *number);

#endif
