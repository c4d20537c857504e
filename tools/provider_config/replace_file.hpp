// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <filesystem>
#include <string>

namespace tools::provider_config {

/// Replaces a file's content atomically and durably, with its owner and mode kept: readers, and the
/// file system after a crash, have the old or the new file. The temporary file is beside the
/// folder, on the same file system, since libibverbs reads every file inside it. Throws
/// std::system_error.
void replace_file(const std::filesystem::path &file, const std::string &text);

/// Removes the temporary file of an interrupted replace_file in this folder.
void remove_temp_file(const std::filesystem::path &folder);

} // namespace tools::provider_config
