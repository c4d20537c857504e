// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Endpoints' attributes and parameters, in both directions.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

#include <cstdint>

namespace coherdma::dapl::dat1 {

namespace {

// A service that nobody has: for attributes that 2.0's types cannot say, or that 1.2 has not.
constexpr auto refused = static_cast<DAT_SERVICE_TYPE>(UINT32_MAX);

/// Whether what mask names of them is in 2.0's attributes as it is here.
bool sayable(const ep_attr &attr, DAT_EP_PARAM_MASK mask) noexcept {
    const auto too = [mask](DAT_EP_PARAM_MASK field, bool much) {
        return (mask & field) != 0 && much;
    };
    return !too(DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, attr.service_type != DAT_SERVICE_TYPE_RC) &&
           !too(DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, attr.max_message_size > UINT32_MAX) &&
           !too(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, attr.max_rdma_size > UINT32_MAX) &&
           !too(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, attr.max_recv_iov > most_segments) &&
           !too(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV, attr.max_request_iov > most_segments) &&
           !too(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV, attr.max_rdma_read_iov > most_segments) &&
           !too(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV, attr.max_rdma_write_iov > most_segments);
}

/// All but the two lengths, which have other types.
template <class into, class value>
void copy(into &to, const value &from) noexcept {
    to.service_type = from.service_type;
    to.qos = from.qos;
    to.recv_completion_flags = from.recv_completion_flags;
    to.request_completion_flags = from.request_completion_flags;
    to.max_recv_dtos = from.max_recv_dtos;
    to.max_request_dtos = from.max_request_dtos;
    to.max_recv_iov = from.max_recv_iov;
    to.max_request_iov = from.max_request_iov;
    to.max_rdma_read_in = from.max_rdma_read_in;
    to.max_rdma_read_out = from.max_rdma_read_out;
    to.srq_soft_hw = from.srq_soft_hw;
    to.max_rdma_read_iov = from.max_rdma_read_iov;
    to.max_rdma_write_iov = from.max_rdma_write_iov;
    to.ep_transport_specific_count = from.ep_transport_specific_count;
    to.ep_transport_specific = from.ep_transport_specific;
    to.ep_provider_specific_count = from.ep_provider_specific_count;
    to.ep_provider_specific = from.ep_provider_specific;
}

DAT_EP_ATTR widened(const ep_attr &from) noexcept {
    DAT_EP_ATTR to = {};
    copy(to, from);
    to.max_message_size = static_cast<DAT_SEG_LENGTH>(from.max_message_size);
    to.max_rdma_size = static_cast<DAT_SEG_LENGTH>(from.max_rdma_size);
    return to;
}

void put(ep_param &to, const DAT_EP_PARAM &from) noexcept {
    to = {};
    to.ia_handle = from.ia_handle;
    to.ep_state = from.ep_state;
    to.local_ia_address_ptr = from.local_ia_address_ptr;
    to.local_port_qual = from.local_port_qual;
    to.remote_ia_address_ptr = from.remote_ia_address_ptr;
    to.remote_port_qual = from.remote_port_qual;
    to.pz_handle = from.pz_handle;
    to.recv_evd_handle = from.recv_evd_handle;
    to.request_evd_handle = from.request_evd_handle;
    to.connect_evd_handle = from.connect_evd_handle;
    to.srq_handle = from.srq_handle;
    copy(to.ep_attr, from.ep_attr);
    to.ep_attr.max_message_size = from.ep_attr.max_message_size;
    to.ep_attr.max_rdma_size = from.ep_attr.max_rdma_size;
}

/// The attributes of a new endpoint, for a call of 2.0.
struct wish {
    explicit wish(const ep_attr *from) noexcept
        : given(from != nullptr) {
        if (!given)
            return;
        attr = widened(*from);
        if (!sayable(*from, DAT_EP_FIELD_EP_ATTR_ALL))
            attr.service_type = refused;
    }
    const DAT_EP_ATTR *get() const noexcept { return given ? &attr : nullptr; }

    bool given;
    DAT_EP_ATTR attr;
};

} // namespace

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv,
                     DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, const ep_attr *attr,
                     DAT_EP_HANDLE *ep_handle) noexcept {
    return told_any(
        dapl::ep_create(ia_handle, pz_handle, recv, request, connect, wish(attr).get(), ep_handle));
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv,
                              DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect,
                              DAT_SRQ_HANDLE srq_handle, const ep_attr *attr,
                              DAT_EP_HANDLE *ep_handle) noexcept {
    return told_any(dapl::ep_create_with_srq(ia_handle, pz_handle, recv, request, connect,
                                             srq_handle, wish(attr).get(), ep_handle));
}

DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, ep_param *param) noexcept {
    return asked<DAT_EP_PARAM>(param, put, [&](DAT_EP_PARAM *all) {
        return dapl::ep_query(ep_handle, ep_mask(mask), all);
    });
}

DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const ep_param *param) noexcept {
    DAT_EP_PARAM_MASK fields = ep_mask(mask);
    DAT_EP_PARAM all = {};
    if (param != nullptr) {
        all.pz_handle = param->pz_handle;
        all.recv_evd_handle = param->recv_evd_handle;
        all.request_evd_handle = param->request_evd_handle;
        all.connect_evd_handle = param->connect_evd_handle;
        all.srq_handle = param->srq_handle;
        all.ep_attr = widened(param->ep_attr);
        if (!sayable(param->ep_attr, mask)) {
            all.ep_attr.service_type = refused;
            fields |= DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE;
        }
    }
    return told_any(dapl::ep_modify(ep_handle, fields, param != nullptr ? &all : nullptr));
}

} // namespace coherdma::dapl::dat1
