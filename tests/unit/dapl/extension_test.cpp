// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// InfiniBand extensions: immediate data, atomics, datagrams, open query.

#include "fake/two_eps.hpp"

#include <cstring>
#include <dat2/dat_coherdma_extensions.h>
#include <dat2/dat_ib_extensions.h>
#include <unistd.h>

using namespace fake;

namespace {

constexpr DAT_COMPLETION_FLAGS default_flags = DAT_COMPLETION_DEFAULT_FLAG;

/// Waits for the next event; has its extension data.
struct extension_event {
    extension_event(DAT_EVD_HANDLE evd, DAT_UINT32 number)
        : event(wait_event(evd, number)) {
        std::memcpy(&extension, event.event_extension_data, sizeof extension);
    }
    const DAT_DTO_COMPLETION_EVENT_DATA &dto() const {
        return event.event_data.dto_completion_event_data;
    }
    DAT_EVENT event;
    DAT_IB_EXTENSION_EVENT_DATA extension;
};

void rdma_write_immediate_data_delivered(void **) {
    connected_eps eps;
    eps.active_memory.fill(4);
    assert_success(eps.post_recv(0, cookie(1)));
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 500);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 500);
    assert_success(dat_ib_post_rdma_write_immed(eps.active.handle, 1, &iov, cookie(2), &remote,
                                                0x12345678, default_flags));
    const extension_event sent(eps.active.request_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(sent.extension.type, DAT_IB_RDMA_WRITE_IMMED);
    assert_int_equal(sent.extension.status, DAT_OP_SUCCESS);
    assert_int_equal(sent.dto().user_cookie.as_64, 2);
    assert_int_equal(sent.dto().transfered_length, 500);
    const extension_event received(eps.passive.recv_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(received.extension.type, DAT_IB_RDMA_WRITE_IMMED_DATA);
    assert_int_equal(received.extension.val.immed.data, 0x12345678);
    assert_int_equal(received.dto().user_cookie.as_64, 1);
    assert_int_equal(received.dto().operation, DAT_IB_DTO_RECV_IMMED);
    assert_memory_equal(eps.passive_memory.bytes.data(), eps.active_memory.bytes.data(), 500);
}

/// Adds 2 to 40; compares with a wrong and the right value.
void fetch_and_add_and_cmp_and_swap_work(void **) {
    connected_eps eps;
    memory buffer(eps.ia, 64,
                  DAT_MEM_PRIV_ALL_FLAG |
                      static_cast<DAT_MEM_PRIV_FLAGS>(DAT_IB_MEM_PRIV_REMOTE_ATOMIC));
    std::uint64_t initial = 40;
    std::memcpy(buffer.bytes.data() + 8, &initial, 8);
    DAT_LMR_TRIPLET old_value = eps.active_memory.lmr_triplet(0, 8);
    const DAT_RMR_TRIPLET remote = buffer.rmr_triplet(8, 8);
    const auto fetched_value = [&] {
        std::uint64_t value;
        std::memcpy(&value, eps.active_memory.bytes.data(), 8);
        return value;
    };
    const auto current_value = [&] {
        std::uint64_t value;
        std::memcpy(&value, buffer.bytes.data() + 8, 8);
        return value;
    };
    assert_success(dat_ib_post_fetch_and_add(eps.active.handle, 2, &old_value, cookie(1), &remote,
                                             default_flags));
    const extension_event added(eps.active.request_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(added.dto().status, DAT_DTO_SUCCESS);
    assert_int_equal(added.extension.type, DAT_IB_FETCH_AND_ADD);
    assert_int_equal(fetched_value(), 40);
    assert_int_equal(current_value(), 42);
    assert_success(dat_ib_post_cmp_and_swap(eps.active.handle, 41, 7, &old_value, cookie(2),
                                            &remote, default_flags));
    const extension_event not_swapped(eps.active.request_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(not_swapped.extension.type, DAT_IB_CMP_AND_SWAP);
    assert_int_equal(fetched_value(), 42);
    assert_int_equal(current_value(), 42);
    assert_success(dat_ib_post_cmp_and_swap(eps.active.handle, 42, 7, &old_value, cookie(3),
                                            &remote, default_flags));
    const extension_event swapped(eps.active.request_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(swapped.dto().user_cookie.as_64, 3);
    assert_int_equal(current_value(), 7);
}

void failed_atomic_reported_with_extension_status(void **) {
    connected_eps eps;
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 8);
    DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 8);
    remote.rmr_context = 0xdead;
    assert_success(
        dat_ib_post_fetch_and_add(eps.active.handle, 2, &iov, cookie(1), &remote, default_flags));
    const extension_event failed(eps.active.request_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(failed.extension.status, DAT_IB_OP_ERR);
    assert_int_equal(failed.dto().status, DAT_DTO_ERR_REMOTE_ACCESS);
    wait_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_BROKEN);
    assert_true(wait_until([&] { return eps.passive.state() == DAT_EP_STATE_DISCONNECTED; }));
}

void ib_extensions_not_implemented_on_iwarp(void **) {
    connected_eps eps("iwarp");
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 8);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 8);
    const DAT_RETURN not_implemented = dat_error(DAT_NOT_IMPLEMENTED);
    assert_int_equal(
        dat_ib_post_fetch_and_add(eps.active.handle, 1, &iov, cookie(1), &remote, default_flags),
        not_implemented);
    assert_int_equal(dat_ib_post_rdma_write_immed(eps.active.handle, 1, &iov, cookie(1), &remote, 1,
                                                  default_flags),
                     not_implemented);
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_request_dtos = attr.max_recv_dtos = 4;
    attr.max_request_iov = attr.max_recv_iov = 1;
    DAT_EP_HANDLE ep;
    assert_int_equal(dat().ep_create_func(eps.ia.handle, eps.ia.pz, eps.active.recv_evd,
                                          eps.active.request_evd, eps.active.connect_evd, &attr,
                                          &ep),
                     invalid_parameter(6));
}

void atomics_unsupported_by_device_rejected(void **) {
    get_fabric().devices[0].attr.atomic_cap = IBV_ATOMIC_NONE;
    connected_eps eps;
    DAT_LMR_TRIPLET iov = eps.active_memory.lmr_triplet(0, 8);
    const DAT_RMR_TRIPLET remote = eps.passive_memory.rmr_triplet(0, 8);
    assert_int_equal(
        dat_ib_post_fetch_and_add(eps.active.handle, 1, &iov, cookie(1), &remote, default_flags),
        dat_error(DAT_MODEL_NOT_SUPPORTED));
}

/// A query opens an IA for its attributes only, and closes it by dat_ib_close_query.
void open_query_returns_attributes(void **) {
    DAT_IA_ATTR ia_attr = {};
    DAT_PROVIDER_ATTR provider_attr = {};
    DAT_IA_HANDLE ia;
    char name[] = "roce";
    // As the registry calls it: with the IA name instead of a handle.
    assert_success(dat_extension_op(name, DAT_IB_OPEN_QUERY_OP, &ia, DAT_IA_FIELD_ALL, &ia_attr,
                                    DAT_PROVIDER_FIELD_ALL, &provider_attr));
    assert_string_equal(ia_attr.adapter_name, "fake0");
    assert_string_equal(provider_attr.provider_name, "coherdma");
    assert_success(dat_ib_close_query(ia));
    assert_int_equal(dat_ib_close_query(ia), invalid_handle(DAT_INVALID_HANDLE_IA));
    assert_int_equal(dat_extension_op(name, DAT_IB_OPEN_QUERY_OP, nullptr, DAT_IA_FIELD_ALL,
                                      &ia_attr, DAT_PROVIDER_FIELD_ALL, &provider_attr),
                     invalid_parameter(2));
}

void failed_open_query_closes_ia(void **) {
    DAT_IA_ATTR ia_attr = {};
    DAT_PROVIDER_ATTR provider_attr = {};
    char name[] = "roce";
    constexpr DAT_IA_ATTR_MASK unknown_ia_field = DAT_IA_ATTR_MASK{1} << 63;
    constexpr DAT_PROVIDER_ATTR_MASK unknown_provider_field = DAT_PROVIDER_ATTR_MASK{1} << 63;
    static_assert((DAT_IA_FIELD_ALL & unknown_ia_field) == 0 &&
                  (DAT_PROVIDER_FIELD_ALL & unknown_provider_field) == 0);
    DAT_IA_HANDLE ia = &ia;
    assert_int_equal(dat_extension_op(name, DAT_IB_OPEN_QUERY_OP, &ia, unknown_ia_field, &ia_attr,
                                      DAT_PROVIDER_FIELD_ALL, &provider_attr),
                     invalid_parameter(3));
    assert_int_equal(dat_extension_op(name, DAT_IB_OPEN_QUERY_OP, &ia, DAT_IA_FIELD_ALL, &ia_attr,
                                      unknown_provider_field, &provider_attr),
                     invalid_parameter(5));
    assert_ptr_equal(ia, &ia);
    assert_int_equal(get_fabric().num_all_objects(), 0);
}

// -- datagrams

DAT_EP_ATTR ud_ep_attr() {
    DAT_EP_ATTR attr = {};
    attr.service_type = static_cast<DAT_SERVICE_TYPE>(DAT_IB_SERVICE_TYPE_UD);
    attr.max_request_dtos = attr.max_recv_dtos = 4;
    attr.max_request_iov = attr.max_recv_iov = 1;
    return attr;
}

constexpr DAT_CONN_QUAL ud_conn_qual = 4000, unused_conn_qual = 9999;

/// A UD EP that resolves another one, which listens at ud_conn_qual.
struct ud_fixture {
    ud_fixture()
        : active(ia, &attr)
        , passive(ia, &attr)
        , cr_evd(ia.create_evd(DAT_EVD_CR_FLAG))
        , buffer(ia) {
        assert_success(
            dat().psp_create_func(ia.handle, ud_conn_qual, cr_evd, DAT_PSP_CONSUMER_FLAG, &psp));
    }
    ~ud_fixture() {
        assert_success(dat().psp_free_func(psp));
        assert_success(dat().evd_free_func(cr_evd));
    }
    void request_ud_connection(DAT_CONN_QUAL conn_qual, const char *private_data = "",
                               DAT_TIMEOUT timeout = event_timeout_us) const {
        socket_address addr = parse_address(ia.address);
        assert_success(dat().ep_connect_func(active.handle, &addr.sa, conn_qual, timeout,
                                             static_cast<DAT_COUNT>(std::strlen(private_data)),
                                             const_cast<char *>(private_data), DAT_QOS_BEST_EFFORT,
                                             DAT_CONNECT_DEFAULT_FLAG));
    }
    DAT_CR_HANDLE wait_request() const {
        const DAT_EVENT event = wait_event(cr_evd, DAT_IB_UD_CONNECTION_REQUEST_EVENT);
        return event.event_data.cr_arrival_event_data.cr_handle;
    }
    ia_fixture ia;
    DAT_EP_ATTR attr = ud_ep_attr();
    ep_fixture active, passive;
    DAT_EVD_HANDLE cr_evd;
    memory buffer;
    DAT_PSP_HANDLE psp = DAT_HANDLE_NULL;
};

/// A UD connection resolves the peer: both sides get an address handle with the other's QP number.
void ud_send_reaches_resolved_peer(void **) {
    ud_fixture fixture;
    fixture.request_ud_connection(ud_conn_qual, "who");
    DAT_CR_HANDLE const cr = fixture.wait_request();
    DAT_CR_PARAM param = {};
    assert_success(dat().cr_query_func(cr, DAT_CR_FIELD_ALL, &param));
    assert_memory_equal(param.private_data, "who", 3);
    assert_success(dat().cr_accept_func(cr, fixture.passive.handle, 2, const_cast<char *>("me")));
    extension_event resolved(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
    extension_event passive_event(fixture.passive.connect_evd,
                                  DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(resolved.extension.type, DAT_IB_UD_REMOTE_AH);
    assert_int_equal(passive_event.extension.type, DAT_IB_UD_PASSIVE_REMOTE_AH);
    assert_memory_equal(resolved.event.event_data.connect_event_data.private_data, "me", 2);
    assert_int_equal(resolved.extension.remote_ah.qpn, qp_of(fixture.passive.handle)->qp_num);
    assert_int_equal(passive_event.extension.remote_ah.qpn, qp_of(fixture.active.handle)->qp_num);
    fixture.buffer.fill(6);
    DAT_LMR_TRIPLET recv_iov = fixture.buffer.lmr_triplet(1024, 140),
                    send_iov = fixture.buffer.lmr_triplet(0, 100);
    assert_success(
        dat().ep_post_recv_func(fixture.passive.handle, 1, &recv_iov, cookie(1), default_flags));
    assert_success(dat_ib_post_send_ud(fixture.active.handle, 1, &send_iov,
                                       &resolved.extension.remote_ah, cookie(2), default_flags));
    assert_int_equal(extension_event(fixture.active.request_evd, DAT_IB_DTO_EVENT).extension.type,
                     DAT_IB_UD_SEND);
    const extension_event received(fixture.passive.recv_evd, DAT_IB_DTO_EVENT);
    assert_int_equal(received.extension.type, DAT_IB_UD_RECV);
    assert_int_equal(received.extension.remote_ah.qpn, qp_of(fixture.active.handle)->qp_num);
    assert_memory_equal(fixture.buffer.bytes.data() + 1024 + 40, fixture.buffer.bytes.data(), 100);
    // A suppressed send completes without an event.
    assert_success(dat_ib_post_send_ud(fixture.active.handle, 1, &send_iov,
                                       &resolved.extension.remote_ah, cookie(3),
                                       DAT_COMPLETION_SUPPRESS_FLAG));
    assert_no_event(fixture.active.request_evd);
    assert_success(dat_ib_ud_ah_free(fixture.active.handle, &resolved.extension.remote_ah));
    assert_success(dat_ib_ud_ah_free(fixture.passive.handle, &passive_event.extension.remote_ah));
    assert_success(dat_ib_ud_cm_free(fixture.active.handle, resolved.extension.context.as_ptr));
    assert_int_equal(dat_ib_ud_cm_free(fixture.active.handle, resolved.extension.context.as_ptr),
                     invalid_parameter(2));
}

void ud_ep_connects_to_many_peers(void **) {
    ud_fixture fixture;
    for (int i = 0; i != 3; ++i) {
        fixture.request_ud_connection(ud_conn_qual);
        assert_success(
            dat().cr_accept_func(fixture.wait_request(), fixture.passive.handle, 0, nullptr));
        for (const ep_fixture *ep : {&fixture.active, &fixture.passive}) {
            extension_event established(ep->connect_evd, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
            assert_success(dat_ib_ud_ah_free(ep->handle, &established.extension.remote_ah));
        }
    }
}

void ud_connect_failures_reported(void **) {
    ud_fixture fixture;
    fixture.request_ud_connection(ud_conn_qual);
    assert_success(dat().cr_reject_func(fixture.wait_request(), 0, nullptr));
    assert_int_equal(extension_event(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_REJECT_EVENT)
                         .extension.type,
                     DAT_IB_UD_CONNECT_REJECT);
    fixture.request_ud_connection(unused_conn_qual);
    wait_event(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_REJECT_EVENT);
    get_fabric().resolve_addr_results = {-EHOSTUNREACH};
    fixture.request_ud_connection(ud_conn_qual);
    assert_int_equal(extension_event(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_ERROR_EVENT)
                         .extension.type,
                     DAT_IB_UD_CONNECT_ERROR);
}

void counters_are_not_implemented(void **) {
    ia_fixture ia;
    DAT_UINT64 value = 0;
    assert_int_equal(dat_ib_query_counters(ia.handle, DCNT_IA_PZ_CREATE, &value, 0),
                     dat_error(DAT_NOT_IMPLEMENTED));
}

void ud_connect_times_out(void **) {
    get_fabric().drop_connects = true;
    ud_fixture fixture;
    fixture.request_ud_connection(ud_conn_qual, "", 20000);
    assert_int_equal(extension_event(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_ERROR_EVENT)
                         .extension.type,
                     DAT_IB_UD_CONNECT_ERROR);
}

void ud_request_not_accepted_by_rc_ep(void **) {
    ud_fixture fixture;
    ep_fixture connected(fixture.ia);
    fixture.request_ud_connection(ud_conn_qual);
    DAT_CR_HANDLE const cr = fixture.wait_request();
    assert_int_equal(dat().cr_accept_func(cr, connected.handle, 0, nullptr),
                     invalid_handle(DAT_INVALID_HANDLE_EP));
    assert_success(dat().cr_reject_func(cr, 0, nullptr));
    wait_event(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_REJECT_EVENT);
}

void reliable_connection_of_ud_ep_refused(void **) {
    ud_fixture fixture;
    socket_address addr = parse_address(fixture.ia.address);
    reinterpret_cast<sockaddr_in &>(addr.sa).sin_port = htons(ud_conn_qual);
    assert_int_equal(
        dat().ep_common_connect_func(fixture.active.handle, &addr.sa, event_timeout_us, 0, nullptr),
        dat_error(DAT_MODEL_NOT_SUPPORTED));
    assert_no_event(fixture.active.connect_evd);
}

/// Such a request would have no address handle.
void other_requests_of_ud_ep_refused(void **) {
    ud_fixture fixture;
    fixture.request_ud_connection(ud_conn_qual);
    assert_success(
        dat().cr_accept_func(fixture.wait_request(), fixture.passive.handle, 0, nullptr));
    extension_event resolved(fixture.active.connect_evd, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
    extension_event accepted(fixture.passive.connect_evd, DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED);
    DAT_EP_HANDLE const ep = fixture.active.handle;
    DAT_LMR_TRIPLET iov = fixture.buffer.lmr_triplet(0, 8);
    const DAT_RMR_TRIPLET remote = fixture.buffer.rmr_triplet(64, 8);
    const std::uint64_t value = 1;
    DAT_COHERDMA_METHODS methods = {};
    DAT_RMR_HANDLE rmr;
    DAT_RMR_CONTEXT rmr_context;
    assert_success(dat().rmr_create_func(fixture.ia.pz, &rmr));
    const std::size_t num_posts = get_fabric().posts.size();
    const DAT_RETURN results[] = {
        dat().ep_post_send_func(ep, 1, &iov, cookie(1), default_flags),
        dat().ep_post_send_func(ep, 0, nullptr, cookie(1), default_flags),
        dat().ep_post_send_with_invalidate_func(ep, 1, &iov, cookie(1), default_flags, DAT_TRUE, 1),
        dat().ep_post_rdma_write_func(ep, 1, &iov, cookie(1), &remote, default_flags),
        dat().ep_post_rdma_read_func(ep, 1, &iov, cookie(1), &remote, default_flags),
        dat().ep_post_rdma_read_to_rmr_func(ep, &remote, cookie(1), &remote, default_flags),
        dat_ib_post_rdma_write_immed(ep, 1, &iov, cookie(1), &remote, 1, default_flags),
        dat_ib_post_fetch_and_add(ep, 1, &iov, cookie(1), &remote, default_flags),
        dat_ib_post_cmp_and_swap(ep, 1, 1, &iov, cookie(1), &remote, default_flags),
        dat_coherdma_post_atomic_write(ep, &value, &iov, cookie(1), &remote, default_flags),
        dat_coherdma_post_flush(ep, &iov, cookie(1), &remote, default_flags),
        dat_coherdma_query_methods(ep, &methods),
        dat().rmr_bind_func(rmr, fixture.buffer.lmr, &iov, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                            DAT_VA_TYPE_VA, ep, cookie(1), default_flags, &rmr_context)};
    for (const DAT_RETURN result : results)
        assert_int_equal(result, dat_error(DAT_MODEL_NOT_SUPPORTED));
    assert_int_equal(get_fabric().posts.size(), num_posts);
    assert_success(dat().rmr_free_func(rmr));
    // Datagrams may fill the queue.
    for (DAT_COUNT i = 0; i != fixture.attr.max_request_dtos; ++i)
        assert_success(dat_ib_post_send_ud(ep, 1, &iov, &resolved.extension.remote_ah, cookie(2),
                                           default_flags));
    assert_int_equal(
        dat_ib_post_send_ud(ep, 1, &iov, &resolved.extension.remote_ah, cookie(2), default_flags),
        dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
    assert_int_equal(dat().ep_post_send_func(ep, 1, &iov, cookie(1), default_flags),
                     dat_error(DAT_MODEL_NOT_SUPPORTED));
    assert_success(dat_ib_ud_ah_free(ep, &resolved.extension.remote_ah));
    assert_success(dat_ib_ud_ah_free(fixture.passive.handle, &accepted.extension.remote_ah));
}

/// Else the PZ could not be freed.
void address_handle_of_undelivered_event_destroyed(void **) {
    ud_fixture fixture;
    fixture.request_ud_connection(ud_conn_qual);
    assert_success(
        dat().cr_accept_func(fixture.wait_request(), fixture.passive.handle, 0, nullptr));
    while (get_fabric().count_objects()["ibv_ah"] != 2)
        usleep(100);
}

/// dat_ep_modify replaces the QP whose number the peer would get, so the resolution in progress
/// ends.
void modify_ends_ud_resolution(void **) {
    ud_fixture fixture;
    fixture.request_ud_connection(ud_conn_qual);
    DAT_CR_HANDLE const cr = fixture.wait_request();
    DAT_EP_PARAM param = {};
    param.pz_handle = fixture.ia.pz;
    assert_success(dat().ep_modify_func(fixture.active.handle, DAT_EP_FIELD_PZ_HANDLE, &param));
    assert_success(dat().cr_accept_func(cr, fixture.passive.handle, 0, nullptr));
    wait_event(fixture.passive.connect_evd, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    assert_no_event(fixture.active.connect_evd);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(rdma_write_immediate_data_delivered),
        TEST(fetch_and_add_and_cmp_and_swap_work),
        TEST(failed_atomic_reported_with_extension_status),
        TEST(ib_extensions_not_implemented_on_iwarp),
        TEST(atomics_unsupported_by_device_rejected),
        TEST(open_query_returns_attributes),
        TEST(failed_open_query_closes_ia),
        TEST(ud_send_reaches_resolved_peer),
        TEST(ud_ep_connects_to_many_peers),
        TEST(ud_connect_failures_reported),
        TEST(ud_connect_times_out),
        TEST(counters_are_not_implemented),
        TEST(ud_request_not_accepted_by_rc_ep),
        TEST(reliable_connection_of_ud_ep_refused),
        TEST(other_requests_of_ud_ep_refused),
        TEST(address_handle_of_undelivered_event_destroyed),
        TEST(modify_ends_ud_resolution),
    };
    return run_cases(tests);
}
