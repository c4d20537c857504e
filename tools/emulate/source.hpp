// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Lines of the program's source, for reports.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tools::emulate {

class source_files {
  public:
    /// Lines count from 1. False: the file cannot be read, or is shorter.
    bool has_line(const std::string &file, int line);
    /// Without control characters; "" if there is none.
    std::string line(const std::string &file, int line);

  private:
    const std::vector<std::string> &lines_of(const std::string &file);

    std::map<std::string, std::vector<std::string>> lines_by_file_;
};

/// Without blanks at both ends.
std::string trim(const std::string &text);

} // namespace tools::emulate
