// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Notification: what waits for several EVDs.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"
#include "lib/thread.hpp"

#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>

namespace conform {

namespace {

using clock = std::chrono::steady_clock;

void post_software_event(DAT_EVD_HANDLE evd, DAT_UINT64 pointer = 1,
                         source_location loc = current_location()) {
    const DAT_EVENT event = make_software_event(pointer);
    require_success(dat_evd_post_se(evd, &event), loc);
}
void drain(DAT_EVD_HANDLE evd) {
    DAT_EVENT event{};
    while (dat_evd_dequeue(evd, &event) == DAT_SUCCESS)
        ;
}

struct cno_fixture {
    test_ia ia;
    unique_cno cno = ia.create_cno();
    unique_evd first_evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);
    unique_evd second_evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 16, cno);

    /// Waits for the CNO, takes all events of the EVD that it names, and returns the EVD.
    DAT_EVD_HANDLE wait_and_drain(DAT_TIMEOUT timeout = dat_timeout(event_timeout),
                                  source_location loc = current_location()) const {
        DAT_EVD_HANDLE evd_handle = nullptr;
        require_success(dat_cno_wait(cno, timeout, &evd_handle), loc);
        drain(evd_handle);
        return evd_handle;
    }
    void expect_not_triggered(milliseconds timeout = milliseconds(20),
                              source_location loc = current_location()) const {
        DAT_EVD_HANDLE evd_handle = nullptr;
        expect_empty(dat_cno_wait(cno, dat_timeout(timeout), &evd_handle), loc);
    }
};

void add_create_cases(case_list &cases) {
    add_case(cases, "cno.create_null", [] {
        const test_ia ia;
        expect_return(dat_cno_create(ia, {nullptr, nullptr}, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno.query", [] {
        const cno_fixture fixture;
        poisoned<DAT_CNO_PARAM> param;
        require_success(dat_cno_query(fixture.cno, DAT_CNO_FIELD_ALL, param.ptr()));
        expect_eq(param->ia_handle, fixture.ia, "ia_handle");
        expect_eq(param->proxy_type, DAT_PROXY_TYPE_NONE, "proxy_type");
    });
    add_case(cases, "cno.query_mask_unknown", [] {
        const cno_fixture fixture;
        DAT_CNO_PARAM param{};
        expect_return(dat_cno_query(fixture.cno, enum_cast<DAT_CNO_PARAM_MASK>(0x8), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "cno.query_null", [] {
        const cno_fixture fixture;
        expect_return(dat_cno_query(fixture.cno, DAT_CNO_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno.free_in_use", [] {
        const test_ia ia;
        const unique_cno cno = ia.create_cno();
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
        expect_return(dat_cno_free(cno), invalid_state(DAT_INVALID_STATE_CNO_IN_USE));
        post_software_event(evd);
        DAT_EVD_HANDLE evd_handle = nullptr;
        expect_return(dat_cno_wait(cno, dat_timeout(event_timeout), &evd_handle), DAT_SUCCESS);
        expect_eq(evd_handle, evd, "the EVD");
    });
    add_case(cases, "cno.free_after_modify", [] {
        const test_ia ia;
        unique_cno cno = ia.create_cno();
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
        require_success(dat_evd_modify_cno(evd, nullptr));
        expect_return(cno.free(), DAT_SUCCESS);
        post_software_event(evd);
    });
}

void add_wait_cases(case_list &cases) {
    add_case(cases, "cno.wait_poll", [] {
        const cno_fixture fixture;
        DAT_EVD_HANDLE evd_handle = nullptr;
        expect_return(dat_cno_wait(fixture.cno, 0, &evd_handle), queue_empty);
    });
    add_case(cases, "cno.wait_10_ms", [] {
        const cno_fixture fixture;
        DAT_EVD_HANDLE evd_handle = nullptr;
        const auto start = clock::now();
        expect_return(dat_cno_wait(fixture.cno, 10000, &evd_handle), queue_empty);
        expect_true(clock::now() - start >= milliseconds(10), "it returned too early");
    });
    add_case(cases, "cno.wait_null", [] {
        const cno_fixture fixture;
        expect_return(dat_cno_wait(fixture.cno, 0, nullptr), invalid_parameter(3));
    });
    add_case(cases, "cno.wait", [] {
        const cno_fixture fixture;
        post_software_event(fixture.second_evd);
        expect_eq(fixture.wait_and_drain(), fixture.second_evd, "the EVD");
        fixture.expect_not_triggered();
        post_software_event(fixture.first_evd);
        expect_eq(fixture.wait_and_drain(), fixture.first_evd, "the EVD");
        fixture.expect_not_triggered();
    });
    add_case(cases, "cno.wait_for_both", [] { // neither is forgotten
        const cno_fixture fixture;
        post_software_event(fixture.first_evd);
        post_software_event(fixture.second_evd);
        const std::set<DAT_EVD_HANDLE> evds{fixture.wait_and_drain(), fixture.wait_and_drain()};
        expect_eq(evds.size(), 2, "the number of EVDs that were named");
        fixture.expect_not_triggered();
    });
    add_case(cases, "cno.wait_infinite", [] {
        const cno_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            post_software_event(fixture.second_evd);
        });
        expect_eq(fixture.wait_and_drain(infinite_timeout), fixture.second_evd, "the EVD");
    });
    add_case(cases, "cno.two_waiters", [] { // each has one of two, or the second is sent away
        const cno_fixture fixture;
        DAT_EVD_HANDLE first_evd = nullptr, second_evd = nullptr;
        DAT_RETURN second_ret = DAT_SUCCESS;
        joined_thread waiter(
            [&] { second_ret = dat_cno_wait(fixture.cno, infinite_timeout, &second_evd); });
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            post_software_event(fixture.first_evd);
            std::this_thread::sleep_for(milliseconds(50));
            post_software_event(fixture.second_evd);
        });
        const DAT_RETURN ret = dat_cno_wait(fixture.cno, infinite_timeout, &first_evd);
        waiter.join();
        constexpr DAT_RETURN cno_in_use = invalid_state(DAT_INVALID_STATE_CNO_IN_USE);
        if (ret == cno_in_use || second_ret == cno_in_use) {
            expect_true(ret == DAT_SUCCESS || second_ret == DAT_SUCCESS, "both were sent away");
            return;
        }
        expect_return(ret, DAT_SUCCESS);
        expect_return(second_ret, DAT_SUCCESS);
        expect_true(first_evd && second_evd && first_evd != second_evd,
                    "both were given the same EVD");
    });
}

void add_trigger_cases(case_list &cases) {
    add_case(cases, "cno.disabled_evd", [] {
        const cno_fixture fixture;
        require_success(dat_evd_disable(fixture.first_evd));
        post_software_event(fixture.first_evd);
        fixture.expect_not_triggered();
        drain(fixture.first_evd);
        require_success(dat_evd_enable(fixture.first_evd));
        fixture.expect_not_triggered();
        post_software_event(fixture.first_evd);
        expect_eq(fixture.wait_and_drain(), fixture.first_evd, "the EVD");
    });
    add_case(cases, "cno.detached_evd", [] {
        const cno_fixture fixture;
        require_success(dat_evd_modify_cno(fixture.first_evd, nullptr));
        post_software_event(fixture.first_evd);
        fixture.expect_not_triggered();
        drain(fixture.first_evd);
        const unique_cno other_cno = fixture.ia.create_cno();
        require_success(dat_evd_modify_cno(fixture.first_evd, other_cno));
        post_software_event(fixture.first_evd);
        fixture.expect_not_triggered();
        DAT_EVD_HANDLE evd_handle = nullptr;
        require_success(dat_cno_wait(other_cno, dat_timeout(event_timeout), &evd_handle));
        expect_eq(evd_handle, fixture.first_evd, "the EVD");
        require_success(dat_evd_modify_cno(fixture.first_evd, nullptr));
    });
    add_case(cases, "cno.freed_evd", [] { // its pending notification is dropped
        cno_fixture fixture;
        post_software_event(fixture.first_evd);
        require_success(fixture.first_evd.free());
        fixture.expect_not_triggered();
        post_software_event(fixture.second_evd);
        expect_eq(fixture.wait_and_drain(), fixture.second_evd, "the EVD");
    });
    add_case(cases, "cno.evd_wait_too", [] { // an EVD that has a CNO can be waited for itself
        const cno_fixture fixture;
        const joined_thread poster([&] {
            std::this_thread::sleep_for(milliseconds(50));
            post_software_event(fixture.first_evd, 9);
        });
        expect_eq(software_event_pointer(next_event(fixture.first_evd)), 9, "the pointer");
    });
}

/// Whenever dat_cno_wait returns, the receiver takes all completions: of 100 messages none must be
/// missed, or it waits until the timeout. The EVD is created with the CNO, or gets it by
/// dat_evd_modify_cno.
void test_completions(bool by_modify_cno) {
    ep_pair eps;
    const unique_cno &cno = eps.cno;
    if (by_modify_cno)
        require_success(dat_evd_modify_cno(eps.passive.recv_evd, cno));
    else
        eps.passive = test_ep(eps.ia, eps.pz, nullptr, cno);
    eps.connect();
    DAT_UINT64 taken = 0;
    const auto take_completions = [&] {
        DAT_EVENT event{};
        while (dat_evd_dequeue(eps.passive.recv_evd, &event) == DAT_SUCCESS)
            expect_eq(event.event_data.dto_completion_event_data.user_cookie.as_64, taken++,
                      "the cookie");
    };
    take_completions();
    for (DAT_UINT64 i = 0; i < 100; ++i) {
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), i));
        require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), i));
        while (taken <= i) {
            DAT_EVD_HANDLE evd_handle = nullptr;
            require_success(dat_cno_wait(cno, dat_timeout(event_timeout), &evd_handle));
            expect_eq(evd_handle, eps.passive.recv_evd, "the EVD");
            take_completions();
        }
        expect_completion(eps.active.request_evd, eps.active, i, 8);
    }
}

/// An EVD with a CNO is waited for by dat_evd_wait. The completion that comes after that wait
/// triggers the CNO again.
void test_trigger_after_evd_wait() {
    ep_pair eps;
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, eps.cno));
    eps.connect();
    for (DAT_UINT64 i = 0; i < 2; ++i)
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(page_size, 8), i));
    {
        const joined_thread sender([&] {
            std::this_thread::sleep_for(milliseconds(50));
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), 0));
        });
        expect_completion(eps.passive.recv_evd, eps.passive, 0, 8);
    }
    require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), 1));
    DAT_EVD_HANDLE evd_handle = nullptr;
    require_success(dat_cno_wait(eps.cno, dat_timeout(event_timeout), &evd_handle));
    expect_eq(evd_handle, eps.passive.recv_evd, "the EVD");
    expect_completion(eps.passive.recv_evd, eps.passive, 1, 8);
    for (DAT_UINT64 i = 0; i < 2; ++i)
        expect_completion(eps.active.request_evd, eps.active, i, 8);
    require_success(dat_evd_modify_cno(eps.passive.recv_evd, nullptr));
}

/// A proxy agent that records its calls.
struct recording_agent {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<DAT_EVD_HANDLE> calls;
    std::thread::id thread_id;

    static void record_call(DAT_PVOID instance, DAT_EVD_HANDLE evd) {
        auto *agent = static_cast<recording_agent *>(instance);
        const std::lock_guard guard(agent->mutex);
        agent->calls.push_back(evd);
        agent->thread_id = std::this_thread::get_id();
        agent->changed.notify_all();
    }
    DAT_OS_WAIT_PROXY_AGENT to_dat() { return {this, record_call}; }
    std::vector<DAT_EVD_HANDLE> wait_for_calls(std::size_t count,
                                               milliseconds timeout = event_timeout) {
        std::unique_lock guard(mutex);
        changed.wait_for(guard, timeout, [&] { return calls.size() >= count; });
        return calls;
    }
};

unique_cno create_cno_with_agent(const test_ia &ia, recording_agent &agent) {
    DAT_CNO_HANDLE handle = nullptr;
    require_success(dat_cno_create(ia, agent.to_dat(), &handle));
    return unique_cno(handle);
}

void add_agent_cases(case_list &cases) {
    add_case(cases, "cno.agent", [] {
        const test_ia ia;
        recording_agent agent;
        const unique_cno cno = create_cno_with_agent(ia, agent);
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
        expect_true(agent.wait_for_calls(1, milliseconds(20)).empty(), "it is called for nothing");
        post_software_event(evd);
        const auto calls = agent.wait_for_calls(1);
        require(!calls.empty(), "it was not called");
        expect_eq(calls[0], evd, "the EVD");
    });
    add_case(cases, "cno.agent_in_a_thread_of_its_own", [] {
        const test_ia ia;
        recording_agent agent;
        const unique_cno cno = create_cno_with_agent(ia, agent);
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
        post_software_event(evd);
        require(!agent.wait_for_calls(1).empty(), "it was not called");
        expect_true(agent.thread_id != std::this_thread::get_id(), "the posting thread called it");
    });
    add_case(cases, "cno.agent_queried", [] {
        const test_ia ia;
        recording_agent agent;
        const unique_cno cno = create_cno_with_agent(ia, agent);
        DAT_CNO_PARAM param{};
        require_success(dat_cno_query(cno, DAT_CNO_FIELD_ALL, &param));
        expect_eq(param.proxy_type, DAT_PROXY_TYPE_AGENT, "proxy_type");
        expect_eq(param.proxy.agent.instance_data, &agent, "instance_data");
        expect_true(param.proxy.agent.proxy_agent_func == recording_agent::record_call,
                    "the function is another");
    });
    add_case(cases, "cno.agent_modified", [] {
        const test_ia ia;
        recording_agent first, second;
        const unique_cno cno = create_cno_with_agent(ia, first);
        const unique_evd evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
        require_success(dat_cno_modify_agent(cno, second.to_dat()));
        post_software_event(evd);
        expect_eq(second.wait_for_calls(1).size(), 1, "the number of calls of the second");
        expect_true(first.calls.empty(), "the first is called still");
        drain(evd);
        require_success(dat_cno_modify_agent(cno, {nullptr, nullptr}));
        post_software_event(evd);
        expect_true(second.wait_for_calls(2, milliseconds(20)).size() < 2, "it is called still");
    });
    add_case(cases, "cno.agent_for_connections", [] { // which the library notices by itself
        ep_pair eps;
        recording_agent agent;
        const unique_cno cno = create_cno_with_agent(eps.ia, agent);
        require_success(dat_evd_modify_cno(eps.cr_evd, cno));
        require_success(eps.request_connection());
        const auto calls = agent.wait_for_calls(1);
        require(!calls.empty(), "it was not called");
        expect_eq(calls[0], eps.cr_evd, "the EVD");
        require_success(dat_cr_reject(eps.next_cr(), 0, nullptr));
        next_event(eps.active.connect_evd);
        require_success(dat_evd_modify_cno(eps.cr_evd, nullptr));
    });
    add_case(cases, "cno.agent_for_completions", [] {
        ep_pair eps;
        recording_agent agent;
        const unique_cno cno = create_cno_with_agent(eps.ia, agent);
        eps.connect();
        require_success(dat_evd_modify_cno(eps.active.request_evd, cno));
        require_success(post_rdma_write(eps.active, eps.lmr.make_lmr_triplet(0, 8),
                                        eps.lmr.make_rmr_triplet(page_size, 8), 1));
        const auto calls = agent.wait_for_calls(1);
        require(!calls.empty(), "it was not called");
        expect_eq(calls[0], eps.active.request_evd, "the EVD");
        require_success(dat_evd_modify_cno(eps.active.request_evd, nullptr));
    });
}

} // namespace

void add_cno(case_list &cases) {
    add_create_cases(cases);
    add_wait_cases(cases);
    add_trigger_cases(cases);
    add_case(cases, "cno.completions", [] { test_completions(/*by_modify_cno=*/false); });
    add_case(cases, "cno.after_evd_wait", test_trigger_after_evd_wait);
    add_case(cases, "cno.completions_attached_later",
             [] { test_completions(/*by_modify_cno=*/true); });
    add_agent_cases(cases);
}

} // namespace conform
