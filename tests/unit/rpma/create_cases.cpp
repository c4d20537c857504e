// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "create_cases.hpp"

#include <cstring>

namespace fake {

namespace {

char memory[64];

template <class object_type, int (*function)(object_type **)>
int destroy(created_object &object) {
    return function(object.as<object_type>());
}
int destroy_req(created_object &object) {
    return rpma_conn_req_delete(object.as<rpma_conn_req>());
}
int destroy_conn(created_object &object) {
    return rpma_conn_delete(object.as<rpma_conn>());
}

// Of the connection; rpma_conn_cfg has no function to remove an SRQ.
void use_queues(fixture &fixture, bool shares_channel, std::uint32_t rcq_size,
                rpma_srq *srq = nullptr) {
    assert_int_equal(rpma_conn_cfg_set_compl_channel(fixture.cfg, shares_channel), 0);
    assert_int_equal(rpma_conn_cfg_set_rcq_size(fixture.cfg, rcq_size), 0);
    if (srq != nullptr)
        assert_int_equal(rpma_conn_cfg_set_srq(fixture.cfg, srq), 0);
}

int create_req(fixture &fixture, created_object &object) {
    return rpma_conn_req_new(fixture.peer, "192.0.2.1", "7204", fixture.cfg,
                             object.as<rpma_conn_req>());
}

void receive_request(fixture &fixture) {
    post_event(RDMA_CM_EVENT_CONNECT_REQUEST, "request");
    assert_int_equal(rpma_ep_next_conn_req(fixture.ep, fixture.cfg, &fixture.req), 0);
}
void request(fixture &fixture) {
    assert_int_equal(
        rpma_conn_req_new(fixture.peer, "192.0.2.1", "7204", fixture.cfg, &fixture.req), 0);
}
int connect(fixture &fixture, created_object &object) {
    return rpma_conn_req_connect(&fixture.req, nullptr, object.as<rpma_conn>());
}

} // namespace

fixture::fixture(bool needs_sync) {
    settings.needs_sync = needs_sync;
    peer = create_peer();
    assert_int_equal(rpma_srq_new(peer, nullptr, &srq), 0);
    rpma_srq_cfg *srq_cfg = nullptr;
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(srq_cfg, 0), 0);
    assert_int_equal(rpma_srq_new(peer, srq_cfg, &srq_without_cq), 0);
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
    assert_int_equal(rpma_ep_listen(peer, "192.0.2.1", "7204", &ep), 0);
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
}

fixture::~fixture() {
    assert_null(req);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_ep_shutdown(&ep), 0);
    assert_int_equal(rpma_srq_delete(&srq_without_cq), 0);
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_int_equal(rpma_peer_delete(&peer), 0);
}

const std::vector<create_case> create_cases = {
    {"peer", nullptr,
     [](fixture &, created_object &object) {
         return rpma_peer_new(context(), object.as<rpma_peer>());
     },
     destroy<rpma_peer, rpma_peer_delete>},
    {"MR", nullptr,
     [](fixture &fixture, created_object &object) {
         return rpma_mr_reg(fixture.peer, memory, sizeof memory, RPMA_MR_USAGE_WRITE_DST,
                            object.as<rpma_mr_local>());
     },
     destroy<rpma_mr_local, rpma_mr_dereg>},
    {"remote MR", nullptr,
     [](fixture &, created_object &object) {
         char desc[21];
         std::memset(desc, 1, sizeof desc);
         return rpma_mr_remote_from_descriptor(desc, sizeof desc, object.as<rpma_mr_remote>());
     },
     destroy<rpma_mr_remote, rpma_mr_remote_delete>},
    {"SRQ", nullptr,
     [](fixture &fixture, created_object &object) {
         return rpma_srq_new(fixture.peer, nullptr, object.as<rpma_srq>());
     },
     destroy<rpma_srq, rpma_srq_delete>},
    {"configuration of a peer", nullptr,
     [](fixture &, created_object &object) {
         return rpma_peer_cfg_new(object.as<rpma_peer_cfg>());
     },
     destroy<rpma_peer_cfg, rpma_peer_cfg_delete>},
    {"received configuration of a peer", nullptr,
     [](fixture &, created_object &object) {
         return rpma_peer_cfg_from_descriptor("\1", 1, object.as<rpma_peer_cfg>());
     },
     destroy<rpma_peer_cfg, rpma_peer_cfg_delete>},
    {"endpoint", nullptr,
     [](fixture &fixture, created_object &object) {
         return rpma_ep_listen(fixture.peer, "192.0.2.2", "7205", object.as<rpma_ep>());
     },
     destroy<rpma_ep, rpma_ep_shutdown>},
    {"request", nullptr, create_req, destroy_req},
    {"request with a receive CQ", [](fixture &fixture) { use_queues(fixture, false, 10); },
     create_req, destroy_req},
    {"request with a shared channel", [](fixture &fixture) { use_queues(fixture, true, 10); },
     create_req, destroy_req},
    {"request with an SRQ", [](fixture &fixture) { use_queues(fixture, false, 10, fixture.srq); },
     create_req, destroy_req},
    {"request with an SRQ without a CQ",
     [](fixture &fixture) { use_queues(fixture, true, 10, fixture.srq_without_cq); }, create_req,
     destroy_req},
    {"received request", [](fixture &) { post_event(RDMA_CM_EVENT_CONNECT_REQUEST, "request"); },
     [](fixture &fixture, created_object &object) {
         return rpma_ep_next_conn_req(fixture.ep, fixture.cfg, object.as<rpma_conn_req>());
     },
     destroy_req},
    {"connection", request, connect, destroy_conn},
    {"connection with a receive CQ",
     [](fixture &fixture) {
         use_queues(fixture, false, 10);
         request(fixture);
     },
     connect, destroy_conn},
    {"connection with a shared channel",
     [](fixture &fixture) {
         use_queues(fixture, true, 10);
         request(fixture);
     },
     connect, destroy_conn},
    {"accepted connection", receive_request, connect, destroy_conn},
};

const create_case &find_case(const std::string &name) {
    for (const create_case &test : create_cases)
        if (test.name == name)
            return test;
    print_error("no case %s\n", name.c_str());
    fail();
}

} // namespace fake
