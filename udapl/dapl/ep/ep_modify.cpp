// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_ep_query and dat_ep_modify.

#include "dapl/api.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/pz.hpp"
#include "ep.hpp"
#include "srq.hpp"

namespace coherdma::dapl {

DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param) noexcept {
    return query_object<dapl_ep>(ep_handle, mask, DAT_EP_FIELD_ALL, param, [param](dapl_ep &ep) {
        const dapl_ia &ia = *ep.ia;
        const std::lock_guard guard(ep.lock);
        param->ep_state = ep.current_state();
        const address *const local = ia.dev->find_address(ep.remote.sa.sa_family);
        param->local_ia_address_ptr =
            const_cast<sockaddr *>(&(local != nullptr ? *local : ia.dev->addresses[0]).sa);
        param->comm = {param->local_ia_address_ptr->sa_family, SOCK_STREAM, IPPROTO_TCP};
        param->remote_ia_address_ptr = &ep.remote.sa;
        param->remote_port_qual = ep.remote_qual;
        param->local_port_qual = cm::local_port(ep);
        param->pz_handle = ep.pz;
        param->recv_evd_handle = ep.recv_evd;
        param->request_evd_handle = ep.request_evd;
        param->connect_evd_handle = ep.connect_evd;
        param->srq_handle = ep.srq;
        param->ep_attr = ep.attr;
    });
}

namespace {

constexpr DAT_EP_PARAM_MASK read_only_fields =
    DAT_EP_FIELD_IA_HANDLE | DAT_EP_FIELD_EP_STATE | DAT_EP_FIELD_COMM |
    DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR | DAT_EP_FIELD_LOCAL_PORT_QUAL |
    DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR | DAT_EP_FIELD_REMOTE_PORT_QUAL |
    DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR | DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR |
    DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR;

/// The states in which dat_ep_modify is allowed.
bool is_unconnected(DAT_EP_STATE state) noexcept {
    return state == DAT_EP_STATE_UNCONNECTED || state == DAT_EP_STATE_RESERVED ||
           state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
           state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
           state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE;
}

/// Copies the attributes that mask names.
void merge_attr(DAT_EP_ATTR &attr, const DAT_EP_ATTR &new_attr, DAT_EP_PARAM_MASK mask) noexcept {
    const auto merge = [mask](DAT_EP_PARAM_MASK field, auto &value, const auto &new_value) {
        if ((mask & field) != 0)
            value = new_value;
    };
    merge(DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, attr.service_type, new_attr.service_type);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, attr.max_message_size, new_attr.max_message_size);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, attr.max_rdma_size, new_attr.max_rdma_size);
    merge(DAT_EP_FIELD_EP_ATTR_QOS, attr.qos, new_attr.qos);
    merge(DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, attr.recv_completion_flags,
          new_attr.recv_completion_flags);
    merge(DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, attr.request_completion_flags,
          new_attr.request_completion_flags);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, attr.max_recv_dtos, new_attr.max_recv_dtos);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, attr.max_request_dtos, new_attr.max_request_dtos);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, attr.max_recv_iov, new_attr.max_recv_iov);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, attr.max_request_iov, new_attr.max_request_iov);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, attr.max_rdma_read_in, new_attr.max_rdma_read_in);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, attr.max_rdma_read_out,
          new_attr.max_rdma_read_out);
    merge(DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW, attr.srq_soft_hw, new_attr.srq_soft_hw);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, attr.max_rdma_read_iov,
          new_attr.max_rdma_read_iov);
    merge(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, attr.max_rdma_write_iov,
          new_attr.max_rdma_write_iov);
}

/// The objects that the EP refers to before and after dat_ep_modify. Afterwards `acquired` or
/// `replaced` are dropped.
struct ref_change {
    dapl_ia &ia;
    DAT_EP_PARAM_MASK mask;
    ep_refs refs;          ///< the current ones, then the new ones
    ep_refs acquired = {}; ///< references taken by replace(): dropped on an error
    ep_refs replaced = {}; ///< the references before: dropped on success

    /// Replaces one, if mask names the field. False: not a handle of this kind and IA. Only the
    /// connect EVD may belong to another IA, as in ep_create.
    template <class kind>
    bool replace(DAT_EP_PARAM_MASK field, DAT_HANDLE handle, kind *ep_refs::*member) noexcept {
        if ((mask & field) == 0)
            return true;
        kind *const obj = handle == DAT_HANDLE_NULL ? nullptr
                          : field == DAT_EP_FIELD_CONNECT_EVD_HANDLE
                              ? ia.find_any_and_add_ref<kind>(handle)
                              : ia.find_and_add_ref<kind>(handle);
        if (obj == nullptr && handle != DAT_HANDLE_NULL)
            return false;
        acquired.*member = obj;
        replaced.*member = refs.*member;
        refs.*member = obj;
        return true;
    }
    bool replace(DAT_EP_PARAM_MASK field, DAT_EVD_HANDLE handle, dapl_evd *ep_refs::*member,
                 DAT_EVD_FLAGS flag) noexcept {
        return replace(field, handle, member) &&
               (refs.*member == nullptr || ((refs.*member)->flags & flag) != 0);
    }
};

/// Replaces those of change.refs that change.mask names.
DAT_RETURN get_new_refs(ref_change &change, const DAT_EP_PARAM &param) noexcept {
    if (!change.replace(DAT_EP_FIELD_PZ_HANDLE, param.pz_handle, &ep_refs::pz))
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    if (!change.replace(DAT_EP_FIELD_RECV_EVD_HANDLE, param.recv_evd_handle, &ep_refs::recv_evd,
                        DAT_EVD_DTO_FLAG))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_RECV);
    if (!change.replace(DAT_EP_FIELD_REQUEST_EVD_HANDLE, param.request_evd_handle,
                        &ep_refs::request_evd, DAT_EVD_DTO_FLAG))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if (!change.replace(DAT_EP_FIELD_CONNECT_EVD_HANDLE, param.connect_evd_handle,
                        &ep_refs::connect_evd, DAT_EVD_CONNECTION_FLAG))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    if (!change.replace(DAT_EP_FIELD_SRQ_HANDLE, param.srq_handle, &ep_refs::srq))
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const DAT_EP_PARAM *param) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if ((mask & ~DAT_EP_FIELD_ALL) != 0 || (mask & read_only_fields) != 0)
        return invalid_parameter(2);
    if (param == nullptr)
        return invalid_parameter(3);
    const std::lock_guard setup_guard(ep->setup_lock);
    const DAT_EP_STATE state = ep->current_state();
    dapl_ia &ia = *ep->ia;
    const ep_refs old_refs = *ep;
    const DAT_EP_ATTR old_attr = ep->attr;
    ref_change change = {ia, mask, old_refs};
    DAT_EP_ATTR attr = ep->attr;
    merge_attr(attr, param->ep_attr, mask);
    DAT_RETURN result = get_new_refs(change, *param);
    if (result == DAT_SUCCESS && attr.service_type != old_attr.service_type)
        result = invalid_parameter(3);
    if (result == DAT_SUCCESS)
        result = validate_ep_attr(ia, attr, 3);
    if (result == DAT_SUCCESS && !is_unconnected(state))
        result = invalid_state(state_subtype(state));
    // The new QP would not have the posted receives.
    if (result == DAT_SUCCESS && ep->receives.outstanding() != 0)
        result = invalid_state(DAT_INVALID_STATE_EP_NOTREADY);
    if (result == DAT_SUCCESS) {
        cm::ud_free_peers(*ep); // of which the event thread uses the QP and ep_refs
        ep_destroy_qp(*ep);
        set_refs(*ep, change.refs, attr);
        result = change.refs.pz != nullptr ? ep_create_qp(*ep) : DAT_RETURN{DAT_SUCCESS};
        if (result != DAT_SUCCESS) { // Restore: the device had room for the old QP.
            set_refs(*ep, old_refs, old_attr);
            if (old_refs.pz != nullptr)
                ep_create_qp(*ep);
        }
    }
    (result == DAT_SUCCESS ? change.replaced : change.acquired).drop_refs();
    if (result != DAT_SUCCESS)
        return result;
    if (state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE && ep->qp != nullptr &&
        ep->connect_evd != nullptr)
        ep->state.store(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING, std::memory_order_release);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
