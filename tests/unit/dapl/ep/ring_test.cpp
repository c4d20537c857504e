// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// cookie_ring (dapl/ep/cookie_ring.hpp) and dat_deadline (deadline.hpp).

#include "dapl/core/deadline.hpp"
#include "dapl/ep/cookie_ring.hpp"

#include <array>
#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

using namespace coherdma::dapl;

dto_cookie *post(cookie_ring &ring) {
    dto_cookie *const cookie = ring.peek_free();
    if (cookie != nullptr)
        ring.commit(*cookie);
    return cookie;
}

void complete(cookie_ring &ring, dto_cookie &cookie) {
    const std::uint64_t number = ring.pending_seq(cookie);
    assert_int_not_equal(number, 0);
    ring.complete(cookie, number);
}

void ring_holds_max_outstanding_cookies(void **) {
    for (const std::uint32_t max_outstanding : {1U, 2U, 3U, 7U, 8U, 100U, 4096U}) {
        cookie_ring ring;
        assert_true(ring.init(max_outstanding));
        ring.open();
        assert_int_equal(ring.capacity(), max_outstanding);
        assert_int_equal(ring.outstanding(), 0);
        std::vector<dto_cookie *> cookies;
        for (std::uint32_t n = 0; n != max_outstanding; ++n) {
            cookies.push_back(post(ring));
            assert_non_null(cookies.back());
            assert_int_equal(ring.outstanding(), n + 1);
        }
        assert_null(ring.peek_free());
        // Wrap around several times.
        for (std::uint32_t n = 0; n != 3 * max_outstanding; ++n) {
            complete(ring, *cookies[n % max_outstanding]);
            cookies[n % max_outstanding] = post(ring);
            assert_non_null(cookies[n % max_outstanding]);
            assert_null(ring.peek_free());
        }
    }
    cookie_ring none;
    assert_true(none.init(0));
    none.open();
    assert_null(none.peek_free());
}

/// Unsignaled requests have no completion of their own: one of a later request completes them.
void completion_completes_earlier_cookies(void **) {
    cookie_ring ring;
    assert_true(ring.init(8));
    ring.open();
    for (int round = 0; round != 5; ++round) {
        std::array<dto_cookie *, 6> cookies;
        for (dto_cookie *&cookie : cookies)
            cookie = post(ring);
        complete(ring, *cookies[3]);
        assert_int_equal(ring.outstanding(), 2);
        complete(ring, *cookies[4]);
        assert_int_equal(ring.outstanding(), 1);
        complete(ring, *cookies[5]);
        assert_int_equal(ring.outstanding(), 0);
    }
    for (int n = 0; n != 8; ++n)
        post(ring);
    assert_null(ring.peek_free()); // full
    ring.complete_all();
    assert_int_equal(ring.outstanding(), 0);
    assert_non_null(ring.peek_free());
}

// A cookie that was completed, overtaken or never posted cannot complete again.
void cookie_completed_once(void **) {
    cookie_ring ring;
    assert_true(ring.init(4));
    ring.open();
    for (int round = 0; round != 9; ++round) {
        std::array<dto_cookie *, 4> cookies;
        for (dto_cookie *&cookie : cookies)
            cookie = post(ring);
        complete(ring, *cookies[2]);
        assert_int_equal(ring.pending_seq(*cookies[2]), 0);
        assert_false(ring.complete_checked(*cookies[2]));
        assert_int_equal(ring.pending_seq(*cookies[0]), 0); // overtaken
        assert_int_equal(ring.outstanding(), 1);
        assert_true(ring.complete_checked(*cookies[0]));
        assert_false(ring.complete_checked(*cookies[0]));
        assert_int_equal(ring.outstanding(), 1);
        assert_true(ring.complete_checked(*cookies[3]));
        assert_false(ring.complete_checked(*cookies[3]));
        assert_int_equal(ring.outstanding(), 0);
        dto_cookie *const rolled_back = post(ring);
        ring.rollback();
        assert_int_equal(ring.pending_seq(*rolled_back), 0);
        assert_false(ring.complete_checked(*rolled_back));
        dto_cookie *const future = ring.peek_free();
        assert_int_equal(ring.pending_seq(*future), 0);
        assert_false(ring.complete_checked(*future));
        assert_int_equal(ring.outstanding(), 0);
    }
}

/// A cookie whose post failed is posted again next.
void rolled_back_cookie_not_in_ring(void **) {
    cookie_ring ring;
    assert_true(ring.init(2));
    ring.open();
    dto_cookie *const cookie = post(ring), *const second = post(ring);
    ring.rollback();
    assert_int_equal(ring.outstanding(), 1);
    assert_ptr_equal(post(ring), second);
    complete(ring, *cookie);
    complete(ring, *second);
    assert_int_equal(ring.outstanding(), 0);
}

void concurrent_post_and_completion_keep_ring_consistent(void **) {
    cookie_ring ring;
    assert_true(ring.init(16));
    ring.open();
    constexpr std::uint64_t many = 50000;
    // The device: completes in the order of posting.
    std::array<std::atomic<dto_cookie *>, 16> device = {};
    std::atomic<unsigned> num_errors = 0;
    std::thread poster([&] {
        for (std::uint64_t n = 0; n != many;) {
            dto_cookie *const cookie = ring.peek_free();
            if (cookie == nullptr || device[n % 16].load(std::memory_order_acquire) != nullptr) {
                std::this_thread::yield();
                continue;
            }
            cookie->event.user_cookie.as_64 = n;
            ring.commit(*cookie);
            device[n++ % 16].store(cookie, std::memory_order_release);
        }
    });
    for (std::uint64_t n = 0; n != many;) {
        dto_cookie *const cookie = device[n % 16].load(std::memory_order_acquire);
        if (cookie == nullptr) {
            std::this_thread::yield();
            continue;
        }
        num_errors += cookie->event.user_cookie.as_64 != n;
        num_errors += ring.outstanding() == 0 || ring.outstanding() > 16;
        device[n++ % 16].store(nullptr, std::memory_order_release);
        complete(ring, *cookie);
    }
    poster.join();
    assert_int_equal(num_errors, 0);
    assert_int_equal(ring.outstanding(), 0);
}

/// dat_deadline is a DAT_TIMEOUT in microseconds from now; remaining() is what a wait of the kernel
/// gets.
void deadline_stays_passed(void **) {
    dat_deadline infinite(DAT_TIMEOUT_INFINITE);
    assert_false(infinite.has_passed());
    assert_null(infinite.remaining());
    dat_deadline zero(0);
    assert_true(zero.has_passed());
    assert_int_equal(zero.remaining()->tv_sec, 0);
    assert_int_equal(zero.remaining()->tv_nsec, 0);
    dat_deadline long_deadline(2500000000);
    assert_false(long_deadline.has_passed());
    assert_in_range(long_deadline.remaining()->tv_sec, 1, 2500);
    assert_in_range(long_deadline.remaining()->tv_nsec, 0, 999999999);
    // The longest finite timeout does not overflow.
    dat_deadline longest(0xfffffffe);
    assert_false(longest.has_passed());
    assert_in_range(longest.remaining()->tv_sec, 1, 4294);
    const std::int64_t start = dat_deadline::now_ns();
    dat_deadline short_deadline(20000);
    while (!short_deadline.has_passed())
        std::this_thread::yield();
    assert_true(dat_deadline::now_ns() - start >= 20000000);
    assert_int_equal(short_deadline.remaining()->tv_nsec, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(ring_holds_max_outstanding_cookies),
        cmocka_unit_test(completion_completes_earlier_cookies),
        cmocka_unit_test(cookie_completed_once),
        cmocka_unit_test(rolled_back_cookie_not_in_ring),
        cmocka_unit_test(concurrent_post_and_completion_keep_ring_consistent),
        cmocka_unit_test(deadline_stays_passed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
