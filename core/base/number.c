#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "core/base/number.h"

#include <locale.h>
#include <stdlib.h>

double gpucoll_strtod(const char *text, char **end)
{
    locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (c == (locale_t)0) {
        return strtod(text, end);
    }
    double value = strtod_l(text, end, c);
    freelocale(c);
    return value;
}
