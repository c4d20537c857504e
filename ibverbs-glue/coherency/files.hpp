// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace coherdma::coherency {

/// Returns up to limit bytes of a file; on failure nullopt, with errno set.
std::optional<std::string> read_file(const std::string &path, std::size_t limit = 65536);

/// Returns the first line of a file, or as much of it as the limit allows, without its newline;
/// unprintable characters become '?'. On failure nullopt, with errno set.
std::optional<std::string> read_line(const std::string &path, std::size_t limit = 256);

/// Resolves all links of root + path. On failure returns "" and sets errno: ENOENT if the file does
/// not exist or is outside root.
std::string real_path(const std::string &root, const std::string &path);

std::string parent_folder(const std::string &path);

/// On failure sets errno.
bool path_exists(const std::string &path);

/// Whether the link exists, whatever its target.
bool link_exists(const std::string &path);

/// Whether a failed call, by errno, left open what is in the file: it is not simply missing.
bool is_unreadable(int error) noexcept;

/// Returns the names in a folder, sorted, without . and ..; on failure nullopt, with errno set.
std::optional<std::vector<std::string>> try_list_folder(const std::string &folder);

/// Returns the names of the folders in a folder, sorted; on failure nullopt, with errno set.
std::optional<std::vector<std::string>> try_list_subfolders(const std::string &folder);

/// As try_list_folder(); a folder that cannot be read has no names.
std::vector<std::string> list_folder(const std::string &folder);

} // namespace coherdma::coherency
