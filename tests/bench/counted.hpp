// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Marks single calls for counting: callgrind counts only in them, and strace sees a write to an
// invalid file descriptor before and after.

#pragma once

#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <valgrind/callgrind.h>

/// Writes the mark to no file: strace shows the system call, which fails.
inline void write_mark(std::string_view mark) {
    const ssize_t result = write(-1, mark.data(), mark.size());
    static_cast<void>(result);
}

/// Gives posted requests time to complete: polling until they have would add to the counted poll.
/// costs.py runs the program again with a longer COUNT_PAUSE, in milliseconds, if that was too
/// short.
inline void pause_for_completions() {
    constexpr long default_pause_ms = 10;
    const char *pause = std::getenv("COUNT_PAUSE");
    std::this_thread::sleep_for(std::chrono::milliseconds(
        pause == nullptr ? default_pause_ms : std::strtol(pause, nullptr, 10)));
}

/// Makes calls, and counts those of one kind, the constructor's.
template <class call_kind>
class meter {
  public:
    explicit meter(call_kind counted)
        : counted_(counted) {}

    /// Calls `call`, which is of this kind, and returns its result.
    template <class function>
    auto operator()(call_kind kind, const function &call) const {
        if (kind != counted_)
            return call();
        write_mark("begin");
        CALLGRIND_TOGGLE_COLLECT;
        const auto result = call();
        CALLGRIND_TOGGLE_COLLECT;
        write_mark("end");
        return result;
    }

  private:
    call_kind counted_;
};
