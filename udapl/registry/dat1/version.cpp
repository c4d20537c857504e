// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../version.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdio>
#include <cstring>

namespace coherdma::registry {

const char LIBRARY_NAME[] = "libdat";

// /etc/dat.conf has entries of both versions. /etc/dat is the folder of Solaris; compat-dapl is
// where Red Hat installed OFED's 1.2 after 2.0 had taken over the name.
const std::initializer_list<const char *> DAT_CONF_PATHS = {
    COHERDMA_SYSCONFDIR "/dat.conf", "/etc/dat.conf", "/etc/dat/dat.conf",
    "/etc/rdma/compat-dapl/dat.conf", "/etc/ofed/compat-dapl/dat.conf"};

// Some programs open the first provider of the list.
const bool LIST_OTHER_VERSION = false;

/// OFED's 1.2 names interfaces OpenIB-cma, OpenIB-cma-1, ..., of which the first is the default of
/// its programs, and ports OpenIB-mlx4_0-1. The names with ofa-v2- exist since 2.0 only.
void get_ofed_names(const coherdma_port &port, std::size_t interface_index,
                    ofed_names &names) noexcept {
    if (*port.netdev && interface_index == 0)
        std::snprintf(names[0], sizeof names[0], "OpenIB-cma");
    else if (*port.netdev)
        std::snprintf(names[0], sizeof names[0], "OpenIB-cma-%zu", interface_index);
    std::snprintf(names[1], sizeof names[1], "OpenIB-%s-%u", port.device, port.port_num);
}

/// A program permits relaxed ordering by a prefix of the name.
ia_name parse_ia_name(DAT_NAME_PTR name) noexcept {
    constexpr char RO_AWARE[] = "RO_AWARE_";
    constexpr std::size_t LENGTH = sizeof RO_AWARE - 1;
    if (!name || std::strncmp(name, RO_AWARE, LENGTH) != 0)
        return {name, DAT_FALSE};
    return {name + LENGTH, DAT_TRUE};
}

// OFED's providers take four arguments. They ignore the fifth, which is passed in a register on
// every supported architecture.
DAT_RETURN call_ia_open(const DAT_PROVIDER &provider, const ia_name &name, DAT_COUNT qlen,
                        DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia) noexcept {
    return provider.ia_open_func(name.name, qlen, evd, ia, name.ro_aware);
}

void notify_ia_open(DAT_IA_HANDLE) noexcept {}

} // namespace coherdma::registry
