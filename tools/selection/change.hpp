// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Switching our plugin on and off for the system: a line in each file that names a soft driver.
#pragma once

#include "selection/setting.hpp"

namespace tools::selection {

/// What a line has to name for libibverbs to load this file: "coherdma" if it lies where libibverbs
/// looks, else its path without what libibverbs adds to it. Throws std::runtime_error with words
/// for people where there is no such file, or no line can name it.
std::string name_of_plugin(const host &here, const std::string &plugin);

/// A file that is to have another text.
struct edit {
    driver_file before;
    std::string after;
};

/// Our line, and no other of ours, at the end of all files that name a soft driver; nowhere else.
std::vector<edit> plan_on(const host &here, const std::string &name);
/// No line of ours in any file.
std::vector<edit> plan_off(const host &here);

/// A line for each line that an edit takes out (-) or puts in (+).
std::vector<std::string> describe(const edit &one);

/// Replaces the file, whole or not at all. Throws std::system_error.
void carry_out(const host &here, const edit &one);

/// While it lives, nobody else changes files of the folder in this way; what somebody left who was
/// killed at it is gone. Throws std::system_error.
class folder_lock {
    int folder;

  public:
    explicit folder_lock(const host &here);
    ~folder_lock();
    folder_lock(const folder_lock &) = delete;
    folder_lock &operator=(const folder_lock &) = delete;
};

} // namespace tools::selection
