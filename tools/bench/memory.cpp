// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "memory.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace tools::bench {
namespace {

constexpr std::size_t HUGE_PAGE = std::size_t{2} << 20;

} // namespace

memory::memory(std::size_t bytes)
    : size_((bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE) {
    void *address =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(),
                                "cannot map memory to measure with");
    madvise(address, size_, MADV_HUGEPAGE);
    bytes_ = static_cast<volatile unsigned char *>(address);
    dirty(size_, 4096);
}

memory::~memory() {
    munmap(const_cast<unsigned char *>(bytes_), size_);
}

void memory::dirty(std::size_t bytes, std::size_t line) const {
    for (std::size_t offset = 0; offset < bytes; offset += line)
        bytes_[offset] = static_cast<unsigned char>(bytes_[offset] + 1);
}

void memory::load(std::size_t bytes, std::size_t line) const {
    for (std::size_t offset = 0; offset < bytes; offset += line)
        static_cast<void>(bytes_[offset]);
}

} // namespace tools::bench
