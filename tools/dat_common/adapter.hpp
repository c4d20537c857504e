// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat_common/address.hpp"
#include "dat_common/handle.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tools::dat {

/// An IA name in the registry, and the uDAPL version of its provider.
struct registered_ia {
    std::string name;
    unsigned major = 0, minor = 0;
    bool thread_safe = false;
    bool is_openable() const; ///< by uDAPL 2.0 programs such as this one
};

/// The entries of dat.conf and of the registry, in their order. A name can occur more than once.
std::vector<registered_ia> list_registry();

/// The names of all openable IAs, without duplicates.
std::vector<std::string> list_openable_ias();

/// An open IA.
class adapter {
  public:
    /// Opens and queries the IA. Throws error.
    explicit adapter(const std::string &name);

    const std::string &name() const { return name_; }
    DAT_IA_HANDLE get() const { return ia_.get(); }
    const DAT_IA_ATTR &attr() const { return attr_->ia; }
    const DAT_PROVIDER_ATTR &provider_attr() const { return attr_->provider; }

    address ia_address() const { return address(attr().ia_address_ptr); }
    bool needs_sync() const { return provider_attr().lmr_sync_req != DAT_FALSE; }
    /// The name of the RDMA device.
    std::string device_name() const;
    /// The path of the provider library; empty if unknown.
    std::string provider_library() const;

    pz_handle create_pz() const;
    evd_handle create_evd(DAT_COUNT qlen, DAT_EVD_FLAGS flags) const;

  private:
    std::string name_;
    ia_handle ia_;
    DAT_EVD_HANDLE async_evd_ = {}; // freed by dat_ia_close
    struct attributes {
        DAT_IA_ATTR ia = {};
        DAT_PROVIDER_ATTR provider = {}; // OFED's providers leave some fields unset
    };
    std::unique_ptr<attributes> attr_;
};

} // namespace tools::dat
