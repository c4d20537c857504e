// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Has the provider's table of DAT 2.0 call that of 1.2. What 1.2 does not have, or what a query or
// dat_rmr_bind tells less of, still calls 2.0.

#include "sequencer_dat1.hpp"

#include "dapl/core/result.hpp"
#include "dispatch/dat1_values.hpp"
#include "dispatch/dispatch.hpp"

#include <algorithm>
#include <array>

namespace {

namespace dat1 = coherdma::dapl::dat1;

dat1::provider dat;

template <class triplet>
dat1::lmr_triplet to_dat1(const triplet &segment) {
    return {segment.lmr_context, 0, segment.virtual_address, segment.segment_length};
}
dat1::rmr_triplet to_dat1(const DAT_RMR_TRIPLET &remote) {
    return {remote.rmr_context, 0, remote.virtual_address, remote.segment_length};
}

/// The steps have up to four segments.
class segment_list {
  public:
    segment_list(const DAT_LMR_TRIPLET *iov, DAT_VLEN count)
        : is_null_(iov == nullptr) {
        for (std::size_t i = 0; !is_null_ && i != std::min<DAT_VLEN>(count, 4); ++i)
            segments_.at(i) = to_dat1(iov[i]);
    }
    dat1::lmr_triplet *get() { return is_null_ ? nullptr : segments_.data(); }

  private:
    bool is_null_;
    std::array<dat1::lmr_triplet, 4> segments_ = {};
};
DAT_VLEN to_size(DAT_COUNT count) {
    return static_cast<DAT_VLEN>(std::max(count, 0));
}

/// The members that the sequencer reads.
DAT_EVENT to_dat2(const dat1::event &event) {
    DAT_EVENT event2 = {};
    event2.event_number = event.event_number;
    event2.evd_handle = event.evd_handle;
    auto &data = event2.event_data;
    const auto &dto = event.event_data.dto_completion_event_data;
    const auto &request = event.event_data.cr_arrival_event_data;
    switch (event.event_number) {
    case DAT_DTO_COMPLETION_EVENT:
        data.dto_completion_event_data.ep_handle = dto.ep_handle;
        data.dto_completion_event_data.user_cookie = dto.user_cookie;
        break;
    case DAT_RMR_BIND_COMPLETION_EVENT:
        data.rmr_completion_event_data = event.event_data.rmr_completion_event_data;
        break;
    case DAT_CONNECTION_REQUEST_EVENT:
        data.cr_arrival_event_data.conn_qual = request.conn_qual;
        data.cr_arrival_event_data.cr_handle = request.cr_handle;
        break;
    case DAT_SOFTWARE_EVENT:
        data.software_event_data = event.event_data.software_event_data;
        break;
    default: // the handle comes first in either
        data.connect_event_data = event.event_data.connect_event_data;
    }
    return event2;
}

dat1::ep_attr to_dat1(const DAT_EP_ATTR &attr) {
    dat1::ep_attr attr1 = {};
    attr1.service_type = attr.service_type;
    attr1.max_message_size = attr.max_message_size;
    attr1.max_rdma_size = attr.max_rdma_size;
    attr1.qos = attr.qos;
    attr1.max_recv_dtos = attr.max_recv_dtos;
    attr1.max_request_dtos = attr.max_request_dtos;
    attr1.max_recv_iov = attr.max_recv_iov;
    attr1.max_request_iov = attr.max_request_iov;
    attr1.max_rdma_read_in = attr.max_rdma_read_in;
    attr1.max_rdma_read_out = attr.max_rdma_read_out;
    return attr1;
}

/// Without COMM.
DAT_EP_PARAM_MASK to_dat1_ep_mask(DAT_EP_PARAM_MASK mask) {
    return mask == DAT_EP_FIELD_ALL
               ? 0x7ffff7ff
               : (mask & ~DAT_EP_PARAM_MASK{0xfff}) | (mask & 3) | ((mask & 0xff8) >> 1);
}

// The functions with other arguments than in 1.2.

DAT_RETURN ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *async_evd, DAT_IA_ATTR_MASK ia_mask,
                    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR *provider_attr) {
    dat1::ia_attr ia_attr1 = {};
    dat1::provider_attr provider_attr1 = {};
    const DAT_RETURN result = dat.ia_query_func(
        ia, async_evd, ia_mask != 0 ? 0x7ffffffff : 0, ia_attr != nullptr ? &ia_attr1 : nullptr,
        provider_mask != 0 ? 0x3ffffff : 0, provider_attr != nullptr ? &provider_attr1 : nullptr);
    if (result == DAT_SUCCESS && ia_attr != nullptr) {
        *ia_attr = {}; // without extensions
        ia_attr->ia_address_ptr = ia_attr1.ia_address_ptr;
        ia_attr->max_eps = ia_attr1.max_eps;
        ia_attr->max_iov_segments_per_rdma_read = ia_attr1.max_iov_segments_per_rdma_read;
    }
    return result;
}

DAT_RETURN cr_reject(DAT_CR_HANDLE cr, DAT_COUNT, const DAT_PVOID) {
    return dat.cr_reject_func(cr);
}

/// The subtype is checked.
DAT_RETURN cno_wait(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd) {
    constexpr DAT_RETURN cno_dead = coherdma::dapl::invalid_state(DAT_INVALID_STATE_CNO_DEAD);
    const DAT_RETURN result = dat.cno_wait_func(cno, timeout, evd);
    return result == dat1::convert_result(cno_dead) ? cno_dead : result;
}

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd, DAT_TIMEOUT timeout, DAT_COUNT threshold, DAT_EVENT *event,
                    DAT_COUNT *num_more) {
    dat1::event event1 = {};
    const DAT_RETURN result = dat.evd_wait_func(evd, timeout, threshold, &event1, num_more);
    *event = to_dat2(event1);
    return result;
}

DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd, DAT_EVENT *event) {
    dat1::event event1 = {};
    const DAT_RETURN result = dat.evd_dequeue_func(evd, &event1);
    *event = to_dat2(event1);
    return result;
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd, const DAT_EVENT *event) {
    dat1::event event1 = {};
    event1.event_number = event->event_number;
    event1.event_data.software_event_data = event->event_data.software_event_data;
    return dat.evd_post_se_func(evd, &event1);
}

DAT_RETURN ep_create(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                     const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep) {
    const dat1::ep_attr attr1 = attr != nullptr ? to_dat1(*attr) : dat1::ep_attr{};
    return dat.ep_create_func(ia, pz, recv_evd, request_evd, connect_evd,
                              attr != nullptr ? &attr1 : nullptr, ep);
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv_evd,
                              DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                              DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep) {
    const dat1::ep_attr attr1 = to_dat1(*attr);
    return dat.ep_create_with_srq_func(ia, pz, recv_evd, request_evd, connect_evd, srq, &attr1, ep);
}

DAT_RETURN ep_query(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, DAT_EP_PARAM *param) {
    dat1::ep_param param1 = {};
    const DAT_RETURN result =
        dat.ep_query_func(ep, to_dat1_ep_mask(mask), param != nullptr ? &param1 : nullptr);
    if (result == DAT_SUCCESS) {
        *param = {};
        param->ia_handle = param1.ia_handle;
        param->ep_state = param1.ep_state;
        param->pz_handle = param1.pz_handle;
        param->recv_evd_handle = param1.recv_evd_handle;
        param->request_evd_handle = param1.request_evd_handle;
        param->connect_evd_handle = param1.connect_evd_handle;
        param->srq_handle = param1.srq_handle;
    }
    return result;
}

DAT_RETURN ep_modify(DAT_EP_HANDLE ep, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param) {
    dat1::ep_param param1 = {};
    param1.pz_handle = param->pz_handle;
    param1.recv_evd_handle = param->recv_evd_handle;
    param1.request_evd_handle = param->request_evd_handle;
    param1.connect_evd_handle = param->connect_evd_handle;
    return dat.ep_modify_func(ep, to_dat1_ep_mask(mask), &param1);
}

DAT_RETURN ep_post_send(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    segment_list segments(iov, to_size(num_segments));
    return dat.ep_post_send_func(ep, num_segments, segments.get(), cookie, flags);
}

DAT_RETURN ep_post_recv(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                        DAT_DTO_COOKIE cookie, DAT_COMPLETION_FLAGS flags) {
    segment_list segments(iov, to_size(num_segments));
    return dat.ep_post_recv_func(ep, num_segments, segments.get(), cookie, flags);
}

DAT_RETURN ep_post_rdma_read(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                             DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                             DAT_COMPLETION_FLAGS flags) {
    segment_list segments(iov, to_size(num_segments));
    const dat1::rmr_triplet remote1 = to_dat1(*remote);
    return dat.ep_post_rdma_read_func(ep, num_segments, segments.get(), cookie, &remote1, flags);
}

DAT_RETURN ep_post_rdma_write(DAT_EP_HANDLE ep, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                              DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                              DAT_COMPLETION_FLAGS flags) {
    segment_list segments(iov, to_size(num_segments));
    const dat1::rmr_triplet remote1 = to_dat1(*remote);
    return dat.ep_post_rdma_write_func(ep, num_segments, segments.get(), cookie, &remote1, flags);
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq, DAT_COUNT num_segments, DAT_LMR_TRIPLET *iov,
                         DAT_DTO_COOKIE cookie) {
    segment_list segments(iov, to_size(num_segments));
    return dat.srq_post_recv_func(srq, num_segments, segments.get(), cookie);
}

DAT_RETURN lmr_create(DAT_IA_HANDLE ia, DAT_MEM_TYPE type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE,
                      DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) {
    return dat.lmr_create_func(ia, type, region, length, pz, privileges, lmr, lmr_context,
                               rmr_context, registered_length, registered_address);
}

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *iov, DAT_VLEN count) {
    segment_list segments(iov, count);
    return dat.lmr_sync_rdma_read_func(ia, segments.get(), count);
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia, const DAT_LMR_TRIPLET *iov, DAT_VLEN count) {
    segment_list segments(iov, count);
    return dat.lmr_sync_rdma_write_func(ia, segments.get(), count);
}

} // namespace

void route_to_dat1(DAT_PROVIDER &table) {
    dat = coherdma::dapl::make_dat1_table(table.device_name, DAT_TRUE);
    // Have the same arguments.
#define ROUTE(function) table.function##_func = dat.function##_func
    ROUTE(ia_close);
    ROUTE(set_consumer_context);
    ROUTE(get_consumer_context);
    ROUTE(get_handle_type);
    ROUTE(cno_create);
    ROUTE(cno_modify_agent);
    ROUTE(cno_free);
    ROUTE(cr_query);
    ROUTE(cr_accept);
    ROUTE(cr_handoff);
    ROUTE(evd_create);
    ROUTE(evd_query);
    ROUTE(evd_modify_cno);
    ROUTE(evd_enable);
    ROUTE(evd_disable);
    ROUTE(evd_resize);
    ROUTE(evd_free);
    ROUTE(evd_set_unwaitable);
    ROUTE(evd_clear_unwaitable);
    ROUTE(ep_connect);
    ROUTE(ep_dup_connect);
    ROUTE(ep_disconnect);
    ROUTE(ep_get_status);
    ROUTE(ep_free);
    ROUTE(ep_reset);
    ROUTE(ep_recv_query);
    ROUTE(ep_set_watermark);
    ROUTE(lmr_free);
    ROUTE(rmr_create);
    ROUTE(rmr_free);
    ROUTE(psp_create);
    ROUTE(psp_create_any);
    ROUTE(psp_query);
    ROUTE(psp_free);
    ROUTE(rsp_create);
    ROUTE(rsp_query);
    ROUTE(rsp_free);
    ROUTE(pz_create);
    ROUTE(pz_query);
    ROUTE(pz_free);
    ROUTE(srq_create);
    ROUTE(srq_free);
    ROUTE(srq_query);
    ROUTE(srq_resize);
    ROUTE(srq_set_lw);
#undef ROUTE
#define ROUTE(function) table.function##_func = function
    ROUTE(ia_query);
    ROUTE(cr_reject);
    ROUTE(cno_wait);
    ROUTE(evd_wait);
    ROUTE(evd_dequeue);
    ROUTE(evd_post_se);
    ROUTE(ep_create);
    ROUTE(ep_create_with_srq);
    ROUTE(ep_query);
    ROUTE(ep_modify);
    ROUTE(ep_post_send);
    ROUTE(ep_post_recv);
    ROUTE(ep_post_rdma_read);
    ROUTE(ep_post_rdma_write);
    ROUTE(srq_post_recv);
    ROUTE(lmr_create);
    ROUTE(lmr_sync_rdma_read);
    ROUTE(lmr_sync_rdma_write);
#undef ROUTE
}
