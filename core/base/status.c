#include "core/base/status.h"

const char *gpucoll_status_name(gpucoll_status status)
{
    switch (status) {
    case GPUCOLL_OK:
        return "success";
    case GPUCOLL_IN_PROGRESS:
        return "in progress";
    case GPUCOLL_DECLINED:
        return "not run natively";
    case GPUCOLL_ERR_NO_MEMORY:
        return "out of memory";
    case GPUCOLL_ERR_INVALID:
        return "invalid argument or value";
    case GPUCOLL_ERR_UNSUPPORTED:
        return "not supported here";
    case GPUCOLL_ERR_SYSTEM:
        return "operating system error";
    case GPUCOLL_ERR_DEVICE:
        return "device error";
    case GPUCOLL_ERR_TIMEOUT:
        return "timed out waiting for a peer";
    case GPUCOLL_ERR_MISMATCH:
        return "ranks disagree";
    case GPUCOLL_ERR_EXCHANGE:
        return "exchange between the ranks failed";
    case GPUCOLL_ERR_PEER:
        return "a peer is gone";
    }
    return "unknown status";
}
