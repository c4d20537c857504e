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

// For strace to see: to no file.
inline void write_words(std::string_view words) {
    const ssize_t refused = write(-1, words.data(), words.size());
    static_cast<void>(refused);
}

/// Gives what was posted time to complete: to poll for it would be counted too. costs.py runs
/// the program again with a longer COUNT_PAUSE, in milliseconds, if that was too short.
inline void pause_for_completions() {
    const char *pause = std::getenv("COUNT_PAUSE");
    std::this_thread::sleep_for(
        std::chrono::milliseconds(pause == nullptr ? 10 : std::strtol(pause, nullptr, 10)));
}

/// Counts one kind of call; the others are made besides.
template <class call_kind>
class meter {
  public:
    explicit meter(call_kind counted)
        : counted_(counted) {}

    template <class function>
    auto operator()(call_kind kind, const function &call) const {
        if (kind != counted_)
            return call();
        write_words("begin");
        CALLGRIND_TOGGLE_COLLECT;
        const auto result = call();
        CALLGRIND_TOGGLE_COLLECT;
        write_words("end");
        return result;
    }

  private:
    call_kind counted_;
};
