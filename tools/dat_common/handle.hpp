// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/udat.h>
#include <utility>

namespace tools::dat {

/// Owns a DAT handle. A failure to free it is ignored: the destructor cannot report it.
template <auto Free>
class unique_handle {
  public:
    unique_handle() = default;
    unique_handle(unique_handle &&other) noexcept
        : handle_(std::exchange(other.handle_, DAT_HANDLE())) {}
    unique_handle &operator=(unique_handle &&other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~unique_handle() {
        if (handle_)
            Free(handle_);
    }

    DAT_HANDLE get() const { return handle_; }
    /// The out-parameter for the call that creates the object.
    DAT_HANDLE *out_handle() { return &handle_; }

  private:
    DAT_HANDLE handle_ = {};
};

inline DAT_RETURN close_ia(DAT_IA_HANDLE ia) {
    return dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

using ia_handle = unique_handle<close_ia>;
using evd_handle = unique_handle<dat_evd_free>;
using pz_handle = unique_handle<dat_pz_free>;
using lmr_handle = unique_handle<dat_lmr_free>;
using ep_handle = unique_handle<dat_ep_free>;
using psp_handle = unique_handle<dat_psp_free>;

} // namespace tools::dat
