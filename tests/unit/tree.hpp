// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <vector>

namespace tree {

/// A machine's sysfs as a file of tests/data says it. Lines begin with one of
///   link PATH TARGET      a symbolic link
///   folder PATH           an empty folder
///   file PATH [text WORDS...|hex BYTES...]
///   space PATH AT=BYTE... 256 zero bytes, but for these
/// and what else stands there is kept in words, for the test.
struct made {
    std::string root; ///< of a folder that is removed at the end
    std::vector<std::pair<std::string, std::string>> words;

    explicit made(const std::string &description);
    ~made();
    made(const made &) = delete;
    made &operator=(const made &) = delete;

    /// What stands behind the first word of a line; "" if there is no such line.
    std::string operator[](const std::string &first) const;
};

} // namespace tree
