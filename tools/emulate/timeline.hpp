// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The history of a finding's cache lines, with what follows from the states that its events found:
// when the CPU or the device must have written them, and where a sync is missing.
#pragma once

#include "reports/source.hpp"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tools::emulate {

/// Of an event in the JSON of a finding; coherdma-emulate(7) has its members.
struct line_event {
    /// Adjacent lines that the event found in this state.
    struct line_run {
        std::int64_t begin = 0, end = 0;
        std::string state;
    };

    std::string name, description;
    std::uint64_t time_us = 0, times = 1;
    std::int64_t begin = 0, end = 0; ///< offsets in the region, as all here
    std::vector<std::string> stack;
    std::vector<line_run> runs;
};

/// Throws json::exception if a member is missing or of another type.
std::vector<line_event> parse_history(const nlohmann::ordered_json &finding);

/// Lines with the same history.
struct line_segment {
    std::int64_t begin = 0, end = 0;
    std::string state;    ///< after the row; "": not known
    bool is_part = false; ///< of the row's event or change
};

enum class row_kind : std::uint8_t {
    EVENT,
    CPU_WROTE,    ///< inferred: an event found lines dirty
    DEVICE_WROTE, ///< inferred: an event found lines stale
    MISSING_SYNC,
};

struct timeline_row {
    row_kind kind = row_kind::EVENT;
    std::size_t event = 0; ///< index of the event, or of the one before which it happened
    /// Of an inferred row: the last event before it on these lines, and the event whose request
    /// wrote them; NONE: not known.
    std::size_t since = NONE, cause = NONE;
    std::vector<line_segment> segments;

    static constexpr std::size_t NONE = ~std::size_t{0};
};

struct timeline {
    std::vector<line_event> events;
    std::vector<timeline_row> rows;
    std::size_t missing_before =
        timeline_row::NONE; ///< index of an event; NONE: no sync is missing
};

/// The frame that names a place of the finding, its member "after" or "before"; without a file if
/// it has none. Throws as parse_history().
coherdma::reports::source_frame place_frame(const nlohmann::ordered_json &place);

/// Throws as parse_history().
timeline make_timeline(const nlohmann::ordered_json &finding);

} // namespace tools::emulate
