// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Frames of stacks and the program's source, for reports of observers and of the coherdma command.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace coherdma::reports {

/// A frame as describe_call() gives it: "main (/src/mailbox.c:120)"; or, without a source line,
/// "main (/bin/x+0x12)".
struct source_frame {
    std::string function, file; ///< file: "" if the frame has no source line
    int line = 0;
};
source_frame parse_frame(const std::string &frame);

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
/// Without folders.
std::string base_name(const std::string &path);

} // namespace coherdma::reports
