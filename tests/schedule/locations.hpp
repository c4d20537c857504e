// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <map>
#include <set>
#include <string>

namespace schedule {

/// "function (file:line)" of each address of code, by addr2line. An address is what a call returns
/// to, so that of the call is one less.
std::map<const void *, std::string> find_locations(const std::set<const void *> &addrs);

} // namespace schedule
