// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An object of each kind, for tests that give functions what they do not want.
#pragma once

#include "consumer.hpp"

#include <array>
#include <optional>

namespace played {

constexpr std::size_t kinds = DAT_HANDLE_TYPE_EXTENSION_BASE;
const char *name_of_kind(std::size_t kind);

/// One that lives of each kind, all of one IA, and handles of such that were freed.
class every {
  public:
    explicit every(const adapter &of);
    /// All but the IA and its PZ. Fails if anything is in use that should not be.
    void free();

    DAT_HANDLE living(std::size_t kind) const { return living_.at(kind); }
    DAT_HANDLE freed(std::size_t kind) const { return freed_.at(kind); }

    const adapter &on;
    end idle;           ///< its EP is the one that lives
    end caller;         ///< whose request lives
    end reserved;       ///< for the RSP
    memory area;        ///< behind the LMR
    DAT_EVD_HANDLE cr;  ///< of requests
    DAT_EVD_HANDLE own; ///< of software events; the one that lives
    DAT_SRQ_HANDLE srq;

  private:
    void make_listeners();
    void make_and_free();

    std::array<DAT_HANDLE, kinds> living_ = {}, freed_ = {};
};

/// Something that is no handle of this kind.
struct bad_handle {
    std::string what;
    DAT_HANDLE handle;
};

/// What can be told from a handle by looking at it: for the one that a call is made with, which
/// the registry has found readable.
std::vector<bad_handle> bad_handles(const every &all, std::size_t kind);
/// The same, and what cannot even be looked at: for handles that are arguments. NULL is not among
/// them.
std::vector<bad_handle> worse_handles(const every &all, std::size_t kind);

} // namespace played
