// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Programs of a few lines, each with one sync that is wrong or omitted, and with all of them right.
#pragma once

#include "stage.hpp"

#include <span>

namespace omissions {

/// What the emulation says of a scenario whose call is wrong or omitted.
enum class expected : std::uint8_t {
    CERTAIN,  ///< a finding, with certainty
    POSSIBLE, ///< a finding, with doubt
    ANY,      ///< a finding
    UNKNOWN,  ///< none, though a call is missing: coherdma-emulate(7) says so
    HARMLESS, ///< none: the wrong call has the effect of the right one
    NONE,     ///< none, since no call is wrong
};

struct scenario {
    const char *name;
    expected on_fresh_page, on_registered_page;
    void (*run)(stage &);
    enum : unsigned {
        ROCE = 1,    ///< iWARP does not have the operation
        SHARED = 2,  ///< the memory is shared with children
        AT_EXIT = 4, ///< finish_at_exit() follows, in a static destructor
        STRICT = 8,  ///< COHERDMA_EMULATE_OPTIONS=strict
        ENDS_CONNECTION = 16,
        KEPT = 32, ///< the memory is registered until the process ends
        ALONE = AT_EXIT | STRICT | ENDS_CONNECTION, ///< a process of its own runs it
    };
    unsigned needs = 0;
};

/// About memory that a peer reads, or writes: coherdma_sync_before_read(3).
extern const std::span<const scenario> READ_SCENARIOS, WRITE_SCENARIOS;
/// About memory of the owner's own requests: coherdma_sync_for_device(3).
extern const std::span<const scenario> LOCAL_SCENARIOS;

void finish_at_exit(stage &);

// -- parts of the memory of most of them

/// Begins and ends within a line.
inline bytes data_of(const stage &t) {
    return t.part(100, 700);
}
/// Whole lines: the first half, and the second.
inline bytes both_halves_of(const stage &t) {
    return t.part(1024, 1024);
}
inline bytes first_half_of(const stage &t) {
    return t.part(1024, 512);
}
inline bytes second_half_of(const stage &t) {
    return t.part(1536, 512);
}

} // namespace omissions
