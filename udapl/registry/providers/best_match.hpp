// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat.hpp"

#include <cstring>

namespace coherdma::registry {

/// The subtype of DAT_PROVIDER_NOT_FOUND: what differs in the closest of the known names.
class best_match {
  public:
    explicit best_match(const DAT_PROVIDER_INFO &provider_info) noexcept
        : info(provider_info) {}

    /// For each known provider, none of which is the requested one.
    void compare(const char *name, DAT_UINT32 major, DAT_UINT32 minor) noexcept {
        if (std::strcmp(name, info.ia_name) != 0)
            return;
        DAT_RETURN_SUBTYPE difference = DAT_MAJOR_NOT_FOUND;
        if (major == info.dapl_version_major && major == DAT_VERSION_MAJOR)
            difference = minor == info.dapl_version_minor ? DAT_THREAD_SAFETY_NOT_FOUND
                                                          : DAT_MINOR_NOT_FOUND;
        if (difference > subtype)
            subtype = difference;
    }

    DAT_RETURN to_status() const noexcept { return make_error(DAT_PROVIDER_NOT_FOUND, subtype); }

  private:
    const DAT_PROVIDER_INFO &info;
    DAT_RETURN_SUBTYPE subtype = DAT_NAME_NOT_REGISTERED;
};

static_assert(DAT_NAME_NOT_REGISTERED < DAT_MAJOR_NOT_FOUND &&
              DAT_MAJOR_NOT_FOUND < DAT_MINOR_NOT_FOUND &&
              DAT_MINOR_NOT_FOUND < DAT_THREAD_SAFETY_NOT_FOUND);

} // namespace coherdma::registry
