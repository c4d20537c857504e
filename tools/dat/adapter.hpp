// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat/address.hpp"
#include "dat/handle.hpp"

#include <memory>
#include <string>
#include <vector>

namespace tools::dat {

/// A name of the registry under which an interface adapter (IA) can be asked for.
struct registered {
    std::string name;
    unsigned major = 0, minor = 0;
    bool thread_safe = false;
    bool openable() const; ///< by a program of uDAPL 2.0, as this one is
};

/// What dat.conf and the registry have, in their order. One name may stand there more than once.
std::vector<registered> registry();

/// The names that this program can ask for, each once.
std::vector<std::string> openable_names();

/// An open IA.
class adapter {
  public:
    /// Throws error.
    explicit adapter(const std::string &name);

    const std::string &name() const { return called; }
    DAT_IA_HANDLE get() const { return opened.get(); }
    const DAT_IA_ATTR &attr() const { return about->ia; }
    const DAT_PROVIDER_ATTR &provider() const { return about->provider; }

    address own_address() const { return address(attr().ia_address_ptr); }
    bool sync_required() const { return provider().lmr_sync_req != DAT_FALSE; }
    /// The name of its RDMA device.
    std::string device() const;
    /// The file of the library that serves it; empty if that cannot be told.
    std::string library() const;

    pz_handle make_pz() const;
    evd_handle make_evd(DAT_COUNT length, DAT_EVD_FLAGS flags) const;

  private:
    std::string called;
    ia_handle opened;
    DAT_EVD_HANDLE async = {}; // goes with the IA
    struct attributes {
        DAT_IA_ATTR ia = {};
        DAT_PROVIDER_ATTR provider = {}; // OFED's providers leave a part of it as it was
    };
    std::unique_ptr<attributes> about;
};

} // namespace tools::dat
