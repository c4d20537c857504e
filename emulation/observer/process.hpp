// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "core/settings.hpp"

namespace coherdma::emulation {

/// At the first device of this process: arranges for the report at its end, starts the thread that
/// poisons, evicts or marks lines, and opens the connection to the emulations in other processes.
void start_process(const settings &);

/// In a child of fork().
void reset_process_after_fork();

} // namespace coherdma::emulation
