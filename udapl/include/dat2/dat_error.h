/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What DAT functions return: 32 bits, of which the upper two are the class, the next fourteen the
 * type, and the lower sixteen the subtype. Success is 0 and nothing else. Compare types, not whole
 * values: DAT_GET_TYPE(ret) == DAT_TIMEOUT_EXPIRED.
 */
#ifndef COHERDMA_DAT2_DAT_ERROR_H
#define COHERDMA_DAT2_DAT_ERROR_H

#include <dat2/dat_platform_specific.h>
#include <dat2/udat_config.h>

typedef DAT_UINT32 DAT_RETURN;

#define DAT_CLASS_SUCCESS UINT32_C(0x00000000)
#define DAT_CLASS_WARNING UINT32_C(0x40000000)
#define DAT_CLASS_ERROR UINT32_C(0x80000000)
#define DAT_TYPE_MASK UINT32_C(0x3fff0000)
#define DAT_SUBTYPE_MASK UINT32_C(0x0000ffff)

#define DAT_IS_WARNING(status) (DAT_CAST(DAT_UINT32, status) & DAT_CLASS_WARNING)
#define DAT_GET_TYPE(status) (DAT_CAST(DAT_UINT32, status) & DAT_TYPE_MASK)
#define DAT_GET_SUBTYPE(status) (DAT_CAST(DAT_UINT32, status) & DAT_SUBTYPE_MASK)

/* The error of this type and subtype. DAT_ERROR is the name of a macro of providers. */
#define DAT_MAKE_ERROR(type, subtype)                                                              \
    (DAT_CLASS_ERROR | DAT_CAST(DAT_UINT32, type) | DAT_CAST(DAT_UINT32, subtype))

typedef enum dat_return_type DAT_ENUM_BASE {
    DAT_SUCCESS = 0x00000000,
    DAT_ABORT = 0x00010000,                       /* the IA was closed or the EVD destroyed */
    DAT_CONN_QUAL_IN_USE = 0x00020000,            /* it has a listener */
    DAT_INSUFFICIENT_RESOURCES = 0x00030000,      /* the subtype says of what */
    DAT_INTERNAL_ERROR = 0x00040000,              /* the provider's fault, not the caller's */
    DAT_INVALID_HANDLE = 0x00050000,              /* the subtype says which */
    DAT_INVALID_PARAMETER = 0x00060000,           /* the subtype says which */
    DAT_INVALID_STATE = 0x00070000,               /* not now: the subtype has the state */
    DAT_LENGTH_ERROR = 0x00080000,                /* a buffer is too small for the data */
    DAT_MODEL_NOT_SUPPORTED = 0x00090000,         /* this provider cannot do that */
    DAT_PROVIDER_NOT_FOUND = 0x000a0000,          /* no provider of that name */
    DAT_PRIVILEGES_VIOLATION = 0x000b0000,        /* the memory does not allow this access */
    DAT_PROTECTION_VIOLATION = 0x000c0000,        /* memory and endpoint are of different zones */
    DAT_QUEUE_EMPTY = 0x000d0000,                 /* no event */
    DAT_QUEUE_FULL = 0x000e0000,                  /* no room for one more event */
    DAT_TIMEOUT_EXPIRED = 0x000f0000,             /* the time was over first */
    DAT_PROVIDER_ALREADY_REGISTERED = 0x00100000, /* that name is taken */
    DAT_PROVIDER_IN_USE = 0x00110000,             /* it still has open IAs */
    DAT_INVALID_ADDRESS = 0x00120000,             /* the subtype says why */
    DAT_INTERRUPTED_CALL = 0x00130000,            /* a signal ended the wait */
    DAT_CONN_QUAL_UNAVAILABLE = 0x00140000,       /* no connection qualifier is left */
    DAT_RESERVED_LMR = 0x00150000,                /* in kernels only */
    DAT_PORT_IN_USE = 0x00160000,
    DAT_COMM_NOT_SUPPORTED = 0x00170000,
    DAT_EXTENSION_BASE = 0x10000000, /* from here on types belong to extensions */
    DAT_NOT_IMPLEMENTED = 0x3fff0000
} DAT_RETURN_TYPE;

#define DAT_NAME_NOT_FOUND DAT_PROVIDER_NOT_FOUND /* its name in DAT 1.0 */

typedef enum dat_return_subtype DAT_ENUM_BASE {
    DAT_NO_SUBTYPE = 0,

    /* of DAT_ABORT */
    DAT_SUB_INTERRUPTED,

    /* of DAT_INSUFFICIENT_RESOURCES */
    DAT_RESOURCE_MEMORY,
    DAT_RESOURCE_DEVICE,
    DAT_RESOURCE_TEP,  /* the device's endpoint: a QP */
    DAT_RESOURCE_TEVD, /* the device's event queue: a CQ */
    DAT_RESOURCE_PROTECTION_DOMAIN,
    DAT_RESOURCE_MEMORY_REGION,
    DAT_RESOURCE_ERROR_HANDLER,
    DAT_RESOURCE_CREDITS, /* as for RDMA Reads in flight */
    DAT_RESOURCE_SRQ,

    /* of DAT_INVALID_HANDLE: by what it should have been, or by its place in the call */
    DAT_INVALID_HANDLE_IA,
    DAT_INVALID_HANDLE_EP,
    DAT_INVALID_HANDLE_LMR,
    DAT_INVALID_HANDLE_RMR,
    DAT_INVALID_HANDLE_PZ,
    DAT_INVALID_HANDLE_PSP,
    DAT_INVALID_HANDLE_RSP,
    DAT_INVALID_HANDLE_CR,
    DAT_INVALID_HANDLE_CNO,
    DAT_INVALID_HANDLE_EVD_CR,
    DAT_INVALID_HANDLE_EVD_REQUEST,
    DAT_INVALID_HANDLE_EVD_RECV,
    DAT_INVALID_HANDLE_EVD_CONN,
    DAT_INVALID_HANDLE_EVD_ASYNC,
    DAT_INVALID_HANDLE_SRQ,
    DAT_INVALID_HANDLE_CSP,
    DAT_INVALID_HANDLE1,
    DAT_INVALID_HANDLE2,
    DAT_INVALID_HANDLE3,
    DAT_INVALID_HANDLE4,
    DAT_INVALID_HANDLE5,
    DAT_INVALID_HANDLE6,
    DAT_INVALID_HANDLE7,
    DAT_INVALID_HANDLE8,
    DAT_INVALID_HANDLE9,
    DAT_INVALID_HANDLE10,

    /* of DAT_INVALID_PARAMETER: its place in the call */
    DAT_INVALID_ARG1,
    DAT_INVALID_ARG2,
    DAT_INVALID_ARG3,
    DAT_INVALID_ARG4,
    DAT_INVALID_ARG5,
    DAT_INVALID_ARG6,
    DAT_INVALID_ARG7,
    DAT_INVALID_ARG8,
    DAT_INVALID_ARG9,
    DAT_INVALID_ARG10,

    /* of DAT_INVALID_STATE: what the endpoint is, or lacks */
    DAT_INVALID_STATE_EP_UNCONNECTED,
    DAT_INVALID_STATE_EP_ACTCONNPENDING,
    DAT_INVALID_STATE_EP_PASSCONNPENDING,
    DAT_INVALID_STATE_EP_TENTCONNPENDING,
    DAT_INVALID_STATE_EP_CONNECTED,
    DAT_INVALID_STATE_EP_DISCONNECTED,
    DAT_INVALID_STATE_EP_RESERVED,
    DAT_INVALID_STATE_EP_COMPLPENDING,
    DAT_INVALID_STATE_EP_DISCPENDING,
    DAT_INVALID_STATE_EP_PROVIDERCONTROL,
    DAT_INVALID_STATE_EP_NOTREADY,
    DAT_INVALID_STATE_EP_RECV_WATERMARK,
    DAT_INVALID_STATE_EP_PZ,
    DAT_INVALID_STATE_EP_EVD_REQUEST,
    DAT_INVALID_STATE_EP_EVD_RECV,
    DAT_INVALID_STATE_EP_EVD_CONNECT,
    DAT_INVALID_STATE_EP_UNCONFIGURED,
    DAT_INVALID_STATE_EP_UNCONFRESERVED,
    DAT_INVALID_STATE_EP_UNCONFPASSIVE,
    DAT_INVALID_STATE_EP_UNCONFTENTATIVE,

    /* of DAT_INVALID_STATE: what the CNO, EVD, IA, LMR, PZ or SRQ is */
    DAT_INVALID_STATE_CNO_IN_USE,
    DAT_INVALID_STATE_CNO_DEAD,
    DAT_INVALID_STATE_EVD_OPEN,
    DAT_INVALID_STATE_EVD_ENABLED,
    DAT_INVALID_STATE_EVD_DISABLED,
    DAT_INVALID_STATE_EVD_WAITABLE,
    DAT_INVALID_STATE_EVD_UNWAITABLE,
    DAT_INVALID_STATE_EVD_IN_USE,
    DAT_INVALID_STATE_EVD_CONFIG_NOTIFY,
    DAT_INVALID_STATE_EVD_CONFIG_SOLICITED,
    DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD,
    DAT_INVALID_STATE_EVD_WAITER, /* another thread waits on it */
    DAT_INVALID_STATE_EVD_ASYNC,  /* the last one that takes asynchronous errors */
    DAT_INVALID_STATE_IA_IN_USE,
    DAT_INVALID_STATE_LMR_IN_USE,
    DAT_INVALID_STATE_LMR_FREE,
    DAT_INVALID_STATE_PZ_IN_USE,
    DAT_INVALID_STATE_PZ_FREE,
    DAT_INVALID_STATE_SRQ_OPERATIONAL,
    DAT_INVALID_STATE_SRQ_ERROR,
    DAT_INVALID_STATE_SRQ_IN_USE,
    DAT_INVALID_STATE_SRQ_SHUTDOWN,

    /* of DAT_PRIVILEGES_VIOLATION */
    DAT_PRIVILEGES_READ,
    DAT_PRIVILEGES_WRITE,
    DAT_PRIVILEGES_RDMA_READ,
    DAT_PRIVILEGES_RDMA_WRITE,

    /* of DAT_PROTECTION_VIOLATION */
    DAT_PROTECTION_READ,
    DAT_PROTECTION_WRITE,
    DAT_PROTECTION_RDMA_READ,
    DAT_PROTECTION_RDMA_WRITE,

    /* of DAT_INVALID_ADDRESS */
    DAT_INVALID_ADDRESS_UNSUPPORTED, /* a good address, but not of one host: multicast, say */
    DAT_INVALID_ADDRESS_UNREACHABLE, /* no way leads there from here */
    DAT_INVALID_ADDRESS_MALFORMED,   /* no address at all */

    /* of DAT_PROVIDER_NOT_FOUND: what did not match */
    DAT_NAME_NOT_REGISTERED,
    DAT_MAJOR_NOT_FOUND,
    DAT_MINOR_NOT_FOUND,
    DAT_THREAD_SAFETY_NOT_FOUND
} DAT_RETURN_SUBTYPE;

#endif
