// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "pair.hpp"

namespace scale {

station::station(const adapter &opened, DAT_COUNT pairs)
    : ia(opened)
    , arrivals(opened.events(8, DAT_EVD_CR_FLAG))
    , connections(opened.events(2 * pairs + 8, DAT_EVD_CONNECTION_FLAG))
    , requests(opened.events(2 * pairs + 8, DAT_EVD_DTO_FLAG))
    , receives(opened.events(2 * pairs + 8, DAT_EVD_DTO_FLAG)) {
    must(dat_psp_create_any(ia.handle, &port, arrivals, DAT_PSP_CONSUMER_FLAG, &listener_),
         "dat_psp_create_any");
    // Who waits for an EVD for the first time makes its descriptor, and some seldom have to.
    for (DAT_EVD_HANDLE each : {arrivals, connections, requests, receives}) {
        DAT_EVENT event;
        DAT_COUNT more;
        need(DAT_GET_TYPE(dat_evd_wait(each, 20000, 1, &event, &more)) == DAT_TIMEOUT_EXPIRED,
             "nothing has happened yet");
    }
}

station::~station() {
    must(dat_psp_free(listener_), "dat_psp_free");
    for (DAT_EVD_HANDLE each : {arrivals, connections, requests, receives})
        must(dat_evd_free(each), "dat_evd_free");
}

void pair::make(const station &st) {
    DAT_EP_ATTR wanted = {};
    wanted.service_type = DAT_SERVICE_TYPE_RC;
    wanted.max_message_size = wanted.max_rdma_size = 4096;
    wanted.max_recv_dtos = wanted.max_request_dtos = 4;
    wanted.max_recv_iov = wanted.max_request_iov = 1;
    for (DAT_EP_HANDLE *each : {&active, &passive})
        must(dat_ep_create(st.ia.handle, st.ia.zone, st.receives, st.requests, st.connections,
                           &wanted, each),
             "dat_ep_create");
}

void pair::connect(const station &st) const {
    constexpr DAT_TIMEOUT minute = 60000000;
    must(dat_ep_connect(active, st.ia.address, st.port, minute, 0, nullptr, DAT_QOS_BEST_EFFORT,
                        DAT_CONNECT_DEFAULT_FLAG),
         "dat_ep_connect");
    const DAT_EVENT asked = next(st.arrivals, DAT_CONNECTION_REQUEST_EVENT);
    must(dat_cr_accept(asked.event_data.cr_arrival_event_data.cr_handle, passive, 0, nullptr),
         "dat_cr_accept");
    next(st.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(st.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
}

void pair::disconnect(const station &st) const {
    must(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG), "dat_ep_disconnect");
    next(st.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    next(st.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void pair::reset() const {
    must(dat_ep_reset(active), "dat_ep_reset");
    must(dat_ep_reset(passive), "dat_ep_reset");
}

void pair::end() const {
    must(dat_ep_free(active), "dat_ep_free");
    must(dat_ep_free(passive), "dat_ep_free");
}

void receive(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET where, DAT_UINT64 number) {
    must(dat_ep_post_recv(ep, 1, &where, cookie(number), DAT_COMPLETION_DEFAULT_FLAG),
         "dat_ep_post_recv");
}

void send(DAT_EP_HANDLE ep, DAT_LMR_TRIPLET what, DAT_UINT64 number) {
    must(dat_ep_post_send(ep, 1, &what, cookie(number), DAT_COMPLETION_DEFAULT_FLAG),
         "dat_ep_post_send");
}

} // namespace scale
