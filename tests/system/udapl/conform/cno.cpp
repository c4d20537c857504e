// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Notification: what waits for several EVDs.

#include "cases.hpp"
#include "test_ep.hpp"
#include "thread.hpp"

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace conform {

namespace {

using clock = std::chrono::steady_clock;

void post(DAT_EVD_HANDLE to, DAT_UINT64 pointer = 1, source_location loc = current_location()) {
    const DAT_EVENT event = make_software_event(pointer);
    require_success(dat_evd_post_se(to, &event), loc);
}
void drain(DAT_EVD_HANDLE from) {
    DAT_EVENT event{};
    while (dat_evd_dequeue(from, &event) == DAT_SUCCESS)
        ;
}

struct cno_fixture {
    test_ia ia;
    unique_cno notifier = ia.create_cno();
    unique_evd one = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, notifier);
    unique_evd two = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, notifier);

    /// The EVD that it names, which is emptied.
    DAT_EVD_HANDLE wait(DAT_TIMEOUT timeout = dat_timeout(event_timeout),
                        source_location loc = current_location()) const {
        DAT_EVD_HANDLE which = nullptr;
        require_success(dat_cno_wait(notifier, timeout, &which), loc);
        drain(which);
        return which;
    }
    void nothing(milliseconds within = milliseconds(20),
                 source_location loc = current_location()) const {
        DAT_EVD_HANDLE which = nullptr;
        expect_empty(dat_cno_wait(notifier, dat_timeout(within), &which), loc);
    }
};

void making(case_list &cases) {
    add_case(cases, "cno.create_null", [] {
        const test_ia ia;
        expect_return(dat_cno_create(ia, {nullptr, nullptr}, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno.query", [] {
        const cno_fixture fixture;
        poisoned<DAT_CNO_PARAM> is_now;
        require_success(dat_cno_query(fixture.notifier, DAT_CNO_FIELD_ALL, is_now.ptr()));
        expect_eq(is_now->ia_handle, fixture.ia, "ia_handle");
        expect_eq(is_now->proxy_type, DAT_PROXY_TYPE_NONE, "proxy_type");
    });
    add_case(cases, "cno.query_mask_unknown", [] {
        const cno_fixture fixture;
        DAT_CNO_PARAM is_now{};
        expect_return(dat_cno_query(fixture.notifier, enum_cast<DAT_CNO_PARAM_MASK>(0x8), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "cno.query_null", [] {
        const cno_fixture fixture;
        expect_return(dat_cno_query(fixture.notifier, DAT_CNO_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "cno.free_in_use", [] {
        const test_ia ia;
        const unique_cno notifier = ia.create_cno();
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, notifier);
        expect_return(dat_cno_free(notifier), invalid_state(DAT_INVALID_STATE_CNO_IN_USE));
        post(events);
        DAT_EVD_HANDLE which = nullptr;
        expect_return(dat_cno_wait(notifier, dat_timeout(event_timeout), &which), DAT_SUCCESS);
        expect_eq(which, events, "the EVD");
    });
    add_case(cases, "cno.free_after_modify", [] {
        const test_ia ia;
        unique_cno notifier = ia.create_cno();
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, notifier);
        require_success(dat_evd_modify_cno(events, nullptr));
        expect_return(notifier.free(), DAT_SUCCESS);
        post(events);
    });
}

void waiting(case_list &cases) {
    add_case(cases, "cno.wait_poll", [] {
        const cno_fixture fixture;
        DAT_EVD_HANDLE which = nullptr;
        expect_return(dat_cno_wait(fixture.notifier, 0, &which), queue_empty);
    });
    add_case(cases, "cno.wait_10_ms", [] {
        const cno_fixture fixture;
        DAT_EVD_HANDLE which = nullptr;
        const auto start = clock::now();
        expect_return(dat_cno_wait(fixture.notifier, 10000, &which), queue_empty);
        expect_true(clock::now() - start >= milliseconds(10), "it returned too early");
    });
    add_case(cases, "cno.wait_null", [] {
        const cno_fixture fixture;
        expect_return(dat_cno_wait(fixture.notifier, 0, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno.wait", [] {
        const cno_fixture fixture;
        post(fixture.two);
        expect_eq(fixture.wait(), fixture.two, "the EVD");
        fixture.nothing();
        post(fixture.one);
        expect_eq(fixture.wait(), fixture.one, "the EVD");
        fixture.nothing();
    });
    add_case(cases, "cno.wait_for_both", [] { // neither is forgotten
        const cno_fixture fixture;
        post(fixture.one);
        post(fixture.two);
        const std::set<DAT_EVD_HANDLE> both{fixture.wait(), fixture.wait()};
        expect_eq(both.size(), 2, "the number of EVDs that were named");
        fixture.nothing();
    });
    add_case(cases, "cno.wait_infinite", [] {
        const cno_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            post(fixture.two);
        });
        expect_eq(fixture.wait(infinite_timeout), fixture.two, "the EVD");
    });
    add_case(cases, "cno.two_waiters", [] { // each has one of two, or the second is sent away
        const cno_fixture fixture;
        DAT_EVD_HANDLE mine = nullptr, his = nullptr;
        DAT_RETURN told = DAT_SUCCESS;
        joined_thread other([&] { told = dat_cno_wait(fixture.notifier, infinite_timeout, &his); });
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            post(fixture.one);
            std::this_thread::sleep_for(milliseconds(50));
            post(fixture.two);
        });
        const DAT_RETURN got = dat_cno_wait(fixture.notifier, infinite_timeout, &mine);
        other.join();
        constexpr DAT_RETURN taken = invalid_state(DAT_INVALID_STATE_CNO_IN_USE);
        if (got == taken || told == taken) {
            expect_true(got == DAT_SUCCESS || told == DAT_SUCCESS, "both were sent away");
            return;
        }
        expect_return(got, DAT_SUCCESS);
        expect_return(told, DAT_SUCCESS);
        expect_true(mine && his && mine != his, "both were given the same EVD");
    });
}

void feeding(case_list &cases) {
    add_case(cases, "cno.disabled_evd", [] {
        const cno_fixture fixture;
        require_success(dat_evd_disable(fixture.one));
        post(fixture.one);
        fixture.nothing();
        drain(fixture.one);
        require_success(dat_evd_enable(fixture.one));
        fixture.nothing();
        post(fixture.one);
        expect_eq(fixture.wait(), fixture.one, "the EVD");
    });
    add_case(cases, "cno.detached_evd", [] {
        const cno_fixture fixture;
        require_success(dat_evd_modify_cno(fixture.one, nullptr));
        post(fixture.one);
        fixture.nothing();
        drain(fixture.one);
        const unique_cno other = fixture.ia.create_cno();
        require_success(dat_evd_modify_cno(fixture.one, other));
        post(fixture.one);
        fixture.nothing();
        DAT_EVD_HANDLE which = nullptr;
        require_success(dat_cno_wait(other, dat_timeout(event_timeout), &which));
        expect_eq(which, fixture.one, "the EVD");
        require_success(dat_evd_modify_cno(fixture.one, nullptr));
    });
    add_case(cases, "cno.freed_evd", [] { // what it said before is nothing any more
        cno_fixture fixture;
        post(fixture.one);
        require_success(fixture.one.free());
        fixture.nothing();
        post(fixture.two);
        expect_eq(fixture.wait(), fixture.two, "the EVD");
    });
    add_case(cases, "cno.evd_wait_too", [] { // an EVD that has a CNO can be waited for itself
        const cno_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            post(fixture.one, 9);
        });
        expect_eq(software_event_pointer(next_event(fixture.one)), 9, "the pointer");
    });
}

/// Messages; who receives sleeps in dat_cno_wait and then takes what there is. It hangs if one is
/// slept over.
void completions(bool attached_later) {
    ep_pair eps;
    const unique_cno &notifier = eps.cno;
    if (attached_later)
        require_success(dat_evd_modify_cno(eps.passive.recv_evd, notifier));
    else
        eps.passive = test_ep(eps.ia, eps.pz, nullptr, notifier);
    eps.connect();
    DAT_UINT64 taken = 0;
    const auto take = [&] {
        DAT_EVENT event{};
        while (dat_evd_dequeue(eps.passive.recv_evd, &event) == DAT_SUCCESS)
            expect_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, taken++,
                      "the cookie");
    };
    take();
    for (DAT_UINT64 i = 0; i < 100; ++i) {
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), i));
        require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), i));
        while (taken <= i) {
            DAT_EVD_HANDLE which = nullptr;
            require_success(dat_cno_wait(notifier, dat_timeout(event_timeout), &which));
            expect_eq(which, eps.passive.recv_evd, "the EVD");
            take();
        }
        expect_completion(eps.active.request_evd, eps.active, i, 8);
    }
}

/// A thread slept in dat_evd_wait for the EVD itself: what comes afterwards triggers the CNO again.
void after_evd_wait() {
    ep_pair eps;
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, eps.cno));
    eps.connect();
    for (DAT_UINT64 i = 0; i < 2; ++i)
        require_success(post_recv(eps.passive, eps.lmr.lmr_triplet(page, 8), i));
    {
        const joined_thread sender([&] {
            std::this_thread::sleep_for(milliseconds(50));
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), 0));
        });
        expect_completion(eps.passive.recv_evd, eps.passive, 0, 8);
    }
    require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), 1));
    DAT_EVD_HANDLE which = nullptr;
    require_success(dat_cno_wait(eps.cno, dat_timeout(event_timeout), &which));
    expect_eq(which, eps.passive.recv_evd, "the EVD");
    expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
    for (DAT_UINT64 i = 0; i < 2; ++i)
        expect_completion(eps.active.request_evd, eps.active, i, 8);
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, nullptr));
}

/// What an agent was told.
struct agent {
    std::mutex lock;
    std::condition_variable changed;
    std::vector<DAT_EVD_HANDLE> calls;
    std::thread::id by;

    static void called(DAT_PVOID instance, DAT_EVD_HANDLE which) {
        auto *me = static_cast<agent *>(instance);
        const std::lock_guard hold(me->lock);
        me->calls.push_back(which);
        me->by = std::this_thread::get_id();
        me->changed.notify_all();
    }
    DAT_OS_WAIT_PROXY_AGENT as_dat() { return {this, called}; }
    std::vector<DAT_EVD_HANDLE> after(std::size_t count, milliseconds within = event_timeout) {
        std::unique_lock hold(lock);
        changed.wait_for(hold, within, [&] { return calls.size() >= count; });
        return calls;
    }
};

unique_cno with_agent(const test_ia &ia, agent &who) {
    DAT_CNO_HANDLE made = nullptr;
    require_success(dat_cno_create(ia, who.as_dat(), &made));
    return unique_cno(made);
}

void agents(case_list &cases) {
    add_case(cases, "cno.agent", [] {
        const test_ia ia;
        agent who;
        const unique_cno notifier = with_agent(ia, who);
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, notifier);
        expect_true(who.after(1, milliseconds(20)).empty(), "it is called for nothing");
        post(events);
        const auto calls = who.after(1);
        require(!calls.empty(), "it was not called");
        expect_eq(calls[0], events, "the EVD");
    });
    add_case(cases, "cno.agent_in_a_thread_of_its_own", [] {
        const test_ia ia;
        agent who;
        const unique_cno notifier = with_agent(ia, who);
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, notifier);
        post(events);
        require(!who.after(1).empty(), "it was not called");
        expect_true(who.by != std::this_thread::get_id(), "it was called by who posted");
    });
    add_case(cases, "cno.agent_queried", [] {
        const test_ia ia;
        agent who;
        const unique_cno notifier = with_agent(ia, who);
        DAT_CNO_PARAM is_now{};
        require_success(dat_cno_query(notifier, DAT_CNO_FIELD_ALL, &is_now));
        expect_eq(is_now.proxy_type, DAT_PROXY_TYPE_AGENT, "proxy_type");
        expect_eq(is_now.proxy.agent.instance_data, &who, "instance_data");
        expect_true(is_now.proxy.agent.proxy_agent_func == agent::called,
                    "the function is another");
    });
    add_case(cases, "cno.agent_modified", [] {
        const test_ia ia;
        agent first, second;
        const unique_cno notifier = with_agent(ia, first);
        const unique_evd events = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, notifier);
        require_success(dat_cno_modify_agent(notifier, second.as_dat()));
        post(events);
        expect_eq(second.after(1).size(), 1, "the number of calls of the second");
        expect_true(first.calls.empty(), "the first is called still");
        drain(events);
        require_success(dat_cno_modify_agent(notifier, {nullptr, nullptr}));
        post(events);
        expect_true(second.after(2, milliseconds(20)).size() < 2, "it is called still");
    });
    add_case(cases, "cno.agent_for_connections", [] { // which the library notices by itself
        ep_pair eps;
        agent who;
        const unique_cno notifier = with_agent(eps.ia, who);
        require_success(dat_evd_modify_cno(eps.cr_evd, notifier));
        require_success(eps.request_connection());
        const auto calls = who.after(1);
        require(!calls.empty(), "it was not called");
        expect_eq(calls[0], eps.cr_evd, "the EVD");
        require_success(dat_cr_reject(eps.next_cr(), 0, nullptr));
        next_event(eps.active.connect_evd);
        require_success(dat_evd_modify_cno(eps.cr_evd, nullptr));
    });
    add_case(cases, "cno.agent_for_completions", [] {
        ep_pair eps;
        agent who;
        const unique_cno notifier = with_agent(eps.ia, who);
        eps.connect();
        require_success(dat_evd_modify_cno(eps.active.request_evd, notifier));
        require_success(post_rdma_write(eps.active, eps.lmr.lmr_triplet(0, 8),
                                        eps.lmr.rmr_triplet(page, 8), 1));
        const auto calls = who.after(1);
        require(!calls.empty(), "it was not called");
        expect_eq(calls[0], eps.active.request_evd, "the EVD");
        require_success(dat_evd_modify_cno(eps.active.request_evd, nullptr));
    });
}

} // namespace

void add_cno(case_list &cases) {
    making(cases);
    waiting(cases);
    feeding(cases);
    add_case(cases, "cno.completions", [] { completions(false); });
    add_case(cases, "cno.after_evd_wait", after_evd_wait);
    add_case(cases, "cno.completions_attached_later", [] { completions(true); });
    agents(cases);
}

} // namespace conform
