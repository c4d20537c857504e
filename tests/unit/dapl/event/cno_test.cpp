// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CNOs: dat_cno_wait, descriptors and agents for several EVDs.

#include "dapl/event/evd.hpp"
#include "fake/consumer.hpp"
#include "fake/thread_state.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <poll.h>
#include <thread>

using namespace fake;

namespace {

void dequeue(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    assert_success(dat().evd_dequeue_func(evd, &event));
}
DAT_CNO_PARAM query_cno(DAT_CNO_HANDLE cno) {
    DAT_CNO_PARAM param = {};
    assert_success(dat().cno_query_func(cno, static_cast<DAT_CNO_PARAM_MASK>(7), &param));
    return param;
}
/// The EVD that dat_cno_wait returns, or DAT_HANDLE_NULL.
DAT_EVD_HANDLE wait_triggered(DAT_CNO_HANDLE cno) {
    DAT_EVD_HANDLE evd = &evd;
    const DAT_RETURN result = dat().cno_wait_func(cno, 0, &evd);
    assert_int_equal(result, evd != DAT_HANDLE_NULL ? DAT_SUCCESS : dat_error(DAT_QUEUE_EMPTY));
    return evd;
}

/// A CNO and two EVDs of software events.
struct cno_fixture {
    cno_fixture()
        : cno(ia.create_cno())
        , evd_a(ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno))
        , evd_b(ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno)) {}
    ~cno_fixture() {
        assert_success(dat().evd_free_func(evd_a));
        assert_success(dat().evd_free_func(evd_b));
        assert_success(dat().cno_free_func(cno));
    }
    ia_fixture ia;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE evd_a, evd_b;
};

void cno_wait_names_triggered_evd_once(void **) {
    cno_fixture fixture;
    assert_null(wait_triggered(fixture.cno));
    assert_success(post_event(fixture.evd_b));
    assert_ptr_equal(wait_triggered(fixture.cno), fixture.evd_b);
    dequeue(fixture.evd_b);
    assert_success(post_event(fixture.evd_a));
    assert_ptr_equal(wait_triggered(fixture.cno), fixture.evd_a);
    assert_null(wait_triggered(fixture.cno)); // each event is reported once
    dequeue(fixture.evd_a);
}

void cno_wait_names_each_triggered_evd(void **) {
    cno_fixture fixture;
    assert_success(post_event(fixture.evd_a));
    assert_success(post_event(fixture.evd_b));
    DAT_EVD_HANDLE const first = wait_triggered(fixture.cno), second = wait_triggered(fixture.cno);
    assert_true((first == fixture.evd_a && second == fixture.evd_b) ||
                (first == fixture.evd_b && second == fixture.evd_a));
    assert_null(wait_triggered(fixture.cno));
}

void cno_in_use_while_evds_attached(void **) {
    cno_fixture fixture;
    const DAT_RETURN in_use = invalid_state(DAT_INVALID_STATE_CNO_IN_USE);
    assert_int_equal(dat().cno_free_func(fixture.cno), in_use);
    assert_success(dat().evd_modify_cno_func(fixture.evd_a, DAT_HANDLE_NULL));
    assert_int_equal(dat().cno_free_func(fixture.cno), in_use);
    assert_success(dat().evd_modify_cno_func(fixture.evd_b, DAT_HANDLE_NULL));
    assert_success(dat().cno_free_func(fixture.cno));
    fixture.cno = fixture.ia.create_cno();
}

/// An EVD with an event triggers the CNO that it is attached to.
void evd_modify_cno_moves_pending_trigger(void **) {
    cno_fixture fixture;
    DAT_CNO_HANDLE const new_cno = fixture.ia.create_cno();
    assert_success(dat().evd_modify_cno_func(fixture.evd_a, new_cno));
    assert_success(dat().evd_modify_cno_func(fixture.evd_a, new_cno)); // to the same
    assert_success(post_event(fixture.evd_a));
    assert_null(wait_triggered(fixture.cno));
    assert_ptr_equal(wait_triggered(new_cno), fixture.evd_a);
    assert_success(dat().evd_modify_cno_func(fixture.evd_a, fixture.cno)); // with its event
    assert_ptr_equal(wait_triggered(fixture.cno), fixture.evd_a);
    assert_success(dat().cno_free_func(new_cno));
}

/// The CQ cannot be armed for the new CNO.
void failed_evd_modify_cno_keeps_old_cno(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE const old_cno = ia.create_cno(), new_cno = ia.create_cno();
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG, 8, old_cno);
    DAT_EVD_PARAM param;
    for (DAT_CNO_HANDLE const current_cno : {old_cno, DAT_HANDLE(DAT_HANDLE_NULL)}) {
        assert_success(dat().evd_modify_cno_func(evd, current_cno));
        get_fabric().injected.fail("ibv_req_notify_cq", ENOMEM);
        assert_int_equal(dat().evd_modify_cno_func(evd, new_cno),
                         dat_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
        get_fabric().injected.fail_none();
        assert_success(dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
        assert_ptr_equal(param.cno_handle, current_cno);
        assert_success(post_event(evd));
        assert_null(wait_triggered(new_cno));
        assert_ptr_equal(wait_triggered(old_cno), current_cno == old_cno ? evd : DAT_HANDLE_NULL);
        dequeue(evd);
        assert_int_equal(dat().cno_free_func(old_cno),
                         current_cno == old_cno ? invalid_state(DAT_INVALID_STATE_CNO_IN_USE)
                                                : DAT_SUCCESS);
    }
    assert_success(dat().cno_free_func(new_cno));
    assert_success(dat().evd_free_func(evd));
}

void disabled_evd_triggers_cno_when_enabled(void **) {
    cno_fixture fixture;
    assert_success(dat().evd_disable_func(fixture.evd_a));
    assert_success(post_event(fixture.evd_a));
    assert_null(wait_triggered(fixture.cno));
    assert_success(dat().evd_enable_func(fixture.evd_a));
    assert_ptr_equal(wait_triggered(fixture.cno),
                     fixture.evd_a); // an event that came while it was disabled
}

void completion_triggers_cno(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE const cno = ia.create_cno();
    ep_fixture ep(ia), peer_ep(ia);
    assert_success(dat().evd_modify_cno_func(peer_ep.recv_evd, cno));
    connect(ep, peer_ep);
    memory buffer(ia);
    DAT_LMR_TRIPLET iov = buffer.lmr_triplet(0, 64);
    for (int i = 0; i != 2; ++i) {
        assert_success(dat().ep_post_recv_func(peer_ep.handle, 1, &iov, cookie(1),
                                               DAT_COMPLETION_DEFAULT_FLAG));
        assert_success(
            dat().ep_post_send_func(ep.handle, 1, &iov, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        DAT_EVD_HANDLE evd;
        assert_success(dat().cno_wait_func(cno, event_timeout_us, &evd));
        assert_ptr_equal(evd, peer_ep.recv_evd);
        dequeue(evd);
    }
    disconnect(ep, peer_ep);
    ep.free();
    peer_ep.free();
    buffer.free();
    assert_success(dat().cno_free_func(cno));
}

void cno_wait_woken_by_event(void **) {
    cno_fixture fixture;
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    std::thread waiter([&] { dat().cno_wait_func(fixture.cno, event_timeout_us, &evd); });
    assert_success(post_event(fixture.evd_a));
    waiter.join();
    assert_ptr_equal(evd, fixture.evd_a);
}

/// The waiter returns with an error although it has no timeout.
void abrupt_close_ends_cno_wait(void **) {
    ia_fixture ia;
    DAT_CNO_HANDLE const cno = ia.create_cno();
    DAT_EVD_HANDLE evd = &evd;
    DAT_RETURN result = 0;
    named_thread waiter([&] { result = dat().cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &evd); });
    const auto in_use = invalid_state(DAT_INVALID_STATE_CNO_IN_USE);
    assert_true(wait_until([&] { return waiter.is_asleep(); }));
    assert_int_equal(dat().cno_free_func(cno), in_use);
    ia.close(DAT_CLOSE_ABRUPT_FLAG);
    waiter.join();
    assert_int_equal(result, invalid_state(DAT_INVALID_STATE_CNO_DEAD));
    assert_null(evd);
}

// -- descriptors

bool is_readable(DAT_FD fd) {
    pollfd agent = {fd, POLLIN, 0};
    return poll(&agent, 1, 0) == 1;
}

/// A CNO created with a file descriptor is for poll(); dat_cno_wait and agents are refused.
void cno_fd_readable_until_triggered(void **) {
    ia_fixture ia;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno;
    assert_success(dat().cno_fd_create_func(ia.handle, &fd, &cno));
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
    assert_false(is_readable(fd));
    assert_success(post_event(evd));
    assert_true(is_readable(fd));
    DAT_EVD_HANDLE triggered;
    assert_success(dat().cno_trigger_func(cno, &triggered));
    assert_ptr_equal(triggered, evd);
    assert_false(is_readable(fd));
    const DAT_CNO_PARAM param = query_cno(cno);
    assert_int_equal(param.proxy_type, DAT_PROXY_TYPE_FD);
    assert_int_equal(param.proxy.fd, fd);
    assert_int_equal(dat().cno_wait_func(cno, 0, &triggered),
                     invalid_state(DAT_INVALID_STATE_CNO_IN_USE));
    assert_int_equal(dat().cno_modify_agent_func(cno, {nullptr, nullptr}),
                     invalid_state(DAT_NO_SUBTYPE));
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
}

// -- agents

struct proxy_agent {
    std::atomic<int> calls = 0;
    std::atomic<DAT_EVD_HANDLE> evd = nullptr;
    std::atomic<DAT_RETURN> close_result = DAT_SUCCESS;
    DAT_IA_HANDLE ia_to_close = nullptr;

    static void call(DAT_PVOID self, DAT_EVD_HANDLE evd) {
        auto &agent = *static_cast<proxy_agent *>(self);
        if (agent.ia_to_close != nullptr)
            agent.close_result = dat().ia_close_func(agent.ia_to_close, DAT_CLOSE_ABRUPT_FLAG);
        agent.evd = evd;
        ++agent.calls;
    }
    DAT_OS_WAIT_PROXY_AGENT as_agent() { return {this, call}; }
};

void cno_agent_called_once_per_modify(void **) {
    cno_fixture fixture;
    proxy_agent agent;
    assert_success(dat().cno_modify_agent_func(fixture.cno, agent.as_agent()));
    assert_int_equal(query_cno(fixture.cno).proxy_type, DAT_PROXY_TYPE_AGENT);
    assert_success(post_event(fixture.evd_a));
    assert_true(wait_until([&] { return agent.calls == 1; }));
    assert_ptr_equal(agent.evd.load(), fixture.evd_a);
    assert_int_equal(query_cno(fixture.cno).proxy_type, DAT_PROXY_TYPE_NONE);
    assert_success(post_event(fixture.evd_a)); // dat_cno_modify_agent arms the agent once
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    assert_int_equal(agent.calls, 1);
    assert_success(dat().cno_modify_agent_func(fixture.cno, agent.as_agent()));
    assert_true(wait_until([&] { return agent.calls == 2; }));
}

void cno_agent_of_create_called(void **) {
    ia_fixture ia;
    proxy_agent agent;
    DAT_CNO_HANDLE cno;
    assert_success(dat().cno_create_func(ia.handle, agent.as_agent(), &cno));
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
    assert_success(post_event(evd));
    assert_true(wait_until([&] { return agent.calls == 1; }));
    assert_ptr_equal(agent.evd.load(), evd);
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
}

std::atomic<bool> fault_handled = false;

/// The thread that calls agents does not block signals of faults.
void fault_of_agent_runs_the_consumers_handler(void **) {
    struct sigaction action = {}, old_action = {};
    action.sa_handler = [](int) {
        fault_handled = true;
    };
    assert_int_equal(sigaction(SIGFPE, &action, &old_action), 0);
    ia_fixture ia;
    std::atomic<bool> called = false;
    const DAT_OS_WAIT_PROXY_AGENT agent = {&called, [](DAT_PVOID self, DAT_EVD_HANDLE) {
                                               raise(SIGFPE); // returns after the handler
                                               *static_cast<std::atomic<bool> *>(self) = true;
                                           }};
    DAT_CNO_HANDLE cno;
    assert_success(dat().cno_create_func(ia.handle, agent, &cno));
    DAT_EVD_HANDLE const evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
    assert_success(post_event(evd));
    assert_true(wait_until([&] { return called.load(); }));
    assert_true(fault_handled);
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
    assert_int_equal(sigaction(SIGFPE, &old_action, nullptr), 0);
}

void removed_cno_agent_not_called(void **) {
    cno_fixture fixture;
    proxy_agent agent;
    assert_success(dat().cno_modify_agent_func(fixture.cno, agent.as_agent()));
    assert_success(dat().cno_modify_agent_func(fixture.cno, {nullptr, nullptr}));
    assert_success(post_event(fixture.evd_a));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    assert_int_equal(agent.calls, 0);
    assert_ptr_equal(wait_triggered(fixture.cno), fixture.evd_a);
}

/// The event thread; not asleep: it has no name yet.
thread_state event_thread_state() {
    for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
        std::string name;
        if (std::getline(std::ifstream(task.path() / "comm"), name) && name == "coherdma-dapl")
            return thread_state(std::stoi(task.path().filename()));
    }
    return thread_state(0);
}

/// The EVD has an event, of which the agent or, as it has none any more, dat_cno_wait tells.
void assert_notified(const cno_fixture &fixture, const proxy_agent &agent) {
    DAT_EVD_HANDLE const triggered = wait_triggered(fixture.cno);
    if (triggered == DAT_HANDLE_NULL)
        assert_true(wait_until([&] { return agent.calls == 1; }));
    else
        assert_ptr_equal(triggered, fixture.evd_a);
    dequeue(fixture.evd_a);
}

/// The event thread has found the EVD's descriptor readable when the agent is removed.
void trigger_not_lost_as_agent_is_removed(void **) {
    cno_fixture fixture;
    proxy_agent agent;
    assert_success(dat().cno_modify_agent_func(fixture.cno, agent.as_agent()));
    assert_true(wait_until([] { return event_thread_state().is_asleep; }));
    const unsigned long idle_switches = event_thread_state().switches;
    auto &evd = *static_cast<coherdma::dapl::dapl_evd *>(fixture.evd_a);
    evd.lock.lock();
    assert_true(evd.append_event());
    evd.signal_event_fd();
    assert_true(wait_until([&] { // it waits for the lock
        const thread_state state = event_thread_state();
        return state.is_asleep && state.switches > idle_switches;
    }));
    named_thread modifier([&] { dat().cno_modify_agent_func(fixture.cno, {nullptr, nullptr}); });
    assert_true(wait_until([&] { return modifier.is_asleep(); }));
    evd.lock.unlock();
    modifier.join();
    assert_notified(fixture, agent);
}

void trigger_beside_removal_of_agent_not_lost(void **) {
    for (int i = 0; i != 300; ++i) {
        cno_fixture fixture;
        proxy_agent agent;
        assert_success(dat().cno_modify_agent_func(fixture.cno, agent.as_agent()));
        std::thread poster([&] { post_event(fixture.evd_a); });
        assert_success(dat().cno_modify_agent_func(fixture.cno, {nullptr, nullptr}));
        poster.join();
        assert_notified(fixture, agent);
    }
}

/// dat_ia_close waits for calls in progress before it removes the EVDs from their CNOs.
void cno_wait_skips_evd_being_freed(void **) {
    cno_fixture fixture;
    assert_success(post_event(fixture.evd_a));
    auto *const evd = static_cast<coherdma::dapl::dapl_evd *>(fixture.evd_a);
    coherdma::dapl::unpublish(evd);
    assert_null(wait_triggered(fixture.cno));
    assert_success(post_event(fixture.evd_b));
    assert_ptr_equal(wait_triggered(fixture.cno), fixture.evd_b);
    coherdma::dapl::publish(evd, evd->provider);
    assert_ptr_equal(wait_triggered(fixture.cno), fixture.evd_a);
}

/// The agent's thread would wait for itself.
void ia_close_in_agent_rejected(void **) {
    cno_fixture fixture;
    proxy_agent agent;
    agent.ia_to_close = fixture.ia.handle;
    assert_success(dat().cno_modify_agent_func(fixture.cno, agent.as_agent()));
    assert_success(post_event(fixture.evd_a));
    assert_true(wait_until([&] { return agent.calls == 1; }));
    assert_int_equal(agent.close_result, invalid_state(DAT_INVALID_STATE_IA_IN_USE));
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        TEST(cno_wait_names_triggered_evd_once),
        TEST(cno_wait_names_each_triggered_evd),
        TEST(cno_in_use_while_evds_attached),
        TEST(evd_modify_cno_moves_pending_trigger),
        TEST(disabled_evd_triggers_cno_when_enabled),
        TEST(completion_triggers_cno),
        TEST(cno_wait_woken_by_event),
        TEST(abrupt_close_ends_cno_wait),
        TEST(cno_fd_readable_until_triggered),
        TEST(cno_agent_called_once_per_modify),
        TEST(cno_agent_of_create_called),
        TEST(fault_of_agent_runs_the_consumers_handler),
        TEST(removed_cno_agent_not_called),
        TEST(trigger_not_lost_as_agent_is_removed),
        TEST(trigger_beside_removal_of_agent_not_lost),
        TEST(cno_wait_skips_evd_being_freed),
        TEST(ia_close_in_agent_rejected),
        TEST(failed_evd_modify_cno_keeps_old_cno),
    };
    return run_cases(tests);
}
