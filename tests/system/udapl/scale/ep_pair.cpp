// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ep_pair.hpp"

namespace scale {

shared_objects::shared_objects(const scale_ia &used_ia, DAT_COUNT num_pairs)
    : ia(used_ia)
    , cr_evd(used_ia.create_evd(8, DAT_EVD_CR_FLAG))
    , connect_evd(used_ia.create_evd(2 * num_pairs + 8, DAT_EVD_CONNECTION_FLAG))
    , request_evd(used_ia.create_evd(2 * num_pairs + 8, DAT_EVD_DTO_FLAG))
    , recv_evd(used_ia.create_evd(2 * num_pairs + 8, DAT_EVD_DTO_FLAG)) {
    check_dat(dat_psp_create_any(ia.handle, &conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp_),
              "dat_psp_create_any");
    // The first wait on an EVD opens its file descriptor: done here for all, so that the numbers of
    // descriptors before and after the test can be compared. Some EVDs are seldom waited for in the
    // test.
    for (DAT_EVD_HANDLE evd : {cr_evd, connect_evd, request_evd, recv_evd}) {
        DAT_EVENT event;
        DAT_COUNT nmore;
        require(DAT_GET_TYPE(dat_evd_wait(evd, 20000, 1, &event, &nmore)) == DAT_TIMEOUT_EXPIRED,
                "an unused EVD has no event");
    }
}

shared_objects::~shared_objects() {
    check_dat(dat_psp_free(psp_), "dat_psp_free");
    for (DAT_EVD_HANDLE evd : {cr_evd, connect_evd, request_evd, recv_evd})
        check_dat(dat_evd_free(evd), "dat_evd_free");
}

void ep_pair::create(const shared_objects &shared) {
    DAT_EP_ATTR attr = {};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.max_message_size = attr.max_rdma_size = 4096;
    attr.max_recv_dtos = attr.max_request_dtos = 4;
    attr.max_recv_iov = attr.max_request_iov = 1;
    for (DAT_EP_HANDLE *ep : {&active, &passive})
        check_dat(dat_ep_create(shared.ia.handle, shared.ia.pz, shared.recv_evd, shared.request_evd,
                                shared.connect_evd, &attr, ep),
                  "dat_ep_create");
}

/// The connection events of both EPs come in any order: both have connect_evd.
void ep_pair::connect(const shared_objects &shared) const {
    constexpr DAT_TIMEOUT minute = 60000000;
    check_dat(dat_ep_connect(active, shared.ia.address, shared.conn_qual, minute, 0, nullptr,
                             DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
              "dat_ep_connect");
    const DAT_EVENT cr_event = wait_event(shared.cr_evd, DAT_CONNECTION_REQUEST_EVENT);
    check_dat(
        dat_cr_accept(cr_event.event_data.cr_arrival_event_data.cr_handle, passive, 0, nullptr),
        "dat_cr_accept");
    wait_event(shared.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    wait_event(shared.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void ep_pair::disconnect(const shared_objects &shared) const {
    check_dat(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
    wait_event(shared.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    wait_event(shared.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void ep_pair::reset() const {
    check_dat(dat_ep_reset(active), "dat_ep_reset");
    check_dat(dat_ep_reset(passive), "dat_ep_reset");
}

void ep_pair::free() const {
    check_dat(dat_ep_free(active), "dat_ep_free");
    check_dat(dat_ep_free(passive), "dat_ep_free");
}

void post_recv(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET iov, DAT_UINT64 cookie_value) {
    check_dat(dat_ep_post_recv(ep, 1, &iov, make_cookie(cookie_value), DAT_COMPLETION_DEFAULT_FLAG),
              "dat_ep_post_recv");
}

void post_send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET iov, DAT_UINT64 cookie_value) {
    check_dat(dat_ep_post_send(ep, 1, &iov, make_cookie(cookie_value), DAT_COMPLETION_DEFAULT_FLAG),
              "dat_ep_post_send");
}

} // namespace scale
