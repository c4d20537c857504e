// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <vector>

/// The sysfs of a machine, created from a file of tests/data. Its lines are
///   link PATH TARGET          a symbolic link
///   folder PATH               an empty folder
///   file PATH [text WORDS...|hex BYTES...]
///   space PATH OFFSET=BYTE... 256 bytes, zero except these
/// All other lines are in other_lines. Each machine has /proc/cmdline and /sys/kernel.
struct fake_sysfs {
    struct parsed_line {
        std::string first_word, text;
    };
    std::string root; ///< a temporary folder, removed by the destructor
    std::vector<parsed_line> other_lines;

    explicit fake_sysfs(const std::string &description);
    ~fake_sysfs();
    fake_sysfs(const fake_sysfs &) = delete;
    fake_sysfs &operator=(const fake_sysfs &) = delete;

    /// The rest of the line that begins with this word; "" without such a line.
    std::string operator[](const std::string &first) const;
};
