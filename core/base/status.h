/*
 * The one status type. Every fallible function of gpucoll returns it and the compiler checks that the
 * caller looked at it. Zero is success, positive values are states, negative values are errors.
 */
#ifndef GPUCOLL_BASE_STATUS_H
#define GPUCOLL_BASE_STATUS_H

typedef enum gpucoll_status {
    GPUCOLL_OK = 0,
    GPUCOLL_IN_PROGRESS = 1, /* call again later */
    GPUCOLL_DECLINED = 2,    /* all ranks agreed not to run this call natively: use the fallback */
    GPUCOLL_ERR_NO_MEMORY = -1,
    GPUCOLL_ERR_INVALID = -2,     /* bad argument or configuration value */
    GPUCOLL_ERR_UNSUPPORTED = -3, /* understood, but not possible here */
    GPUCOLL_ERR_SYSTEM = -4,      /* an operating system call failed */
    GPUCOLL_ERR_DEVICE = -5,      /* the accelerator reported an error */
    GPUCOLL_ERR_TIMEOUT = -6,     /* a peer did not arrive within the configured time */
    GPUCOLL_ERR_MISMATCH = -7,    /* ranks disagree: versions, or arguments of one collective */
    GPUCOLL_ERR_EXCHANGE = -8,    /* the out-of-band exchange given by the caller failed */
    GPUCOLL_ERR_PEER = -9         /* a peer's process has ended, or the connection to it has failed */
} gpucoll_status;

#define GPUCOLL_CHECKED __attribute__((warn_unused_result))

/* A constant string such as "out of memory"; never NULL. */
const char *gpucoll_status_name(gpucoll_status status);

#endif
