// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Enables and disables coherdma's plugin for the system: adds or removes a line in each file of
// /etc/libibverbs.d that names a soft driver.
#pragma once

#include "provider_config/system_setting.hpp"

namespace tools::provider_config {

/// The NAME of a line "driver NAME" that makes libibverbs load coherdma's plugin from this path:
/// "coherdma" if that is in libibverbs' plugin folder, else the path without the suffix that
/// libibverbs appends. Throws std::runtime_error if there is no such file or no line can name it.
std::string driver_name_for(const host &machine, const std::string &path);

/// A planned change of a file in /etc/libibverbs.d.
struct file_edit {
    driver_file file; ///< as it is
    std::string new_text;
};

/// Edits that put the line "driver NAME" at the end of each file that names a soft driver, and
/// remove all other lines that name coherdma's plugin.
std::vector<file_edit> plan_enable(const host &machine, const std::string &name);
/// Edits that remove all lines that name coherdma's plugin.
std::vector<file_edit> plan_disable(const host &machine);

/// A text line for each driver line that an edit removes (-) or adds (+).
std::vector<std::string> describe_edit(const file_edit &edit);

/// Replaces the file atomically. Throws std::system_error.
void apply_edit(const host &machine, const file_edit &edit);

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
