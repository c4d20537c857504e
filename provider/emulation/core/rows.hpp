// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Lines in a row of which the same is to be said, as one finding.
#pragma once

#include "cache.hpp"
#include "line.hpp"

#include <optional>

namespace coherdma::emulation {

class rows {
  public:
    /// by: the peer's or our own request that it came up at, if any.
    rows(cache &of, const deed *by) noexcept
        : of_(of)
        , by_(by) {}
    ~rows() {
        try {
            end();
        } catch (...) { // no memory: a finding less
        }
    }
    rows(const rows &) = delete;
    rows &operator=(const rows &) = delete;

    void add(kind, const line &);
    void end();

  private:
    cache &of_;
    const deed *by_;
    std::optional<finding> row_;
};

} // namespace coherdma::emulation
