// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../version.hpp"
#include "../forward.hpp"
#include "extension.hpp"

#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstring>

namespace coherdma::registry {

const char LIBRARY[] = "libdat2";

const std::initializer_list<const char *> CONF_FILES = {COHERDMA_SYSCONFDIR "/dat.conf",
                                                        "/etc/dat.conf", "/etc/rdma/dat.conf"};

// As OFED's registry does: a person sees why a program cannot open it.
const bool LISTS_OTHER_VERSIONS = true;

void old_names(const coherdma_port &port, std::size_t, old_name (&into)[2]) noexcept {
    into[0][0] = '\0';
    if (*port.interface)
        std::snprintf(into[0], sizeof into[0], "ofa-v2-%s", port.interface);
    std::snprintf(into[1], sizeof into[1], "ofa-v2-%s-%u", port.device, port.port);
}

wish wish_of(DAT_NAME_PTR name) noexcept {
    return {name, DAT_FALSE};
}

DAT_RETURN call_ia_open(const DAT_PROVIDER &provider, const wish &what, DAT_COUNT qlen,
                        DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia) noexcept {
    return provider.ia_open_func(what.name, qlen, evd, ia);
}

/// dat_extension_op may be used from now on, if this IA has extensions. Ours has some on every
/// device, though its attributes name only those of InfiniBand, as OFED's do.
void is_opened(DAT_IA_HANDLE handle) noexcept {
    DAT_IA_ATTR about = {};
    DAT_PROVIDER_ATTR provider = {};
    const DAT_RETURN status = forward_ia<&DAT_PROVIDER::ia_query_func>(
        handle, nullptr, DAT_IA_FIELD_ALL, &about, DAT_PROVIDER_FIELD_ALL, &provider);
    if (status == DAT_SUCCESS && (about.extension_supported != DAT_EXTENSION_NONE ||
                                  std::strcmp(provider.provider_name, "coherdma") == 0))
        allow_extensions();
}

} // namespace coherdma::registry
