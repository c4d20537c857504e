// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An endpoint's parameters: asked and changed.

#include "api.hpp"
#include "cm/connection.hpp"
#include "evd.hpp"
#include "ia.hpp"
#include "pz.hpp"
#include "srq.hpp"

#include <arpa/inet.h>

namespace coherdma::dapl {

DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if ((mask & ~DAT_EP_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    const ia &on = *one->home;
    DAT_IA_HANDLE const known = one->home->handle();
    const holding held(one->guard);
    *param = {};
    param->ia_handle = known;
    param->ep_state = one->now();
    const address *const local = on.on->of_family(one->remote.any.sa_family);
    param->local_ia_address_ptr =
        const_cast<sockaddr *>(&(local != nullptr ? *local : on.on->addresses[0]).any);
    param->comm = {param->local_ia_address_ptr->sa_family, SOCK_STREAM, IPPROTO_TCP};
    param->remote_ia_address_ptr = &one->remote.any;
    param->remote_port_qual = one->remote_qual;
    if (one->link != nullptr)
        param->local_port_qual = ntohs(rdma_get_src_port(one->link->id));
    param->pz_handle = one->zone;
    param->recv_evd_handle = one->recv_evd;
    param->request_evd_handle = one->request_evd;
    param->connect_evd_handle = one->connect_evd;
    param->srq_handle = one->shared;
    param->ep_attr = one->attr;
    return DAT_SUCCESS;
}

namespace {

constexpr DAT_EP_PARAM_MASK fixed =
    DAT_EP_FIELD_IA_HANDLE | DAT_EP_FIELD_EP_STATE | DAT_EP_FIELD_COMM |
    DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR | DAT_EP_FIELD_LOCAL_PORT_QUAL |
    DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR | DAT_EP_FIELD_REMOTE_PORT_QUAL |
    DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR | DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR |
    DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR;

bool is_unconnected(DAT_EP_STATE state) noexcept {
    return state == DAT_EP_STATE_UNCONNECTED || state == DAT_EP_STATE_RESERVED ||
           state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
           state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING ||
           state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE;
}

// Attributes that are not named stay.
void merge(DAT_EP_ATTR &to, const DAT_EP_ATTR &from, DAT_EP_PARAM_MASK mask) noexcept {
    const auto take = [mask](DAT_EP_PARAM_MASK field, auto &what, const auto &value) {
        if ((mask & field) != 0)
            what = value;
    };
    take(DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, to.service_type, from.service_type);
    take(DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, to.max_message_size, from.max_message_size);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, to.max_rdma_size, from.max_rdma_size);
    take(DAT_EP_FIELD_EP_ATTR_QOS, to.qos, from.qos);
    take(DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS, to.recv_completion_flags,
         from.recv_completion_flags);
    take(DAT_EP_FIELD_EP_ATTR_REQUEST_COMPLETION_FLAGS, to.request_completion_flags,
         from.request_completion_flags);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RECV_DTOS, to.max_recv_dtos, from.max_recv_dtos);
    take(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, to.max_request_dtos, from.max_request_dtos);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, to.max_recv_iov, from.max_recv_iov);
    take(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, to.max_request_iov, from.max_request_iov);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IN, to.max_rdma_read_in, from.max_rdma_read_in);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_OUT, to.max_rdma_read_out, from.max_rdma_read_out);
    take(DAT_EP_FIELD_EP_ATTR_SRQ_SOFT_HW, to.srq_soft_hw, from.srq_soft_hw);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, to.max_rdma_read_iov, from.max_rdma_read_iov);
    take(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, to.max_rdma_write_iov, from.max_rdma_write_iov);
}

struct parts {
    pz *zone;
    evd *recv, *request, *connect;
    srq *shared;
};

parts parts_of(const ep &one) noexcept {
    return {one.zone, one.recv_evd, one.request_evd, one.connect_evd, one.shared};
}

void put(ep &one, const parts &all, const DAT_EP_ATTR &attr) noexcept {
    one.zone = all.zone;
    one.recv_evd = all.recv;
    one.request_evd = all.request;
    one.connect_evd = all.connect;
    one.shared = all.shared;
    one.shares = all.shared != nullptr;
    one.attr = attr;
    one.request_iov = attr.max_request_iov;
    one.recv_iov = attr.max_recv_iov;
    one.read_iov = attr.max_rdma_read_iov;
    one.write_iov = attr.max_rdma_write_iov;
}

bool has_stream(const evd *one, DAT_EVD_FLAGS flag) noexcept {
    return one == nullptr || (one->flags & flag) != 0;
}

/// What the endpoint will have: the new, counted as used, where a field is named.
struct choice {
    ia &on;
    DAT_EP_PARAM_MASK mask;
    parts next;        ///< first what it has
    parts taken = {};  ///< what was counted as used
    parts before = {}; ///< what will not be needed any more

    /// False: it is none of its IA.
    template <class kind>
    bool take(DAT_EP_PARAM_MASK field, DAT_HANDLE wanted, kind *parts::*which) noexcept {
        if ((mask & field) == 0)
            return true;
        kind *const one = wanted != DAT_HANDLE_NULL ? on.borrow<kind>(wanted) : nullptr;
        if (one == nullptr && wanted != DAT_HANDLE_NULL)
            return false;
        taken.*which = one;
        before.*which = next.*which;
        next.*which = one;
        return true;
    }
    bool take(DAT_EP_PARAM_MASK field, DAT_EVD_HANDLE wanted, evd *parts::*which,
              DAT_EVD_FLAGS flag) noexcept {
        return take(field, wanted, which) && has_stream(next.*which, flag);
    }

    void give_back(const parts &all) noexcept {
        on.give_back(all.zone);
        on.give_back(all.recv);
        on.give_back(all.request);
        on.give_back(all.connect);
        on.give_back(all.shared);
    }
};

DAT_RETURN choose_all(choice &all, const DAT_EP_PARAM &param) noexcept {
    if (!all.take(DAT_EP_FIELD_PZ_HANDLE, param.pz_handle, &parts::zone))
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    if (!all.take(DAT_EP_FIELD_RECV_EVD_HANDLE, param.recv_evd_handle, &parts::recv,
                  DAT_EVD_DTO_FLAG))
        return wrong_handle(DAT_INVALID_HANDLE_EVD_RECV);
    if (!all.take(DAT_EP_FIELD_REQUEST_EVD_HANDLE, param.request_evd_handle, &parts::request,
                  DAT_EVD_DTO_FLAG))
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if (!all.take(DAT_EP_FIELD_CONNECT_EVD_HANDLE, param.connect_evd_handle, &parts::connect,
                  DAT_EVD_CONNECTION_FLAG))
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CONN);
    if (!all.take(DAT_EP_FIELD_SRQ_HANDLE, param.srq_handle, &parts::shared))
        return wrong_handle(DAT_INVALID_HANDLE_SRQ);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const DAT_EP_PARAM *param) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if ((mask & ~DAT_EP_FIELD_ALL) != 0 || (mask & fixed) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    const DAT_EP_STATE state = one->now();
    if (!is_unconnected(state))
        return wrong_state(subtype_of(state));
    // The new queue pair would have none of them.
    if (one->receives.outstanding() != 0)
        return wrong_state(DAT_INVALID_STATE_EP_NOTREADY);
    ia &on = *one->home;
    const parts last = parts_of(*one);
    const DAT_EP_ATTR last_attr = one->attr;
    choice all = {on, mask, last};
    DAT_EP_ATTR attr = one->attr;
    merge(attr, param->ep_attr, mask);
    DAT_RETURN result = choose_all(all, *param);
    if (result == DAT_SUCCESS)
        result = complete_attributes(on, attr, 3);
    if (result == DAT_SUCCESS) {
        end_pair(*one);
        put(*one, all.next, attr);
        result = all.next.zone != nullptr ? make_pair(*one) : DAT_RETURN{DAT_SUCCESS};
        if (result != DAT_SUCCESS) { // As it was; the device had room for that.
            put(*one, last, last_attr);
            if (last.zone != nullptr)
                make_pair(*one);
        }
    }
    all.give_back(result == DAT_SUCCESS ? all.before : all.taken);
    if (result != DAT_SUCCESS)
        return result;
    if (state == DAT_EP_STATE_UNCONFIGURED_TENTATIVE && one->qp != nullptr &&
        one->connect_evd != nullptr)
        one->state.store(DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING, std::memory_order_release);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl
