// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings as text for people and as JSON for programs.
#pragma once

#include "advice.hpp"
#include "finding_log.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::emulation {

inline constexpr std::array ALL_KINDS = {
    finding_kind::UNSYNCED_READ, finding_kind::UNSYNCED_WRITE,  finding_kind::CONFLICT,
    finding_kind::STALE,         finding_kind::UNSYNCED_SOURCE, finding_kind::UNSYNCED_SINK,
    finding_kind::CONFLICT_SINK, finding_kind::STALE_SINK,      finding_kind::SHARED_LINE,
    finding_kind::DISCARDED,     finding_kind::BESIDE,          finding_kind::REDUNDANT};

struct report_status {
    bool suppressed = false;
    std::size_t num_earlier = 0; ///< findings of the same site before
};

struct finding_counts {
    std::map<finding_kind, std::size_t> by_kind; ///< without suppressed ones
    std::size_t num_possible = 0;                ///< of these, those with a doubt
    std::size_t num_places = 0;                  ///< of these, sites in the program
    std::size_t num_suppressed = 0;
    std::size_t num_repeated = 0; ///< of all, those that were only counted

    [[nodiscard]] std::size_t total() const noexcept;
};

/// Lines of at most 80 characters, except for names of files and functions.
std::string as_text(const finding &, const advice &);
/// One line.
std::string as_json(const finding &, const advice &, const report_status &);

std::string as_text(const finding_counts &);
std::string as_json(const finding_counts &);

std::vector<std::string> frames_of(const mem_access &);
/// Of all stacks of the finding.
std::vector<std::string> all_frames_of(const finding &);

} // namespace coherdma::emulation
