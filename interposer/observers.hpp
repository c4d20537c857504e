// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "observer.hpp"

#include <vector>

namespace coherdma::interposer {

/// Those of the modules that the environment variable COHERDMA_OBSERVERS names, separated by ':'.
/// They are loaded when the first device is opened, or when one is attached, and never unloaded.
const std::vector<observer *> &loaded_observers() noexcept;

} // namespace coherdma::interposer
