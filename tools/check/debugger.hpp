// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs the command in gdb, which stops where a finding was printed.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tools::check {

/// The command line of gdb that runs the command. Its own commands are written to a file in the
/// folder. `protects`: pages are protected from the program. Of env, the variables that are not for
/// gdb itself are removed: it sets them for the program. Throws run::not_available_error if there
/// is no gdb.
std::vector<std::string> debugger_command(const std::vector<std::string> &command, bool protects,
                                          const std::string &folder,
                                          std::map<std::string, std::string> &env);

} // namespace tools::check
