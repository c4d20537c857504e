// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <filesystem>
#include <string>

namespace tools::selection {

/// Gives a file another text: a reader, or who looks after a crash, sees the old one or the new one
/// whole, with its owner and mode. libibverbs reads every file that lies beside it, so the new one
/// is written beside the folder, which has to be on the same file system. Throws std::system_error.
void replace(const std::filesystem::path &file, const std::string &text);

/// Takes away what replace left of a file in this folder, if it was killed.
void remove_leftover(const std::filesystem::path &folder);

} // namespace tools::selection
