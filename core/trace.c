#include "core/trace.h"

#include <gpucoll_config.h>

bool gpucoll_trace_is_on;

#ifdef HAVE_NVTX

#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static nvtxDomainHandle_t domain;

static void open_domain(void)
{
    domain = nvtxDomainCreateA("gpucoll"); /* NULL: nobody listens */
    gpucoll_trace_is_on = domain != NULL;
}

void gpucoll_trace_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_domain);
}

uint64_t gpucoll_trace_begin(bool nested, uint64_t bytes, const char *format, ...)
{
    char text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const nvtxEventAttributes_t event = {
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .messageType = NVTX_MESSAGE_TYPE_ASCII,
        .message.ascii = text,
        .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
        .payload.ullValue = bytes,
    };
    if (nested) {
        nvtxDomainRangePushEx(domain, &event);
        return 0;
    }
    return nvtxDomainRangeStartEx(domain, &event);
}

void gpucoll_trace_end(bool nested, uint64_t range)
{
    if (nested) {
        nvtxDomainRangePop(domain);
    } else {
        nvtxDomainRangeEnd(domain, range);
    }
}

#else

void gpucoll_trace_open(void)
{
}

uint64_t gpucoll_trace_begin(bool nested, uint64_t bytes, const char *format, ...)
{
    (void)nested;
    (void)bytes;
    (void)format;
    return 0;
}

void gpucoll_trace_end(bool nested, uint64_t range)
{
    (void)nested;
    (void)range;
}

#endif
