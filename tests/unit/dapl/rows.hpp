// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tables of calls that must fail: what is wrong, what is to be said of it, and the call.
#pragma once

#include "consumer.hpp"

namespace played {

template <class world>
struct row {
    using with = world;
    const char *what;
    DAT_RETURN expected;
    DAT_RETURN (*call)(const world &with);
};

/// Where calls would put what they make.
inline DAT_HANDLE made = &made;

/// A test: each row fails as it must, and leaves nothing. All are tried before the test fails.
template <auto &rows>
void none_is_taken(void **) {
    adapter on;
    typename std::remove_cvref_t<decltype(rows[0])>::with at(on);
    int wrong = 0;
    for (const auto &each : rows) {
        const auto before = net().living();
        const auto heard = net().heard.size();
        const DAT_RETURN result = each.call(at);
        if (result != each.expected) {
            ++wrong;
            print_error("%s: %#x, not %#x\n", each.what, result, each.expected);
        }
        if (net().living() != before || net().heard.size() != heard || made != &made) {
            ++wrong;
            print_error("%s: something is left\n", each.what);
        }
    }
    assert_int_equal(wrong, 0);
    at.free();
    assert_int_equal(dat().pz_free_func(on.pz), DAT_SUCCESS);
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}

/// Of a table.
#define ROWS(table) cmocka_unit_test_setup_teardown(none_is_taken<table>, fresh, gone)

} // namespace played
