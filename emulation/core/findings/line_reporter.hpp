// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reports findings on lines: adjacent lines of one kind are one finding.
#pragma once

#include "core/cache/cache_line.hpp"
#include "core/cache/cache_model.hpp"

#include <optional>

namespace coherdma::emulation {

class line_reporter {
  public:
    /// request: the work request that caused the findings, if any. unposted: gets the findings;
    /// they are not reported.
    line_reporter(cache_model &cache, const mem_access *request,
                  unposted_checks *unposted = nullptr) noexcept
        : cache_(cache)
        , request_(request)
        , unposted_(unposted) {}
    ~line_reporter() {
        try {
            report_pending();
        } catch (...) { // without memory the finding is lost
        }
    }
    line_reporter(const line_reporter &) = delete;
    line_reporter &operator=(const line_reporter &) = delete;

    /// In address order. Extends the pending finding, or reports it and starts another. A finding
    /// has the least doubt of its lines, and shows bytes of the first such line.
    void add(finding_kind, const cache_line &, finding_doubt = finding_doubt::NONE);
    void report_pending();

    /// Findings that are not reported yet lose these lines, and keep their others.
    void drop_lines(unposted_checks &, addr_range lines);

  private:
    static void show(finding &, finding_doubt, const cache_line &);
    kept_finding part_of(const finding &, addr_range);

    cache_model &cache_;
    const mem_access *request_;
    unposted_checks *unposted_;
    std::optional<finding> pending_;
};

} // namespace coherdma::emulation
