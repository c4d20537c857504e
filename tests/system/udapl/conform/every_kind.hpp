// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An object of each kind, and what is no handle of one.

#pragma once

#include "endpoint.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace conform {

/// Objects that every function can be called with.
struct place {
    couple pair;
    unique_evd software = pair.ia.events(DAT_EVD_SOFTWARE_FLAG, 64);
    unique_srq queue = make_srq();
    endpoint idle{pair.ia, pair.zone};
    endpoint reserved{pair.ia, pair.zone}; ///< for the RSP
    DAT_CONN_QUAL reserved_port = fresh_port();
    unique_rsp point = make_rsp(reserved_port, reserved);

    unique_srq make_srq() const;
    unique_rsp make_rsp(DAT_CONN_QUAL port, DAT_EP_HANDLE handle) const;
};

DAT_RETURN free_csp(DAT_CSP_HANDLE handle);
using unique_csp = unique_handle<free_csp>;

/// One of each kind, and handles of such that were freed.
class every_kind : public place {
  public:
    static constexpr std::size_t kinds = DAT_HANDLE_TYPE_EXTENSION_BASE;

    explicit every_kind(source_location loc = current_location());
    ~every_kind();
    every_kind(const every_kind &) = delete;
    every_kind &operator=(const every_kind &) = delete;

    /// NULL if the provider has none of that kind.
    DAT_HANDLE living(std::size_t kind) const;
    DAT_HANDLE freed(std::size_t kind) const { return freed_.at(kind); }
    /// Where the object begins; for an IA, too, whose handle is a number.
    DAT_HANDLE address(std::size_t kind) const;

    endpoint caller{pair.ia, pair.zone}; ///< its request is the living one
    DAT_CR_HANDLE request = ask(caller);
    unique_rmr window;
    unique_csp common;

    /// Memory of the stack, if this object is there.
    alignas(64) std::array<std::uintptr_t, 8> zeros{};

  private:
    DAT_CR_HANDLE ask(const endpoint &from);
    unique_csp make_csp() const;
    void make_and_free();

    std::array<DAT_HANDLE, kinds> freed_{};
};

/// What is no handle of that kind (every_kind::kinds: of none).
struct bogus_handle {
    std::string description;
    DAT_HANDLE handle;
};
/// Readable where a word of a handle would be read, so that a registry passes it on.
std::vector<bogus_handle> readable_bogus_handles(const every_kind &all, std::size_t kind);
/// These and all others, but NULL.
std::vector<bogus_handle> bogus_handles(const every_kind &all, std::size_t kind);

} // namespace conform
