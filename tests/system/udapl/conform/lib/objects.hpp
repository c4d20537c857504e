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
class unique_handle {
  public:
    unique_handle() = default;
    explicit unique_handle(DAT_HANDLE handle, source_location loc = current_location())
        : handle_(handle)
        , loc_(loc) {}
    unique_handle(unique_handle &&other) noexcept
        : handle_(std::exchange(other.handle_, nullptr))
        , loc_(other.loc_) {}
    unique_handle &operator=(unique_handle &&other) noexcept {
        std::swap(handle_, other.handle_);
        std::swap(loc_, other.loc_);
        return *this;
    }
    ~unique_handle() {
        if (!handle_)
            return;
        const DAT_RETURN ret = Free(handle_);
        // Once something is wrong, what lives on because of it is no news.
        if (ret != DAT_SUCCESS && std::uncaught_exceptions() == 0)
            add_failure(concat("what was made here is not freed: ", return_name(ret)), loc_);
    }
    operator DAT_HANDLE() const { return handle_; }
    DAT_HANDLE release() { return std::exchange(handle_, nullptr); }
    DAT_RETURN free() { return Free(release()); }

  private:
    DAT_HANDLE handle_ = nullptr;
    source_location loc_{};
};

using unique_pz = unique_handle<dat_pz_free>;
using unique_lmr = unique_handle<dat_lmr_free>;
using unique_rmr = unique_handle<dat_rmr_free>;
using unique_evd = unique_handle<dat_evd_free>;
using unique_cno = unique_handle<dat_cno_free>;
using unique_ep = unique_handle<dat_ep_free>;
using unique_psp = unique_handle<dat_psp_free>;
using unique_rsp = unique_handle<dat_rsp_free>;
using unique_srq = unique_handle<dat_srq_free>;

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
Enumeration enum_cast(unsigned number) {
    static_assert(sizeof(Enumeration) == sizeof number);
    return std::bit_cast<Enumeration>(number);
}

inline constexpr DAT_TIMEOUT infinite_timeout = ~DAT_TIMEOUT{0};
constexpr DAT_TIMEOUT dat_timeout(std::chrono::microseconds time) {
    return static_cast<DAT_TIMEOUT>(time.count());
}
using std::chrono::milliseconds;

inline DAT_CONTEXT make_context(DAT_UINT64 value) {
    DAT_CONTEXT context;
    context.as_64 = value;
    return context;
}
/// What consumers hand over and the provider only reads: DAT takes it as not const.
inline DAT_PVOID mutable_data(std::span<const std::byte> bytes) {
    return const_cast<std::byte *>(bytes.data());
}

/// A handle of no object, but in memory of ours: what a stale pointer may be.
DAT_HANDLE stray_handle();

} // namespace conform
