// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is to be played, as the user said it: COHERDMA_EMULATE and its like in the environment, and
// coherdma.conf. coherdma-emulate(7) has all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace coherdma::emulation {

enum class mode : std::uint8_t {
    NONE,    ///< the device is left alone
    STALE,   ///< only syncs move lines
    POISON,  ///< and what is stale is overwritten
    EVICT,   ///< and lines move by chance
    THROUGH, ///< there is one copy: the cache has no regions
};
const char *name_of(mode) noexcept;

struct settings {
    mode plays = mode::NONE;
    std::uint64_t seed = 0; ///< of EVICT
    std::size_t line = 64;  ///< 32, 64, 128 or 256
    bool discards = false;  ///< deregistering drops what is dirty, as arm64's kernel before 7.0
    bool redundant = false; ///< syncs of clean ranges are reported
    bool strict = false;    ///< what is dirty beside data that arrive is reported
    bool stacks = true;
    bool marks = true;        ///< tools that watch the program are told of what is not synced
    std::size_t limit = 10;   ///< findings of one site that are told in full
    int status = 0;           ///< of the process if there was a finding; 0: its own
    std::string log;          ///< a file for JSON lines; %p: the process; "" none
    std::string suppressions; ///< a file; "" none
    std::string problem;      ///< what of it cannot be, in words; "" if nothing
};

/// What the environment and the configuration say of a device. A setuid program is told nothing.
settings read_settings(const std::string &device, const std::string &driver);

/// "stale", "poison", "evict:7", "through" or "off". False: it is none of these.
bool parse_mode(const std::string &text, settings &into);

} // namespace coherdma::emulation
