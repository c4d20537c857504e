// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connecting: how attempts and connections end, what each side is told, and in which state they
// are meanwhile.

#include "two.hpp"

#include <cerrno>
#include <chrono>

using namespace played;

namespace {

/// One who calls, and who is called.
struct call {
    explicit call(const char *name = "ib")
        : on(name)
        , one(on)
        , other(on)
        , requests(on.evd(DAT_EVD_CR_FLAG)) {}
    void free() {
        one.free();
        other.free();
        done(dat().evd_free_func(requests));
        close(on);
    }
    DAT_RETURN to(const char *address, std::uint16_t port, DAT_TIMEOUT timeout = soon) const {
        place where = at(address);
        return dat().ep_connect_func(one.ep, &where.any, port, timeout, 0, nullptr,
                                     DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    }
    DAT_CR_HANDLE ask(const char *data = "") const {
        return played::ask(one, on, requests, data, static_cast<DAT_COUNT>(std::strlen(data)));
    }
    void accept(DAT_CR_HANDLE request) const {
        done(dat().cr_accept_func(request, other.ep, 0, nullptr));
    }
    adapter on;
    end one, other;
    DAT_EVD_HANDLE requests;
};

void *words(const char *text) {
    return const_cast<char *>(text);
}

void states_on_the_way(void **) {
    call with;
    const DAT_CR_HANDLE request = with.ask();
    assert_int_equal(with.one.state(), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
    assert_int_equal(with.other.state(), DAT_EP_STATE_UNCONNECTED);
    net().hold(RDMA_CM_EVENT_CONNECT_RESPONSE);
    with.accept(request);
    assert_int_equal(with.other.state(), DAT_EP_STATE_COMPLETION_PENDING);
    net().let(RDMA_CM_EVENT_CONNECT_RESPONSE);
    next(with.one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(with.other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    assert_int_equal(with.one.state(), DAT_EP_STATE_CONNECTED);
    assert_int_equal(with.other.state(), DAT_EP_STATE_CONNECTED);
    net().hold(RDMA_CM_EVENT_DISCONNECTED);
    done(dat().ep_disconnect_func(with.one.ep, DAT_CLOSE_ABRUPT_FLAG));
    assert_int_equal(with.one.state(), DAT_EP_STATE_DISCONNECT_PENDING);
    net().let(RDMA_CM_EVENT_DISCONNECTED);
    next(with.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    next(with.other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    done(dat().ep_disconnect_func(with.one.ep, DAT_CLOSE_ABRUPT_FLAG)); // has been done
    none(with.one.connections);
    with.free();
}

void an_end_that_overtakes_the_beginning(void **) {
    call with;
    net().hold(RDMA_CM_EVENT_ESTABLISHED);
    with.accept(with.ask());
    next(with.one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    done(dat().ep_disconnect_func(with.one.ep, DAT_CLOSE_ABRUPT_FLAG));
    next(with.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    next(with.other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(with.other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    net().let(RDMA_CM_EVENT_ESTABLISHED);
    none(with.other.connections);
    assert_int_equal(with.other.state(), DAT_EP_STATE_DISCONNECTED);
    with.free();
}

void both_hear_the_others_words(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        call with(name);
        const DAT_CR_HANDLE request = with.ask("call");
        DAT_CR_PARAM param = {};
        done(dat().cr_query_func(request, DAT_CR_FIELD_ALL, &param));
        assert_memory_equal(param.private_data, "call", 4);
        assert_true(param.private_data_size >= 4);
        done(dat().cr_accept_func(request, with.other.ep, 6, words("answer")));
        const DAT_EVENT event = next(with.one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        const auto &data = event.event_data.connect_event_data;
        assert_ptr_equal(data.ep_handle, with.one.ep);
        assert_true(data.private_data_size >= 6);
        assert_memory_equal(data.private_data, "answer", 6);
        next(with.other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        with.free();
    }
}

void a_refusal_brings_words(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        call with(name);
        done(dat().cr_reject_func(with.ask(), 2, words("no")));
        const DAT_EVENT event = next(with.one.connections, DAT_CONNECTION_EVENT_PEER_REJECTED);
        const auto &data = event.event_data.connect_event_data;
        assert_memory_equal(data.private_data, "no", 2);
        assert_int_equal(with.one.state(), DAT_EP_STATE_DISCONNECTED);
        with.free();
    }
}

void nobody_listens(void **) {
    for (const char *name : {"ib", "iw"}) {
        fresh(nullptr);
        call with(name);
        done(with.to(with.on.address, 9999));
        next(with.one.connections, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        assert_int_equal(with.one.state(), DAT_EP_STATE_DISCONNECTED);
        with.free();
    }
}

void nobody_answers_in_time(void **) {
    net().silent = true;
    call with;
    done(with.to("192.0.2.1", 9999, 20000));
    next(with.one.connections, DAT_CONNECTION_EVENT_TIMED_OUT);
    assert_int_equal(with.one.state(), DAT_EP_STATE_DISCONNECTED);
    done(dat().ep_reset_func(with.one.ep));
    with.free();
}

void an_answer_in_time_ends_the_clock(void **) {
    call with;
    DAT_CONN_QUAL port;
    DAT_PSP_HANDLE psp;
    done(dat().psp_create_any_func(with.on.ia, &port, with.requests, DAT_PSP_CONSUMER_FLAG, &psp));
    done(with.to("192.0.2.1", static_cast<std::uint16_t>(port), 100000));
    const DAT_EVENT asked = next(with.requests, DAT_CONNECTION_REQUEST_EVENT);
    with.accept(asked.event_data.cr_arrival_event_data.cr_handle);
    next(with.one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(with.other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    usleep(130000);
    none(with.one.connections);
    assert_int_equal(with.one.state(), DAT_EP_STATE_CONNECTED);
    done(dat().psp_free_func(psp));
    with.free();
}

void addresses_are_looked_for_again(void **) {
    call with;
    net().addresses = {-ETIMEDOUT, -ETIMEDOUT};
    net().routes = {-ETIMEDOUT};
    const DAT_CR_HANDLE request = with.ask();
    with.accept(request);
    next(with.one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(with.other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    with.free();
}

void no_way_there(void **) {
    const struct {
        std::deque<int> addresses, routes;
    } ways[] = {
        {{-EHOSTUNREACH}, {}},
        {std::deque<int>(16, -ETIMEDOUT), {}},
        {{}, std::deque<int>(16, -ETIMEDOUT)},
    };
    call with;
    for (const auto &each : ways) {
        net().addresses = each.addresses;
        net().routes = each.routes;
        done(with.to("192.0.2.1", 9999));
        next(with.one.connections, DAT_CONNECTION_EVENT_UNREACHABLE);
        assert_true(net().addresses.empty() && net().routes.empty());
        done(dat().ep_reset_func(with.one.ep));
    }
    with.free();
}

void each_call_on_the_way_may_fail(void **) {
    const struct {
        const char *call;
        int error;
        DAT_UINT32 event;
    } all[] = {
        {"rdma_resolve_addr", EINVAL, DAT_CONNECTION_EVENT_UNREACHABLE},
        {"rdma_resolve_route", EINVAL, DAT_CONNECTION_EVENT_UNREACHABLE},
        {"rdma_connect", ECONNREFUSED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED},
        {"rdma_connect", EINVAL, DAT_CONNECTION_EVENT_UNREACHABLE},
    };
    call with;
    for (const auto &each : all) {
        net().wrong.fail(each.call, each.error);
        done(with.to("192.0.2.1", 9999)); // told as what is known later
        next(with.one.connections, each.event);
        assert_int_equal(with.one.state(), DAT_EP_STATE_DISCONNECTED);
        net().wrong.stop();
        done(dat().ep_reset_func(with.one.ep));
    }
    with.free();
}

void no_id_is_no_attempt(void **) {
    call with;
    net().wrong.fail("rdma_create_id", EMFILE);
    assert_int_equal(with.to("192.0.2.1", 9999),
                     error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEP));
    assert_int_equal(with.one.state(), DAT_EP_STATE_UNCONNECTED);
    none(with.one.connections);
    with.free();
}

void the_pair_may_not_get_ready(void **) {
    for (const char *failing : {"rdma_init_qp_attr", "ibv_modify_qp", "rdma_establish"}) {
        fresh(nullptr);
        call with;
        const DAT_CR_HANDLE request = with.ask();
        net().hold(RDMA_CM_EVENT_CONNECT_RESPONSE);
        with.accept(request);
        net().wrong.fail(failing, EINVAL);
        net().let(RDMA_CM_EVENT_CONNECT_RESPONSE);
        next(with.one.connections, DAT_CONNECTION_EVENT_BROKEN);
        net().wrong.stop();
        done(dat().ep_free_func(with.one.ep)); // so the other side hears of it
        next(with.other.connections, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        done(dat().ep_create_func(with.on.ia, with.on.pz, with.one.receives, with.one.requests,
                                  with.one.connections, nullptr, &with.one.ep));
        with.free();
    }
}

void accepting_may_fail(void **) {
    for (const char *failing : {"rdma_init_qp_attr", "ibv_modify_qp", "rdma_accept"}) {
        fresh(nullptr);
        call with;
        const DAT_CR_HANDLE request = with.ask();
        net().wrong.fail(failing, EINVAL);
        with.accept(request); // told by an event
        next(with.other.connections, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
        assert_int_equal(with.other.state(), DAT_EP_STATE_DISCONNECTED);
        net().wrong.stop();
        with.free();
    }
}

void who_calls_gives_up_before_the_answer(void **) {
    call with;
    const DAT_CR_HANDLE request = with.ask();
    done(dat().ep_disconnect_func(with.one.ep, DAT_CLOSE_ABRUPT_FLAG));
    next(with.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    with.accept(request);
    next(with.other.connections, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    with.free();
}

void a_graceful_end_waits_for_requests(void **) {
    two_ends all;
    done(all.receive(64, 1));
    net().pause();
    done(all.send(64, 2));
    net().wrong.fail_nth(0, 0); // calls are counted
    const auto begin = std::chrono::steady_clock::now();
    done(dat().ep_disconnect_func(all.one.ep, DAT_CLOSE_GRACEFUL_FLAG));
    const unsigned goodbyes = net().wrong.count("rdma_disconnect");
    net().wrong.stop();
    // It waits for 20 ms at least; who was kept from asking for as long cannot tell.
    if (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(15))
        assert_int_equal(goodbyes, 0);
    assert_int_equal(all.one.state(), DAT_EP_STATE_DISCONNECT_PENDING);
    assert_int_equal(dat().ep_disconnect_func(all.one.ep, DAT_CLOSE_GRACEFUL_FLAG),
                     wrong_argument(2)); // is being done
    net().deliver();
    next(all.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    completed(all.one.requests, 2, DAT_DTO_SUCCESS, 64);
    completed(all.other.receives, 1, DAT_DTO_SUCCESS, 64);
    all.free();
}

void what_is_posted_meanwhile_completes(void **) {
    two_ends all;
    net().pause();
    done(all.send(64, 2));
    done(dat().ep_disconnect_func(all.one.ep, DAT_CLOSE_GRACEFUL_FLAG));
    done(all.send(64, 3));
    next(all.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    completed(all.one.requests, 2, DAT_DTO_ERR_FLUSHED);
    completed(all.one.requests, 3, DAT_DTO_ERR_FLUSHED);
    all.free();
}

void an_abrupt_end_overtakes_a_graceful_one(void **) {
    two_ends all;
    net().pause();
    done(all.send(64, 2));
    done(dat().ep_disconnect_func(all.one.ep, DAT_CLOSE_GRACEFUL_FLAG));
    done(dat().ep_disconnect_func(all.one.ep, DAT_CLOSE_ABRUPT_FLAG));
    next(all.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    completed(all.one.requests, 2, DAT_DTO_ERR_FLUSHED);
    all.free();
}

void a_peer_that_says_nothing_more(void **) {
    two_ends all;
    net().hold(RDMA_CM_EVENT_DISCONNECTED); // its answer never comes
    done(dat().ep_disconnect_func(all.one.ep, DAT_CLOSE_ABRUPT_FLAG));
    next(all.one.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    assert_int_equal(all.one.state(), DAT_EP_STATE_DISCONNECTED);
    net().let(RDMA_CM_EVENT_DISCONNECTED);
    next(all.other.connections, DAT_CONNECTION_EVENT_DISCONNECTED);
    all.free();
}

void data_before_the_last_word_of_the_handshake(void **) {
    call with;
    const DAT_CR_HANDLE request = with.ask();
    with.accept(request);
    next(with.one.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(with.other.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    net().report(0, IBV_EVENT_COMM_EST, pair_of(with.other.ep)); // late: it knows
    none(with.other.connections);
    with.free();
}

void what_librdmacm_tells_ends_it(void **) {
    const struct {
        rdma_cm_event_type kind;
        DAT_UINT32 event;
    } all[] = {
        {RDMA_CM_EVENT_UNREACHABLE, DAT_CONNECTION_EVENT_UNREACHABLE},
        {RDMA_CM_EVENT_CONNECT_ERROR, DAT_CONNECTION_EVENT_BROKEN},
        {RDMA_CM_EVENT_DEVICE_REMOVAL, DAT_CONNECTION_EVENT_BROKEN},
        {RDMA_CM_EVENT_REJECTED, DAT_CONNECTION_EVENT_NON_PEER_REJECTED},
    };
    for (const auto &each : all) {
        fresh(nullptr);
        net().silent = true;
        call with;
        done(with.to("192.0.2.1", 9999));
        assert_true(eventually([] { return net().ids().size() == 1; }));
        usleep(2000);
        net().tell(net().ids().front(), each.kind, -1);
        next(with.one.connections, each.event);
        with.free();
    }
}

void like_another(void **) {
    two_ends all;
    end third(all.on), fourth(all.on);
    // Where the first is connected to, somebody has to listen again.
    DAT_EP_PARAM param = {};
    done(dat().ep_query_func(all.one.ep, DAT_EP_FIELD_ALL, &param));
    DAT_EVD_HANDLE const requests = all.on.evd(DAT_EVD_CR_FLAG);
    DAT_PSP_HANDLE psp;
    done(dat().psp_create_func(all.on.ia, param.remote_port_qual, requests, DAT_PSP_CONSUMER_FLAG,
                               &psp));
    done(dat().ep_dup_connect_func(third.ep, all.one.ep, soon, 0, nullptr, DAT_QOS_BEST_EFFORT));
    const DAT_EVENT asked = next(requests, DAT_CONNECTION_REQUEST_EVENT);
    done(dat().cr_accept_func(asked.event_data.cr_arrival_event_data.cr_handle, fourth.ep, 0,
                              nullptr));
    next(third.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    next(fourth.connections, DAT_CONNECTION_EVENT_ESTABLISHED);
    done(dat().psp_free_func(psp));
    third.free();
    fourth.free();
    done(dat().evd_free_func(requests));
    all.free();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(states_on_the_way),
        TEST(an_end_that_overtakes_the_beginning),
        TEST(both_hear_the_others_words),
        TEST(a_refusal_brings_words),
        TEST(nobody_listens),
        TEST(nobody_answers_in_time),
        TEST(an_answer_in_time_ends_the_clock),
        TEST(addresses_are_looked_for_again),
        TEST(no_way_there),
        TEST(each_call_on_the_way_may_fail),
        TEST(no_id_is_no_attempt),
        TEST(the_pair_may_not_get_ready),
        TEST(accepting_may_fail),
        TEST(who_calls_gives_up_before_the_answer),
        TEST(a_graceful_end_waits_for_requests),
        TEST(what_is_posted_meanwhile_completes),
        TEST(an_abrupt_end_overtakes_a_graceful_one),
        TEST(a_peer_that_says_nothing_more),
        TEST(data_before_the_last_word_of_the_handshake),
        TEST(what_librdmacm_tells_ends_it),
        TEST(like_another),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
