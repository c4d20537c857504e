// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../version.hpp"
#include "../forward.hpp"
#include "extension.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdio>
#include <cstring>

namespace coherdma::registry {

const char LIBRARY_NAME[] = "libdat2";

const std::initializer_list<const char *> DAT_CONF_PATHS = {COHERDMA_SYSCONFDIR "/dat.conf",
                                                            "/etc/dat.conf", "/etc/rdma/dat.conf"};

// As OFED's registry does: the list shows why a program cannot open an entry.
const bool LIST_OTHER_VERSION = true;

/// OFED names an interface for rdma_cm, and a port for each of its own connection managers: SCM has
/// no suffix or s, UCM has u.
void get_ofed_names(const coherdma_port &port, std::size_t, ofed_names &names) noexcept {
    auto *name = names;
    if (*port.netdev)
        std::snprintf(*name++, sizeof *name, "ofa-v2-%s", port.netdev);
    for (const char *suffix : {"", "s", "u"})
        std::snprintf(*name++, sizeof *name, "ofa-v2-%s-%u%s", port.device, port.port_num, suffix);
}

ia_name parse_ia_name(DAT_NAME_PTR name) noexcept {
    return {name, DAT_FALSE};
}

DAT_RETURN call_ia_open(const DAT_PROVIDER &provider, const ia_name &name, DAT_COUNT qlen,
                        DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia) noexcept {
    return provider.ia_open_func(name.name, qlen, evd, ia);
}

/// Enables dat_extension_op if the IA has extensions. The coherdma provider has extensions on every
/// device, though its attributes report only those of InfiniBand, as OFED's do.
void notify_ia_open(DAT_IA_HANDLE handle) noexcept {
    DAT_IA_ATTR ia_attr = {};
    DAT_PROVIDER_ATTR provider_attr = {};
    const DAT_RETURN status = forward_ia<&DAT_PROVIDER::ia_query_func>(
        handle, nullptr, DAT_IA_FIELD_ALL, &ia_attr, DAT_PROVIDER_FIELD_ALL, &provider_attr);
    if (status == DAT_SUCCESS && (ia_attr.extension_supported != DAT_EXTENSION_NONE ||
                                  std::strcmp(provider_attr.provider_name, "coherdma") == 0))
        enable_extensions();
}

} // namespace coherdma::registry
