// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// EP attributes and parameters, converted in both directions.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

#include <cstdint>

namespace coherdma::dapl::dat1 {

namespace {

// Not a valid service type: 2.0 refuses attributes that have it.
constexpr auto invalid_service_type = static_cast<DAT_SERVICE_TYPE>(UINT32_MAX);

/// False: an attribute in mask is not valid in 1.2 or does not fit into the type of 2.0.
bool is_convertible(const ep_attr &attr, DAT_EP_PARAM_MASK mask) noexcept {
    const auto exceeds = [mask](DAT_EP_PARAM_MASK field, bool is_out_of_range) {
        return (mask & field) != 0 && is_out_of_range;
    };
    return !exceeds(DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE, attr.service_type != DAT_SERVICE_TYPE_RC) &&
           !exceeds(DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, attr.max_message_size > UINT32_MAX) &&
           !exceeds(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_SIZE, attr.max_rdma_size > UINT32_MAX) &&
           !exceeds(DAT_EP_FIELD_EP_ATTR_MAX_RECV_IOV, attr.max_recv_iov > max_segments_per_dto) &&
           !exceeds(DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_IOV,
                    attr.max_request_iov > max_segments_per_dto) &&
           !exceeds(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_READ_IOV,
                    attr.max_rdma_read_iov > max_segments_per_dto) &&
           !exceeds(DAT_EP_FIELD_EP_ATTR_MAX_RDMA_WRITE_IOV,
                    attr.max_rdma_write_iov > max_segments_per_dto);
}

/// Every attribute but max_message_size and max_rdma_size, whose types differ.
template <class dst_attr, class src_attr>
void copy_attrs_of_same_type(dst_attr &dst, const src_attr &src) noexcept {
    dst.service_type = src.service_type;
    dst.qos = src.qos;
    dst.recv_completion_flags = src.recv_completion_flags;
    dst.request_completion_flags = src.request_completion_flags;
    dst.max_recv_dtos = src.max_recv_dtos;
    dst.max_request_dtos = src.max_request_dtos;
    dst.max_recv_iov = src.max_recv_iov;
    dst.max_request_iov = src.max_request_iov;
    dst.max_rdma_read_in = src.max_rdma_read_in;
    dst.max_rdma_read_out = src.max_rdma_read_out;
    dst.srq_soft_hw = src.srq_soft_hw;
    dst.max_rdma_read_iov = src.max_rdma_read_iov;
    dst.max_rdma_write_iov = src.max_rdma_write_iov;
    dst.ep_transport_specific_count = src.ep_transport_specific_count;
    dst.ep_transport_specific = src.ep_transport_specific;
    dst.ep_provider_specific_count = src.ep_provider_specific_count;
    dst.ep_provider_specific = src.ep_provider_specific;
}

DAT_EP_ATTR to_dat2(const ep_attr &src) noexcept {
    DAT_EP_ATTR dst = {};
    copy_attrs_of_same_type(dst, src);
    dst.max_message_size = static_cast<DAT_SEG_LENGTH>(src.max_message_size);
    dst.max_rdma_size = static_cast<DAT_SEG_LENGTH>(src.max_rdma_size);
    return dst;
}

/// From the parameters of DAT 2.0, where 1.2 has them.
void to_dat1(ep_param &dst, const DAT_EP_PARAM &src) noexcept {
    dst = {};
    dst.ia_handle = src.ia_handle;
    dst.ep_state = src.ep_state;
    dst.local_ia_address_ptr = src.local_ia_address_ptr;
    dst.local_port_qual = src.local_port_qual;
    dst.remote_ia_address_ptr = src.remote_ia_address_ptr;
    dst.remote_port_qual = src.remote_port_qual;
    dst.pz_handle = src.pz_handle;
    dst.recv_evd_handle = src.recv_evd_handle;
    dst.request_evd_handle = src.request_evd_handle;
    dst.connect_evd_handle = src.connect_evd_handle;
    dst.srq_handle = src.srq_handle;
    copy_attrs_of_same_type(dst.ep_attr, src.ep_attr);
    dst.ep_attr.max_message_size = src.ep_attr.max_message_size;
    dst.ep_attr.max_rdma_size = src.ep_attr.max_rdma_size;
}

/// The optional attributes for ep_create of 2.0. If one does not fit, the service type is invalid,
/// so that ep_create refuses them.
struct dat2_ep_attr {
    explicit dat2_ep_attr(const ep_attr *dat1_attr) noexcept
        : is_set(dat1_attr != nullptr) {
        if (!is_set)
            return;
        attr = to_dat2(*dat1_attr);
        if (!is_convertible(*dat1_attr, DAT_EP_FIELD_EP_ATTR_ALL))
            attr.service_type = invalid_service_type;
    }
    const DAT_EP_ATTR *get() const noexcept { return is_set ? &attr : nullptr; }

    bool is_set;
    DAT_EP_ATTR attr;
};

} // namespace

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                     DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                     DAT_EVD_HANDLE connect_evd_handle, const ep_attr *attr,
                     DAT_EP_HANDLE *ep_handle) noexcept {
    return to_dat1_result(dapl::ep_create(ia_handle, pz_handle, recv_evd_handle, request_evd_handle,
                                          connect_evd_handle, dat2_ep_attr(attr).get(), ep_handle));
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                              DAT_EVD_HANDLE recv_evd_handle, DAT_EVD_HANDLE request_evd_handle,
                              DAT_EVD_HANDLE connect_evd_handle, DAT_SRQ_HANDLE srq_handle,
                              const ep_attr *attr, DAT_EP_HANDLE *ep_handle) noexcept {
    return to_dat1_result(dapl::ep_create_with_srq(
        ia_handle, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle, srq_handle,
        dat2_ep_attr(attr).get(), ep_handle));
}

DAT_RETURN ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask, ep_param *param) noexcept {
    return query_convert<DAT_EP_PARAM>(param, to_dat1, [&](DAT_EP_PARAM *dat2_param) {
        return dapl::ep_query(ep_handle, dat2_ep_mask(mask), dat2_param);
    });
}

/// Attributes that 2.0 cannot represent are passed as an invalid service type, which it refuses.
DAT_RETURN ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK mask,
                     const ep_param *param) noexcept {
    DAT_EP_PARAM_MASK fields = dat2_ep_mask(mask);
    DAT_EP_PARAM dat2_param = {};
    if (param != nullptr) {
        dat2_param.pz_handle = param->pz_handle;
        dat2_param.recv_evd_handle = param->recv_evd_handle;
        dat2_param.request_evd_handle = param->request_evd_handle;
        dat2_param.connect_evd_handle = param->connect_evd_handle;
        dat2_param.srq_handle = param->srq_handle;
        dat2_param.ep_attr = to_dat2(param->ep_attr);
        if (!is_convertible(param->ep_attr, mask)) {
            dat2_param.ep_attr.service_type = invalid_service_type;
            fields |= DAT_EP_FIELD_EP_ATTR_SERVICE_TYPE;
        }
    }
    return to_dat1_result(
        dapl::ep_modify(ep_handle, fields, param != nullptr ? &dat2_param : nullptr));
}

} // namespace coherdma::dapl::dat1
