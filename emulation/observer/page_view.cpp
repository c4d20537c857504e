// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "page_view.hpp"

#include <sys/mman.h>

namespace coherdma::emulation {

page_view::page_view(const std::vector<cache_model::page_mapping> &mappings) {
    if (mappings.empty())
        return;
    first_page_ = mappings.front().addr;
    size_ = mappings.back().addr + mappings.back().length - first_page_;
    void *const reserved =
        mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED)
        return;
    view_ = static_cast<unsigned char *>(reserved);
    for (const cache_model::page_mapping &mapping : mappings)
        if (mmap(find(mapping.addr), mapping.length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 mapping.fd, static_cast<off_t>(mapping.file_offset)) == MAP_FAILED) {
            munmap(view_, size_); // keeps errno if it succeeds
            view_ = nullptr;
            return;
        }
}

page_view::~page_view() {
    if (view_ != nullptr)
        munmap(view_, size_);
}

} // namespace coherdma::emulation
