// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/udat.h>
#include <utility>

namespace tools::dat {

/// An object of DAT, freed with its owner. What freeing says is not looked at: there is nobody left
/// to act on it.
template <auto Free>
class handle {
  public:
    handle() = default;
    handle(handle &&other) noexcept
        : held(std::exchange(other.held, DAT_HANDLE())) {}
    handle &operator=(handle &&other) noexcept {
        std::swap(held, other.held);
        return *this;
    }
    ~handle() {
        if (held)
            Free(held);
    }

    DAT_HANDLE get() const { return held; }
    /// Where a call is to put the new object.
    DAT_HANDLE *slot() { return &held; }

  private:
    DAT_HANDLE held = {};
};

inline DAT_RETURN close_ia(DAT_IA_HANDLE which) {
    return dat_ia_close(which, DAT_CLOSE_ABRUPT_FLAG);
}

using ia_handle = handle<close_ia>;
using evd_handle = handle<dat_evd_free>;
using pz_handle = handle<dat_pz_free>;
using lmr_handle = handle<dat_lmr_free>;
using ep_handle = handle<dat_ep_free>;
using psp_handle = handle<dat_psp_free>;

} // namespace tools::dat
