// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CNOs: who waits for several EVDs, by a thread, by a descriptor, or by an agent that is called.

#include "consumer.hpp"

#include <atomic>
#include <poll.h>
#include <thread>

using namespace played;

namespace {

void done(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}
void close(adapter &on) {
    done(dat().pz_free_func(on.pz));
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}
void post(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    event.event_number = DAT_SOFTWARE_EVENT;
    done(dat().evd_post_se_func(evd, &event));
}
void take(DAT_EVD_HANDLE evd) {
    DAT_EVENT event;
    done(dat().evd_dequeue_func(evd, &event));
}
DAT_CNO_PARAM ask_all(DAT_CNO_HANDLE cno) {
    DAT_CNO_PARAM param = {};
    done(dat().cno_query_func(cno, static_cast<DAT_CNO_PARAM_MASK>(7), &param));
    return param;
}
/// The EVD that it names, or DAT_HANDLE_NULL.
DAT_EVD_HANDLE triggered(DAT_CNO_HANDLE cno) {
    DAT_EVD_HANDLE from = &from;
    const DAT_RETURN result = dat().cno_wait_func(cno, 0, &from);
    assert_int_equal(result, from != DAT_HANDLE_NULL ? DAT_SUCCESS : error(DAT_QUEUE_EMPTY));
    return from;
}

/// A CNO and two EVDs of software events.
struct two {
    two()
        : cno(on.cno())
        , one(on.evd(DAT_EVD_SOFTWARE_FLAG, 8, cno))
        , other(on.evd(DAT_EVD_SOFTWARE_FLAG, 8, cno)) {}
    void free() {
        done(dat().evd_free_func(one));
        done(dat().evd_free_func(other));
        done(dat().cno_free_func(cno));
        close(on);
    }
    adapter on;
    DAT_CNO_HANDLE cno;
    DAT_EVD_HANDLE one, other;
};

void it_names_who_has_got_an_event(void **) {
    two with;
    assert_null(triggered(with.cno));
    post(with.other);
    assert_ptr_equal(triggered(with.cno), with.other);
    take(with.other);
    post(with.one);
    assert_ptr_equal(triggered(with.cno), with.one);
    assert_null(triggered(with.cno)); // once for what came
    take(with.one);
    with.free();
}

void both_are_named_if_both_have_one(void **) {
    two with;
    post(with.one);
    post(with.other);
    DAT_EVD_HANDLE const first = triggered(with.cno), second = triggered(with.cno);
    assert_true((first == with.one && second == with.other) ||
                (first == with.other && second == with.one));
    assert_null(triggered(with.cno));
    with.free();
}

void it_is_in_use_while_it_has_evds(void **) {
    two with;
    const DAT_RETURN in_use = wrong_state(DAT_INVALID_STATE_CNO_IN_USE);
    assert_int_equal(dat().cno_free_func(with.cno), in_use);
    done(dat().evd_modify_cno_func(with.one, DAT_HANDLE_NULL));
    assert_int_equal(dat().cno_free_func(with.cno), in_use);
    done(dat().evd_modify_cno_func(with.other, DAT_HANDLE_NULL));
    done(dat().cno_free_func(with.cno));
    with.cno = with.on.cno();
    with.free();
}

void an_evd_goes_from_one_to_another(void **) {
    two with;
    DAT_CNO_HANDLE const next = with.on.cno();
    done(dat().evd_modify_cno_func(with.one, next));
    done(dat().evd_modify_cno_func(with.one, next)); // to the same
    post(with.one);
    assert_null(triggered(with.cno));
    assert_ptr_equal(triggered(next), with.one);
    done(dat().evd_modify_cno_func(with.one, with.cno)); // with what is in it
    assert_ptr_equal(triggered(with.cno), with.one);
    done(dat().cno_free_func(next));
    with.free();
}

void a_change_that_fails_changes_nothing(void **) {
    adapter on;
    DAT_CNO_HANDLE const last = on.cno(), next = on.cno();
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_DTO_FLAG | DAT_EVD_SOFTWARE_FLAG, 8, last);
    DAT_EVD_PARAM param;
    for (DAT_CNO_HANDLE const before : {last, DAT_HANDLE(DAT_HANDLE_NULL)}) {
        done(dat().evd_modify_cno_func(evd, before));
        net().wrong.fail("ibv_req_notify_cq", ENOMEM);
        assert_int_equal(dat().evd_modify_cno_func(evd, next),
                         error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_TEVD));
        net().wrong.stop();
        done(dat().evd_query_func(evd, DAT_EVD_FIELD_ALL, &param));
        assert_ptr_equal(param.cno_handle, before);
        post(evd);
        assert_null(triggered(next));
        assert_ptr_equal(triggered(last), before == last ? evd : DAT_HANDLE_NULL);
        take(evd);
        assert_int_equal(dat().cno_free_func(last),
                         before == last ? wrong_state(DAT_INVALID_STATE_CNO_IN_USE) : DAT_SUCCESS);
    }
    done(dat().cno_free_func(next));
    done(dat().evd_free_func(evd));
    close(on);
}

void a_disabled_evd_does_not_trigger(void **) {
    two with;
    done(dat().evd_disable_func(with.one));
    post(with.one);
    assert_null(triggered(with.cno));
    done(dat().evd_enable_func(with.one));
    assert_ptr_equal(triggered(with.cno), with.one); // what came meanwhile
    with.free();
}

void a_completion_triggers(void **) {
    adapter on;
    DAT_CNO_HANDLE const cno = on.cno();
    end one(on), other(on);
    done(dat().evd_modify_cno_func(other.receives, cno));
    connect(one, other);
    memory area(on);
    DAT_LMR_TRIPLET part = area.part(0, 64);
    for (int turn = 0; turn != 2; ++turn) {
        done(dat().ep_post_recv_func(other.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        done(dat().ep_post_send_func(one.ep, 1, &part, cookie(1), DAT_COMPLETION_DEFAULT_FLAG));
        DAT_EVD_HANDLE from;
        done(dat().cno_wait_func(cno, soon, &from));
        assert_ptr_equal(from, other.receives);
        take(from);
    }
    disconnect(one, other);
    one.free();
    other.free();
    area.free();
    done(dat().cno_free_func(cno));
    close(on);
}

void a_thread_waits_until_one_comes(void **) {
    two with;
    DAT_EVD_HANDLE from = DAT_HANDLE_NULL;
    std::thread waits([&] { dat().cno_wait_func(with.cno, soon, &from); });
    post(with.one);
    waits.join();
    assert_ptr_equal(from, with.one);
    with.free();
}

void closing_the_ia_sends_away_who_waits(void **) {
    adapter on;
    DAT_CNO_HANDLE const cno = on.cno();
    DAT_EVD_HANDLE from = &from;
    DAT_RETURN result = 0;
    std::thread waits([&] { result = dat().cno_wait_func(cno, DAT_TIMEOUT_INFINITE, &from); });
    const auto in_use = wrong_state(DAT_INVALID_STATE_CNO_IN_USE);
    std::this_thread::sleep_for(std::chrono::milliseconds(20)); // until it waits, most likely
    assert_int_equal(dat().cno_free_func(cno), in_use);
    on.close(DAT_CLOSE_ABRUPT_FLAG);
    waits.join();
    assert_int_equal(result, wrong_state(DAT_INVALID_STATE_CNO_DEAD));
    assert_null(from);
}

// -- descriptors

bool is_readable(DAT_FD fd) {
    pollfd one = {fd, POLLIN, 0};
    return poll(&one, 1, 0) == 1;
}

void a_descriptor_becomes_readable(void **) {
    adapter on;
    DAT_FD fd = -1;
    DAT_CNO_HANDLE cno;
    done(dat().cno_fd_create_func(on.ia, &fd, &cno));
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
    assert_false(is_readable(fd));
    post(evd);
    assert_true(is_readable(fd));
    DAT_EVD_HANDLE from;
    done(dat().cno_trigger_func(cno, &from));
    assert_ptr_equal(from, evd);
    assert_false(is_readable(fd));
    const DAT_CNO_PARAM is = ask_all(cno);
    assert_int_equal(is.proxy_type, DAT_PROXY_TYPE_FD);
    assert_int_equal(is.proxy.fd, fd);
    assert_int_equal(dat().cno_wait_func(cno, 0, &from), wrong_state(DAT_INVALID_STATE_CNO_IN_USE));
    assert_int_equal(dat().cno_modify_agent_func(cno, {nullptr, nullptr}),
                     wrong_state(DAT_NO_SUBTYPE));
    done(dat().evd_free_func(evd));
    done(dat().cno_free_func(cno));
    close(on);
}

// -- agents

struct agent {
    std::atomic<int> calls = 0;
    std::atomic<DAT_EVD_HANDLE> from = nullptr;
    std::atomic<DAT_RETURN> closed = DAT_SUCCESS;
    DAT_IA_HANDLE closes = nullptr;

    static void call(DAT_PVOID self, DAT_EVD_HANDLE evd) {
        auto &one = *static_cast<agent *>(self);
        if (one.closes != nullptr)
            one.closed = dat().ia_close_func(one.closes, DAT_CLOSE_ABRUPT_FLAG);
        one.from = evd;
        ++one.calls;
    }
    DAT_OS_WAIT_PROXY_AGENT as_agent() { return {this, call}; }
};

void an_agent_is_called_once(void **) {
    two with;
    agent one;
    done(dat().cno_modify_agent_func(with.cno, one.as_agent()));
    assert_int_equal(ask_all(with.cno).proxy_type, DAT_PROXY_TYPE_AGENT);
    post(with.one);
    assert_true(eventually([&] { return one.calls == 1; }));
    assert_ptr_equal(one.from.load(), with.one);
    assert_int_equal(ask_all(with.cno).proxy_type, DAT_PROXY_TYPE_NONE);
    post(with.one); // It is forgotten until it is named again.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    assert_int_equal(one.calls, 1);
    done(dat().cno_modify_agent_func(with.cno, one.as_agent()));
    assert_true(eventually([&] { return one.calls == 2; }));
    with.free();
}

void an_agent_from_the_beginning(void **) {
    adapter on;
    agent one;
    DAT_CNO_HANDLE cno;
    done(dat().cno_create_func(on.ia, one.as_agent(), &cno));
    DAT_EVD_HANDLE const evd = on.evd(DAT_EVD_SOFTWARE_FLAG, 8, cno);
    post(evd);
    assert_true(eventually([&] { return one.calls == 1; }));
    assert_ptr_equal(one.from.load(), evd);
    done(dat().evd_free_func(evd));
    done(dat().cno_free_func(cno));
    close(on);
}

void an_agent_that_was_taken_away_is_not_called(void **) {
    two with;
    agent one;
    done(dat().cno_modify_agent_func(with.cno, one.as_agent()));
    done(dat().cno_modify_agent_func(with.cno, {nullptr, nullptr}));
    post(with.one);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    assert_int_equal(one.calls, 0);
    assert_ptr_equal(triggered(with.cno), with.one);
    with.free();
}

void an_agent_cannot_close_the_ia(void **) {
    two with;
    agent one;
    one.closes = with.on.ia;
    done(dat().cno_modify_agent_func(with.cno, one.as_agent()));
    post(with.one);
    assert_true(eventually([&] { return one.calls == 1; }));
    assert_int_equal(one.closed, wrong_state(DAT_INVALID_STATE_IA_IN_USE));
    with.free();
}

} // namespace

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, gone)

int main() {
    register_names();
    const CMUnitTest tests[] = {
        TEST(it_names_who_has_got_an_event),   TEST(both_are_named_if_both_have_one),
        TEST(it_is_in_use_while_it_has_evds),  TEST(an_evd_goes_from_one_to_another),
        TEST(a_disabled_evd_does_not_trigger), TEST(a_completion_triggers),
        TEST(a_thread_waits_until_one_comes),  TEST(closing_the_ia_sends_away_who_waits),
        TEST(a_descriptor_becomes_readable),   TEST(an_agent_is_called_once),
        TEST(an_agent_from_the_beginning),     TEST(an_agent_that_was_taken_away_is_not_called),
        TEST(an_agent_cannot_close_the_ia),    TEST(a_change_that_fails_changes_nothing),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
