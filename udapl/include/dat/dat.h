/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * DAT 1.2: the objects, their attributes and parameters, and the events. Programs include
 * <dat/udat.h>, which has the functions and what is special to user space. Its names are those of
 * <dat2/...> with other layouts and values, so a program includes either.
 *
 *     IA    interface adapter: a device, opened           PZ    protection zone
 *     EP    endpoint: one end of a connection             LMR   registered memory
 *     EVD   event dispatcher: a queue of events           RMR   a window on registered memory
 *     CNO   what many EVDs wake                           SRQ   receive buffers that EPs share
 *     CR    connection request                            DTO   data transfer operation
 *     PSP, RSP   listeners: public, reserved for one connection
 *
 * A mask beside a pointer to attributes or parameters says which members matter; its bits are named
 * as the members are.
 */
#ifndef COHERDMA_DAT1_DAT_H
#define COHERDMA_DAT1_DAT_H

#include <dat/dat_error.h>
#include <dat/dat_platform_specific.h>
#include <dat/udat_config.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- simple types --------------------------------------------------------------------------- */

typedef enum dat_boolean DAT_ENUM_BASE { DAT_FALSE = 0, DAT_TRUE = 1 } DAT_BOOLEAN;

typedef char *DAT_NAME_PTR;
#define DAT_NAME_MAX_LENGTH 256 /* with the final zero */

/* An attribute beyond those of DAT, with its value in words. */
typedef struct dat_named_attr {
    const char *name;
    const char *value;
} DAT_NAMED_ATTR;

/* A value of the program's that DAT keeps and gives back; a cookie comes with the completion. */
typedef union dat_context {
    DAT_PVOID as_ptr;
    DAT_UINT64 as_64;
    DAT_UVERYLONG as_index;
} DAT_CONTEXT;
typedef DAT_CONTEXT DAT_DTO_COOKIE;
typedef DAT_CONTEXT DAT_RMR_COOKIE;

typedef DAT_UINT32 DAT_TIMEOUT; /* microseconds */
#define DAT_TIMEOUT_INFINITE UINT32_C(0xffffffff)

typedef DAT_SOCK_ADDR *DAT_IA_ADDRESS_PTR;
typedef DAT_UINT64 DAT_CONN_QUAL; /* where a listener is, as a port number is in TCP */
typedef DAT_UINT64 DAT_PORT_QUAL;

/* -- handles -------------------------------------------------------------------------------- */

typedef DAT_PVOID DAT_HANDLE;
typedef DAT_HANDLE DAT_IA_HANDLE;
typedef DAT_HANDLE DAT_CR_HANDLE;
typedef DAT_HANDLE DAT_EP_HANDLE;
typedef DAT_HANDLE DAT_EVD_HANDLE;
typedef DAT_HANDLE DAT_LMR_HANDLE;
typedef DAT_HANDLE DAT_PSP_HANDLE;
typedef DAT_HANDLE DAT_PZ_HANDLE;
typedef DAT_HANDLE DAT_RMR_HANDLE;
typedef DAT_HANDLE DAT_RSP_HANDLE;
typedef DAT_HANDLE DAT_SRQ_HANDLE;

#ifdef __cplusplus
#    define DAT_HANDLE_NULL DAT_CAST(DAT_HANDLE, nullptr)
#else
#    define DAT_HANDLE_NULL DAT_CAST(DAT_HANDLE, NULL)
#endif

typedef enum dat_handle_type DAT_ENUM_BASE {
    DAT_HANDLE_TYPE_CR = 0,
    DAT_HANDLE_TYPE_EP = 1,
    DAT_HANDLE_TYPE_EVD = 2,
    DAT_HANDLE_TYPE_IA = 3,
    DAT_HANDLE_TYPE_LMR = 4,
    DAT_HANDLE_TYPE_PSP = 5,
    DAT_HANDLE_TYPE_PZ = 6,
    DAT_HANDLE_TYPE_RMR = 7,
    DAT_HANDLE_TYPE_RSP = 8,
    DAT_HANDLE_TYPE_CNO = 9,
    DAT_HANDLE_TYPE_SRQ = 10
} DAT_HANDLE_TYPE;

/* -- how to transfer, connect and close ----------------------------------------------------- */

typedef enum dat_completion_flags DAT_ENUM_BASE {
    DAT_COMPLETION_DEFAULT_FLAG = 0x00,
    DAT_COMPLETION_SUPPRESS_FLAG = 0x01,       /* no event if all goes well */
    DAT_COMPLETION_SOLICITED_WAIT_FLAG = 0x02, /* the sender decides whether the receiver wakes */
    DAT_COMPLETION_UNSIGNALLED_FLAG = 0x04,    /* an event, but it wakes no waiter */
    DAT_COMPLETION_BARRIER_FENCE_FLAG = 0x08,  /* not before all earlier RDMA Reads are done */
    DAT_COMPLETION_EVD_THRESHOLD_FLAG = 0x10   /* an EP's receives: dat_evd_wait counts them */
} DAT_COMPLETION_FLAGS;

typedef enum dat_qos DAT_ENUM_BASE {
    DAT_QOS_BEST_EFFORT = 0x00,
    DAT_QOS_HIGH_THROUGHPUT = 0x01,
    DAT_QOS_LOW_LATENCY = 0x02,
    DAT_QOS_ECONOMY = 0x04, /* neither of the two */
    DAT_QOS_PREMIUM = 0x08  /* both */
} DAT_QOS;

typedef enum dat_connect_flags DAT_ENUM_BASE {
    DAT_CONNECT_DEFAULT_FLAG = 0x00,
    DAT_CONNECT_MULTIPATH_FLAG = 0x01 /* more than one way there, if possible */
} DAT_CONNECT_FLAGS;

typedef enum dat_close_flags DAT_ENUM_BASE {
    DAT_CLOSE_ABRUPT_FLAG = 0x00,
    DAT_CLOSE_GRACEFUL_FLAG = 0x01
} DAT_CLOSE_FLAGS;
#define DAT_CLOSE_DEFAULT DAT_CLOSE_ABRUPT_FLAG

/* What may feed an EVD. */
typedef enum dat_evd_flags DAT_ENUM_BASE {
    DAT_EVD_SOFTWARE_FLAG = 0x001,
    DAT_EVD_CR_FLAG = 0x010,
    DAT_EVD_DTO_FLAG = 0x020,
    DAT_EVD_CONNECTION_FLAG = 0x040,
    DAT_EVD_RMR_BIND_FLAG = 0x080,
    DAT_EVD_ASYNC_FLAG = 0x100,
    DAT_EVD_DEFAULT_FLAG = 0x1f0 /* all but software events */
} DAT_EVD_FLAGS;

/* Who makes the endpoint for a request that comes to a public service point. */
typedef enum dat_psp_flags DAT_ENUM_BASE {
    DAT_PSP_CONSUMER_FLAG = 0x00,
    DAT_PSP_PROVIDER_FLAG = 0x01
} DAT_PSP_FLAGS;

/* -- memory --------------------------------------------------------------------------------- */

typedef DAT_UINT32 DAT_LMR_CONTEXT;
typedef DAT_UINT32 DAT_RMR_CONTEXT;
typedef DAT_UINT64 DAT_VADDR;
typedef DAT_UINT64 DAT_VLEN;

/* A range of local memory, in this host's byte order. Of one of length 0 nothing else matters. */
typedef struct dat_lmr_triplet {
    DAT_LMR_CONTEXT lmr_context;
    DAT_UINT32 pad;
    DAT_VADDR virtual_address;
    DAT_VLEN segment_length;
} DAT_LMR_TRIPLET;

/* A range of the peer's memory, in this host's byte order too. */
typedef struct dat_rmr_triplet {
    DAT_RMR_CONTEXT rmr_context;
    DAT_UINT32 pad;
    DAT_VADDR target_address;
    DAT_VLEN segment_length;
} DAT_RMR_TRIPLET;

typedef enum dat_mem_priv_flags DAT_ENUM_BASE {
    DAT_MEM_PRIV_NONE_FLAG = 0x00,
    DAT_MEM_PRIV_LOCAL_READ_FLAG = 0x01,
    DAT_MEM_PRIV_REMOTE_READ_FLAG = 0x02,
    DAT_MEM_PRIV_LOCAL_WRITE_FLAG = 0x10,
    DAT_MEM_PRIV_REMOTE_WRITE_FLAG = 0x20,
    DAT_MEM_PRIV_ALL_FLAG = 0x33,
    DAT_MEM_PRIV_RO_DISABLE_FLAG = 0x100 /* Solaris': the device must keep its writes in order */
} DAT_MEM_PRIV_FLAGS;
/* As in DAT 1.0, where local and remote were one. */
#define DAT_MEM_PRIV_READ_FLAG (DAT_MEM_PRIV_LOCAL_READ_FLAG | DAT_MEM_PRIV_REMOTE_READ_FLAG)
#define DAT_MEM_PRIV_WRITE_FLAG (DAT_MEM_PRIV_LOCAL_WRITE_FLAG | DAT_MEM_PRIV_REMOTE_WRITE_FLAG)

typedef struct dat_rmr_param {
    DAT_IA_HANDLE ia_handle;
    DAT_PZ_HANDLE pz_handle;
    DAT_LMR_TRIPLET lmr_triplet;
    DAT_MEM_PRIV_FLAGS mem_priv;
    DAT_RMR_CONTEXT rmr_context;
} DAT_RMR_PARAM;

typedef enum dat_rmr_param_mask DAT_ENUM_BASE {
    DAT_RMR_FIELD_IA_HANDLE = 0x01,
    DAT_RMR_FIELD_PZ_HANDLE = 0x02,
    DAT_RMR_FIELD_LMR_TRIPLET = 0x04,
    DAT_RMR_FIELD_MEM_PRIV = 0x08,
    DAT_RMR_FIELD_RMR_CONTEXT = 0x10,
    DAT_RMR_FIELD_ALL = 0x1f
} DAT_RMR_PARAM_MASK;

typedef struct dat_pz_param {
    DAT_IA_HANDLE ia_handle;
} DAT_PZ_PARAM;

typedef enum dat_pz_param_mask DAT_ENUM_BASE {
    DAT_PZ_FIELD_IA_HANDLE = 0x01,
    DAT_PZ_FIELD_ALL = 0x01
} DAT_PZ_PARAM_MASK;

/* -- interface adapters --------------------------------------------------------------------- */

/* Members that are named twice have the name of DAT 1.0 too. */
typedef struct dat_ia_attr {
    char adapter_name[DAT_NAME_MAX_LENGTH];
    char vendor_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32 hardware_version_major;
    DAT_UINT32 hardware_version_minor;
    DAT_UINT32 firmware_version_major;
    DAT_UINT32 firmware_version_minor;
    DAT_IA_ADDRESS_PTR ia_address_ptr; /* good until the IA is closed */
    DAT_COUNT max_eps;
    DAT_COUNT max_dto_per_ep;
    __extension__ union {
        DAT_COUNT max_rdma_read_per_ep_in; /* that one endpoint answers at a time */
        DAT_COUNT max_rdma_read_per_ep;
    };
    DAT_COUNT max_rdma_read_per_ep_out; /* that one endpoint has in flight */
    DAT_COUNT max_evds;
    DAT_COUNT max_evd_qlen;
    DAT_COUNT max_iov_segments_per_dto;
    DAT_COUNT max_lmrs;
    DAT_VLEN max_lmr_block_size;
    DAT_VADDR max_lmr_virtual_address;
    DAT_COUNT max_pzs;
    __extension__ union {
        DAT_VLEN max_message_size;
        DAT_VLEN max_mtu_size;
    };
    DAT_VLEN max_rdma_size;
    DAT_COUNT max_rmrs;
    DAT_VADDR max_rmr_target_address;
    DAT_COUNT max_srqs;
    DAT_COUNT max_ep_per_srq;
    DAT_COUNT max_recv_per_srq;
    DAT_COUNT max_iov_segments_per_rdma_read;
    DAT_COUNT max_iov_segments_per_rdma_write;
    DAT_COUNT max_rdma_read_in; /* of all endpoints together */
    DAT_COUNT max_rdma_read_out;
    DAT_BOOLEAN max_rdma_read_per_ep_in_guaranteed;
    DAT_BOOLEAN max_rdma_read_per_ep_out_guaranteed;
    DAT_COUNT num_transport_attr;
    DAT_NAMED_ATTR *transport_attr;
    DAT_COUNT num_vendor_attr;
    DAT_NAMED_ATTR *vendor_attr;
} DAT_IA_ATTR;

typedef DAT_UINT64 DAT_IA_ATTR_MASK;
#define DAT_IA_FIELD_NONE UINT64_C(0x0000000000)
#define DAT_IA_FIELD_IA_ADAPTER_NAME UINT64_C(0x0000000001)
#define DAT_IA_FIELD_IA_VENDOR_NAME UINT64_C(0x0000000002)
#define DAT_IA_FIELD_IA_HARDWARE_MAJOR_VERSION UINT64_C(0x0000000004)
#define DAT_IA_FIELD_IA_HARDWARE_MINOR_VERSION UINT64_C(0x0000000008)
#define DAT_IA_FIELD_IA_FIRMWARE_MAJOR_VERSION UINT64_C(0x0000000010)
#define DAT_IA_FIELD_IA_FIRMWARE_MINOR_VERSION UINT64_C(0x0000000020)
#define DAT_IA_FIELD_IA_ADDRESS_PTR UINT64_C(0x0000000040)
#define DAT_IA_FIELD_IA_MAX_EPS UINT64_C(0x0000000080)
#define DAT_IA_FIELD_IA_MAX_DTO_PER_EP UINT64_C(0x0000000100)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN UINT64_C(0x0000000200)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT UINT64_C(0x0000000400)
#define DAT_IA_FIELD_IA_MAX_EVDS UINT64_C(0x0000000800)
#define DAT_IA_FIELD_IA_MAX_EVD_QLEN UINT64_C(0x0000001000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_DTO UINT64_C(0x0000002000)
#define DAT_IA_FIELD_IA_MAX_LMRS UINT64_C(0x0000004000)
#define DAT_IA_FIELD_IA_MAX_LMR_BLOCK_SIZE UINT64_C(0x0000008000)
#define DAT_IA_FIELD_IA_MAX_LMR_VIRTUAL_ADDRESS UINT64_C(0x0000010000)
#define DAT_IA_FIELD_IA_MAX_PZS UINT64_C(0x0000020000)
#define DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE UINT64_C(0x0000040000)
#define DAT_IA_FIELD_IA_MAX_RDMA_SIZE UINT64_C(0x0000080000)
#define DAT_IA_FIELD_IA_MAX_RMRS UINT64_C(0x0000100000)
#define DAT_IA_FIELD_IA_MAX_RMR_TARGET_ADDRESS UINT64_C(0x0000200000)
#define DAT_IA_FIELD_IA_MAX_SRQS UINT64_C(0x0000400000)
#define DAT_IA_FIELD_IA_MAX_EP_PER_SRQ UINT64_C(0x0000800000)
#define DAT_IA_FIELD_IA_MAX_RECV_PER_SRQ UINT64_C(0x0001000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_READ UINT64_C(0x0002000000)
#define DAT_IA_FIELD_IA_MAX_IOV_SEGMENTS_PER_RDMA_WRITE UINT64_C(0x0004000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_IN UINT64_C(0x0008000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_OUT UINT64_C(0x0010000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_IN_GUARANTEED UINT64_C(0x0020000000)
#define DAT_IA_FIELD_IA_MAX_RDMA_READ_PER_EP_OUT_GUARANTEED UINT64_C(0x0040000000)
#define DAT_IA_FIELD_IA_NUM_TRANSPORT_ATTR UINT64_C(0x0080000000)
#define DAT_IA_FIELD_IA_TRANSPORT_ATTR UINT64_C(0x0100000000)
#define DAT_IA_FIELD_IA_NUM_VENDOR_ATTR UINT64_C(0x0200000000)
#define DAT_IA_FIELD_IA_VENDOR_ATTR UINT64_C(0x0400000000)
#define DAT_IA_FIELD_ALL UINT64_C(0x07ffffffff)
/* In the words of DAT 1.0 and 1.1. */
#define DAT_IA_ALL DAT_IA_FIELD_ALL
#define DAT_IA_FIELD_IA_MAX_DTO_PER_OP DAT_IA_FIELD_IA_MAX_DTO_PER_EP
#define DAT_IA_FIELD_IA_MAX_MTU_SIZE DAT_IA_FIELD_IA_MAX_MESSAGE_SIZE

/* -- providers ------------------------------------------------------------------------------ */

typedef struct dat_provider_attr DAT_PROVIDER_ATTR; /* udat.h */
typedef DAT_UINT64 DAT_PROVIDER_ATTR_MASK;

/* The triplets that a call was given, after its completion: are they as they were? */
typedef enum dat_iov_ownership DAT_ENUM_BASE {
    DAT_IOV_CONSUMER = 0,       /* the program may change them as soon as the call returns */
    DAT_IOV_PROVIDER_NOMOD = 1, /* they are the provider's until then, and unchanged */
    DAT_IOV_PROVIDER_MOD = 2    /* they are the provider's until then, and may have changed */
} DAT_IOV_OWNERSHIP;

typedef enum dat_ep_creator_for_psp DAT_ENUM_BASE {
    DAT_PSP_CREATES_EP_NEVER = 0,
    DAT_PSP_CREATES_EP_IFASKED = 1,
    DAT_PSP_CREATES_EP_ALWAYS = 2
} DAT_EP_CREATOR_FOR_PSP;

/* An IA that the registry knows. */
typedef struct dat_provider_info {
    char ia_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32 dapl_version_major;
    DAT_UINT32 dapl_version_minor;
    DAT_BOOLEAN is_thread_safe;
} DAT_PROVIDER_INFO;

/* -- endpoints ------------------------------------------------------------------------------ */

typedef enum dat_service_type DAT_ENUM_BASE {
    DAT_SERVICE_TYPE_RC = 0 /* a reliable connection */
} DAT_SERVICE_TYPE;

typedef struct dat_ep_attr {
    DAT_SERVICE_TYPE service_type;
    __extension__ union {
        DAT_VLEN max_message_size;
        DAT_VLEN max_mtu_size; /* its name in DAT 1.0 */
    };
    DAT_VLEN max_rdma_size;
    DAT_QOS qos;
    DAT_COMPLETION_FLAGS recv_completion_flags;
    DAT_COMPLETION_FLAGS request_completion_flags;
    DAT_COUNT max_recv_dtos;
    DAT_COUNT max_request_dtos;
    DAT_COUNT max_recv_iov;
    DAT_COUNT max_request_iov;
    DAT_COUNT max_rdma_read_in;
    DAT_COUNT max_rdma_read_out;
    DAT_COUNT srq_soft_hw; /* as in dat_ep_set_watermark */
    DAT_COUNT max_rdma_read_iov;
    DAT_COUNT max_rdma_write_iov;
    DAT_COUNT ep_transport_specific_count;
    DAT_NAMED_ATTR *ep_transport_specific;
    DAT_COUNT ep_provider_specific_count;
    DAT_NAMED_ATTR *ep_provider_specific;
} DAT_EP_ATTR;

/* UNCONFIGURED: an EVD, the PZ or the like is still missing. */
typedef enum dat_ep_state DAT_ENUM_BASE {
    DAT_EP_STATE_UNCONNECTED = 0,
    DAT_EP_STATE_UNCONFIGURED_UNCONNECTED = 1,
    DAT_EP_STATE_RESERVED = 2, /* for a service point */
    DAT_EP_STATE_UNCONFIGURED_RESERVED = 3,
    DAT_EP_STATE_PASSIVE_CONNECTION_PENDING = 4, /* accepted, not yet established */
    DAT_EP_STATE_UNCONFIGURED_PASSIVE = 5,
    DAT_EP_STATE_ACTIVE_CONNECTION_PENDING = 6,
    DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING = 7, /* a request is there, not yet accepted */
    DAT_EP_STATE_UNCONFIGURED_TENTATIVE = 8,
    DAT_EP_STATE_CONNECTED = 9,
    DAT_EP_STATE_DISCONNECT_PENDING = 10,
    DAT_EP_STATE_DISCONNECTED = 11,
    DAT_EP_STATE_COMPLETION_PENDING = 12
} DAT_EP_STATE;
#define DAT_EP_STATE_ERROR DAT_EP_STATE_DISCONNECTED /* its name in DAT 1.0 */

typedef struct dat_ep_param {
    DAT_IA_HANDLE ia_handle;
    DAT_EP_STATE ep_state;
    DAT_IA_ADDRESS_PTR local_ia_address_ptr;
    DAT_PORT_QUAL local_port_qual;
    DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
    DAT_PORT_QUAL remote_port_qual;
    DAT_PZ_HANDLE pz_handle;
    DAT_EVD_HANDLE recv_evd_handle;
    DAT_EVD_HANDLE request_evd_handle;
    DAT_EVD_HANDLE connect_evd_handle;
    DAT_SRQ_HANDLE srq_handle;
    DAT_EP_ATTR ep_attr;
} DAT_EP_PARAM;

typedef DAT_UINT64 DAT_EP_PARAM_MASK;
#define DAT_EP_FIELD_IA_HANDLE UINT64_C(0x00000001)
#define DAT_EP_FIELD_EP_STATE UINT64_C(0x00000002)
#define DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR UINT64_C(0x00000004)
#define DAT_EP_FIELD_LOCAL_PORT_QUAL UINT64_C(0x00000008)
#define DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR UINT64_C(0x00000010)
#define DAT_EP_FIELD_REMOTE_PORT_QUAL UINT64_C(0x00000020)
#define DAT_EP_FIELD_PZ_HANDLE UINT64_C(0x00000040)
#define DAT_EP_FIELD_RECV_EVD_HANDLE UINT64_C(0x00000080)
#define DAT_EP_FIELD_REQUEST_EVD_HANDLE UINT64_C(0x00000100)
#define DAT_EP_FIELD_CONNECT_EVD_HANDLE UINT64_C(0x00000200)
#define DAT_EP_FIELD_SRQ_HANDLE UINT64_C(0x00000400)
#define DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE UINT64_C(0x00001000)
#define DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE UINT64_C(0x00002000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE UINT64_C(0x00004000)
#define DAT_EP_FIELD_EP_ATTR_QOS UINT64_C(0x00008000)
#define DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS UINT64_C(0x00010000)
#define DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS UINT64_C(0x00020000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS UINT64_C(0x00040000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS UINT64_C(0x00080000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV UINT64_C(0x00100000)
#define DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV UINT64_C(0x00200000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN UINT64_C(0x00400000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT UINT64_C(0x00800000)
#define DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW UINT64_C(0x01000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV UINT64_C(0x02000000)
#define DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV UINT64_C(0x04000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR UINT64_C(0x08000000)
#define DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR UINT64_C(0x10000000)
#define DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR UINT64_C(0x20000000)
#define DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR UINT64_C(0x40000000)
#define DAT_EP_FIELD_EP_ATTR_ALL UINT64_C(0x7ffff000)
#define DAT_EP_FIELD_ALL UINT64_C(0x7ffff7ff)

/* -- shared receive queues ------------------------------------------------------------------ */

#define DAT_WATERMARK_INFINITE (-1)
#define DAT_HW_DEFAULT DAT_WATERMARK_INFINITE
#define DAT_SRQ_LW_DEFAULT 0
#define DAT_VALUE_UNKNOWN (-2) /* a count that the provider does not know */

typedef enum dat_srq_state DAT_ENUM_BASE {
    DAT_SRQ_STATE_OPERATIONAL = 0,
    DAT_SRQ_STATE_ERROR = 1
} DAT_SRQ_STATE;

typedef struct dat_srq_attr {
    DAT_COUNT max_recv_dtos;
    DAT_COUNT max_recv_iov;
    DAT_COUNT low_watermark;
} DAT_SRQ_ATTR;

typedef struct dat_srq_param {
    DAT_IA_HANDLE ia_handle;
    DAT_SRQ_STATE srq_state;
    DAT_PZ_HANDLE pz_handle;
    DAT_COUNT max_recv_dtos;
    DAT_COUNT max_recv_iov;
    DAT_COUNT low_watermark;
    DAT_COUNT available_dto_count;   /* buffers that wait for a send */
    DAT_COUNT outstanding_dto_count; /* buffers posted whose completion was not dequeued */
} DAT_SRQ_PARAM;

typedef enum dat_srq_param_mask DAT_ENUM_BASE {
    DAT_SRQ_FIELD_IA_HANDLE = 0x01,
    DAT_SRQ_FIELD_SRQ_STATE = 0x02,
    DAT_SRQ_FIELD_PZ_HANDLE = 0x04,
    DAT_SRQ_FIELD_MAX_RECV_DTO = 0x08,
    DAT_SRQ_FIELD_MAX_RECV_IOV = 0x10,
    DAT_SRQ_FIELD_LOW_WATERMARK = 0x20,
    DAT_SRQ_FIELD_AVAILABLE_DTO_COUNT = 0x40,
    DAT_SRQ_FIELD_OUTSTANDING_DTO_COUNT = 0x80,
    DAT_SRQ_FIELD_ALL = 0xff
} DAT_SRQ_PARAM_MASK;

/* -- service points and connection requests ------------------------------------------------- */

typedef struct dat_psp_param {
    DAT_IA_HANDLE ia_handle;
    DAT_CONN_QUAL conn_qual;
    DAT_EVD_HANDLE evd_handle;
    DAT_PSP_FLAGS psp_flags;
} DAT_PSP_PARAM;

typedef enum dat_psp_param_mask DAT_ENUM_BASE {
    DAT_PSP_FIELD_IA_HANDLE = 0x01,
    DAT_PSP_FIELD_CONN_QUAL = 0x02,
    DAT_PSP_FIELD_EVD_HANDLE = 0x04,
    DAT_PSP_FIELD_PSP_FLAGS = 0x08,
    DAT_PSP_FIELD_ALL = 0x0f
} DAT_PSP_PARAM_MASK;

typedef struct dat_rsp_param {
    DAT_IA_HANDLE ia_handle;
    DAT_CONN_QUAL conn_qual;
    DAT_EVD_HANDLE evd_handle;
    DAT_EP_HANDLE ep_handle;
} DAT_RSP_PARAM;

typedef enum dat_rsp_param_mask DAT_ENUM_BASE {
    DAT_RSP_FIELD_IA_HANDLE = 0x01,
    DAT_RSP_FIELD_CONN_QUAL = 0x02,
    DAT_RSP_FIELD_EVD_HANDLE = 0x04,
    DAT_RSP_FIELD_EP_HANDLE = 0x08,
    DAT_RSP_FIELD_ALL = 0x0f
} DAT_RSP_PARAM_MASK;

typedef struct dat_cr_param {
    DAT_IA_ADDRESS_PTR remote_ia_address_ptr;
    DAT_PORT_QUAL remote_port_qual;
    DAT_COUNT private_data_size;
    DAT_PVOID private_data;        /* the provider's memory, good until the request is answered */
    DAT_EP_HANDLE local_ep_handle; /* the only one that can accept, or DAT_HANDLE_NULL */
} DAT_CR_PARAM;

typedef enum dat_cr_param_mask DAT_ENUM_BASE {
    DAT_CR_FIELD_REMOTE_IA_ADDRESS_PTR = 0x01,
    DAT_CR_FIELD_REMOTE_PORT_QUAL = 0x02,
    DAT_CR_FIELD_PRIVATE_DATA_SIZE = 0x04,
    DAT_CR_FIELD_PRIVATE_DATA = 0x08,
    DAT_CR_FIELD_LOCAL_EP_HANDLE = 0x10,
    DAT_CR_FIELD_ALL = 0x1f
} DAT_CR_PARAM_MASK;

/* -- events --------------------------------------------------------------------------------- */

typedef enum dat_dto_completion_status DAT_ENUM_BASE {
    DAT_DTO_SUCCESS = 0,
    DAT_DTO_ERR_FLUSHED = 1, /* never tried: the connection ended first */
    DAT_DTO_ERR_LOCAL_LENGTH = 2,
    DAT_DTO_ERR_LOCAL_EP = 3,
    DAT_DTO_ERR_LOCAL_PROTECTION = 4,
    DAT_DTO_ERR_BAD_RESPONSE = 5,
    DAT_DTO_ERR_REMOTE_ACCESS = 6,
    DAT_DTO_ERR_REMOTE_RESPONDER = 7,
    DAT_DTO_ERR_TRANSPORT = 8,
    DAT_DTO_ERR_RECEIVER_NOT_READY = 9, /* the peer had no receive posted */
    DAT_DTO_ERR_PARTIAL_PACKET = 10,
    DAT_RMR_OPERATION_FAILED = 11
} DAT_DTO_COMPLETION_STATUS;
typedef DAT_DTO_COMPLETION_STATUS DAT_RMR_BIND_COMPLETION_STATUS;
/* Older names. */
#define DAT_DTO_LENGTH_ERROR DAT_DTO_ERR_LOCAL_LENGTH
#define DAT_DTO_FAILURE DAT_DTO_ERR_FLUSHED
#define DAT_RMR_BIND_SUCCESS DAT_DTO_SUCCESS
#define DAT_RMR_BIND_FAILURE DAT_DTO_ERR_FLUSHED

/* The length means something only if the status is DAT_DTO_SUCCESS. */
typedef struct dat_dto_completion_event_data {
    DAT_EP_HANDLE ep_handle;
    DAT_DTO_COOKIE user_cookie;
    DAT_DTO_COMPLETION_STATUS status;
    DAT_VLEN transfered_length;
} DAT_DTO_COMPLETION_EVENT_DATA;

typedef struct dat_rmr_bind_completion_event_data {
    DAT_RMR_HANDLE rmr_handle;
    DAT_RMR_COOKIE user_cookie;
    DAT_RMR_BIND_COMPLETION_STATUS status;
} DAT_RMR_BIND_COMPLETION_EVENT_DATA;

typedef union dat_sp_handle {
    DAT_RSP_HANDLE rsp_handle;
    DAT_PSP_HANDLE psp_handle;
} DAT_SP_HANDLE;

typedef struct dat_cr_arrival_event_data {
    DAT_SP_HANDLE sp_handle; /* the listener */
    DAT_IA_ADDRESS_PTR local_ia_address_ptr;
    DAT_CONN_QUAL conn_qual;
    DAT_CR_HANDLE cr_handle; /* to be accepted, rejected or handed off */
} DAT_CR_ARRIVAL_EVENT_DATA;

typedef struct dat_connection_event_data {
    DAT_EP_HANDLE ep_handle;
    DAT_COUNT private_data_size;
    DAT_PVOID private_data; /* good until the endpoint is used for another connection */
} DAT_CONNECTION_EVENT_DATA;

/* The handle of what went wrong; the reason is of the enumeration for that kind of object. */
typedef struct dat_asynch_error_event_data {
    DAT_HANDLE dat_handle;
    DAT_COUNT reason;
} DAT_ASYNCH_ERROR_EVENT_DATA;

typedef enum ia_async_error_reason DAT_ENUM_BASE {
    DAT_IA_CATASTROPHIC_ERROR = 0,
    DAT_IA_OTHER_ERROR = 1
} DAT_IA_ASYNC_ERROR_REASON;

typedef enum ep_async_error_reason DAT_ENUM_BASE {
    DAT_EP_TRANSFER_TO_ERROR = 0,
    DAT_EP_OTHER_ERROR = 1,
    DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT = 2
} DAT_EP_ASYNC_ERROR_REASON;

typedef enum evd_async_error_reason DAT_ENUM_BASE {
    DAT_EVD_OVERFLOW_ERROR = 0,
    DAT_EVD_OTHER_ERROR = 1
} DAT_EVD_ASYNC_ERROR_REASON;

typedef enum srq_async_error_reason DAT_ENUM_BASE {
    DAT_SRQ_TRANSFER_TO_ERROR = 0,
    DAT_SRQ_OTHER_ERROR = 1,
    DAT_SRQ_LOW_WATERMARK_EVENT = 2
} DAT_SRQ_ASYNC_ERROR_REASON;

typedef enum lmr_async_error_reason DAT_ENUM_BASE {
    DAT_LMR_OTHER_ERROR = 0
} DAT_LMR_ASYNC_ERROR_REASON;

typedef enum rmr_async_error_reason DAT_ENUM_BASE {
    DAT_RMR_OTHER_ERROR = 0
} DAT_RMR_ASYNC_ERROR_REASON;

typedef enum pz_async_error_reason DAT_ENUM_BASE {
    DAT_PZ_OTHER_ERROR = 0
} DAT_PZ_ASYNC_ERROR_REASON;

typedef struct dat_software_event_data {
    DAT_PVOID pointer;
} DAT_SOFTWARE_EVENT_DATA;

/* The range says which member of DAT_EVENT_DATA holds the rest. */
typedef enum dat_event_number DAT_ENUM_BASE {
    DAT_DTO_COMPLETION_EVENT = 0x00001,
    DAT_RMR_BIND_COMPLETION_EVENT = 0x01001,
    DAT_CONNECTION_REQUEST_EVENT = 0x02001,
    DAT_CONNECTION_EVENT_ESTABLISHED = 0x04001,
    DAT_CONNECTION_EVENT_PEER_REJECTED = 0x04002,     /* by dat_cr_reject */
    DAT_CONNECTION_EVENT_NON_PEER_REJECTED = 0x04003, /* for example: no listener */
    DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR = 0x04004,
    DAT_CONNECTION_EVENT_DISCONNECTED = 0x04005,
    DAT_CONNECTION_EVENT_BROKEN = 0x04006,
    DAT_CONNECTION_EVENT_TIMED_OUT = 0x04007,
    DAT_CONNECTION_EVENT_UNREACHABLE = 0x04008,
    DAT_ASYNC_ERROR_EVD_OVERFLOW = 0x08001,
    DAT_ASYNC_ERROR_IA_CATASTROPHIC = 0x08002,
    DAT_ASYNC_ERROR_EP_BROKEN = 0x08003,
    DAT_ASYNC_ERROR_TIMED_OUT = 0x08004,
    DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR = 0x08005,
    DAT_SOFTWARE_EVENT = 0x10001
} DAT_EVENT_NUMBER;

typedef union dat_event_data {
    DAT_DTO_COMPLETION_EVENT_DATA dto_completion_event_data;
    DAT_RMR_BIND_COMPLETION_EVENT_DATA rmr_completion_event_data;
    DAT_CR_ARRIVAL_EVENT_DATA cr_arrival_event_data;
    DAT_CONNECTION_EVENT_DATA connect_event_data;
    DAT_ASYNCH_ERROR_EVENT_DATA asynch_error_event_data;
    DAT_SOFTWARE_EVENT_DATA software_event_data;
} DAT_EVENT_DATA;

typedef struct dat_event {
    DAT_EVENT_NUMBER event_number;
    DAT_EVD_HANDLE evd_handle;
    DAT_EVENT_DATA event_data;
} DAT_EVENT;

typedef struct dat_evd_param DAT_EVD_PARAM; /* udat.h */
typedef struct dat_lmr_param DAT_LMR_PARAM; /* udat.h */

typedef enum dat_evd_param_mask DAT_ENUM_BASE {
    DAT_EVD_FIELD_IA_HANDLE = 0x01,
    DAT_EVD_FIELD_EVD_QLEN = 0x02,
    DAT_EVD_FIELD_EVD_STATE = 0x04,
    DAT_EVD_FIELD_CNO = 0x08,
    DAT_EVD_FIELD_EVD_FLAGS = 0x10,
    DAT_EVD_FIELD_ALL = 0x1f
} DAT_EVD_PARAM_MASK;

#ifdef __cplusplus
}
#endif

#endif
