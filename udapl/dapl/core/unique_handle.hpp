// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// std::unique_ptr for verbs objects.
#pragma once

#include <infiniband/verbs.h>
#include <memory>

namespace coherdma::dapl {

template <auto destroy>
struct deleter {
    template <class object_type>
    void operator()(object_type *object) const noexcept {
        destroy(object);
    }
};
template <class object_type, auto destroy>
using unique_handle = std::unique_ptr<object_type, deleter<destroy>>;

} // namespace coherdma::dapl
