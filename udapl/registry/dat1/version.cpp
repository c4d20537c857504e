// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../version.hpp"

#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstring>

namespace coherdma::registry {

const char LIBRARY[] = "libdat";

// /etc/dat.conf has lines of both versions. The others are what Solaris had, and those that Red Hat
// shipped with OFED's 1.2 once 2.0 had taken the name.
const std::initializer_list<const char *> CONF_FILES = {
    COHERDMA_SYSCONFDIR "/dat.conf", "/etc/dat.conf", "/etc/dat/dat.conf",
    "/etc/rdma/compat-dapl/dat.conf", "/etc/ofed/compat-dapl/dat.conf"};

// There are programs that try to open whatever is first in the list.
const bool LISTS_OTHER_VERSIONS = false;

/// OFED's 1.2 calls its interfaces OpenIB-cma, OpenIB-cma-1 and so on, which is what its programs
/// open if nobody names one, and a port OpenIB-mlx4_0-1. The names with ofa-v2- came with 2.0, and
/// no program of 1.2 has them. On Solaris an IA has the name of its network interface.
void old_names(const coherdma_port &port, std::size_t before, old_name (&into)[2]) noexcept {
    into[0][0] = '\0';
    if (*port.interface && before == 0)
        std::snprintf(into[0], sizeof into[0], "OpenIB-cma");
    else if (*port.interface)
        std::snprintf(into[0], sizeof into[0], "OpenIB-cma-%zu", before);
    std::snprintf(into[1], sizeof into[1], "OpenIB-%s-%u", port.device, port.port);
}

wish wish_of(DAT_NAME_PTR name) noexcept {
    constexpr char RO_AWARE[] = "RO_AWARE_";
    constexpr std::size_t LENGTH = sizeof RO_AWARE - 1;
    if (!name || std::strncmp(name, RO_AWARE, LENGTH) != 0)
        return {name, DAT_FALSE};
    return {name + LENGTH, DAT_TRUE};
}

// A provider of OFED's takes four arguments. The fifth does it no harm: on every architecture that
// we build for it is in a register of which the callee expects nothing.
DAT_RETURN call_ia_open(const DAT_PROVIDER &provider, const wish &what, DAT_COUNT qlen,
                        DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia) noexcept {
    return provider.ia_open_func(what.name, qlen, evd, ia, what.ro_aware);
}

void is_opened(DAT_IA_HANDLE) noexcept {}

} // namespace coherdma::registry
