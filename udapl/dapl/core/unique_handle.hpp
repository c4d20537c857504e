// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// std::unique_ptr and std::shared_ptr for verbs objects.
#pragma once

#include <cerrno>
#include <infiniband/verbs.h>
#include <memory>
#include <new>

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

/// A verbs object that is destroyed with its last owner, before the objects that it needs, which it
/// owns. nullptr: no object; if there is no memory for its owner, it was destroyed and errno is
/// set.
template <auto destroy, class object_type, class... needed_types>
std::shared_ptr<object_type> shared_handle(object_type *object, needed_types... needed) noexcept {
    if (object == nullptr)
        return nullptr;
    try {
        return {object, [... owned = std::move(needed)](object_type *obj) {
                    destroy(obj);
                }};
    } catch (const std::bad_alloc &) {
        errno = ENOMEM;
        return nullptr;
    }
}

} // namespace coherdma::dapl
