// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdlib>
#include <type_traits>

namespace coherdma::provider {

/// Owns an object that std::calloc() allocated, until release().
template <class type>
class calloc_ptr {
  public:
    static_assert(std::is_trivially_destructible_v<type> && alignof(type) <= 16);
    explicit calloc_ptr(type *object) noexcept
        : object_(object) {}
    calloc_ptr(const calloc_ptr &) = delete;
    calloc_ptr &operator=(const calloc_ptr &) = delete;
    ~calloc_ptr() { std::free(object_); }

    explicit operator bool() const noexcept { return object_ != nullptr; }
    type *operator->() const noexcept { return object_; }
    type &operator*() const noexcept { return *object_; }
    type *release() noexcept {
        type *const object = object_;
        object_ = nullptr;
        return object;
    }

  private:
    type *object_;
};

/// Allocates an object in zeroed memory. If that fails, returns an empty pointer and sets errno.
template <class type>
calloc_ptr<type> make_calloc_ptr() noexcept {
    return calloc_ptr<type>(static_cast<type *>(std::calloc(1, sizeof(type))));
}

} // namespace coherdma::provider
