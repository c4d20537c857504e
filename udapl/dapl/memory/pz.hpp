// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A protection zone (PZ): a verbs PD.
#pragma once

#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"

namespace coherdma::dapl {

struct dapl_pz : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_PZ;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_PZ;
    using object::object;

    std::shared_ptr<ibv_pd> pd;
};

} // namespace coherdma::dapl
