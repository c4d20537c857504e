// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects of verbs, that end with their owner.
#pragma once

#include <infiniband/verbs.h>
#include <memory>

namespace coherdma::dapl {

template <auto end>
struct ends {
    template <class what>
    void operator()(what *object) const noexcept {
        end(object);
    }
};
template <class what, auto end>
using owned = std::unique_ptr<what, ends<end>>;

} // namespace coherdma::dapl
