// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Joins adjacent lines with the same finding to one finding.
#pragma once

#include "core/cache/cache_line.hpp"
#include "core/cache/cache_model.hpp"

#include <optional>

namespace coherdma::emulation {

class finding_ranges {
  public:
    /// request: the work request that caused the findings, if any.
    finding_ranges(cache_model &cache, const mem_access *request) noexcept
        : cache_(cache)
        , request_(request) {}
    ~finding_ranges() {
        try {
            report_pending();
        } catch (...) { // without memory the finding is lost
        }
    }
    finding_ranges(const finding_ranges &) = delete;
    finding_ranges &operator=(const finding_ranges &) = delete;

    /// Extends the pending finding, or reports it and starts another.
    void add(finding_kind, const cache_line &);
    void report_pending();

  private:
    cache_model &cache_;
    const mem_access *request_;
    std::optional<finding> pending_;
};

} // namespace coherdma::emulation
