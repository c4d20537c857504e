// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace coherdma::coherency {

/// The bytes of a file, at most limit of them; nothing, and errno, if it cannot be read.
std::optional<std::string> read_file(const std::string &path, std::size_t limit = 65536);

/// What a file says in one line, without its end and what cannot be printed.
std::optional<std::string> read_line(const std::string &path);

/// Where a path leads to once all links are followed, root included; "" if nowhere, or out of root.
std::string real_path(const std::string &root, const std::string &path);

/// The folder that holds it.
std::string parent(const std::string &path);

bool exists(const std::string &path);

/// Names in a folder, sorted, without . and ..
std::vector<std::string> names_in(const std::string &folder);

} // namespace coherdma::coherency
