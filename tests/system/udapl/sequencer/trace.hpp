// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The last calls of a thread, to be printed after a failure, a signal or a hang.

#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <dat2/udat.h>
#include <string>
#include <type_traits>

namespace sequencer {

struct call_record {
    struct argument {
        const char *name;
        std::uint64_t value;
    };
    const char *name = nullptr;
    std::array<argument, 12> args = {};
    std::size_t num_args = 0;
    DAT_RETURN result = 0;
    bool returned = false;
};

class call_ring {
  public:
    void begin(const char *name); ///< a call of this function
    template <class type>
    void add_arg(const char *name, type value) {
        std::uint64_t bits = 0;
        if constexpr (std::is_pointer_v<type>)
            bits = reinterpret_cast<std::uintptr_t>(value);
        else
            bits = static_cast<std::uint64_t>(value);
        if (current().num_args != current().args.size())
            current().args.at(current().num_args++) = {name, bits};
    }
    void end(DAT_RETURN result);

    /// The duration of the call in progress; 0: there is none.
    std::chrono::nanoseconds age() const;
    /// The call that ended last.
    std::string last_call() const {
        return to_text(records_.at((count_ + records_.size() - 1) % records_.size()));
    }
    std::string current_call() const { return to_text(records_.at(count_ % records_.size())); }
    /// From now on threads that begin or end a call wait, forever: the rings can be printed.
    static void freeze();
    /// Writes all records to standard error, the oldest first.
    void print(std::size_t thread_index) const;

  private:
    static void wait_if_frozen();
    call_record &current() { return records_.at(count_ % records_.size()); }
    static std::string to_text(const call_record &record);

    std::array<call_record, 200> records_ = {};
    std::size_t count_ =
        0; ///< calls that have ended; the next one's record is at this index, modulo the size
    static inline std::atomic<bool> frozen_ = false;
    std::atomic<std::int64_t> start_ns_ = 0; ///< of the call in progress; 0: there is none
};

/// "INVALID_STATE/INVALID_STATE_EP_CONNECTED".
std::string return_name(DAT_RETURN value);

} // namespace sequencer
