// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "event_history.hpp"

#include <vector>

namespace coherdma::emulation {

/// A finding with its own copies of the events, which the history may replace.
class kept_finding {
  public:
    explicit kept_finding(finding kept)
        : finding_(std::move(kept)) {
        events_.reserve(finding_.history.size()); // its events stay where they are
        for (const history_event *&event : finding_.history) {
            events_.push_back(*event);
            event = &events_.back();
        }
    }
    kept_finding(kept_finding &&) = default;
    kept_finding &operator=(kept_finding &&) = default;

    [[nodiscard]] const finding &get() const noexcept { return finding_; }

  private:
    finding finding_;
    std::vector<history_event> events_; ///< to which the finding points
};

} // namespace coherdma::emulation
