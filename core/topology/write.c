/*
 * Writes a topology as XML, in the format that core/topology/read.c reads.
 */
#include <string.h>
#include "core/topology/format.h"

static void write_escaped(FILE *file, const char *text)
{
    static const struct {
        char character;
        const char *text;
    } escapes[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'"', "&quot;"}};
    for (; *text; text++) {
        const char *escape = NULL;
        for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
            escape = *text == escapes[i].character ? escapes[i].text : escape;
        }
        if (escape != NULL) {
            fputs(escape, file);
        } else {
            fputc(*text, file);
        }
    }
}

static void write_attribute(FILE *file, const char *name, const char *value)
{
    fprintf(file, " %s=\"", name);
    write_escaped(file, value);
    fputc('"', file);
}

static void write_attributes(const struct gpucoll_topology_object *object, FILE *file)
{
    const struct gpucoll_topology_attribute *row = gpucoll_topology_elements[object->kind].attributes;
    for (; row->name != NULL; row++) {
        char value[GPUCOLL_TOPOLOGY_VALUE_BYTES];
        if (row->value->format((const char *)object + row->offset, value, sizeof(value))) {
            write_attribute(file, row->name, value);
        }
    }
}

static void write_nvlink(const struct gpucoll_topology *topology, const struct gpucoll_nvlink *nvlink,
                         int indent, FILE *file)
{
    char to[16] = "switch";
    char version[16] = "c2c";
    if (nvlink->to != GPUCOLL_NVLINK_TO_SWITCH) {
        snprintf(to, sizeof(to), "cpu");
    }
    if (nvlink->to >= 0) {
        snprintf(to, sizeof(to), "%d", topology->objects[nvlink->to].id);
    }
    if (nvlink->version != GPUCOLL_NVLINK_C2C) {
        snprintf(version, sizeof(version), "%u", nvlink->version);
    }
    fprintf(file, "%*s<%s to=\"%s\" links=\"%u\" version=\"%s\"/>\n", indent, "", GPUCOLL_TOPOLOGY_NVLINK, to,
            nvlink->links, version);
}

static void write_object(const struct gpucoll_topology *topology, int index, int indent, FILE *file)
{
    const struct gpucoll_topology_object *object = &topology->objects[index];
    const char *name = gpucoll_topology_elements[object->kind].name;
    bool empty = true;
    fprintf(file, "%*s<%s", indent, "", name);
    write_attributes(object, file);
    for (int i = 0; i < topology->nvlink_count; i++) {
        if (topology->nvlinks[i].gpu == index) {
            fputs(empty ? ">\n" : "", file);
            empty = false;
            write_nvlink(topology, &topology->nvlinks[i], indent + 2, file);
        }
    }
    for (int i = index + 1; i < topology->count; i++) {
        if (topology->objects[i].parent == index) {
            fputs(empty ? ">\n" : "", file);
            empty = false;
            write_object(topology, i, indent + 2, file);
        }
    }
    if (empty) {
        fputs("/>\n", file);
    } else {
        fprintf(file, "%*s</%s>\n", indent, "", name);
    }
}

void gpucoll_topology_write(const struct gpucoll_topology *topology, FILE *file)
{
    fprintf(file, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<%s version=\"%s\">\n", GPUCOLL_TOPOLOGY_ROOT,
            GPUCOLL_TOPOLOGY_VERSION);
    for (int i = 0; i < topology->count; i++) {
        if (topology->objects[i].parent < 0) {
            write_object(topology, i, 2, file);
        }
    }
    fprintf(file, "</%s>\n", GPUCOLL_TOPOLOGY_ROOT);
}
