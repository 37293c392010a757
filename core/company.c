#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dl_iterate_phdr */
#endif
#include "core/company.h"

#include <link.h>
#include <string.h>
#include "core/context.h"

/* The linker counts what it has ever loaded, and tells it with each object. */
static int read_loads(struct dl_phdr_info *info, size_t bytes, void *loads)
{
    (void)bytes;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

static int is_it(struct dl_phdr_info *info, size_t bytes, void *name)
{
    (void)bytes;
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *file = slash != NULL ? slash + 1 : info->dlpi_name;
    return strncmp(file, name, strlen(name)) == 0;
}

/* The count is read first: a library that is loaded meanwhile makes for another look. */
bool gpucoll_library_is_here(struct gpucoll_company *company)
{
    unsigned long long loads = 0;
    if (company->library == NULL || __atomic_load_n(&company->here, __ATOMIC_RELAXED)) {
        return company->library != NULL;
    }
    dl_iterate_phdr(read_loads, &loads);
    if (__atomic_load_n(&company->loads, __ATOMIC_RELAXED) == loads) {
        return false;
    }
    const bool here = dl_iterate_phdr(is_it, (void *)(uintptr_t)company->library) != 0;
    if (here) {
        __atomic_store_n(&company->here, true, __ATOMIC_RELAXED);
    }
    __atomic_store_n(&company->loads, loads, __ATOMIC_RELAXED);
    return here;
}

enum gpucoll_company_kind gpucoll_company_of(struct gpucoll_context *context, const struct gpucoll_lane *lane)
{
    const char *gates = context->config->gates;
    if (strcmp(gates, "never") == 0) {
        return GPUCOLL_ALONE;
    }
    if (lane->company) {
        return GPUCOLL_BESIDE_CALLS;
    }
    const bool others = strcmp(gates, "always") == 0 || gpucoll_library_is_here(&context->company);
    return others ? GPUCOLL_BESIDE_OTHERS : GPUCOLL_ALONE;
}
