// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device's pages of an MR, side by side at an address that no other memory has. A device that
// knows memory by the program's choice of address (ibv_reg_mr_iova()) can register them there.
#pragma once

#include "core/cache/cache_model.hpp"

#include <cstddef>
#include <utility>
#include <vector>

namespace coherdma::emulation {

class page_view {
  public:
    page_view() = default;
    /// Maps the pages. is_mapped() is false if that fails: see errno.
    explicit page_view(const std::vector<cache_model::page_mapping> &);
    ~page_view();
    page_view(page_view &&other) noexcept
        : first_page_(other.first_page_)
        , size_(std::exchange(other.size_, 0))
        , view_(std::exchange(other.view_, nullptr)) {}
    page_view &operator=(page_view &&other) noexcept {
        std::swap(first_page_, other.first_page_);
        std::swap(size_, other.size_);
        std::swap(view_, other.view_);
        return *this;
    }

    [[nodiscard]] bool is_mapped() const noexcept { return view_ != nullptr; }
    /// Where the device's byte is of one at the program's address.
    [[nodiscard]] void *find(std::uintptr_t program_addr) const noexcept {
        return view_ + (program_addr - first_page_);
    }

  private:
    std::uintptr_t first_page_ = 0; ///< in the program
    std::size_t size_ = 0;
    unsigned char *view_ = nullptr;
};

} // namespace coherdma::emulation
