// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat_common/adapter.hpp"

namespace tools::datping {

struct selected_ia {
    dat::adapter ia;
    dat::address destination; ///< the server's address; none for a server itself
};

/// Opens the named IA. If the name is empty, selects one: for a server, the first IA with an
/// address; for a client, the IA whose address or network interface is the source of the route to
/// one of the host's addresses. Throws not_available_error if there is no usable IA.
selected_ia select_ia(const std::string &name, const std::vector<dat::address> &host_addrs);

} // namespace tools::datping
