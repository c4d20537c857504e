// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace tools::datping {

/// After this call the first SIGINT or SIGTERM sets is_interrupted(); one in a later second ends
/// the process.
void install_signal_handlers();
bool is_interrupted();

} // namespace tools::datping
