// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings as text for people and as JSON for programs.
#pragma once

#include "finding.hpp"
#include "reports/described_call.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace coherdma::check {

struct described_event : reports::described_call {
    std::optional<double> seconds; ///< as described_finding::seconds
    posted_state posted = posted_state::NOTHING;
};

struct described_finding {
    finding_kind kind = {};
    std::string device, title;
    std::vector<described_event> events;
    double seconds = 0;      ///< when it was made, since the process opened a device
    std::string suppression; ///< "cq-overflow:rxe0:main"

    /// Of all stacks.
    [[nodiscard]] std::vector<std::string> frames() const;
};

/// Looks symbols up: not to be called with a mutex that the program's calls need.
described_finding describe(const finding &, reports::source_files &,
                           const event_clock & = event_clock());

struct report_status {
    bool suppressed = false;
    std::size_t place_number = 1; ///< in the process: the index in finding_counts::by_place, plus 1
    std::size_t num_earlier = 0;  ///< findings of the same place before
};

struct finding_counts {
    std::map<finding_kind, std::size_t> by_kind; ///< without suppressed ones
    std::vector<std::size_t> by_place;           ///< without these, too
    std::size_t num_places = 0;                  ///< of these, places in the program
    std::size_t num_suppressed = 0;
    std::size_t num_repeated = 0; ///< of all, those that were only counted
    bool has_device = false;      ///< the process has opened one

    [[nodiscard]] std::size_t total() const noexcept;
    [[nodiscard]] std::size_t total(finding_level) const noexcept;
};

/// Lines of at most 80 characters, except for names of files and functions.
std::string as_text(const described_finding &);
/// One line.
std::string as_json(const described_finding &, const report_status &);

std::string as_text(const finding_counts &);
std::string as_json(const finding_counts &);

} // namespace coherdma::check
