// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Enables and disables coherdma's plugin for the system: adds or removes a line in each file of
// /etc/libibverbs.d that names a soft driver.
#pragma once

#include "provider_config/system_setting.hpp"

namespace tools::provider_config {

/// The name for a driver line that makes libibverbs load this plugin: "coherdma" if it is in
/// libibverbs' plugin folder, else its path without the suffix that libibverbs appends. Throws
/// std::runtime_error if there is no such file or no line can name it.
std::string driver_name_for(const host &machine, const std::string &plugin);

/// A planned change of a file.
struct edit {
    driver_file file;
    std::string new_text;
};

/// Edits that put one coherdma line at the end of each file that names a soft driver, and remove
/// all others.
std::vector<edit> plan_enable(const host &machine, const std::string &name);
/// Edits that remove all coherdma lines.
std::vector<edit> plan_disable(const host &machine);

/// A text line for each driver line that an edit removes (-) or adds (+).
std::vector<std::string> describe_edit(const edit &change);

/// Replaces the file atomically. Throws std::system_error.
void apply_edit(const host &machine, const edit &change);

/// Holds a lock against concurrent changes of the folder by coherdma, and removes the temporary
/// file of an interrupted one. Throws std::system_error.
class folder_lock {
    int fd_;

  public:
    explicit folder_lock(const host &machine);
    ~folder_lock();
    folder_lock(const folder_lock &) = delete;
    folder_lock &operator=(const folder_lock &) = delete;
};

} // namespace tools::provider_config
