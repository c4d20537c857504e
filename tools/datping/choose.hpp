// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat/adapter.hpp"

namespace tools::datping {

struct choice {
    dat::adapter ia;
    dat::address there; ///< none for a server
};

/// The IA of that name, or if it is empty, the one that fits: for a server the first that has an
/// address; for a client the one whose address, or interface, this machine would send from to one
/// of those of the host. Throws cannot_here if there is nothing to choose from.
choice choose(const std::string &name, const std::vector<dat::address> &host);

} // namespace tools::datping
