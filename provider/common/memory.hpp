// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdlib>
#include <type_traits>

namespace coherdma::provider {

/// Zeroed memory for an object, freed with its holder unless somebody takes it.
template <class type>
class fresh {
  public:
    static_assert(std::is_trivially_destructible_v<type> && alignof(type) <= 16);
    fresh() noexcept
        : object_(static_cast<type *>(std::calloc(1, sizeof(type)))) {}
    fresh(const fresh &) = delete;
    fresh &operator=(const fresh &) = delete;
    ~fresh() { std::free(object_); }

    explicit operator bool() const noexcept { return object_ != nullptr; }
    type *operator->() const noexcept { return object_; }
    type &operator*() const noexcept { return *object_; }
    type *take() noexcept {
        type *const taken = object_;
        object_ = nullptr;
        return taken;
    }

  private:
    type *object_;
};

} // namespace coherdma::provider
