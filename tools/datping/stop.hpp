// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace tools::datping {

/// From now on the first Ctrl-C or SIGTERM is a wish to stop; a later second ends the
/// program at once.
void listen_for_stop();
bool stop_wished();

} // namespace tools::datping
