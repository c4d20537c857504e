// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings of this process: they are printed on stderr and written to a file of JSON lines, with a
// summary when the process ends.
#pragma once

#include "finding.hpp"
#include "settings.hpp"

#include <memory>
#include <string>

namespace coherdma::check {

/// Thread-safe. Symbols are loaded: it is not called with a mutex that the program's calls need.
class report_log {
  public:
    explicit report_log(const settings &);
    ~report_log();

    void report(const finding &);
    /// The process has opened a device.
    void note_device();
    /// Prints something that is not checked, each text once.
    void note(const std::string &text);
    /// Writes the summary, once; nothing is reported after it. Returns the number of findings that
    /// are not suppressed.
    std::size_t write_summary();

  private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace coherdma::check
