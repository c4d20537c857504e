// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Names the code of this process, with the debug information of its files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace coherdma::reports {

/// The call before a return address: "post (/src/mailbox.c:120)", and the callers that it was
/// inlined into. Without debug information the file and the offset: "main (/usr/bin/rping+0x1234)".
/// "??": the function has no symbol.
std::vector<std::string> describe_call(const void *return_addr);

/// The variable that an address is in: "inbox", "inbox+64"; "": none that has a symbol.
std::string describe_data(std::uintptr_t addr);

} // namespace coherdma::reports
