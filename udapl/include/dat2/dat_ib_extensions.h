/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What InfiniBand and RoCE devices can do beyond DAT: atomics, RDMA Write with immediate data,
 * datagrams, counters, collectives. An IA says in extension_supported whether it knows these, and
 * in its provider's attributes, by the names below, which it has: "TRUE" or not.
 *
 * The calls are macros over dat_extension_op, so that what they are given is converted to what the
 * provider takes from its argument list.
 */
#ifndef COHERDMA_DAT2_DAT_IB_EXTENSIONS_H
#define COHERDMA_DAT2_DAT_IB_EXTENSIONS_H

#include <dat2/udat.h>
#include <netinet/in.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_ah; /* of <infiniband/verbs.h> */

#define DAT_IB_EXTENSION_VERSION 209 /* 2.0.9 */

/* Names of attributes. */
#define DAT_IB_ATTR_COUNTERS "DAT_COUNTERS"
#define DAT_IB_ATTR_FETCH_AND_ADD "DAT_IB_FETCH_AND_ADD"
#define DAT_IB_ATTR_CMP_AND_SWAP "DAT_IB_CMP_AND_SWAP"
#define DAT_IB_ATTR_IMMED_DATA "DAT_IB_IMMED_DATA"
#define DAT_IB_ATTR_UD "DAT_IB_UD"
#define DAT_IB_COLL_SET_CLOCK "DAT_COLL_SET_CLOCK"
#define DAT_IB_COLL_READ_CLOCK "DAT_COLL_READ_CLOCK"
#define DAT_IB_COLL_BROADCAST "DAT_COLL_BROADCAST"
#define DAT_IB_COLL_BARRIER "DAT_COLL_BARRIER"
#define DAT_IB_COLL_SCATTER "DAT_COLL_SCATTER"
#define DAT_IB_COLL_SCATTERV "DAT_COLL_SCATTERV"
#define DAT_IB_COLL_GATHER "DAT_COLL_GATHER"
#define DAT_IB_COLL_GATHERV "DAT_COLL_GATHERV"
#define DAT_IB_COLL_ALLGATHER "DAT_COLL_ALLGATHER"
#define DAT_IB_COLL_ALLGATHERV "DAT_COLL_ALLGATHERV"
#define DAT_IB_COLL_ALLTOALL "DAT_COLL_ALLTOALL"
#define DAT_IB_COLL_ALLTOALLV "DAT_COLL_ALLTOALLV"
#define DAT_IB_COLL_REDUCE "DAT_COLL_REDUCE"
#define DAT_IB_COLL_ALLREDUCE "DAT_COLL_ALLREDUCE"
#define DAT_IB_COLL_REDUCE_SCATTER "DAT_COLL_REDUCE_SCATTER"
#define DAT_IB_COLL_SCAN "DAT_COLL_SCAN"
#define DAT_ATTR_COUNTERS DAT_IB_ATTR_COUNTERS

/* -- operations ----------------------------------------------------------------------------- */

typedef enum dat_ib_op DAT_ENUM_BASE {
    DAT_IB_FETCH_AND_ADD_OP = 0,
    DAT_IB_CMP_AND_SWAP_OP,
    DAT_IB_RDMA_WRITE_IMMED_OP,
    DAT_IB_UD_SEND_OP,
    DAT_IB_QUERY_COUNTERS_OP,
    DAT_IB_PRINT_COUNTERS_OP,
    DAT_IB_COLLECTIVE_CREATE_MEMBER_OP,
    DAT_IB_COLLECTIVE_FREE_MEMBER_OP,
    DAT_IB_COLLECTIVE_CREATE_GROUP_OP,
    DAT_IB_COLLECTIVE_FREE_GROUP_OP,
    DAT_IB_COLLECTIVE_SET_CLOCK_OP,
    DAT_IB_COLLECTIVE_READ_CLOCK_OP,
    DAT_IB_COLLECTIVE_SCATTER_OP,
    DAT_IB_COLLECTIVE_SCATTERV_OP,
    DAT_IB_COLLECTIVE_GATHER_OP,
    DAT_IB_COLLECTIVE_GATHERV_OP,
    DAT_IB_COLLECTIVE_ALLGATHER_OP,
    DAT_IB_COLLECTIVE_ALLGATHERV_OP,
    DAT_IB_COLLECTIVE_ALLTOALL_OP,
    DAT_IB_COLLECTIVE_ALLTOALLV_OP,
    DAT_IB_COLLECTIVE_REDUCE_OP,
    DAT_IB_COLLECTIVE_ALLREDUCE_OP,
    DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP,
    DAT_IB_COLLECTIVE_SCAN_OP,
    DAT_IB_COLLECTIVE_BROADCAST_OP,
    DAT_IB_COLLECTIVE_BARRIER_OP,
    DAT_IB_START_COUNTERS_OP,
    DAT_IB_STOP_COUNTERS_OP,
    DAT_IB_UD_CM_FREE_OP,
    DAT_IB_UD_AH_FREE_OP,
    DAT_IB_OPEN_QUERY_OP = DAT_OPEN_EXTENSION_BASE,
    DAT_IB_CLOSE_QUERY_OP = DAT_CLOSE_EXTENSION_BASE
} DAT_IB_OP;
#define DAT_QUERY_COUNTERS_OP DAT_IB_QUERY_COUNTERS_OP
#define DAT_PRINT_COUNTERS_OP DAT_IB_PRINT_COUNTERS_OP

typedef enum dat_ib_dtos DAT_ENUM_BASE {
    DAT_IB_DTO_RDMA_WRITE_IMMED = DAT_DTO_EXTENSION_BASE,
    DAT_IB_DTO_RECV_IMMED,
    DAT_IB_DTO_FETCH_ADD,
    DAT_IB_DTO_CMP_SWAP,
    DAT_IB_DTO_RECV_MSG_IMMED,
    DAT_IB_DTO_SEND_UD,
    DAT_IB_DTO_RECV_UD,
    DAT_IB_DTO_RECV_UD_IMMED,
    DAT_IB_DTO_COLLECTIVES
} DAT_IB_DTOS;

typedef enum dat_ib_handle_type DAT_ENUM_BASE {
    DAT_IB_HANDLE_TYPE_EXT = DAT_HANDLE_TYPE_EXTENSION_BASE,
    DAT_IB_HANDLE_TYPE_COLLECTIVE
} DAT_IB_HANDLE_TYPE;

typedef enum dat_ib_evd_extension_flags DAT_ENUM_BASE {
    DAT_IB_EVD_EXTENSION_FLAG = DAT_EVD_EXTENSION_BASE
} DAT_IB_EVD_EXTENSION_FLAGS;

typedef enum dat_ib_mem_priv_flags DAT_ENUM_BASE {
    DAT_IB_MEM_PRIV_REMOTE_ATOMIC = DAT_MEM_PRIV_EXTENSION_BASE
} DAT_IB_MEM_PRIV_FLAGS;

typedef enum dat_ib_service_type DAT_ENUM_BASE {
    DAT_IB_SERVICE_TYPE_UD = DAT_SERVICE_TYPE_EXTENSION_BASE
} DAT_IB_SERVICE_TYPE;

/* Types of return values. */
typedef enum dat_ib_return DAT_ENUM_BASE {
    DAT_IB_ERR = DAT_EXTENSION_BASE,
    DAT_IB_COLLECTIVE_ERR
} DAT_IB_RETURN;

/* -- events --------------------------------------------------------------------------------- */

typedef enum dat_ib_event_number DAT_ENUM_BASE {
    DAT_IB_DTO_EVENT = DAT_IB_EXTENSION_RANGE_BASE,
    DAT_IB_UD_CONNECTION_REQUEST_EVENT,
    DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED,
    DAT_IB_UD_CONNECTION_REJECT_EVENT,
    DAT_IB_UD_CONNECTION_ERROR_EVENT,
    DAT_IB_COLLECTIVE_EVENT
} DAT_IB_EVENT_NUMBER;

/* What has completed. */
typedef enum dat_ib_ext_type DAT_ENUM_BASE {
    DAT_IB_FETCH_AND_ADD = 0,
    DAT_IB_CMP_AND_SWAP,
    DAT_IB_RDMA_WRITE_IMMED,
    DAT_IB_RDMA_WRITE_IMMED_DATA,
    DAT_IB_RECV_IMMED_DATA,
    DAT_IB_UD_CONNECT_REQUEST,
    DAT_IB_UD_REMOTE_AH,
    DAT_IB_UD_PASSIVE_REMOTE_AH,
    DAT_IB_UD_SEND,
    DAT_IB_UD_RECV,
    DAT_IB_UD_CONNECT_REJECT,
    DAT_IB_UD_CONNECT_ERROR,
    DAT_IB_COLLECTIVE_CREATE_STATUS,
    DAT_IB_COLLECTIVE_CREATE_DATA,
    DAT_IB_COLLECTIVE_CLOCK_SET_STATUS,
    DAT_IB_COLLECTIVE_SCATTER_STATUS,
    DAT_IB_COLLECTIVE_SCATTERV_STATUS,
    DAT_IB_COLLECTIVE_GATHER_STATUS,
    DAT_IB_COLLECTIVE_GATHERV_STATUS,
    DAT_IB_COLLECTIVE_ALLGATHER_STATUS,
    DAT_IB_COLLECTIVE_ALLGATHERV_STATUS,
    DAT_IB_COLLECTIVE_ALLTOALL_STATUS,
    DAT_IB_COLLECTIVE_ALLTOALLV_STATUS,
    DAT_IB_COLLECTIVE_REDUCE_STATUS,
    DAT_IB_COLLECTIVE_ALLREDUCE_STATUS,
    DAT_IB_COLLECTIVE_REDUCE_SCATTER_STATUS,
    DAT_IB_COLLECTIVE_SCAN_STATUS,
    DAT_IB_COLLECTIVE_BROADCAST_STATUS,
    DAT_IB_COLLECTIVE_BARRIER_STATUS
} DAT_IB_EXT_TYPE;

typedef enum dat_ib_status DAT_ENUM_BASE {
    DAT_OP_SUCCESS = DAT_SUCCESS,
    DAT_IB_OP_ERR,
    DAT_IB_COLL_COMP_ERR
} DAT_IB_STATUS;

/* Where a datagram goes. */
typedef struct dat_ib_addr_handle {
    struct ibv_ah *ah;
    DAT_UINT32 qpn;
    DAT_SOCK_ADDR6 ia_addr;
} DAT_IB_ADDR_HANDLE;

typedef struct dat_ib_immed_data {
    DAT_UINT32 data;
} DAT_IB_IMMED_DATA;

typedef DAT_HANDLE DAT_IB_COLLECTIVE_HANDLE;

typedef struct dat_ib_collective_event_data {
    DAT_HANDLE handle;
    DAT_CONTEXT context;
} DAT_IB_COLLECTIVE_EVENT_DATA;

/*
 * What event_extension_data of an event holds if event_number is DAT_IB_DTO_EVENT or above. The
 * rest of a transfer's completion is in dto_completion_event_data as ever.
 */
typedef struct dat_ib_extension_event_data {
    DAT_IB_EXT_TYPE type;
    DAT_IB_STATUS status;
    union {
        DAT_IB_IMMED_DATA immed; /* the value that the peer gave */
    } val;
    __extension__ union {
        DAT_IB_ADDR_HANDLE remote_ah; /* of datagrams */
        DAT_IB_COLLECTIVE_EVENT_DATA coll;
    };
    DAT_CONTEXT context; /* for dat_ib_ud_cm_free */
} DAT_IB_EXTENSION_EVENT_DATA;

/* -- counters: since the IA was opened or the object made; see COHERDMA_COUNTERS in udapl(7) -- */

typedef enum dat_ia_counters DAT_ENUM_BASE {
    DCNT_IA_PZ_CREATE = 0,
    DCNT_IA_PZ_FREE,
    DCNT_IA_LMR_CREATE,
    DCNT_IA_LMR_FREE,
    DCNT_IA_RMR_CREATE,
    DCNT_IA_RMR_FREE,
    DCNT_IA_PSP_CREATE,
    DCNT_IA_PSP_CREATE_ANY,
    DCNT_IA_PSP_FREE,
    DCNT_IA_RSP_CREATE,
    DCNT_IA_RSP_FREE,
    DCNT_IA_EVD_CREATE,
    DCNT_IA_EVD_FREE,
    DCNT_IA_EP_CREATE,
    DCNT_IA_EP_FREE,
    DCNT_IA_SRQ_CREATE,
    DCNT_IA_SRQ_FREE,
    DCNT_IA_SP_CR,
    DCNT_IA_SP_CR_ACCEPTED,
    DCNT_IA_SP_CR_REJECTED,
    DCNT_IA_MEM_ALLOC,
    DCNT_IA_MEM_ALLOC_DATA,
    DCNT_IA_MEM_FREE,
    DCNT_IA_ASYNC_ERROR,
    DCNT_IA_ASYNC_QP_ERROR,
    DCNT_IA_ASYNC_CQ_ERROR,
    DCNT_IA_CM_LISTEN,
    DCNT_IA_CM_REQ_TX,
    DCNT_IA_CM_REQ_RX,
    DCNT_IA_CM_REP_TX,
    DCNT_IA_CM_REP_RX,
    DCNT_IA_CM_RTU_TX,
    DCNT_IA_CM_RTU_RX,
    DCNT_IA_CM_USER_REJ_TX,
    DCNT_IA_CM_USER_REJ_RX,
    DCNT_IA_CM_ACTIVE_EST,
    DCNT_IA_CM_PASSIVE_EST,
    DCNT_IA_CM_AH_REQ_TX,
    DCNT_IA_CM_AH_REQ_RX,
    DCNT_IA_CM_AH_RESOLVED,
    DCNT_IA_CM_DREQ_TX,
    DCNT_IA_CM_DREQ_RX,
    DCNT_IA_CM_DREP_TX,
    DCNT_IA_CM_DREP_RX,
    DCNT_IA_CM_MRA_TX,
    DCNT_IA_CM_MRA_RX,
    DCNT_IA_CM_REQ_FULLQ_POLL,
    DCNT_IA_CM_ERR,
    DCNT_IA_CM_ERR_REQ_FULLQ,
    DCNT_IA_CM_ERR_REQ_DUP,
    DCNT_IA_CM_ERR_REQ_RETRY,
    DCNT_IA_CM_ERR_REP_DUP,
    DCNT_IA_CM_ERR_REP_RETRY,
    DCNT_IA_CM_ERR_RTU_DUP,
    DCNT_IA_CM_ERR_RTU_RETRY,
    DCNT_IA_CM_ERR_REFUSED,
    DCNT_IA_CM_ERR_RESET,
    DCNT_IA_CM_ERR_TIMEOUT,
    DCNT_IA_CM_ERR_REJ_TX,
    DCNT_IA_CM_ERR_REJ_RX,
    DCNT_IA_CM_ERR_DREQ_DUP,
    DCNT_IA_CM_ERR_DREQ_RETRY,
    DCNT_IA_CM_ERR_DREP_DUP,
    DCNT_IA_CM_ERR_DREP_RETRY,
    DCNT_IA_CM_ERR_MRA_DUP,
    DCNT_IA_CM_ERR_MRA_RETRY,
    DCNT_IA_CM_ERR_UNEXPECTED,
    DCNT_IA_LNK_ERR_RCV,
    DCNT_IA_LNK_ERR_RCV_REM_PHYS,
    DCNT_IA_LNK_ERR_RCV_CONSTRAINT,
    DCNT_IA_LNK_ERR_XMT_DISCARDS,
    DCNT_IA_LNK_ERR_XMT_CONTRAINT,
    DCNT_IA_LNK_ERR_INTEGRITY,
    DCNT_IA_LNK_ERR_EXC_BUF_OVERRUN,
    DCNT_IA_LNK_WARN_RCV_SW_RELAY,
    DCNT_IA_LNK_WARN_XMT_WAIT,
    DCNT_IA_DIAG_ERR_RQ_RAE,
    DCNT_IA_DIAG_ERR_RQ_OOS,
    DCNT_IA_DIAG_ERR_RQ_RIRE,
    DCNT_IA_DIAG_ERR_RQ_UDSDPRD,
    DCNT_IA_DIAG_ERR_SQ_RAE,
    DCNT_IA_DIAG_ERR_SQ_OOS,
    DCNT_IA_DIAG_ERR_SQ_RIRE,
    DCNT_IA_DIAG_ERR_SQ_RREE,
    DCNT_IA_DIAG_ERR_SQ_TREE,
    DCNT_IA_ALL_COUNTERS
} DAT_IA_COUNTERS;

typedef enum dat_ep_counters DAT_ENUM_BASE {
    DCNT_EP_CONNECT = 0,
    DCNT_EP_DISCONNECT,
    DCNT_EP_POST_SEND,
    DCNT_EP_POST_SEND_DATA,
    DCNT_EP_POST_SEND_UD,
    DCNT_EP_POST_SEND_UD_DATA,
    DCNT_EP_POST_RECV,
    DCNT_EP_POST_RECV_DATA,
    DCNT_EP_POST_WRITE,
    DCNT_EP_POST_WRITE_DATA,
    DCNT_EP_POST_WRITE_IMM,
    DCNT_EP_POST_WRITE_IMM_DATA,
    DCNT_EP_POST_READ,
    DCNT_EP_POST_READ_DATA,
    DCNT_EP_POST_CMP_SWAP,
    DCNT_EP_POST_FETCH_ADD,
    DCNT_EP_RECV,
    DCNT_EP_RECV_DATA,
    DCNT_EP_RECV_UD,
    DCNT_EP_RECV_UD_DATA,
    DCNT_EP_RECV_IMM,
    DCNT_EP_RECV_IMM_DATA,
    DCNT_EP_RECV_RDMA_IMM,
    DCNT_EP_RECV_RDMA_IMM_DATA,
    DCNT_EP_ALL_COUNTERS
} DAT_EP_COUNTERS;

typedef enum dat_evd_counters DAT_ENUM_BASE {
    DCNT_EVD_WAIT = 0,
    DCNT_EVD_WAIT_BLOCKED,
    DCNT_EVD_WAIT_NOTIFY,
    DCNT_EVD_DEQUEUE,
    DCNT_EVD_DEQUEUE_FOUND,
    DCNT_EVD_DEQUEUE_NOT_FOUND,
    DCNT_EVD_DEQUEUE_POLL,
    DCNT_EVD_DEQUEUE_POLL_FOUND,
    DCNT_EVD_CONN_CALLBACK,
    DCNT_EVD_DTO_CALLBACK,
    DCNT_EVD_ALL_COUNTERS
} DAT_EVD_COUNTERS;

/* What dat_ib_start_counter samples: connections, the link, the device's diagnostics. */
typedef enum dat_ia_counter_type DAT_ENUM_BASE {
    DCNT_IA_CM = 0,
    DCNT_IA_LNK,
    DCNT_IA_DIAG
} DAT_IA_COUNTER_TYPE;

/* -- collectives ---------------------------------------------------------------------------- */

typedef enum dat_ib_collective_data_type DAT_ENUM_BASE {
    DAT_IB_COLLECTIVE_TYPE_INT8 = 0,
    DAT_IB_COLLECTIVE_TYPE_UINT8,
    DAT_IB_COLLECTIVE_TYPE_INT16,
    DAT_IB_COLLECTIVE_TYPE_UINT16,
    DAT_IB_COLLECTIVE_TYPE_INT32,
    DAT_IB_COLLECTIVE_TYPE_UINT32,
    DAT_IB_COLLECTIVE_TYPE_INT64,
    DAT_IB_COLLECTIVE_TYPE_UINT64,
    DAT_IB_COLLECTIVE_TYPE_FLOAT,
    DAT_IB_COLLECTIVE_TYPE_DOUBLE,
    DAT_IB_COLLECTIVE_TYPE_LONG_DOUBLE,
    DAT_IB_COLLECTIVE_TYPE_SHORT_INT,
    DAT_IB_COLLECTIVE_TYPE_2INT,
    DAT_IB_COLLECTIVE_TYPE_FLOAT_INT,
    DAT_IB_COLLECTIVE_TYPE_LONG_INT,
    DAT_IB_COLLECTIVE_TYPE_DOUBLE_INT
} DAT_IB_COLLECTIVE_DATA_TYPE;

typedef enum dat_ib_collective_reduce_data_op DAT_ENUM_BASE {
    DAT_IB_COLLECTIVE_REDUCE_OP_MAX = 0,
    DAT_IB_COLLECTIVE_REDUCE_OP_MIN,
    DAT_IB_COLLECTIVE_REDUCE_OP_SUM,
    DAT_IB_COLLECTIVE_REDUCE_OP_PROD,
    DAT_IB_COLLECTIVE_REDUCE_OP_LAND,
    DAT_IB_COLLECTIVE_REDUCE_OP_BAND,
    DAT_IB_COLLECTIVE_REDUCE_OP_LOR,
    DAT_IB_COLLECTIVE_REDUCE_OP_BOR,
    DAT_IB_COLLECTIVE_REDUCE_OP_LXOR,
    DAT_IB_COLLECTIVE_REDUCE_OP_BXOR,
    DAT_IB_COLLECTIVE_REDUCE_OP_MAXLOC,
    DAT_IB_COLLECTIVE_REDUCE_OP_MINLOC
} DAT_IB_COLLECTIVE_REDUCE_DATA_OP;

typedef unsigned int DAT_IB_COLLECTIVE_RANK;
typedef unsigned int DAT_IB_COLLECTIVE_ID;
typedef void *DAT_IB_COLLECTIVE_MEMBER;

/* A group's processes by nodes; one process of each node, the external one, speaks for it. */
typedef struct dat_ib_collective_group {
    int local_size;       /* processes of this node */
    int local_rank;       /* this one among them */
    int *local_ranks;     /* their ranks in the group */
    int external_size;    /* nodes */
    int external_rank;    /* this process among the external ones, or -1 */
    int *external_ranks;  /* their ranks in the group */
    int *intranode_table; /* by rank in the group: the rank in this node, or -1 */
    int *internode_table; /* by rank in the group: the rank among the external ones, or -1 */
    int is_comm_world;
} DAT_IB_COLLECTIVE_GROUP;

/* -- words ---------------------------------------------------------------------------------- */

/* As dat_strerror, without the subtype, for values of this extension too. */
static inline DAT_RETURN dat_strerror_extension(DAT_IB_RETURN value, const char **message) {
    const char *minor;
    if (DAT_GET_TYPE(value) == DAT_IB_ERR) {
        *message = value == DAT_IB_COLLECTIVE_ERR ? "DAT_IB_COLLECTIVE_ERR" : "DAT_IB_ERR";
        return DAT_SUCCESS;
    }
    return dat_strerror(DAT_CAST(DAT_RETURN, value), message, &minor);
}

/* The name of the status of an event; of success, a blank. */
static inline DAT_RETURN dat_strerror_ext_status(DAT_IB_STATUS value, const char **message) {
    switch (value) {
    case DAT_OP_SUCCESS:
        *message = " ";
        return DAT_SUCCESS;
    case DAT_IB_OP_ERR:
        *message = "DAT_IB_OP_ERR";
        return DAT_SUCCESS;
    case DAT_IB_COLL_COMP_ERR:
        *message = "DAT_IB_COLL_COMP_ERR";
        return DAT_SUCCESS;
    }
    *message = "unknown extension status";
    return DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
}

#ifdef __cplusplus
}
#endif

/* -- calls: transfers ----------------------------------------------------------------------- */

/* Adds to the 64 bits at rbuf in the peer's memory; what they were before comes to lbuf. */
#define dat_ib_post_fetch_and_add(ep, add_val, lbuf, cookie, rbuf, flgs)                           \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_IB_FETCH_AND_ADD_OP,                         \
                     DAT_CAST(DAT_UINT64, add_val), DAT_CAST(DAT_LMR_TRIPLET *, lbuf), (cookie),   \
                     DAT_CAST(const DAT_RMR_TRIPLET *, rbuf),                                      \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/* Sets the 64 bits at rbuf to swap_val if they are cmp_val; what they were before comes to lbuf. */
#define dat_ib_post_cmp_and_swap(ep, cmp_val, swap_val, lbuf, cookie, rbuf, flgs)                  \
    dat_extension_op(                                                                              \
        DAT_CAST(DAT_EP_HANDLE, ep), DAT_IB_CMP_AND_SWAP_OP, DAT_CAST(DAT_UINT64, cmp_val),        \
        DAT_CAST(DAT_UINT64, swap_val), DAT_CAST(DAT_LMR_TRIPLET *, lbuf), (cookie),               \
        DAT_CAST(const DAT_RMR_TRIPLET *, rbuf), DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/* An RDMA Write that completes one of the peer's receives and brings it a value of 32 bits. */
#define dat_ib_post_rdma_write_immed(ep, size, lbuf, cookie, rbuf, idata, flgs)                    \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_IB_RDMA_WRITE_IMMED_OP,                      \
                     DAT_CAST(DAT_COUNT, size), DAT_CAST(DAT_LMR_TRIPLET *, lbuf), (cookie),       \
                     DAT_CAST(const DAT_RMR_TRIPLET *, rbuf), DAT_CAST(DAT_UINT32, idata),         \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))

/* Sends a datagram. It is received as any send is. */
#define dat_ib_post_send_ud(ep, segments, lbuf, ah_ptr, cookie, flgs)                              \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_IB_UD_SEND_OP,                               \
                     DAT_CAST(DAT_COUNT, segments), DAT_CAST(DAT_LMR_TRIPLET *, lbuf),             \
                     DAT_CAST(DAT_IB_ADDR_HANDLE *, ah_ptr), (cookie),                             \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flgs))
#define dat_ib_post_recv_ud dat_ep_post_recv

/* Forgets how a datagram endpoint met its peer; cm is the event's context, or its as_ptr. */
#define dat_ib_ud_cm_free(ep, cm)                                                                  \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_IB_UD_CM_FREE_OP, (cm))

/* Frees a peer's address, when all that was sent there has completed. */
#define dat_ib_ud_ah_free(ep, ah)                                                                  \
    dat_extension_op(DAT_CAST(DAT_EP_HANDLE, ep), DAT_IB_UD_AH_FREE_OP,                            \
                     DAT_CAST(DAT_IB_ADDR_HANDLE *, ah))

/* -- calls: counters, attributes ------------------------------------------------------------ */

/* Tells a counter of an IA, EP or EVD, or all of them, and sets it to 0 if reset is not 0. */
#define dat_ib_query_counters(dat_handle, cntr, p_cntrs_out, reset)                                \
    dat_extension_op(DAT_CAST(DAT_HANDLE, dat_handle), DAT_IB_QUERY_COUNTERS_OP,                   \
                     DAT_CAST(int, cntr), DAT_CAST(DAT_UINT64 *, p_cntrs_out),                     \
                     DAT_CAST(int, reset))
#define dat_query_counters dat_ib_query_counters

/* The same, on standard output. */
#define dat_ib_print_counters(dat_handle, cntr, reset)                                             \
    dat_extension_op(DAT_CAST(DAT_HANDLE, dat_handle), DAT_IB_PRINT_COUNTERS_OP,                   \
                     DAT_CAST(int, cntr), DAT_CAST(int, reset))
#define dat_print_counters dat_ib_print_counters

/* Begin and end to sample counters of a DAT_IA_COUNTER_TYPE. */
#define dat_ib_start_counter(dat_handle, type)                                                     \
    dat_extension_op(DAT_CAST(DAT_HANDLE, dat_handle), DAT_IB_START_COUNTERS_OP,                   \
                     DAT_CAST(DAT_IA_COUNTER_TYPE, type))
#define dat_ib_stop_counter(dat_handle, type)                                                      \
    dat_extension_op(DAT_CAST(DAT_HANDLE, dat_handle), DAT_IB_STOP_COUNTERS_OP,                    \
                     DAT_CAST(DAT_IA_COUNTER_TYPE, type))

/* Asks for attributes without the cost of dat_ia_open. The handle is good for close_query only. */
#define dat_ib_open_query(name, ia_handle, ia_mask, ia_attr, prov_mask, prov_attr)                 \
    dat_extension_op(DAT_HANDLE_NULL, DAT_IB_OPEN_QUERY_OP, DAT_CAST(const char *, name),          \
                     DAT_CAST(DAT_HANDLE *, ia_handle), DAT_CAST(DAT_IA_ATTR_MASK, ia_mask),       \
                     DAT_CAST(DAT_IA_ATTR *, ia_attr),                                             \
                     DAT_CAST(DAT_PROVIDER_ATTR_MASK, prov_mask),                                  \
                     DAT_CAST(DAT_PROVIDER_ATTR *, prov_attr))
#define dat_ib_close_query(ia_handle)                                                              \
    dat_extension_op(DAT_CAST(DAT_HANDLE, ia_handle), DAT_IB_CLOSE_QUERY_OP)

/* -- calls: collectives ----------------------------------------------------------------------
 *
 * They follow MPI's functions of these names. Those with flags complete on the EVD that the group
 * was created with; all members of the group must call them, with the same root.
 */

/* Makes what a process tells the others of itself; *member_size bytes of *member go to all. */
#define dat_ib_collective_create_member(ia_handle, progress_func, member, member_size)             \
    dat_extension_op(DAT_CAST(DAT_IA_HANDLE, ia_handle), DAT_IB_COLLECTIVE_CREATE_MEMBER_OP,       \
                     DAT_CAST(void *, progress_func),                                              \
                     DAT_CAST(DAT_IB_COLLECTIVE_MEMBER *, member),                                 \
                     DAT_CAST(DAT_UINT32 *, member_size))

/* Frees it. */
#define dat_ib_collective_free_member(ia_handle, member)                                           \
    dat_extension_op(DAT_CAST(DAT_IA_HANDLE, ia_handle), DAT_IB_COLLECTIVE_FREE_MEMBER_OP,         \
                     DAT_CAST(DAT_IB_COLLECTIVE_MEMBER, member))

/* Makes a group of these members; the EVD gets its handle with an event. */
#define dat_ib_collective_create_group(members, group_size, self, group_id, group_info, evd, pd,   \
                                       user_context)                                               \
    dat_extension_op(DAT_CAST(DAT_EVD_HANDLE, evd), DAT_IB_COLLECTIVE_CREATE_GROUP_OP,             \
                     DAT_CAST(DAT_IB_COLLECTIVE_MEMBER *, members),                                \
                     DAT_CAST(DAT_COUNT, group_size), DAT_CAST(DAT_IB_COLLECTIVE_RANK, self),      \
                     DAT_CAST(DAT_IB_COLLECTIVE_ID, group_id),                                     \
                     DAT_CAST(DAT_IB_COLLECTIVE_GROUP *, group_info), DAT_CAST(DAT_PZ_HANDLE, pd), \
                     (user_context))

/* Frees a group; what is under way in it completes with an error. */
#define dat_ib_collective_free_group(coll_handle)                                                  \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_FREE_GROUP_OP)

/* Sets the group's clock; one member does it for all. */
#define dat_ib_collective_set_clock(coll_handle, clock_value, user_context)                        \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_SET_CLOCK_OP, DAT_CAST(DAT_UINT64, clock_value),            \
                     (user_context))

/* Tells the group's time, at once. */
#define dat_ib_collective_read_clock(coll_handle, clock_value)                                     \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_READ_CLOCK_OP, DAT_CAST(DAT_UINT64 *, clock_value))

/* Each member gets its part, of equal length, of the root's buffer. */
#define dat_ib_collective_scatter(coll_handle, sendbuf, sendsize, recvbuf, recvsize, root,         \
                                  user_context, flags)                                             \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_SCATTER_OP, DAT_CAST(const void *, sendbuf),                \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbuf),                  \
                     DAT_CAST(DAT_COUNT, recvsize), DAT_CAST(DAT_IB_COLLECTIVE_RANK, root),        \
                     (user_context), DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* The same with parts of any length. */
#define dat_ib_collective_scatterv(coll_handle, sendbuf, sendsizes, displs, recvbuf, recvsize,     \
                                   root, user_context, flags)                                      \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_SCATTERV_OP, DAT_CAST(const void *, sendbuf),               \
                     DAT_CAST(DAT_COUNT *, sendsizes), DAT_CAST(DAT_COUNT *, displs),              \
                     DAT_CAST(DAT_PVOID, recvbuf), DAT_CAST(DAT_COUNT, recvsize),                  \
                     DAT_CAST(DAT_IB_COLLECTIVE_RANK, root), (user_context),                       \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* The root gets a part, of equal length, from each member. */
#define dat_ib_collective_gather(coll_handle, sendbuf, sendsize, recvbuf, recvsize, root,          \
                                 user_context, flags)                                              \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle), DAT_IB_COLLECTIVE_GATHER_OP, \
                     DAT_CAST(const void *, sendbuf), DAT_CAST(DAT_COUNT, sendsize),               \
                     DAT_CAST(DAT_PVOID, recvbuf), DAT_CAST(DAT_COUNT, recvsize),                  \
                     DAT_CAST(DAT_IB_COLLECTIVE_RANK, root), (user_context),                       \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* The same with parts of any length. */
#define dat_ib_collective_gatherv(coll_handle, sendbuf, sendsize, recvbufs, recvsizes, displs,     \
                                  root, user_context, flags)                                       \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_GATHERV_OP, DAT_CAST(const void *, sendbuf),                \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbufs),                 \
                     DAT_CAST(DAT_COUNT *, recvsizes), DAT_CAST(DAT_COUNT *, displs),              \
                     DAT_CAST(DAT_IB_COLLECTIVE_RANK, root), (user_context),                       \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* All get what the root gets in a gather. */
#define dat_ib_collective_allgather(coll_handle, sendbuf, sendsize, recvbuf, recvsize,             \
                                    user_context, flags)                                           \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_ALLGATHER_OP, DAT_CAST(const void *, sendbuf),              \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbuf),                  \
                     DAT_CAST(DAT_COUNT, recvsize), (user_context),                                \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* The same with parts of any length. */
#define dat_ib_collective_allgatherv(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, displs,   \
                                     user_context, flags)                                          \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_ALLGATHERV_OP, DAT_CAST(const void *, sendbuf),             \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbuf),                  \
                     DAT_CAST(DAT_COUNT *, recvsizes), DAT_CAST(DAT_COUNT *, displs),              \
                     (user_context), DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* Every member has a part, of equal length, for every other. */
#define dat_ib_collective_alltoall(coll_handle, sendbuf, sendsize, recvbuf, recvsize,              \
                                   user_context, flags)                                            \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_ALLTOALL_OP, DAT_CAST(const void *, sendbuf),               \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbuf),                  \
                     DAT_CAST(DAT_COUNT, recvsize), (user_context),                                \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* The same with parts of any length. */
#define dat_ib_collective_alltoallv(coll_handle, sendbuf, sendsizes, senddispls, recvbuf,          \
                                    recvsizes, recvdispls, user_context, flags)                    \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_ALLTOALLV_OP, DAT_CAST(const void *, sendbuf),              \
                     DAT_CAST(DAT_COUNT *, sendsizes), DAT_CAST(DAT_COUNT *, senddispls),          \
                     DAT_CAST(DAT_PVOID, recvbuf), DAT_CAST(DAT_COUNT *, recvsizes),               \
                     DAT_CAST(DAT_COUNT *, recvdispls), (user_context),                            \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* The root gets the members' values, combined element by element. */
#define dat_ib_collective_reduce(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type,      \
                                 root, user_context, flags)                                        \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle), DAT_IB_COLLECTIVE_REDUCE_OP, \
                     DAT_CAST(const void *, sendbuf), DAT_CAST(DAT_COUNT, sendsize),               \
                     DAT_CAST(DAT_PVOID, recvbuf), DAT_CAST(DAT_COUNT, recvsize),                  \
                     DAT_CAST(DAT_IB_COLLECTIVE_REDUCE_DATA_OP, op),                               \
                     DAT_CAST(DAT_IB_COLLECTIVE_DATA_TYPE, type),                                  \
                     DAT_CAST(DAT_IB_COLLECTIVE_RANK, root), (user_context),                       \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* All get what the root gets in a reduce. */
#define dat_ib_collective_allreduce(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type,   \
                                    user_context, flags)                                           \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_ALLREDUCE_OP, DAT_CAST(const void *, sendbuf),              \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbuf),                  \
                     DAT_CAST(DAT_COUNT, recvsize),                                                \
                     DAT_CAST(DAT_IB_COLLECTIVE_REDUCE_DATA_OP, op),                               \
                     DAT_CAST(DAT_IB_COLLECTIVE_DATA_TYPE, type), (user_context),                  \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* Each gets its part of what the root gets in a reduce. */
#define dat_ib_collective_reduce_scatter(coll_handle, sendbuf, sendsize, recvbuf, recvsizes, op,   \
                                         type, user_context, flags)                                \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_REDUCE_SCATTER_OP, DAT_CAST(const void *, sendbuf),         \
                     DAT_CAST(DAT_COUNT, sendsize), DAT_CAST(DAT_PVOID, recvbuf),                  \
                     DAT_CAST(DAT_COUNT *, recvsizes),                                             \
                     DAT_CAST(DAT_IB_COLLECTIVE_REDUCE_DATA_OP, op),                               \
                     DAT_CAST(DAT_IB_COLLECTIVE_DATA_TYPE, type), (user_context),                  \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* Each gets the values of members up to itself, combined. */
#define dat_ib_collective_scan(coll_handle, sendbuf, sendsize, recvbuf, recvsize, op, type,        \
                               user_context, flags)                                                \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle), DAT_IB_COLLECTIVE_SCAN_OP,   \
                     DAT_CAST(const void *, sendbuf), DAT_CAST(DAT_COUNT, sendsize),               \
                     DAT_CAST(DAT_PVOID, recvbuf), DAT_CAST(DAT_COUNT, recvsize),                  \
                     DAT_CAST(DAT_IB_COLLECTIVE_REDUCE_DATA_OP, op),                               \
                     DAT_CAST(DAT_IB_COLLECTIVE_DATA_TYPE, type), (user_context),                  \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* All get the root's buffer. */
#define dat_ib_collective_broadcast(coll_handle, buf, size, root, user_context, flags)             \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_BROADCAST_OP, DAT_CAST(DAT_PVOID, buf),                     \
                     DAT_CAST(DAT_COUNT, size), DAT_CAST(DAT_IB_COLLECTIVE_RANK, root),            \
                     (user_context), DAT_CAST(DAT_COMPLETION_FLAGS, flags))

/* Completes when every member has called it. */
#define dat_ib_collective_barrier(coll_handle, user_context, flags)                                \
    dat_extension_op(DAT_CAST(DAT_IB_COLLECTIVE_HANDLE, coll_handle),                              \
                     DAT_IB_COLLECTIVE_BARRIER_OP, (user_context),                                 \
                     DAT_CAST(DAT_COMPLETION_FLAGS, flags))

#endif
