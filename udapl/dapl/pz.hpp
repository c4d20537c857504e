// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A protection zone: a protection domain of verbs.
#pragma once

#include "object.hpp"
#include "owned.hpp"

namespace coherdma::dapl {

struct pz : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_PZ;
    using object::object;

    owned<ibv_pd, ibv_dealloc_pd> domain;
};

} // namespace coherdma::dapl
