// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An object of each kind, and what is no handle of one.

#pragma once

#include "test_ep.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace conform {

/// Objects that every function can be called with.
struct live_objects {
    ep_pair eps;
    unique_evd software_evd = eps.ia.create_evd(DAT_EVD_SOFTWARE_FLAG, 64);
    unique_srq srq = create_srq();
    test_ep idle_ep{eps.ia, eps.pz};
    test_ep reserved_ep{eps.ia, eps.pz}; ///< for the RSP
    DAT_CONN_QUAL reserved_port = unused_port();
    unique_rsp rsp = create_rsp(reserved_port, reserved_ep);

    unique_srq create_srq() const;
    unique_rsp create_rsp(DAT_CONN_QUAL port, DAT_EP_HANDLE ep) const;
};

DAT_RETURN free_csp(DAT_CSP_HANDLE handle);
using unique_csp = unique_handle<free_csp>;

/// One of each kind, and handles of such that were freed.
class all_objects : public live_objects {
  public:
    static constexpr std::size_t num_types = DAT_HANDLE_TYPE_EXTENSION_BASE;

    explicit all_objects(source_location loc = current_location());
    ~all_objects();
    all_objects(const all_objects &) = delete;
    all_objects &operator=(const all_objects &) = delete;

    /// NULL if the provider has none of that kind.
    DAT_HANDLE live_handle(std::size_t type) const;
    DAT_HANDLE freed_handle(std::size_t type) const { return freed_handles_.at(type); }
    /// Where the object begins; for an IA, too, whose handle is a number.
    DAT_HANDLE object_address(std::size_t type) const;

    test_ep requesting_ep{eps.ia, eps.pz}; ///< its request is the living one
    DAT_CR_HANDLE cr = request_connection(requesting_ep);
    unique_rmr rmr;
    unique_csp csp;

    /// Memory of the stack, if this object is there.
    alignas(64) std::array<std::uintptr_t, 8> zeros{};

  private:
    DAT_CR_HANDLE request_connection(const test_ep &ep);
    unique_csp create_csp() const;
    void create_freed_handles();

    std::array<DAT_HANDLE, num_types> freed_handles_{};
};

/// What is no handle of that kind (all_objects::num_types: of none).
struct bogus_handle {
    std::string description;
    DAT_HANDLE handle;
};
/// Readable where a word of a handle would be read, so that a registry passes it on.
std::vector<bogus_handle> readable_bogus_handles(const all_objects &objects, std::size_t type);
/// These and all others, but NULL.
std::vector<bogus_handle> bogus_handles(const all_objects &objects, std::size_t type);

} // namespace conform
