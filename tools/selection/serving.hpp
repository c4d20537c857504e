// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What this process has of libibverbs, asked of the dynamic linker.
#pragma once

#include "doctor/host.hpp"

#include <infiniband/verbs.h>
#include <string>
#include <vector>

namespace tools::selection {

/// Where the dynamic linker finds libibverbs, or "".
std::string find_libibverbs();

/// This machine, or one whose files are below the root, with the same library at the same place:
/// as much of it as decides which plugin serves.
doctor::host machine_at(const std::string &root);

/// All shared objects of this process. Those that are there before the first list of devices were
/// not loaded by libibverbs.
std::vector<std::string> loaded_files();

/// The file that has the functions behind an open device: its plugin; "" if nobody knows.
std::string serving_file(const ibv_context &context);

} // namespace tools::selection
