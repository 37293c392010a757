/*
 * Reads a topology file. What it says must be complete and free of contradictions: a machine that is planned for
 * must not be another one than its author meant.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* CPU_SET and its like */
#endif
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/topology/build.h"
#include "core/topology/format.h"
#include "core/topology/xml.h"

enum { FILE_LIMIT = 16 << 20, OBJECT_LIMIT = 10000 };

/* An <nvlink> whose other end may still come. */
struct pending {
    struct gpucoll_nvlink nvlink;
    int to_id; /* of a GPU of the same host; below 0: GPUCOLL_NVLINK_TO_... */
    unsigned line;
};

struct reader {
    struct gpucoll_xml xml;
    struct gpucoll_xml_element element;
    struct gpucoll_topology *topology;
    unsigned *lines; /* of each object */
    struct pending *pending;
    int pending_count;
    bool in_nvlink;
    unsigned error_line;
    char error[320];
};

static bool fail(struct reader *reader, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool fail(struct reader *reader, unsigned line, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(reader->error, sizeof(reader->error), format, args);
    va_end(args);
    reader->error_line = line;
    return false;
}

static bool no_memory(struct reader *reader)
{
    return fail(reader, reader->element.line, "out of memory");
}

static const struct gpucoll_xml_attribute *find_attribute(const struct gpucoll_xml_element *element,
                                                          const char *name)
{
    for (int i = 0; i < element->count; i++) {
        if (strcmp(element->attributes[i].name, name) == 0) {
            return &element->attributes[i];
        }
    }
    return NULL;
}

/* Sets the object's fields from the element's attributes. */
static bool take_attributes(struct reader *reader, struct gpucoll_topology_object *object)
{
    const struct gpucoll_xml_element *element = &reader->element;
    const struct gpucoll_topology_attribute *rows = gpucoll_topology_elements[object->kind].attributes;
    int known = 0;
    for (const struct gpucoll_topology_attribute *row = rows; row->name != NULL; row++) {
        const struct gpucoll_xml_attribute *given = find_attribute(element, row->name);
        if (given == NULL) {
            if (row->needed) {
                return fail(reader, element->line, "<%s> needs the attribute %s: %s", element->name,
                            row->name, row->value->expected);
            }
            continue;
        }
        known++;
        if (!row->value->parse((char *)object + row->offset, row->bytes, given->value)) {
            return fail(reader, given->line, "%s=\"%.60s\" of <%s>: expected %s", row->name, given->value,
                        element->name, row->value->expected);
        }
    }
    for (int i = 0; known < element->count && i < element->count; i++) {
        const struct gpucoll_topology_attribute *row = rows;
        while (row->name != NULL && strcmp(row->name, element->attributes[i].name) != 0) {
            row++;
        }
        if (row->name == NULL) {
            return fail(reader, element->attributes[i].line, "<%s> has no attribute %.60s", element->name,
                        element->attributes[i].name);
        }
    }
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a[0] != '\0' && strcmp(a, b) == 0;
}

/* What two objects of one file must not share; NULL: nothing is shared. */
static const char *conflict(const struct gpucoll_topology *topology, const struct gpucoll_topology_object *a,
                            const struct gpucoll_topology_object *b, int host)
{
    if (a->kind == b->kind && a->has_uuid && b->has_uuid &&
        memcmp(&a->uuid, &b->uuid, sizeof(a->uuid)) == 0) {
        return "uuid";
    }
    if (a->kind == GPUCOLL_TOPOLOGY_HOST && b->kind == GPUCOLL_TOPOLOGY_HOST) {
        return same_text(a->name, b->name) ? "name" : NULL;
    }
    if (gpucoll_topology_above(topology, b->parent, GPUCOLL_TOPOLOGY_HOST) != host) {
        return NULL;
    }
    bool nics = a->kind == GPUCOLL_TOPOLOGY_NIC && b->kind == GPUCOLL_TOPOLOGY_NIC;
    if (gpucoll_pci_same(&a->pci, &b->pci) && !nics) {
        return "pci"; /* both ports of a NIC may have one address */
    }
    if (a->kind == b->kind && a->id >= 0 && a->id == b->id) {
        return "id";
    }
    return nics && same_text(a->name, b->name) ? "name" : NULL;
}

/* CPUs of a NUMA node are of its socket; no two sockets, and no two NUMA nodes, share one. */
static bool check_cpus(struct reader *reader, const struct gpucoll_topology_object *object)
{
    const struct gpucoll_topology *topology = reader->topology;
    int host = gpucoll_topology_above(topology, object->parent, GPUCOLL_TOPOLOGY_HOST);
    cpu_set_t both;
    if (object->kind == GPUCOLL_TOPOLOGY_NUMA &&
        topology->objects[object->parent].kind == GPUCOLL_TOPOLOGY_SOCKET) {
        const cpu_set_t *socket = &topology->objects[object->parent].cpus;
        CPU_AND(&both, &object->cpus, socket);
        if (CPU_COUNT(socket) > 0 && !CPU_EQUAL(&both, &object->cpus)) {
            return fail(reader, reader->element.line, "<numa> has CPUs that its socket (line %u) lacks",
                        reader->lines[object->parent]);
        }
    }
    for (int i = host + 1; i < topology->count; i++) {
        CPU_AND(&both, &object->cpus, &topology->objects[i].cpus);
        if (topology->objects[i].kind == object->kind && CPU_COUNT(&both) > 0) {
            return fail(reader, reader->element.line, "<%s> has CPUs that the one of line %u has too",
                        reader->element.name, reader->lines[i]);
        }
    }
    return true;
}

static bool check_object(struct reader *reader, const struct gpucoll_topology_object *object)
{
    const struct gpucoll_topology *topology = reader->topology;
    int host = gpucoll_topology_above(topology, object->parent, GPUCOLL_TOPOLOGY_HOST);
    for (int i = 0; i < topology->count; i++) {
        const char *what = conflict(topology, object, &topology->objects[i], host);
        if (what != NULL) {
            return fail(reader, reader->element.line, "<%s> has the same %s as the element of line %u",
                        reader->element.name, what, reader->lines[i]);
        }
    }
    bool has_cpus = object->kind == GPUCOLL_TOPOLOGY_SOCKET || object->kind == GPUCOLL_TOPOLOGY_NUMA;
    return !has_cpus || check_cpus(reader, object);
}

static bool take_object(struct reader *reader, enum gpucoll_topology_kind kind, int parent)
{
    struct gpucoll_topology_object object;
    struct gpucoll_topology *topology = reader->topology;
    const struct gpucoll_topology_element *row = &gpucoll_topology_elements[kind];
    bool fits = parent < 0 ? row->parents == 0 : row->parents >> topology->objects[parent].kind & 1;
    if (!fits) {
        const char *outer = parent < 0 ? GPUCOLL_TOPOLOGY_ROOT
                                       : gpucoll_topology_elements[topology->objects[parent].kind].name;
        return fail(reader, reader->element.line, "<%s> may not stand in <%s>", row->name, outer);
    }
    gpucoll_topology_blank(&object, kind, parent);
    if (!take_attributes(reader, &object) || !check_object(reader, &object)) {
        return false;
    }
    if (topology->count == OBJECT_LIMIT) {
        return fail(reader, reader->element.line, "more than %d elements", OBJECT_LIMIT);
    }
    unsigned *lines = realloc(reader->lines, ((size_t)topology->count + 1) * sizeof(*lines));
    if (lines == NULL) {
        return no_memory(reader);
    }
    reader->lines = lines;
    lines[topology->count] = reader->element.line;
    return gpucoll_topology_add(topology, &object) >= 0 || no_memory(reader);
}

/* The value of an attribute of <nvlink>; NULL after an error. */
static const char *nvlink_text(struct reader *reader, const char *name, const char *expected)
{
    const struct gpucoll_xml_attribute *given = find_attribute(&reader->element, name);
    if (given == NULL) {
        fail(reader, reader->element.line, "<nvlink> needs the attribute %s: %s", name, expected);
        return NULL;
    }
    return given->value;
}

static bool nvlink_number(struct reader *reader, const char *name, const char *expected, unsigned long most,
                          unsigned *number)
{
    unsigned long value;
    const char *text = nvlink_text(reader, name, expected);
    if (text == NULL) {
        return false;
    }
    if (!gpucoll_topology_number(text, 1, most, &value)) {
        return fail(reader, reader->element.line, "%s=\"%.60s\" of <nvlink>: expected %s", name, text,
                    expected);
    }
    *number = (unsigned)value;
    return true;
}

static bool take_nvlink_end(struct reader *reader, int *to)
{
    static const char expected[] = "the id of a GPU of this host, switch, or cpu";
    unsigned long id;
    const char *text = nvlink_text(reader, "to", expected);
    if (text == NULL) {
        return false;
    }
    if (strcmp(text, "switch") == 0 || strcmp(text, "cpu") == 0) {
        *to = text[0] == 's' ? GPUCOLL_NVLINK_TO_SWITCH : GPUCOLL_NVLINK_TO_CPU;
        return true;
    }
    *to = 0;
    if (!gpucoll_topology_number(text, 0, 65535, &id)) {
        return fail(reader, reader->element.line, "to=\"%.60s\" of <nvlink>: expected %s", text, expected);
    }
    *to = (int)id;
    return true;
}

static bool take_nvlink(struct reader *reader, int gpu)
{
    struct pending pending = {.nvlink.gpu = gpu, .line = reader->element.line};
    if (gpu < 0 || reader->topology->objects[gpu].kind != GPUCOLL_TOPOLOGY_GPU) {
        return fail(reader, reader->element.line, "<nvlink> stands in <gpu> only");
    }
    const struct gpucoll_xml_attribute *version = find_attribute(&reader->element, "version");
    if (version != NULL && strcmp(version->value, "c2c") == 0) {
        pending.nvlink.version = GPUCOLL_NVLINK_C2C;
    } else if (!nvlink_number(reader, "version", "a number from 1 to 9, or c2c", 9,
                              &pending.nvlink.version)) {
        return false;
    }
    if (!take_nvlink_end(reader, &pending.to_id) ||
        !nvlink_number(reader, "links", "a number from 1 to 144", 144, &pending.nvlink.links)) {
        return false;
    }
    for (int i = 0; i < reader->element.count; i++) {
        const char *name = reader->element.attributes[i].name;
        if (strcmp(name, "to") != 0 && strcmp(name, "links") != 0 && strcmp(name, "version") != 0) {
            return fail(reader, reader->element.line, "<nvlink> has no attribute %.60s", name);
        }
    }
    struct pending *more =
        realloc(reader->pending, ((size_t)reader->pending_count + 1) * sizeof(*reader->pending));
    if (more == NULL) {
        return no_memory(reader);
    }
    reader->pending = more;
    more[reader->pending_count++] = pending;
    reader->in_nvlink = true;
    return true;
}

/* Gives every NVLink its other end. */
static bool connect_nvlinks(struct reader *reader)
{
    struct gpucoll_topology *topology = reader->topology;
    for (int i = 0; i < reader->pending_count; i++) {
        struct pending *pending = &reader->pending[i];
        int gpu = pending->nvlink.gpu;
        int host = gpucoll_topology_above(topology, gpu, GPUCOLL_TOPOLOGY_HOST);
        int to = pending->to_id < 0 ? pending->to_id : gpucoll_topology_gpu(topology, host, 0);
        for (int n = 1; to >= 0 && topology->objects[to].id != pending->to_id; n++) {
            to = gpucoll_topology_gpu(topology, host, n);
        }
        if (to < 0 && pending->to_id >= 0) {
            return fail(reader, pending->line, "there is no GPU %d on this host", pending->to_id);
        }
        if (to == gpu) {
            return fail(reader, pending->line, "an NVLink of GPU %d leads to itself", pending->to_id);
        }
        pending->nvlink.to = to;
        for (int j = 0; j < i; j++) {
            if (reader->pending[j].nvlink.gpu == gpu && reader->pending[j].nvlink.to == to) {
                return fail(reader, pending->line, "the NVLinks to the same end are given in line %u already",
                            reader->pending[j].line);
            }
        }
        if (!gpucoll_topology_add_nvlink(topology, &pending->nvlink)) {
            return no_memory(reader);
        }
    }
    return true;
}

/* A link between two GPUs is said by both. */
static bool check_nvlinks(struct reader *reader)
{
    const struct gpucoll_topology *topology = reader->topology;
    for (int i = 0; i < topology->nvlink_count; i++) {
        const struct gpucoll_nvlink *nvlink = &topology->nvlinks[i];
        bool found = nvlink->to < 0;
        for (int j = 0; j < topology->nvlink_count && !found; j++) {
            const struct gpucoll_nvlink *back = &topology->nvlinks[j];
            found = back->gpu == nvlink->to && back->to == nvlink->gpu && back->links == nvlink->links &&
                    back->version == nvlink->version;
        }
        if (!found) {
            return fail(reader, reader->pending[i].line,
                        "GPU %d does not say the same of its NVLinks to GPU %d",
                        topology->objects[nvlink->to].id, topology->objects[nvlink->gpu].id);
        }
    }
    return true;
}

static bool take_root(struct reader *reader)
{
    const struct gpucoll_xml_element *element = &reader->element;
    if (strcmp(element->name, GPUCOLL_TOPOLOGY_ROOT) != 0) {
        return fail(reader, element->line, "the root element is <%.60s>, expected <%s>", element->name,
                    GPUCOLL_TOPOLOGY_ROOT);
    }
    const struct gpucoll_xml_attribute *version = find_attribute(element, "version");
    if (version == NULL || element->count != 1 || strcmp(version->value, GPUCOLL_TOPOLOGY_VERSION) != 0) {
        return fail(reader, element->line, "expected <%s version=\"%s\">", GPUCOLL_TOPOLOGY_ROOT,
                    GPUCOLL_TOPOLOGY_VERSION);
    }
    return true;
}

/* One element that begins inside the object `parent`. */
static bool take_element(struct reader *reader, int parent)
{
    const char *name = reader->element.name;
    if (reader->in_nvlink) {
        return fail(reader, reader->element.line, "<%.60s> may not stand in <nvlink>", name);
    }
    if (strcmp(name, GPUCOLL_TOPOLOGY_NVLINK) == 0) {
        return take_nvlink(reader, parent);
    }
    for (int kind = 0; kind < GPUCOLL_TOPOLOGY_KINDS; kind++) {
        if (strcmp(gpucoll_topology_elements[kind].name, name) == 0) {
            return take_object(reader, (enum gpucoll_topology_kind)kind, parent);
        }
    }
    return fail(reader, reader->element.line, "there is no element <%.60s>", name);
}

static bool take_all(struct reader *reader)
{
    int inside = -1; /* the object whose element is open */
    for (bool root = true;;) {
        switch (gpucoll_xml_next(&reader->xml, &reader->element)) {
        case GPUCOLL_XML_OPEN:
            if (root ? !take_root(reader) : !take_element(reader, inside)) {
                return false;
            }
            inside = root || reader->in_nvlink ? inside : reader->topology->count - 1;
            root = false;
            break;
        case GPUCOLL_XML_CLOSE:
            if (reader->in_nvlink) {
                reader->in_nvlink = false;
            } else if (inside >= 0) {
                inside = reader->topology->objects[inside].parent;
            }
            break;
        case GPUCOLL_XML_ERROR:
            return fail(reader, reader->xml.error_line, "%s", reader->xml.error);
        case GPUCOLL_XML_END:
            if (reader->topology->count == 0) {
                return fail(reader, reader->xml.line, "there is no <host> in <%s>", GPUCOLL_TOPOLOGY_ROOT);
            }
            return (gpucoll_topology_finish(reader->topology) || no_memory(reader)) &&
                   connect_nvlinks(reader) && check_nvlinks(reader);
        }
    }
}

/* The whole file with a zero byte behind it, to be freed; NULL after an error. */
static char *load(struct reader *reader, const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        fail(reader, 0, "%s", strerror(errno));
        return NULL;
    }
    size_t room = 1 << 16;
    size_t used = 0;
    char *text = malloc(room + 1);
    while (text != NULL) {
        used += fread(text + used, 1, room - used, file);
        if (used < room || room >= FILE_LIMIT) {
            break;
        }
        room *= 2;
        char *more = realloc(text, room + 1);
        if (more == NULL) {
            free(text);
        }
        text = more;
    }
    bool failed = ferror(file) != 0;
    int error = errno;
    (void)fclose(file);
    if (text == NULL) {
        fail(reader, 0, "out of memory");
        return NULL;
    }
    text[used] = '\0';
    if (!failed && used < room && strlen(text) == used) {
        return text;
    }
    fail(reader, 0, "%s",
         failed         ? strerror(error)
         : used >= room ? "the file is larger than 16 MiB"
                        : "the file has zero bytes: it is not XML");
    free(text);
    return NULL;
}

gpucoll_status gpucoll_topology_read(const char *path, const struct gpucoll_log *log,
                                     struct gpucoll_topology **out)
{
    struct reader *reader = calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return GPUCOLL_ERR_NO_MEMORY;
    }
    char *text = load(reader, path);
    reader->topology = gpucoll_topology_new();
    bool fine = false;
    if (reader->topology == NULL) {
        fail(reader, 0, "out of memory");
    } else if (text != NULL) {
        gpucoll_xml_init(&reader->xml, text);
        fine = take_all(reader);
    }
    if (fine) {
        *out = reader->topology;
    } else {
        gpucoll_help(log, "topology-file", path, reader->error_line, reader->error);
        gpucoll_topology_free(reader->topology);
    }
    free(reader->pending);
    free(reader->lines);
    free(reader);
    free(text);
    return fine ? GPUCOLL_OK : GPUCOLL_ERR_INVALID;
}
