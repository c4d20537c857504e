// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "names.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <infiniband/verbs.h>

namespace coherdma::faults {
namespace {

constexpr std::array CALLS = {
    failing_call{.name = "ibv_open_device", .usual_error = ENOMEM},
    failing_call{.name = "ibv_import_device", .usual_error = ENOMEM},
    failing_call{.name = "ibv_query_device", .usual_error = EIO},
    failing_call{.name = "ibv_query_port", .usual_error = EIO},
    failing_call{.name = "ibv_query_gid", .usual_error = EIO},
    failing_call{.name = "ibv_query_pkey", .usual_error = EIO},
    failing_call{.name = "ibv_alloc_pd", .usual_error = ENOMEM},
    failing_call{.name = "ibv_alloc_parent_domain", .usual_error = ENOMEM},
    failing_call{.name = "ibv_import_pd", .usual_error = ENOMEM},
    failing_call{.name = "ibv_dealloc_pd", .usual_error = EBUSY},
    failing_call{.name = "ibv_reg_mr", .usual_error = ENOMEM},
    failing_call{.name = "ibv_reg_buf_mr", .usual_error = ENOMEM},
    failing_call{.name = "ibv_reg_dmabuf_mr", .usual_error = EOPNOTSUPP},
    failing_call{.name = "ibv_reg_dm_mr", .usual_error = ENOMEM},
    failing_call{.name = "ibv_alloc_null_mr", .usual_error = ENOMEM},
    failing_call{.name = "ibv_import_mr", .usual_error = ENOMEM},
    failing_call{.name = "ibv_rereg_mr", .usual_error = ENOMEM},
    failing_call{.name = "ibv_dereg_mr", .usual_error = EBUSY},
    failing_call{.name = "ibv_alloc_mw", .usual_error = ENOMEM},
    failing_call{.name = "ibv_bind_mw", .usual_error = EINVAL},
    failing_call{.name = "ibv_dealloc_mw", .usual_error = EBUSY},
    failing_call{.name = "ibv_create_comp_channel", .usual_error = EMFILE},
    failing_call{.name = "ibv_destroy_comp_channel", .usual_error = EBUSY},
    failing_call{.name = "ibv_create_cq", .usual_error = ENOMEM},
    failing_call{.name = "ibv_resize_cq", .usual_error = ENOMEM},
    failing_call{.name = "ibv_destroy_cq", .usual_error = EBUSY},
    failing_call{.name = "ibv_req_notify_cq", .usual_error = ENOMEM},
    failing_call{.name = "ibv_get_cq_event", .usual_error = EINTR},
    failing_call{.name = "ibv_get_async_event", .usual_error = EINTR},
    failing_call{.name = "ibv_poll_cq", .usual_error = EINVAL},
    failing_call{.name = "ibv_start_poll", .usual_error = EINVAL},
    failing_call{.name = "ibv_create_srq", .usual_error = ENOMEM},
    failing_call{.name = "ibv_modify_srq", .usual_error = ENOMEM},
    failing_call{.name = "ibv_query_srq", .usual_error = ENOMEM},
    failing_call{.name = "ibv_destroy_srq", .usual_error = EBUSY},
    failing_call{.name = "ibv_create_qp", .usual_error = ENOMEM},
    failing_call{.name = "ibv_open_qp", .usual_error = ENOMEM},
    failing_call{.name = "ibv_modify_qp", .usual_error = ETIMEDOUT},
    failing_call{.name = "ibv_query_qp", .usual_error = ENOMEM},
    failing_call{.name = "ibv_destroy_qp", .usual_error = EBUSY},
    failing_call{.name = "ibv_attach_mcast", .usual_error = ENOMEM},
    failing_call{.name = "ibv_detach_mcast", .usual_error = EINVAL},
    failing_call{.name = "ibv_create_ah", .usual_error = ENOMEM},
    failing_call{.name = "ibv_create_ah_from_wc", .usual_error = ENOMEM},
    failing_call{.name = "ibv_destroy_ah", .usual_error = EBUSY},
    failing_call{.name = "ibv_post_send", .usual_error = ENOMEM},
    failing_call{.name = "ibv_wr_complete", .usual_error = ENOMEM},
    failing_call{.name = "ibv_post_recv", .usual_error = ENOMEM},
    failing_call{.name = "ibv_post_srq_recv", .usual_error = ENOMEM},
    failing_call{.name = "rdma_create_id", .usual_error = ENOMEM},
    failing_call{.name = "rdma_create_ep", .usual_error = ENOMEM},
    failing_call{.name = "rdma_set_option", .usual_error = EINVAL},
    failing_call{.name = "rdma_bind_addr", .usual_error = EADDRINUSE},
    failing_call{.name = "rdma_resolve_addr", .usual_error = ENODEV},
    failing_call{.name = "rdma_resolve_route", .usual_error = ENOMEM},
    failing_call{.name = "rdma_listen", .usual_error = EADDRINUSE},
    failing_call{.name = "rdma_connect", .usual_error = ENOMEM},
    failing_call{.name = "rdma_accept", .usual_error = ENOMEM},
    failing_call{.name = "rdma_reject", .usual_error = EINVAL},
    failing_call{.name = "rdma_join_multicast", .usual_error = ENOMEM},
    failing_call{.name = "rdma_migrate_id", .usual_error = ENOMEM},
    failing_call{.name = "rdma_get_cm_event", .usual_error = ENOMEM},
    failing_call{.name = "rdma_get_request", .usual_error = ENOMEM},
    failing_call{.name = "rdma_disconnect", .usual_error = EINVAL},
    failing_call{.name = "rdma_destroy_id", .usual_error = EBUSY},
};

struct named_status {
    const char *name;
    ibv_wc_status value;
};

/// IBV_WC_RETRY_EXC_ERR is retry_exc, and so on.
constexpr std::array STATUSES = {
    named_status{.name = "loc_len", .value = IBV_WC_LOC_LEN_ERR},
    named_status{.name = "loc_qp_op", .value = IBV_WC_LOC_QP_OP_ERR},
    named_status{.name = "loc_prot", .value = IBV_WC_LOC_PROT_ERR},
    named_status{.name = "wr_flush", .value = IBV_WC_WR_FLUSH_ERR},
    named_status{.name = "mw_bind", .value = IBV_WC_MW_BIND_ERR},
    named_status{.name = "bad_resp", .value = IBV_WC_BAD_RESP_ERR},
    named_status{.name = "loc_access", .value = IBV_WC_LOC_ACCESS_ERR},
    named_status{.name = "rem_inv_req", .value = IBV_WC_REM_INV_REQ_ERR},
    named_status{.name = "rem_access", .value = IBV_WC_REM_ACCESS_ERR},
    named_status{.name = "rem_op", .value = IBV_WC_REM_OP_ERR},
    named_status{.name = "retry_exc", .value = IBV_WC_RETRY_EXC_ERR},
    named_status{.name = "rnr_retry_exc", .value = IBV_WC_RNR_RETRY_EXC_ERR},
    named_status{.name = "rem_abort", .value = IBV_WC_REM_ABORT_ERR},
    named_status{.name = "fatal", .value = IBV_WC_FATAL_ERR},
    named_status{.name = "resp_timeout", .value = IBV_WC_RESP_TIMEOUT_ERR},
    named_status{.name = "general", .value = IBV_WC_GENERAL_ERR},
};

struct named_event {
    const char *name;
    ibv_event_type value;
};

/// IBV_EVENT_PORT_ERR is port_err, and so on. Not those of a WQ, which observers do not know.
constexpr std::array EVENTS = {
    named_event{.name = "cq_err", .value = IBV_EVENT_CQ_ERR},
    named_event{.name = "qp_fatal", .value = IBV_EVENT_QP_FATAL},
    named_event{.name = "qp_req_err", .value = IBV_EVENT_QP_REQ_ERR},
    named_event{.name = "qp_access_err", .value = IBV_EVENT_QP_ACCESS_ERR},
    named_event{.name = "comm_est", .value = IBV_EVENT_COMM_EST},
    named_event{.name = "sq_drained", .value = IBV_EVENT_SQ_DRAINED},
    named_event{.name = "path_mig", .value = IBV_EVENT_PATH_MIG},
    named_event{.name = "path_mig_err", .value = IBV_EVENT_PATH_MIG_ERR},
    named_event{.name = "qp_last_wqe_reached", .value = IBV_EVENT_QP_LAST_WQE_REACHED},
    named_event{.name = "srq_err", .value = IBV_EVENT_SRQ_ERR},
    named_event{.name = "srq_limit_reached", .value = IBV_EVENT_SRQ_LIMIT_REACHED},
    named_event{.name = "device_fatal", .value = IBV_EVENT_DEVICE_FATAL},
    named_event{.name = "port_active", .value = IBV_EVENT_PORT_ACTIVE},
    named_event{.name = "port_err", .value = IBV_EVENT_PORT_ERR},
    named_event{.name = "lid_change", .value = IBV_EVENT_LID_CHANGE},
    named_event{.name = "pkey_change", .value = IBV_EVENT_PKEY_CHANGE},
    named_event{.name = "sm_change", .value = IBV_EVENT_SM_CHANGE},
    named_event{.name = "client_reregister", .value = IBV_EVENT_CLIENT_REREGISTER},
    named_event{.name = "gid_change", .value = IBV_EVENT_GID_CHANGE},
};

} // namespace

std::span<const failing_call> all_calls() noexcept {
    return CALLS;
}

const failing_call *find_call(std::string_view name) noexcept {
    const auto *const match = std::find_if(
        CALLS.begin(), CALLS.end(), [=](const failing_call &call) { return name == call.name; });
    return match != CALLS.end() ? match : nullptr;
}

int find_errno(std::string_view name) {
    constexpr int MAX_ERRNO = 133;
    for (int error = 1; error <= MAX_ERRNO; ++error)
        if (name == name_of_errno(error))
            return error;
    return name == "EWOULDBLOCK" ? EWOULDBLOCK : name == "ENOTSUP" ? ENOTSUP : 0;
}

std::string name_of_errno(int error) {
    const char *const name = strerrorname_np(error);
    return name != nullptr ? name : "errno " + std::to_string(error);
}

int find_status(std::string_view name) noexcept {
    for (const named_status &status : STATUSES)
        if (name == status.name)
            return status.value;
    return IBV_WC_SUCCESS;
}

std::string name_of_status(int status) {
    for (const named_status &known : STATUSES)
        if (status == known.value)
            return known.name;
    return "status " + std::to_string(status);
}

std::vector<std::string> all_status_names() {
    std::vector<std::string> names;
    for (const named_status &status : STATUSES)
        names.emplace_back(status.name);
    return names;
}

std::optional<ibv_event_type> find_event(std::string_view name) noexcept {
    for (const named_event &event : EVENTS)
        if (name == event.name)
            return event.value;
    return std::nullopt;
}

std::string name_of_event(ibv_event_type type) {
    for (const named_event &event : EVENTS)
        if (type == event.value)
            return event.name;
    return std::to_string(static_cast<int>(type));
}

std::vector<std::string> all_event_names() {
    std::vector<std::string> names;
    for (const named_event &event : EVENTS)
        names.emplace_back(event.name);
    return names;
}

} // namespace coherdma::faults
