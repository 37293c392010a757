/*
 * A reader for the part of XML that topology files use: elements, attributes, comments, the XML declaration, the five
 * predefined entities and character references. No text between elements, no DTD, no namespaces, no processing
 * instructions: what is not understood is an error with its line, never skipped.
 */
#ifndef GPUCOLL_TOPOLOGY_XML_H
#define GPUCOLL_TOPOLOGY_XML_H

#include <stdbool.h>
#include <stddef.h>

enum { GPUCOLL_XML_ATTRIBUTES = 24, GPUCOLL_XML_DEPTH = 32 };

struct gpucoll_xml_attribute {
    const char *name;
    const char *value;
    unsigned line;
};

/* The strings lie in the text and stay as long as it does. */
struct gpucoll_xml_element {
    const char *name;
    unsigned line;
    int count;
    struct gpucoll_xml_attribute attributes[GPUCOLL_XML_ATTRIBUTES];
};

struct gpucoll_xml {
    char *at;
    unsigned line;
    int depth;
    const char *open[GPUCOLL_XML_DEPTH];
    unsigned open_line[GPUCOLL_XML_DEPTH];
    bool closing; /* the element just read was empty: its end comes next */
    bool rooted;  /* the root element has begun */
    unsigned error_line;
    char error[256];
};

enum gpucoll_xml_event { GPUCOLL_XML_OPEN, GPUCOLL_XML_CLOSE, GPUCOLL_XML_END, GPUCOLL_XML_ERROR };

/* `text` ends with a zero byte and is written to while it is read. */
void gpucoll_xml_init(struct gpucoll_xml *xml, char *text);
/* OPEN fills the element; ERROR sets error and error_line. */
enum gpucoll_xml_event gpucoll_xml_next(struct gpucoll_xml *xml, struct gpucoll_xml_element *element);

#endif
