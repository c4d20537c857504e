// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs over the uDAPL provider, in which a CNO reports events: no event is left in an EVD
// whose CNO has a waiter, and no waiter is left.

#include "two_sides.hpp"

#include <array>
#include <atomic>
#include <thread>

namespace {

using namespace udapl_programs;
using fake::assert_success;
using fake::dat;

constexpr DAT_TIMEOUT SHORT_US = 1000;

/// An IA with CNOs, and EVDs for events of the consumer.
struct notified {
    notified()
        : fabric(transport::roce)
        , ia(fabric.ia_name)
        , cno(ia.create_cno())
        , other_cno(ia.create_cno())
        , first(ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno))
        , second(ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno)) {}
    ~notified() {
        for (const DAT_EVD_HANDLE evd : {first, second})
            assert_success(dat().evd_free_func(evd));
        for (const DAT_CNO_HANDLE each : {cno, other_cno})
            assert_success(dat().cno_free_func(each));
        fake::close(ia);
    }
    notified(const notified &) = delete;
    notified &operator=(const notified &) = delete;

    const fabric_user fabric;
    fake::ia_fixture ia;
    DAT_CNO_HANDLE cno, other_cno;
    DAT_EVD_HANDLE first, second;
};

void post(DAT_EVD_HANDLE evd) {
    assert_success(fake::post_event(evd));
}

bool dequeue(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    return dat().evd_dequeue_func(evd, &event) == DAT_SUCCESS;
}

/// The EVD that has triggered the CNO. DAT_HANDLE_NULL: none within the time.
DAT_EVD_HANDLE wait_for_trigger(DAT_CNO_HANDLE cno, DAT_TIMEOUT timeout_us = DAT_TIMEOUT_INFINITE) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    const DAT_RETURN result = dat().cno_wait_func(cno, timeout_us, &evd);
    require(result == DAT_SUCCESS
                ? evd != DAT_HANDLE_NULL
                : timeout_us != DAT_TIMEOUT_INFINITE && DAT_GET_TYPE(result) == DAT_QUEUE_EMPTY,
            "dat_cno_wait fails");
    return result == DAT_SUCCESS ? evd : DAT_HANDLE_NULL;
}

/// Takes one event of whatever EVD triggers the CNO.
void take_event(DAT_CNO_HANDLE cno) {
    while (!dequeue(wait_for_trigger(cno))) {
    }
}

/// Two EVDs trigger while a thread waits.
void two_evds_trigger() {
    notified objects;
    std::thread posting([&] { post(objects.first); });
    std::thread posting_too([&] { post(objects.second); });
    for (int i = 0; i != 2; ++i)
        take_event(objects.cno);
    posting.join();
    posting_too.join();
}

/// Two threads wait, and each gets an event.
void two_threads_wait() {
    notified objects;
    std::thread waiting([&] { take_event(objects.cno); });
    std::thread posting([&] { post(objects.second); });
    post(objects.first);
    take_event(objects.cno);
    waiting.join();
    posting.join();
}

/// A thread waits for a time, and then looks again.
void wait_is_over() {
    notified objects;
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    while (wait_for_trigger(objects.cno, SHORT_US) == DAT_HANDLE_NULL) {
    }
    require(dequeue(objects.first), "an EVD without an event has triggered");
    posting.join();
}

/// One thread waits, another asks without waiting. One event, so one gets it; the waiting one gets
/// that of the second EVD, which is posted afterwards.
void trigger_beside_wait() {
    notified objects;
    std::thread waiting([&] { take_event(objects.cno); });
    std::thread posting([&] { post(objects.first); });
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    const bool has_event = dat().cno_trigger_func(objects.cno, &evd) == DAT_SUCCESS && dequeue(evd);
    posting.join();
    post(objects.second);
    waiting.join();
    const bool is_left = dequeue(objects.first) || dequeue(objects.second);
    require(has_event != is_left, "an event is lost or comes twice");
}

/// An EVD moves to another CNO beside its event: the new one has it.
void evd_moves_to_another_cno() {
    notified objects;
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    wait_for_any_moment();
    assert_success(dat().evd_modify_cno_func(objects.first, objects.other_cno));
    require(wait_for_trigger(objects.other_cno) == objects.first, "another EVD has triggered");
    require(dequeue(objects.first), "an EVD without an event has triggered");
    posting.join();
}

/// It moves while a thread waits for each CNO; the first gets the other EVD's event.
void evd_moves_beside_waiters() {
    notified objects;
    std::thread waiting([&] {
        const DAT_EVD_HANDLE evd = wait_for_trigger(objects.cno);
        if (evd == objects.first) // before it has moved; its event is the other thread's
            require(wait_for_trigger(objects.cno) == objects.second, "an EVD triggers twice");
    });
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
        post(objects.second);
    });
    wait_for_any_moment();
    assert_success(dat().evd_modify_cno_func(objects.first, objects.other_cno));
    take_event(objects.other_cno);
    waiting.join();
    posting.join();
    require(dequeue(objects.second), "an event is lost");
}

/// An EVD leaves its CNO beside its event, which a thread waits for at the EVD.
void evd_leaves_its_cno() {
    notified objects;
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    std::thread leaving([&] {
        wait_for_any_moment();
        assert_success(dat().evd_modify_cno_func(objects.first, DAT_HANDLE_NULL));
    });
    DAT_EVENT event = {};
    DAT_COUNT num_more = 0;
    assert_success(dat().evd_wait_func(objects.first, DAT_TIMEOUT_INFINITE, 1, &event, &num_more));
    posting.join();
    leaving.join();
}

/// A thread waits at an EVD, and another at its CNO, which gets what the first leaves.
void evd_wait_beside_cno_wait() {
    notified objects;
    std::thread waiting([&] {
        DAT_EVENT event = {};
        DAT_COUNT num_more = 0;
        assert_success(
            dat().evd_wait_func(objects.first, DAT_TIMEOUT_INFINITE, 1, &event, &num_more));
    });
    std::thread posting([&] {
        post(objects.first);
        wait_for_any_moment();
        post(objects.first);
    });
    take_event(objects.cno);
    waiting.join();
    posting.join();
}

/// What the agent of a CNO was called for.
struct agent_calls {
    std::atomic<DAT_EVD_HANDLE> evd = DAT_HANDLE_NULL;
    std::atomic<int> count = 0;

    static void call(DAT_PVOID data, DAT_EVD_HANDLE evd) {
        auto &calls = *static_cast<agent_calls *>(data);
        calls.evd = evd;
        ++calls.count;
        calls.count.notify_all();
    }
    DAT_OS_WAIT_PROXY_AGENT agent() { return {this, call}; }
};
constexpr DAT_OS_WAIT_PROXY_AGENT NO_AGENT = {nullptr, nullptr};

/// The agent is removed beside an event: it is called, or a thread that waits has it.
void agent_is_removed() {
    notified objects;
    agent_calls calls;
    assert_success(dat().cno_modify_agent_func(objects.cno, calls.agent()));
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    wait_for_any_moment();
    assert_success(dat().cno_modify_agent_func(objects.cno, NO_AGENT));
    while (calls.count == 0 && wait_for_trigger(objects.cno, SHORT_US) == DAT_HANDLE_NULL) {
    }
    require(dequeue(objects.first), "an event is lost");
    posting.join();
}

/// The agent is set beside events of both EVDs: it is called once, and set again for the other.
void agent_is_set_again() {
    notified objects;
    agent_calls calls;
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    std::thread posting_too([&] {
        wait_for_any_moment();
        post(objects.second);
    });
    for (int i = 0; i != 2; ++i) {
        assert_success(dat().cno_modify_agent_func(objects.cno, calls.agent()));
        calls.count.wait(i);
        require(calls.count == i + 1, "the agent is called again");
        require(dequeue(calls.evd), "the agent is called for an EVD without an event");
    }
    posting.join();
    posting_too.join();
}

/// The agent is replaced beside an event: one of the two is called.
void agent_is_replaced() {
    notified objects;
    agent_calls calls, new_calls;
    assert_success(dat().cno_modify_agent_func(objects.cno, calls.agent()));
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    wait_for_any_moment();
    assert_success(dat().cno_modify_agent_func(objects.cno, new_calls.agent()));
    posting.join();
    while (calls.count + new_calls.count == 0)
        std::this_thread::yield();
    require(dequeue(objects.first), "an event is lost");
    assert_success(dat().cno_modify_agent_func(objects.cno, NO_AGENT));
    require(calls.count + new_calls.count == 1, "two agents are called for an event");
}

/// The agent's CNO and EVD are freed beside an event.
void agent_and_free() {
    const fabric_user fabric(transport::roce);
    fake::ia_fixture ia(fabric.ia_name);
    agent_calls calls;
    const DAT_CNO_HANDLE cno = ia.create_cno();
    const DAT_EVD_HANDLE evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno);
    assert_success(dat().cno_modify_agent_func(cno, calls.agent()));
    std::thread posting([&] {
        wait_for_any_moment();
        fake::post_event(evd); // if it is in time
    });
    wait_for_any_moment();
    assert_success(dat().evd_free_func(evd));
    assert_success(dat().cno_free_func(cno));
    posting.join();
    fake::close(ia); // waits for the agent
}

/// An EVD of a CNO is enabled beside its event.
void evd_is_enabled() {
    notified objects;
    assert_success(dat().evd_disable_func(objects.first));
    std::thread posting([&] {
        wait_for_any_moment();
        post(objects.first);
    });
    wait_for_any_moment();
    assert_success(dat().evd_enable_func(objects.first));
    take_event(objects.cno);
    posting.join();
}

/// The completions of an EP and its connection events trigger a CNO.
template <transport kind>
void connection_triggers() {
    const fabric_user fabric(kind);
    fake::ia_fixture ia(fabric.ia_name);
    const DAT_CNO_HANDLE cno = ia.create_cno();
    {
        side active(ia, side::role::active), passive(ia, side::role::passive);
        const fake::memory memory(ia);
        for (const DAT_EVD_HANDLE evd : {active.connect_evd, active.dto_evd})
            assert_success(dat().evd_modify_cno_func(evd, cno));
        listener psp(ia, [&](DAT_CR_HANDLE cr) {
            passive.accept(cr);
            passive.post_send(memory);
            passive.disconnect(DAT_CLOSE_GRACEFUL_FLAG);
        });
        active.post_recv(memory);
        require(active.connect(), "not connected");
        while (!active.has_ended() || !active.has_completed_all()) {
            wait_for_trigger(cno);
            active.take_events();
        }
        psp.stop();
        passive.wait_for_end({DAT_CONNECTION_EVENT_DISCONNECTED, DAT_CONNECTION_EVENT_BROKEN});
        for (const DAT_EVD_HANDLE evd : {active.connect_evd, active.dto_evd})
            assert_success(dat().evd_modify_cno_func(evd, DAT_HANDLE_NULL));
        active.finish();
        passive.finish();
    }
    assert_success(dat().cno_free_func(cno));
    fake::close(ia);
}

/// The IA is closed while threads wait for the CNO and an EVD: they return.
void ia_is_closed() {
    const fabric_user fabric(transport::roce);
    fake::ia_fixture ia(fabric.ia_name);
    const DAT_CNO_HANDLE cno = ia.create_cno();
    const DAT_EVD_HANDLE evd = ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 4, cno);
    std::thread waiting([&] {
        DAT_EVD_HANDLE triggered = DAT_HANDLE_NULL;
        dat().cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &triggered);
    });
    std::thread waiting_too([&] {
        DAT_EVENT event = {};
        DAT_COUNT num_more = 0;
        dat().evd_wait_func(evd, DAT_TIMEOUT_INFINITE, 1, &event, &num_more);
    });
    wait_for_any_moment();
    ia.close();
    waiting.join();
    waiting_too.join();
}

constexpr std::array PROGRAMS = {
    schedule::program{"two_evds_trigger", two_evds_trigger},
    schedule::program{"two_threads_wait", two_threads_wait},
    schedule::program{"wait_is_over", wait_is_over},
    schedule::program{"trigger_beside_wait", trigger_beside_wait},
    schedule::program{"evd_moves_to_another_cno", evd_moves_to_another_cno},
    schedule::program{"evd_moves_beside_waiters", evd_moves_beside_waiters},
    schedule::program{"evd_leaves_its_cno", evd_leaves_its_cno},
    schedule::program{"evd_wait_beside_cno_wait", evd_wait_beside_cno_wait},
    schedule::program{"agent_is_removed", agent_is_removed},
    schedule::program{"agent_is_set_again", agent_is_set_again},
    schedule::program{"agent_is_replaced", agent_is_replaced},
    schedule::program{"agent_and_free", agent_and_free},
    schedule::program{"evd_is_enabled", evd_is_enabled},
    schedule::program{"connection_triggers", connection_triggers<transport::roce>},
    schedule::program{"connection_triggers_iwarp", connection_triggers<transport::iwarp>},
    schedule::program{"ia_is_closed", ia_is_closed},
};

} // namespace

int main(int argc, char **argv) {
    return schedule::run_programs(argc, argv, PROGRAMS);
}
