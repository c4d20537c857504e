// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls of two threads with an object whose calls the program must serialize.

#include "../cmocka.hpp"
#include "check/rules.hpp"

#include <cerrno>
#include <thread>

extern "C" int ibv_query_qp(ibv_qp *, ibv_qp_attr *, int, ibv_qp_init_attr *) {
    return ENOSYS;
}

namespace {

using namespace coherdma::check;

struct fixture {
    fixture() {
        known_srq added;
        added.kind = object_kind::SRQ;
        added.handle = &handle;
        added.number = 7;
        added.name = "SRQ 3";
        books.srqs.emplace(&handle, added);
    }

    coherdma::interposer::object object() const {
        coherdma::interposer::object used;
        used.kind = object_kind::SRQ;
        used.handle = &handle;
        used.number = 7;
        return used;
    }
    void begin() { begin_use(books, object(), "ibv_post_srq_recv", results); }
    void end() { end_use(books, object()); }
    template <class function>
    static void run_thread(function func) {
        std::thread(func).join();
    }

    int handle = 0;
    process_books books;
    findings results;
};

void calls_that_follow_each_other_are_right(void **) {
    fixture f;
    f.begin();
    f.end();
    f.run_thread([&] {
        f.begin();
        f.end();
    });
    assert_int_equal(f.results.size(), 0);
    assert_int_equal(f.books.uses.size(), 0);
}

void a_thread_may_interrupt_its_call(void **) {
    fixture f;
    f.begin();
    f.begin(); // by a signal handler
    assert_int_equal(f.results.size(), 0);
}

void overlapping_calls_are_wrong(void **) {
    fixture f;
    f.begin();
    f.run_thread([&] {
        f.begin();
        f.end();
    });
    f.end();
    assert_int_equal(f.results.size(), 1);
    assert_true(f.results[0].kind == finding_kind::THREAD_DOMAIN);
    assert_int_equal(f.results[0].events.size(), 3);
    assert_int_equal(f.books.uses.size(), 0);
}

void third_call_overlaps_the_second(void **) {
    fixture f;
    f.begin();
    std::thread second([&] {
        f.begin();
        f.end(); // the use that this thread has begun
    });
    second.join();
    f.run_thread([&] { f.begin(); });
    assert_int_equal(f.results.size(), 2);
}

/// A coroutine may go on in another thread.
void use_may_end_in_another_thread(void **) {
    fixture f;
    f.begin();
    f.run_thread([&] { f.end(); });
    f.run_thread([&] { f.begin(); });
    assert_int_equal(f.results.size(), 0);
}

void destroyed_object_is_not_used(void **) {
    fixture f;
    f.begin();
    f.books.remove(f.object(), {});
    assert_int_equal(f.books.uses.size(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_follow_each_other_are_right),
        cmocka_unit_test(a_thread_may_interrupt_its_call),
        cmocka_unit_test(overlapping_calls_are_wrong),
        cmocka_unit_test(third_call_overlaps_the_second),
        cmocka_unit_test(use_may_end_in_another_thread),
        cmocka_unit_test(destroyed_object_is_not_used),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
