// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The settings of the emulation: COHERDMA_EMULATE and other environment variables, and
// coherdma.conf. coherdma-emulate(7) documents them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace coherdma::emulation {

enum class cache_mode : std::uint8_t {
    OFF,         ///< the device is not emulated
    STALE,       ///< only syncs move lines
    POISON,      ///< and stale bytes are overwritten
    EVICT,       ///< and lines move at random
    PASSTHROUGH, ///< there is one copy: nothing is registered with the cache
};
const char *mode_name(cache_mode) noexcept;

struct settings {
    cache_mode mode = cache_mode::OFF;
    std::uint64_t seed = 0;           ///< of EVICT
    std::size_t line_size = 64;       ///< 32, 64, 128 or 256
    bool program_syncs_local = false; ///< local memory of work requests; false: the provider does
    bool dereg_discards = false;      ///< ibv_dereg_mr drops dirty lines, as arm64 before Linux 7.0
    bool report_redundant = false;    ///< syncs of clean ranges
    bool strict = false; ///< report dirty bytes in a line that receives data, and writes of the
                         ///< same bytes that were not synced
    bool only_certain = false; ///< findings with a doubt are left out
    bool stack_traces = true;
    bool checker_marks = true;     ///< marks for ASan and valgrind
    std::size_t max_reports = 10;  ///< per site; others are only counted
    int exit_status = 0;           ///< of a process with findings; 0: its own
    std::string log_file;          ///< of JSON lines; %p: the PID; "": none
    std::string suppressions_file; ///< "": none
    std::string problem;           ///< why the settings are invalid; "": they are valid
};

/// The mode as in COHERDMA_EMULATE: "stale", "evict:7".
std::string mode_text(const settings &);

/// From the environment and the configuration file, for a device. Off in a setuid program.
settings read_settings(const std::string &device_name, const std::string &driver);

/// Whether the settings are those of some device, or invalid.
bool may_be_requested();

/// "stale", "poison", "evict:7", "passthrough" or "off". False: it is none of these.
bool parse_mode(const std::string &text, settings &config);

} // namespace coherdma::emulation
