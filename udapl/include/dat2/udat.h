/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * uDAPL 2.0: what programs include. dat.h has the objects; here are the functions, and what is
 * special to user space: memory by virtual address, waiting, and the attributes of providers.
 *
 * Every function returns DAT_SUCCESS or an error (dat_error.h). Functions that post return before
 * the work is done: an EVD gets its completion, and until then the memory belongs to the provider.
 */
#ifndef COHERDMA_DAT2_UDAT_H
#define COHERDMA_DAT2_UDAT_H

#include <dat2/dat.h>
#include <dat2/udat_vendor_specific.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef DAT_HANDLE DAT_CNO_HANDLE;

/* Values of the handle of an IA's EVD for asynchronous errors. */
#define DAT_EVD_ASYNC_EXISTS                                                                       \
    DAT_CAST(DAT_EVD_HANDLE, DAT_CAST(uintptr_t, 0x1)) /* another open of it has one */
#define DAT_EVD_OUT_OF_SCOPE                                                                       \
    DAT_CAST(DAT_EVD_HANDLE, DAT_CAST(uintptr_t, 0x2)) /* told of such an IA */

/* -- memory --------------------------------------------------------------------------------- */

/* A provider's attribute is the sum of those it can register. */
typedef enum dat_mem_type DAT_ENUM_BASE {
    DAT_MEM_TYPE_VIRTUAL = 0x00,
    DAT_MEM_TYPE_LMR = 0x01,           /* what an LMR has, once more */
    DAT_MEM_TYPE_SHARED_VIRTUAL = 0x02 /* what other processes register by the same cookie */
} DAT_MEM_TYPE;

#define DAT_LMR_COOKIE_SIZE 40
typedef char (*DAT_LMR_COOKIE)[DAT_LMR_COOKIE_SIZE];

typedef struct dat_shared_memory {
    DAT_PVOID virtual_address;
    DAT_LMR_COOKIE shared_memory_id;
} DAT_SHARED_MEMORY;

/* By memory type, in the order of DAT_MEM_TYPE. */
typedef union dat_region_description {
    DAT_PVOID for_va;
    DAT_LMR_HANDLE for_lmr_handle;
    DAT_SHARED_MEMORY for_shared_memory;
} DAT_REGION_DESCRIPTION;

struct dat_lmr_param {
    DAT_IA_HANDLE ia_handle;
    DAT_MEM_TYPE mem_type;
    DAT_REGION_DESCRIPTION region_desc;
    DAT_VLEN length;
    DAT_PZ_HANDLE pz_handle;
    DAT_MEM_PRIV_FLAGS mem_priv;
    DAT_VA_TYPE va_type;
    DAT_LMR_CONTEXT lmr_context;
    DAT_RMR_CONTEXT rmr_context;
    DAT_VLEN registered_size;
    DAT_VADDR registered_address;
};

typedef enum dat_lmr_param_mask DAT_ENUM_BASE {
    DAT_LMR_FIELD_IA_HANDLE = 0x001,
    DAT_LMR_FIELD_MEM_TYPE = 0x002,
    DAT_LMR_FIELD_REGION_DESC = 0x004,
    DAT_LMR_FIELD_LENGTH = 0x008,
    DAT_LMR_FIELD_PZ_HANDLE = 0x010,
    DAT_LMR_FIELD_MEM_PRIV = 0x020,
    DAT_LMR_FIELD_VA_TYPE = 0x040,
    DAT_LMR_FIELD_LMR_CONTEXT = 0x080,
    DAT_LMR_FIELD_RMR_CONTEXT = 0x100,
    DAT_LMR_FIELD_REGISTERED_SIZE = 0x200,
    DAT_LMR_FIELD_REGISTERED_ADDRESS = 0x400,
    DAT_LMR_FIELD_ALL = 0x7ff
} DAT_LMR_PARAM_MASK;

/* -- event dispatchers ---------------------------------------------------------------------- */

/* One of each pair, and one CONFIG. */
typedef enum dat_evd_state DAT_ENUM_BASE {
    DAT_EVD_STATE_ENABLED = 0x01,
    DAT_EVD_STATE_DISABLED = 0x02,
    DAT_EVD_STATE_WAITABLE = 0x04,
    DAT_EVD_STATE_UNWAITABLE = 0x08,
    DAT_EVD_STATE_CONFIG_NOTIFY = 0x10,    /* every event wakes */
    DAT_EVD_STATE_CONFIG_SOLICITED = 0x20, /* every receive that its sender wants to */
    DAT_EVD_STATE_CONFIG_THRESHOLD = 0x30  /* the event that makes them enough */
} DAT_EVD_STATE;

struct dat_evd_param {
    DAT_IA_HANDLE ia_handle;
    DAT_COUNT evd_qlen;
    DAT_EVD_STATE evd_state;
    DAT_CNO_HANDLE cno_handle;
    DAT_EVD_FLAGS evd_flags;
};

/* -- CNOs ----------------------------------------------------------------------------------- */

/* Called with the agent's own value and the EVD that woke the CNO. */
typedef void (*DAT_AGENT_FUNC)(DAT_PVOID instance_data, DAT_EVD_HANDLE evd_handle);

typedef struct dat_os_wait_proxy_agent {
    DAT_PVOID instance_data;
    DAT_AGENT_FUNC proxy_agent_func;
} DAT_OS_WAIT_PROXY_AGENT;

/* No agent. */
#ifdef __cplusplus
#    define DAT_OS_WAIT_PROXY_AGENT_NULL DAT_OS_WAIT_PROXY_AGENT()
#else
#    define DAT_OS_WAIT_PROXY_AGENT_NULL                                                           \
        (DAT_OS_WAIT_PROXY_AGENT) {                                                                \
            NULL, NULL                                                                             \
        }
#endif

typedef enum dat_proxy_type DAT_ENUM_BASE {
    DAT_PROXY_TYPE_NONE = 0x0,
    DAT_PROXY_TYPE_AGENT = 0x1,
    DAT_PROXY_TYPE_FD = 0x2
} DAT_PROXY_TYPE;

typedef struct dat_cno_param {
    DAT_IA_HANDLE ia_handle;
    DAT_PROXY_TYPE proxy_type;
    union {
        DAT_OS_WAIT_PROXY_AGENT agent;
        DAT_FD fd;
        DAT_PVOID none;
    } proxy;
} DAT_CNO_PARAM;

/* ALL is a bit of its own, and PROXY is two that have another meaning each: test for ALL first. */
typedef enum dat_cno_param_mask DAT_ENUM_BASE {
    DAT_CNO_FIELD_IA_HANDLE = 0x1,
    DAT_CNO_FIELD_PROXY_TYPE = 0x2,
    DAT_CNO_FIELD_PROXY = 0x3,
    DAT_CNO_FIELD_ALL = 0x4
} DAT_CNO_PARAM_MASK;

/* -- providers ------------------------------------------------------------------------------ */

/* What kind of protection a PZ gives: of its own, or shared with others. */
typedef enum dat_pz_support DAT_ENUM_BASE {
    DAT_PZ_UNIQUE = 0,
    DAT_PZ_SHAREABLE = 1
} DAT_PZ_SUPPORT;

/*
 * A row and a column of evd_stream_merging_supported for each kind of events, in the order of
 * DAT_EVD_FLAGS: may these two feed the same EVD?
 */
struct dat_provider_attr {
    char provider_name[DAT_NAME_MAX_LENGTH];
    DAT_UINT32 provider_version_major;
    DAT_UINT32 provider_version_minor;
    DAT_UINT32 dapl_version_major;
    DAT_UINT32 dapl_version_minor;
    DAT_MEM_TYPE lmr_mem_types_supported;
    DAT_IOV_OWNERSHIP iov_ownership_on_return;
    DAT_QOS dat_qos_supported;
    DAT_COMPLETION_FLAGS completion_flags_supported;
    DAT_BOOLEAN is_thread_safe;
    DAT_COUNT max_private_data_size;
    DAT_BOOLEAN supports_multipath;
    DAT_EP_CREATOR_FOR_PSP ep_creator;
    DAT_PZ_SUPPORT pz_support;
    DAT_UINT32 optimal_buffer_alignment;
    DAT_BOOLEAN evd_stream_merging_supported[6][6];
    DAT_BOOLEAN srq_supported;
    DAT_COUNT srq_watermarks_supported;
    DAT_BOOLEAN srq_ep_pz_difference_supported; /* endpoints of another zone than their SRQ's */
    DAT_COUNT srq_info_supported;               /* can dat_srq_query count? */
    DAT_COUNT ep_recv_info_supported;           /* can dat_ep_recv_query? */
    DAT_BOOLEAN lmr_sync_req; /* the program must call dat_lmr_sync_rdma_read and _write */
    DAT_BOOLEAN dto_async_return_guaranteed; /* no call that posts waits for anything */
    DAT_BOOLEAN rdma_write_for_rdma_read_req;
    DAT_BOOLEAN rdma_read_lmr_rmr_context_exposure;
    DAT_RMR_SCOPE rmr_scope_supported;
    DAT_BOOLEAN is_signal_safe;
    DAT_BOOLEAN ha_supported;
    DAT_HA_LB ha_loadbalancing;
    DAT_COUNT num_provider_specific_attr;
    DAT_NAMED_ATTR *provider_specific_attr;
};

#define DAT_PROVIDER_FIELD_NONE UINT64_C(0x00000000)
#define DAT_PROVIDER_FIELD_PROVIDER_NAME UINT64_C(0x00000001)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MAJOR UINT64_C(0x00000002)
#define DAT_PROVIDER_FIELD_PROVIDER_VERSION_MINOR UINT64_C(0x00000004)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MAJOR UINT64_C(0x00000008)
#define DAT_PROVIDER_FIELD_DAPL_VERSION_MINOR UINT64_C(0x00000010)
#define DAT_PROVIDER_FIELD_LMR_MEM_TYPE_SUPPORTED UINT64_C(0x00000020)
#define DAT_PROVIDER_FIELD_IOV_OWNERSHIP UINT64_C(0x00000040)
#define DAT_PROVIDER_FIELD_DAT_QOS_SUPPORTED UINT64_C(0x00000080)
#define DAT_PROVIDER_FIELD_COMPLETION_FLAGS_SUPPORTED UINT64_C(0x00000100)
#define DAT_PROVIDER_FIELD_IS_THREAD_SAFE UINT64_C(0x00000200)
#define DAT_PROVIDER_FIELD_MAX_PRIVATE_DATA_SIZE UINT64_C(0x00000400)
#define DAT_PROVIDER_FIELD_SUPPORTS_MULTIPATH UINT64_C(0x00000800)
#define DAT_PROVIDER_FIELD_EP_CREATOR UINT64_C(0x00001000)
#define DAT_PROVIDER_FIELD_PZ_SUPPORT UINT64_C(0x00002000)
#define DAT_PROVIDER_FIELD_OPTIMAL_BUFFER_ALIGNMENT UINT64_C(0x00004000)
#define DAT_PROVIDER_FIELD_EVD_STREAM_MERGING_SUPPORTED UINT64_C(0x00008000)
#define DAT_PROVIDER_FIELD_SRQ_SUPPORTED UINT64_C(0x00010000)
#define DAT_PROVIDER_FIELD_SRQ_WATERMARKS_SUPPORTED UINT64_C(0x00020000)
#define DAT_PROVIDER_FIELD_SRQ_EP_PZ_DIFFERENCE_SUPPORTED UINT64_C(0x00040000)
#define DAT_PROVIDER_FIELD_SRQ_INFO_SUPPORTED UINT64_C(0x00080000)
#define DAT_PROVIDER_FIELD_EP_RECV_INFO_SUPPORTED UINT64_C(0x00100000)
#define DAT_PROVIDER_FIELD_LMR_SYNC_REQ UINT64_C(0x00200000)
#define DAT_PROVIDER_FIELD_DTO_ASYNC_RETURN_GUARANTEED UINT64_C(0x00400000)
#define DAT_PROVIDER_FIELD_RDMA_WRITE_FOR_RDMA_READ_REQ UINT64_C(0x00800000)
#define DAT_PROVIDER_FIELD_RDMA_READ_LMR_RMR_CONTEXT_EXPOSURE UINT64_C(0x01000000)
#define DAT_PROVIDER_FIELD_RMR_SCOPE_SUPPORTED UINT64_C(0x02000000)
#define DAT_PROVIDER_FIELD_IS_SIGNAL_SAFE UINT64_C(0x04000000)
#define DAT_PROVIDER_FIELD_HA_SUPPORTED UINT64_C(0x08000000)
#define DAT_PROVIDER_FIELD_HA_LB UINT64_C(0x10000000)
#define DAT_PROVIDER_FIELD_NUM_PROVIDER_SPECIFIC_ATTR UINT64_C(0x20000000)
#define DAT_PROVIDER_FIELD_PROVIDER_SPECIFIC_ATTR UINT64_C(0x40000000)
#define DAT_PROVIDER_FIELD_ALL UINT64_C(0x7fffffff)

/* -- functions: interface adapters ---------------------------------------------------------- */

/*
 * Opens the IA of this name, as dat_ia_open does, for a program of this version of DAT and this
 * wish for thread safety. *asynch_evd_handle is DAT_HANDLE_NULL to get a new EVD for
 * asynchronous errors, or DAT_EVD_ASYNC_EXISTS, or an EVD of this IA.
 */
DAT_RETURN dat_ia_openv(const DAT_NAME_PTR provider, DAT_COUNT asynch_evd_min_qlen,
                        DAT_EVD_HANDLE *asynch_evd_handle, DAT_IA_HANDLE *ia_handle,
                        DAT_UINT32 dat_major_version_number, DAT_UINT32 dat_minor_version_number,
                        DAT_BOOLEAN dat_thread_safety);

/* Opens the IA of this name for this program. */
#define dat_ia_open(name, asynch_evd_min_qlen, asynch_evd_handle, ia_handle)                       \
    dat_ia_openv((name), (asynch_evd_min_qlen), (asynch_evd_handle), (ia_handle),                  \
                 DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_THREADSAFE)

/*
 * Tells the attributes of an IA and of its provider that the masks ask for, and its EVD for
 * asynchronous errors; pointers of what is not wanted may be NULL.
 */
DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                        DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR *ia_attr,
                        DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                        DAT_PROVIDER_ATTR *provider_attr);

/*
 * Closes an IA: with DAT_CLOSE_ABRUPT_FLAG all that is left in it is destroyed, with
 * DAT_CLOSE_GRACEFUL_FLAG it fails if anything is left.
 */
DAT_RETURN dat_ia_close(DAT_IA_HANDLE ia_handle, DAT_CLOSE_FLAGS close_flags);

/*
 * Describes the IAs that can be opened: fills up to max_to_return of the structures that the
 * list points to and tells how many these are.
 */
DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *entries_returned,
                                       DAT_PROVIDER_INFO *dat_provider_list[]);

/* -- functions: any object ------------------------------------------------------------------ */

/* Tells what kind of object a handle stands for. */
DAT_RETURN dat_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE *handle_type);

/* Keeps a value of the program's with an object. */
DAT_RETURN dat_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context);

/* Gives the value back that was kept with an object. */
DAT_RETURN dat_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT *context);

/*
 * Does an operation beyond DAT; what follows the operation depends on it. Use the macros of
 * dat_ib_extensions.h.
 */
DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...);

/* Gives the names of the type and of the subtype of a return value. */
DAT_RETURN dat_strerror(DAT_RETURN dat_function_return, const char **major_message_string,
                        const char **minor_message_string);

/* -- functions: events ---------------------------------------------------------------------- */

/*
 * Makes an event dispatcher: a queue of events of the kinds that evd_flags names, which wakes
 * the CNO, if there is one.
 */
DAT_RETURN dat_evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT evd_min_qlen,
                          DAT_CNO_HANDLE cno_handle, DAT_EVD_FLAGS evd_flags,
                          DAT_EVD_HANDLE *evd_handle);

/*
 * Waits until the EVD has this many events or the time is over, takes the first and tells how
 * many are left. One thread at a time may wait.
 */
DAT_RETURN dat_evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                        DAT_EVENT *event, DAT_COUNT *n_more_events);

/* Takes the next event, or returns DAT_QUEUE_EMPTY. */
DAT_RETURN dat_evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event);

/* Puts a software event into an EVD that takes such. */
DAT_RETURN dat_evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event);

/* Gives an EVD another CNO, or none with DAT_HANDLE_NULL. */
DAT_RETURN dat_evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle);

/* Lets events of the EVD wake its CNO. */
DAT_RETURN dat_evd_enable(DAT_EVD_HANDLE evd_handle);

/* Keeps events of the EVD from waking its CNO. */
DAT_RETURN dat_evd_disable(DAT_EVD_HANDLE evd_handle);

/* Wakes the waiter of the EVD; later waits fail. */
DAT_RETURN dat_evd_set_unwaitable(DAT_EVD_HANDLE evd_handle);

/* Lets threads wait on the EVD again. */
DAT_RETURN dat_evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle);

/* Makes room for this many events or more. */
DAT_RETURN dat_evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT evd_min_qlen);

/* Tells length, state, CNO and flags of an EVD. */
DAT_RETURN dat_evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK evd_param_mask,
                         DAT_EVD_PARAM *evd_param);

/* Destroys an EVD that nothing feeds any more. */
DAT_RETURN dat_evd_free(DAT_EVD_HANDLE evd_handle);

/* -- functions: waiting for many EVDs ------------------------------------------------------- */

/* Makes an object that many EVDs wake; it calls the agent once, if there is one. */
DAT_RETURN dat_cno_create(DAT_IA_HANDLE ia_handle, DAT_OS_WAIT_PROXY_AGENT agent,
                          DAT_CNO_HANDLE *cno_handle);

/* Makes a CNO with a file descriptor that poll(2) finds readable when an EVD has woken it. */
DAT_RETURN dat_cno_fd_create(DAT_IA_HANDLE ia_handle, DAT_FD *file_descriptor,
                             DAT_CNO_HANDLE *cno_handle);

/* Waits until an EVD has woken the CNO or the time is over, and tells which EVD. */
DAT_RETURN dat_cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle);

/*
 * Tells, without waiting, which EVD has woken a CNO that has a descriptor, and makes this ready
 * for the next.
 */
DAT_RETURN dat_cno_trigger(DAT_CNO_HANDLE cno_handle, DAT_EVD_HANDLE *evd_handle);

/* Gives a CNO another agent, or none. */
DAT_RETURN dat_cno_modify_agent(DAT_CNO_HANDLE cno_handle, DAT_OS_WAIT_PROXY_AGENT agent);

/* Tells agent or descriptor of a CNO. */
DAT_RETURN dat_cno_query(DAT_CNO_HANDLE cno_handle, DAT_CNO_PARAM_MASK cno_param_mask,
                         DAT_CNO_PARAM *cno_param);

/* Destroys a CNO that no EVD uses. */
DAT_RETURN dat_cno_free(DAT_CNO_HANDLE cno_handle);

/* -- functions: memory ---------------------------------------------------------------------- */

/* Makes a protection zone: endpoints reach the memory of their own zone only. */
DAT_RETURN dat_pz_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE *pz_handle);

/* Tells the IA of a protection zone. */
DAT_RETURN dat_pz_query(DAT_PZ_HANDLE pz_handle, DAT_PZ_PARAM_MASK pz_param_mask,
                        DAT_PZ_PARAM *pz_param);

/* Destroys a protection zone in which nothing is left. */
DAT_RETURN dat_pz_free(DAT_PZ_HANDLE pz_handle);

/*
 * Registers memory. Local accesses name it by *lmr_context, the peer by *rmr_context; the range
 * that is registered may be larger than what was asked for.
 */
DAT_RETURN dat_lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type,
                          DAT_REGION_DESCRIPTION region_description, DAT_VLEN length,
                          DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                          DAT_VA_TYPE va_type, DAT_LMR_HANDLE *lmr_handle,
                          DAT_LMR_CONTEXT *lmr_context, DAT_RMR_CONTEXT *rmr_context,
                          DAT_VLEN *registered_length, DAT_VADDR *registered_address);

/* Tells what was registered and what for. */
DAT_RETURN dat_lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK lmr_param_mask,
                         DAT_LMR_PARAM *lmr_param);

/* Ends the registration of memory. */
DAT_RETURN dat_lmr_free(DAT_LMR_HANDLE lmr_handle);

/*
 * Makes what the CPU has written to these segments visible to the peer's RDMA Reads that come
 * after; needed where lmr_sync_req says so.
 */
DAT_RETURN dat_lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *local_segments,
                                  DAT_VLEN num_segments);

/*
 * Makes what the peer's RDMA Writes have put into these segments visible to the CPU; needed where
 * lmr_sync_req says so: before the peer may write what the CPU has touched, and again when it has.
 */
DAT_RETURN dat_lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *local_segments,
                                   DAT_VLEN num_segments);

/* Makes an RMR that can be bound for all endpoints of a protection zone. */
DAT_RETURN dat_rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle);

/* Makes an RMR that can be bound for one endpoint only. */
DAT_RETURN dat_rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle);

/*
 * Binds an RMR to a range of an LMR, so that the peer may access it by *context; a length of 0
 * unbinds it. It completes as a request of the endpoint.
 */
DAT_RETURN dat_rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                        const DAT_LMR_TRIPLET *lmr_triplet, DAT_MEM_PRIV_FLAGS mem_priv,
                        DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                        DAT_COMPLETION_FLAGS completion_flags, DAT_RMR_CONTEXT *context);

/* Tells what an RMR is bound to. */
DAT_RETURN dat_rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK rmr_param_mask,
                         DAT_RMR_PARAM *rmr_param);

/* Destroys an RMR; the peer can access nothing by it any more. */
DAT_RETURN dat_rmr_free(DAT_RMR_HANDLE rmr_handle);

/* -- functions: connections ----------------------------------------------------------------- */

/* Listens at a connection qualifier; requests come to the EVD until it is freed. */
DAT_RETURN dat_psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual,
                          DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                          DAT_PSP_HANDLE *psp_handle);

/* Listens at a free connection qualifier and tells which. */
DAT_RETURN dat_psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *conn_qual,
                              DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS psp_flags,
                              DAT_PSP_HANDLE *psp_handle);

/* Tells where a public service point listens. */
DAT_RETURN dat_psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK psp_param_mask,
                         DAT_PSP_PARAM *psp_param);

/* Stops listening; requests that have come remain. */
DAT_RETURN dat_psp_free(DAT_PSP_HANDLE psp_handle);

/* Listens for a single connection, which this endpoint shall get. */
DAT_RETURN dat_rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL conn_qual, DAT_EP_HANDLE ep_handle,
                          DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *rsp_handle);

/* Tells where a reserved service point listens, and for which endpoint. */
DAT_RETURN dat_rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK rsp_param_mask,
                         DAT_RSP_PARAM *rsp_param);

/* Stops listening and gives the endpoint back. */
DAT_RETURN dat_rsp_free(DAT_RSP_HANDLE rsp_handle);

/* Listens at a socket address rather than at a connection qualifier. */
DAT_RETURN dat_csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *communicator,
                          DAT_IA_ADDRESS_PTR address, DAT_EVD_HANDLE evd_handle,
                          DAT_CSP_HANDLE *csp_handle);

/* Tells where a common service point listens. */
DAT_RETURN dat_csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK csp_param_mask,
                         DAT_CSP_PARAM *csp_param);

/* Stops listening. */
DAT_RETURN dat_csp_free(DAT_CSP_HANDLE csp_handle);

/* Tells who asks for a connection and the private data that came with it. */
DAT_RETURN dat_cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK cr_param_mask,
                        DAT_CR_PARAM *cr_param);

/*
 * Accepts a connection request on this endpoint, or on the one that the request brought along
 * if ep_handle is DAT_HANDLE_NULL, and sends private data back; the request is gone then.
 */
DAT_RETURN dat_cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle,
                         DAT_COUNT private_data_size, const DAT_PVOID private_data);

/* Refuses a connection request and sends private data back; the request is gone then. */
DAT_RETURN dat_cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT private_data_size,
                         const DAT_PVOID private_data);

/* Passes a connection request on to the listener at another connection qualifier. */
DAT_RETURN dat_cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL handoff);

/*
 * Begins to connect an endpoint to a listener; the connection EVD gets the outcome. After
 * timeout microseconds that is DAT_CONNECTION_EVENT_TIMED_OUT.
 */
DAT_RETURN dat_ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address,
                          DAT_CONN_QUAL remote_conn_qual, DAT_TIMEOUT timeout,
                          DAT_COUNT private_data_size, const DAT_PVOID private_data,
                          DAT_QOS quality_of_service, DAT_CONNECT_FLAGS connect_flags);

/* Begins to connect an endpoint to where another one is connected. */
DAT_RETURN dat_ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE ep_dup_handle,
                              DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                              const DAT_PVOID private_data, DAT_QOS quality_of_service);

/* Begins to connect an endpoint to a common service point at this socket address. */
DAT_RETURN dat_ep_common_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote_ia_address,
                                 DAT_TIMEOUT timeout, DAT_COUNT private_data_size,
                                 const DAT_PVOID private_data);

/*
 * Ends a connection or an attempt at one: at once, or, gracefully, when all requests that are
 * posted have completed.
 */
DAT_RETURN dat_ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS close_flags);

/* -- functions: endpoints ------------------------------------------------------------------- */

/*
 * Makes an endpoint. EVDs may be DAT_HANDLE_NULL if it will not need them; attributes may be
 * NULL for what the provider thinks best.
 */
DAT_RETURN dat_ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                         DAT_EVD_HANDLE recv_completion_evd_handle,
                         DAT_EVD_HANDLE request_completion_evd_handle,
                         DAT_EVD_HANDLE connect_evd_handle, const DAT_EP_ATTR *ep_attributes,
                         DAT_EP_HANDLE *ep_handle);

/* As dat_ep_create, of an endpoint that takes its receive buffers from a shared queue. */
DAT_RETURN dat_ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                                  DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                                  DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
                                  const DAT_EP_ATTR *ep_attributes, DAT_EP_HANDLE *ep_handle);

/* Tells state, addresses, handles and attributes of an endpoint. */
DAT_RETURN dat_ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                        DAT_EP_PARAM *ep_param);

/* Changes what the mask names of an endpoint that is not connected yet. */
DAT_RETURN dat_ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask,
                         const DAT_EP_PARAM *ep_param);

/*
 * Tells an endpoint's state and whether no receive and no request is left to complete; pointers
 * of what is not wanted may be NULL.
 */
DAT_RETURN dat_ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *ep_state,
                             DAT_BOOLEAN *recv_idle, DAT_BOOLEAN *request_idle);

/*
 * Tells how many receive buffers an endpoint holds, and how many receives will complete if every
 * message that is arriving arrives whole; what is not wanted may be NULL.
 */
DAT_RETURN dat_ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT *nbufs_allocated,
                             DAT_COUNT *bufs_alloc_span);

/*
 * Sets how many receive buffers an endpoint may hold before an asynchronous event says so, once
 * (soft), and before the connection is broken (hard).
 */
DAT_RETURN dat_ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft_high_watermark,
                                DAT_COUNT hard_high_watermark);

/* Makes a disconnected endpoint fit to be connected again. */
DAT_RETURN dat_ep_reset(DAT_EP_HANDLE ep_handle);

/* Destroys an endpoint, and its connection if it has one. */
DAT_RETURN dat_ep_free(DAT_EP_HANDLE ep_handle);

/* -- functions: transfers ------------------------------------------------------------------- */

/* Sends the bytes of these segments to the peer's next receive buffer. */
DAT_RETURN dat_ep_post_send(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                            DAT_COMPLETION_FLAGS completion_flags);

/*
 * Sends as dat_ep_post_send does and, if invalidate_flag is set, makes the peer's RMR context
 * invalid as it arrives.
 */
DAT_RETURN dat_ep_post_send_with_invalidate(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                            DAT_COMPLETION_FLAGS completion_flags,
                                            DAT_BOOLEAN invalidate_flag,
                                            DAT_RMR_CONTEXT rmr_to_invalidate);

/* Offers these segments to the peer's sends; may be called before the endpoint is connected. */
DAT_RETURN dat_ep_post_recv(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                            DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                            DAT_COMPLETION_FLAGS completion_flags);

/* Reads the peer's memory at remote_iov into these segments. */
DAT_RETURN dat_ep_post_rdma_read(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                 DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                 const DAT_RMR_TRIPLET *remote_iov,
                                 DAT_COMPLETION_FLAGS completion_flags);

/* Reads the peer's memory at remote_iov into a range that a local RMR names. */
DAT_RETURN dat_ep_post_rdma_read_to_rmr(DAT_EP_HANDLE ep_handle, const DAT_RMR_TRIPLET *local_iov,
                                        DAT_DTO_COOKIE user_cookie,
                                        const DAT_RMR_TRIPLET *remote_iov,
                                        DAT_COMPLETION_FLAGS completion_flags);

/* Writes the bytes of these segments into the peer's memory at remote_iov. */
DAT_RETURN dat_ep_post_rdma_write(DAT_EP_HANDLE ep_handle, DAT_COUNT num_segments,
                                  DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie,
                                  const DAT_RMR_TRIPLET *remote_iov,
                                  DAT_COMPLETION_FLAGS completion_flags);

/* -- functions: shared receive queues ------------------------------------------------------- */

/* Makes a queue of receive buffers that endpoints share. */
DAT_RETURN dat_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *srq_attr,
                          DAT_SRQ_HANDLE *srq_handle);

/* Offers these segments to the next send that arrives at any of the endpoints. */
DAT_RETURN dat_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments,
                             DAT_LMR_TRIPLET *local_iov, DAT_DTO_COOKIE user_cookie);

/* Tells attributes and state of a shared receive queue. */
DAT_RETURN dat_srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK srq_param_mask,
                         DAT_SRQ_PARAM *srq_param);

/* Makes room for this many receive buffers or more. */
DAT_RETURN dat_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto);

/* Asks for one asynchronous event when fewer receive buffers than this are left. */
DAT_RETURN dat_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark);

/* Destroys a shared receive queue that no endpoint uses. */
DAT_RETURN dat_srq_free(DAT_SRQ_HANDLE srq_handle);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
