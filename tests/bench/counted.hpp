// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Marks single calls for whoever counts: for callgrind its counting is on in them alone, for
// strace there is a write to no file before and after.

#pragma once

#include <string_view>
#include <unistd.h>
#include <valgrind/callgrind.h>

// For strace to see: to no file.
inline void write_words(std::string_view words) {
    const ssize_t refused = write(-1, words.data(), words.size());
    static_cast<void>(refused);
}

/// Counts one kind of call; the others are made besides.
template <class call>
class meter {
  public:
    explicit meter(call what)
        : counted_(what) {}

    template <class work>
    auto operator()(call which, const work &made) const {
        if (which != counted_)
            return made();
        write_words("begin");
        CALLGRIND_TOGGLE_COLLECT;
        const auto result = made();
        CALLGRIND_TOGGLE_COLLECT;
        write_words("end");
        return result;
    }

  private:
    call counted_;
};
