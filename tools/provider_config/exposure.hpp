// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether users other than root can change a plugin that libibverbs loads into all programs.
#pragma once

#include "provider_config/plugin_path.hpp"

#include <optional>

namespace tools::provider_config {

/// A file or folder by which other users can change a plugin.
struct exposed_path {
    std::string path;
    std::string problem; ///< "belongs to user tom", "is writable by all users (mode 0777)"
    std::string fix;     ///< a command
    [[nodiscard]] std::string description() const { return path + " " + problem; }
};

/// The first path on the way from the root to the file, symbolic links followed, that does not
/// belong to root or that others can write. Other users cannot replace root's entries of a sticky
/// folder. Throws std::runtime_error if the file does not exist or a path cannot be read.
std::optional<exposed_path> find_exposed_path(const host &machine, const std::string &file);

/// The same for all files that a line for this plugin makes programs load: those beside it for
/// libibverbs of other releases, and what attaches the emulation.
std::optional<exposed_path> find_exposed_plugin(const host &machine, const std::string &plugin);

/// Whether the file or folder belongs to root: settings of other users are not checked.
bool is_owned_by_root(const host &machine, const std::string &path);

} // namespace tools::provider_config
