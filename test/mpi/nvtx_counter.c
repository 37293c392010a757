/* A profiler of the least kind, loaded by NVTX where NVTX_INJECTION64_PATH names it: writes what ranges were opened, and at the end how many
 * of each sort were opened and closed, to a file a process, NVTX_COUNTER_FILE with its number behind. */
#include <nvtx3/nvToolsExt.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE *file;
static atomic_int pushed, popped, started, ended;
static int domain; /* its address is the handle */

static void said(const char *how, const nvtxEventAttributes_t *event)
{
    if (file != NULL)
        fprintf(file, "%s %s, payload %llu\n", how, event->message.ascii,
                (unsigned long long)event->payload.ullValue);
}

static nvtxDomainHandle_t NVTX_API create(const char *name)
{
    if (file != NULL)
        fprintf(file, "domain %s\n", name);
    return (nvtxDomainHandle_t)&domain;
}

static int NVTX_API push(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *event)
{
    (void)handle;
    said("push", event);
    return pushed++;
}

static int NVTX_API pop(nvtxDomainHandle_t handle)
{
    (void)handle;
    return popped++;
}

static nvtxRangeId_t NVTX_API start(nvtxDomainHandle_t handle, const nvtxEventAttributes_t *event)
{
    (void)handle;
    said("start", event);
    return (nvtxRangeId_t)++started;
}

static void NVTX_API end(nvtxDomainHandle_t handle, nvtxRangeId_t range)
{
    (void)handle;
    if (range == 0 || range > (nvtxRangeId_t)started)
        said("end", &(nvtxEventAttributes_t){.message.ascii = "of no range"});
    ended++;
}

static void totals(void)
{
    if (file != NULL) {
        fprintf(file, "pushed %d popped %d started %d ended %d\n", pushed, popped, started, ended);
        fclose(file);
        file = NULL;
    }
}

static void hook(NvtxFunctionTable table, unsigned size, int id, void (*function)(void))
{
    if ((unsigned)id < size)
        *table[id] = function;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
    const char *pattern = getenv("NVTX_COUNTER_FILE");
    const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
    NvtxFunctionTable table;
    unsigned size = 0;
    char name[4096];

    if (pattern == NULL || callbacks == NULL ||
        !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
        return 0;
    snprintf(name, sizeof name, "%s.%d", pattern, (int)getpid());
    file = fopen(name, "w");
    atexit(totals);
    hook(table, size, NVTX_CBID_CORE2_DomainCreateA, (void (*)(void))create);
    hook(table, size, NVTX_CBID_CORE2_DomainRangePushEx, (void (*)(void))push);
    hook(table, size, NVTX_CBID_CORE2_DomainRangePop, (void (*)(void))pop);
    hook(table, size, NVTX_CBID_CORE2_DomainRangeStartEx, (void (*)(void))start);
    hook(table, size, NVTX_CBID_CORE2_DomainRangeEnd, (void (*)(void))end);
    return 1;
}
