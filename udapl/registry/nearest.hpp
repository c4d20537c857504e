// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat.hpp"

#include <cstring>

namespace coherdma::registry {

/// Why nothing is found: how near the nearest came of those that have the name.
class nearest {
  public:
    explicit nearest(const DAT_PROVIDER_INFO &what) noexcept
        : wanted(what) {}

    void look_at(const char *name, DAT_UINT32 major, DAT_UINT32 minor) noexcept {
        if (std::strcmp(name, wanted.ia_name) != 0)
            return;
        DAT_RETURN_SUBTYPE found = DAT_MAJOR_NOT_FOUND;
        if (major == wanted.dapl_version_major && major == DAT_VERSION_MAJOR)
            found = minor == wanted.dapl_version_minor ? DAT_THREAD_SAFETY_NOT_FOUND
                                                       : DAT_MINOR_NOT_FOUND;
        reason = found > reason ? found : reason;
    }

    DAT_RETURN status() const noexcept { return error(DAT_PROVIDER_NOT_FOUND, reason); }

  private:
    const DAT_PROVIDER_INFO &wanted;
    DAT_RETURN_SUBTYPE reason = DAT_NAME_NOT_REGISTERED;
};

static_assert(DAT_NAME_NOT_REGISTERED < DAT_MAJOR_NOT_FOUND &&
              DAT_MAJOR_NOT_FOUND < DAT_MINOR_NOT_FOUND &&
              DAT_MINOR_NOT_FOUND < DAT_THREAD_SAFETY_NOT_FOUND);

} // namespace coherdma::registry
