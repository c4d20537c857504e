// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "call_scope.hpp"

#include <atomic>
#include <new>
#include <unistd.h>

namespace coherdma::emulation {

/// Calls func(). If memory runs out, a sync or a check is incomplete, which the caller cannot be
/// told: says so once.
template <class function>
void unless_out_of_memory(function func) noexcept try {
    const call_scope scope;
    func();
} catch (const std::bad_alloc &) {
    constexpr char TEXT[] = "coherdma: emulation: out of memory: a sync is incomplete, so the "
                            "program or a peer may read stale data\n";
    static std::atomic_flag is_noted;
    if (!is_noted.test_and_set() && write(STDERR_FILENO, TEXT, sizeof TEXT - 1) < 0)
        return; // the message is lost
}

} // namespace coherdma::emulation
