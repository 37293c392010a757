#include "core/topology/xml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void gpucoll_xml_init(struct gpucoll_xml *xml, char *text)
{
    memset(xml, 0, sizeof(*xml));
    xml->at = strncmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text; /* a byte order mark */
    xml->line = 1;
}

/* Always false, to be returned. */
static bool fail(struct gpucoll_xml *xml, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct gpucoll_xml *xml, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(xml->error, sizeof(xml->error), format, args);
    va_end(args);
    /* What is quoted from the file must not reach a terminal as control characters. */
    for (char *c = xml->error; *c; c++) {
        *c = *c >= 0 && *c < 0x20 ? '?' : *c;
    }
    xml->error_line = xml->line;
    return false;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Returns whether there was any. */
static bool skip_space(struct gpucoll_xml *xml)
{
    const char *from = xml->at;
    while (is_space(*xml->at)) {
        xml->line += *xml->at++ == '\n';
    }
    return xml->at != from;
}

static bool starts(const struct gpucoll_xml *xml, const char *text)
{
    return strncmp(xml->at, text, strlen(text)) == 0;
}

/* Moves behind the next `end`. */
static bool skip_past(struct gpucoll_xml *xml, const char *end, const char *what)
{
    const char *found = strstr(xml->at, end);
    if (!found) {
        return fail(xml, "%s does not end: \"%s\" is missing", what, end);
    }
    while (xml->at < found) {
        xml->line += *xml->at++ == '\n';
    }
    xml->at += strlen(end);
    return true;
}

static bool name_character(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter || (!first && ((c >= '0' && c <= '9') || c == '-' || c == '.'));
}

/* The length of the name here; 0: there is none. */
static size_t name_length(const struct gpucoll_xml *xml)
{
    size_t length = 0;
    while (name_character(xml->at[length], length == 0)) {
        length++;
    }
    return length;
}

/* Writes a character of Unicode as UTF-8 over its reference, which is longer. Returns the bytes written; 0: not a character. */
static size_t put_utf8(char *to, unsigned long character)
{
    if (character < 0x20 && character != '\t' && character != '\n' && character != '\r') {
        return 0;
    }
    if (character < 0x80) {
        to[0] = (char)character;
        return 1;
    }
    if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) {
        return 0;
    }
    size_t more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned char leads[] = {0, 0xc0, 0xe0, 0xf0};
    to[0] = (char)(leads[more] | character >> (6 * more));
    for (size_t i = 1; i <= more; i++) {
        to[i] = (char)(0x80 | (character >> (6 * (more - i)) & 0x3f));
    }
    return more + 1;
}

/* Takes "&...;" at xml->at and writes what it stands for to `to`; returns the bytes written, 0 after an error. */
static size_t take_reference(struct gpucoll_xml *xml, char *to)
{
    static const struct {
        const char *text;
        char character;
    } entities[] = {{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}, {"&quot;", '"'}, {"&apos;", '\''}};
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++) {
        if (starts(xml, entities[i].text)) {
            xml->at += strlen(entities[i].text);
            *to = entities[i].character;
            return 1;
        }
    }
    bool hex = starts(xml, "&#x");
    if (hex || starts(xml, "&#")) {
        const char *digits = xml->at + (hex ? 3 : 2);
        size_t length = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
        size_t used = 0;
        if (length > 0 && length <= 7 && digits[length] == ';') {
            used = put_utf8(to, strtoul(digits, NULL, hex ? 16 : 10));
        }
        if (used > 0) {
            xml->at += (size_t)(digits - xml->at) + length + 1;
            return used;
        }
    }
    fail(xml, "\"%.12s\": not a character reference such as &amp; or &#233;", xml->at);
    return 0;
}

/* A quoted value, decoded in place. */
static bool take_value(struct gpucoll_xml *xml, struct gpucoll_xml_attribute *attribute)
{
    char quote = *xml->at;
    if (quote != '"' && quote != '\'') {
        return fail(xml, "the value of %s is not in quotes", attribute->name);
    }
    char *to = ++xml->at;
    attribute->value = to;
    while (*xml->at != quote) {
        unsigned char c = (unsigned char)*xml->at;
        if (c == '\0' || c == '\n' || c == '\r') {
            return fail(xml, "the value of %s has no closing quote on its line", attribute->name);
        }
        if (c == '<' || (c < 0x20 && c != '\t')) {
            return fail(xml, "the value of %s has a character that may not stand there (code %u)",
                        attribute->name, c);
        }
        if (c == '&') {
            size_t used = take_reference(xml, to);
            if (used == 0) {
                return false;
            }
            to += used;
        } else {
            *to++ = *xml->at++;
        }
    }
    xml->at++;
    *to = '\0';
    return true;
}

static bool take_attribute(struct gpucoll_xml *xml, struct gpucoll_xml_element *element)
{
    if (element->count == GPUCOLL_XML_ATTRIBUTES) {
        return fail(xml, "more than %d attributes", GPUCOLL_XML_ATTRIBUTES);
    }
    struct gpucoll_xml_attribute *attribute = &element->attributes[element->count];
    size_t length = name_length(xml);
    char *name = xml->at;
    xml->at += length;
    skip_space(xml);
    if (*xml->at != '=') {
        return fail(xml, "expected = after the attribute %.*s", (int)length, name);
    }
    xml->at++;
    name[length] = '\0';
    skip_space(xml);
    *attribute = (struct gpucoll_xml_attribute){.name = name, .line = xml->line};
    for (int i = 0; i < element->count; i++) {
        if (strcmp(element->attributes[i].name, name) == 0) {
            return fail(xml, "the attribute %s is given twice", name);
        }
    }
    element->count++;
    return take_value(xml, attribute);
}

/* Behind "<". */
static bool take_open(struct gpucoll_xml *xml, struct gpucoll_xml_element *element)
{
    size_t length = name_length(xml);
    char *name = xml->at;
    if (length == 0) {
        return fail(xml, "expected the name of an element after <");
    }
    if (xml->depth == GPUCOLL_XML_DEPTH) {
        return fail(xml, "elements are nested more than %d deep", GPUCOLL_XML_DEPTH);
    }
    if (xml->depth == 0 && xml->rooted) {
        return fail(xml, "a second root element, %.*s", (int)length, name);
    }
    *element = (struct gpucoll_xml_element){.name = name, .line = xml->line};
    xml->at += length;
    bool space = skip_space(xml);
    while (name_length(xml) > 0) {
        if (!space) {
            return fail(xml, "expected a space before an attribute of %.*s", (int)length, name);
        }
        if (!take_attribute(xml, element)) {
            return false;
        }
        space = skip_space(xml);
    }
    xml->closing = starts(xml, "/>");
    if (!xml->closing && *xml->at != '>') {
        return fail(xml, "expected an attribute, > or /> in the element %.*s", (int)length, name);
    }
    xml->at += xml->closing ? 2 : 1;
    name[length] = '\0';
    xml->rooted = true;
    xml->open_line[xml->depth] = element->line;
    xml->open[xml->depth++] = name;
    return true;
}

/* Behind "</". */
static bool take_close(struct gpucoll_xml *xml)
{
    size_t length = name_length(xml);
    const char *name = xml->at;
    if (xml->depth == 0) {
        return fail(xml, "</%.*s> ends an element that has not begun", (int)length, name);
    }
    const char *open = xml->open[xml->depth - 1];
    if (strlen(open) != length || strncmp(open, name, length) != 0) {
        return fail(xml, "</%.*s> where </%s> is expected, for the element of line %u", (int)length, name,
                    open, xml->open_line[xml->depth - 1]);
    }
    xml->at += length;
    skip_space(xml);
    if (*xml->at != '>') {
        return fail(xml, "expected > at the end of </%s", open);
    }
    xml->at++;
    xml->depth--;
    return true;
}

/* Space, comments, and at the start the XML declaration. */
static bool skip_between(struct gpucoll_xml *xml)
{
    if (xml->line == 1 && !xml->rooted && starts(xml, "<?xml") && is_space(xml->at[5]) &&
        !skip_past(xml, "?>", "the XML declaration")) {
        return false;
    }
    for (;;) {
        skip_space(xml);
        if (!starts(xml, "<!--")) {
            return true;
        }
        if (!skip_past(xml, "-->", "a comment")) {
            return false;
        }
    }
}

static enum gpucoll_xml_event event(bool fine, enum gpucoll_xml_event event)
{
    return fine ? event : GPUCOLL_XML_ERROR;
}

enum gpucoll_xml_event gpucoll_xml_next(struct gpucoll_xml *xml, struct gpucoll_xml_element *element)
{
    if (xml->closing) {
        xml->closing = false;
        xml->depth--;
        return GPUCOLL_XML_CLOSE;
    }
    if (!skip_between(xml)) {
        return GPUCOLL_XML_ERROR;
    }
    if (*xml->at == '\0') {
        if (xml->depth > 0) {
            fail(xml, "the file ends inside the element %s of line %u", xml->open[xml->depth - 1],
                 xml->open_line[xml->depth - 1]);
        } else if (!xml->rooted) {
            fail(xml, "there is no element in the file");
        }
        return event(xml->error[0] == '\0', GPUCOLL_XML_END);
    }
    if (*xml->at != '<') {
        return event(fail(xml, "text between elements: \"%.20s\"", xml->at), GPUCOLL_XML_ERROR);
    }
    xml->at++;
    if (*xml->at == '!' || *xml->at == '?') {
        return event(fail(xml, "<%c: topology files have elements, attributes and comments only", *xml->at),
                     GPUCOLL_XML_ERROR);
    }
    if (*xml->at == '/') {
        xml->at++;
        return event(take_close(xml), GPUCOLL_XML_CLOSE);
    }
    return event(take_open(xml, element), GPUCOLL_XML_OPEN);
}
