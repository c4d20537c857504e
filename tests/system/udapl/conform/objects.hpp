// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Ownership of DAT objects. Each must be freed without an error: its owner notes one.

#pragma once

#include "check.hpp"

#include <bit>
#include <chrono>
#include <cstddef>
#include <exception>
#include <span>
#include <utility>

namespace conform {

template <auto Free>
class owned {
  public:
    owned() = default;
    explicit owned(DAT_HANDLE handle, spot from = here())
        : handle_(handle)
        , from_(from) {}
    owned(owned &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr))
        , from_(other.from_) {}
    owned &operator=(owned &&other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(from_, other.from_);
        return *this;
    }
    ~owned() {
        if (!handle_)
            return;
        const DAT_RETURN freed = Free(handle_);
        // Once something is wrong, what lives on because of it is no news.
        if (freed != DAT_SUCCESS && std::uncaught_exceptions() == 0)
            wrong(text("what was made here is not freed: ", name_of(freed)), from_);
    }
    operator DAT_HANDLE() const { return handle_; }
    DAT_HANDLE release() { return std::exchange(handle_, nullptr); }
    DAT_RETURN free() { return Free(release()); }

  private:
    DAT_HANDLE handle_ = nullptr;
    spot from_{};
};

using pz = owned<dat_pz_free>;
using lmr = owned<dat_lmr_free>;
using rmr = owned<dat_rmr_free>;
using evd = owned<dat_evd_free>;
using cno = owned<dat_cno_free>;
using ep = owned<dat_ep_free>;
using psp = owned<dat_psp_free>;
using rsp = owned<dat_rsp_free>;
using srq = owned<dat_srq_free>;

constexpr DAT_EVD_FLAGS operator|(DAT_EVD_FLAGS a, DAT_EVD_FLAGS b) {
    return static_cast<DAT_EVD_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr DAT_MEM_PRIV_FLAGS operator|(DAT_MEM_PRIV_FLAGS a, DAT_MEM_PRIV_FLAGS b) {
    return static_cast<DAT_MEM_PRIV_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr DAT_COMPLETION_FLAGS operator|(DAT_COMPLETION_FLAGS a, DAT_COMPLETION_FLAGS b) {
    return static_cast<DAT_COMPLETION_FLAGS>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// A number that the type has no name for.
template <class Enumeration>
Enumeration no_such(unsigned number) {
    static_assert(sizeof(Enumeration) == sizeof number);
    return std::bit_cast<Enumeration>(number);
}

inline constexpr DAT_TIMEOUT forever = ~DAT_TIMEOUT{0};
constexpr DAT_TIMEOUT microseconds(std::chrono::microseconds time) {
    return static_cast<DAT_TIMEOUT>(time.count());
}
using std::chrono::milliseconds;

inline DAT_CONTEXT context(DAT_UINT64 value) {
    DAT_CONTEXT is;
    is.as_64 = value;
    return is;
}
/// What consumers hand over and the provider only reads: DAT takes it as not const.
inline DAT_PVOID data_of(std::span<const std::byte> bytes) {
    return const_cast<std::byte *>(bytes.data());
}

/// A handle of no object, but in memory of ours: what a stale pointer may be.
DAT_HANDLE stray();

} // namespace conform
