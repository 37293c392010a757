/*
 * Numbers in files, in C's notation whatever the application's locale: its programs may have set one that writes 0,5.
 */
#ifndef GPUCOLL_BASE_NUMBER_H
#define GPUCOLL_BASE_NUMBER_H

/* As strtod in the locale "C". */
double gpucoll_strtod(const char *text, char **end);

#endif
