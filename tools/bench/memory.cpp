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
    void *got = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(), "memory to measure with");
    madvise(got, size_, MADV_HUGEPAGE);
    bytes_ = static_cast<volatile unsigned char *>(got);
    dirty(size_, 4096);
}

memory::~memory() {
    munmap(const_cast<unsigned char *>(bytes_), size_);
}

void memory::dirty(std::size_t bytes, std::size_t line) const {
    for (std::size_t place = 0; place < bytes; place += line)
        bytes_[place] = static_cast<unsigned char>(bytes_[place] + 1);
}

void memory::load(std::size_t bytes, std::size_t line) const {
    for (std::size_t place = 0; place < bytes; place += line)
        static_cast<void>(bytes_[place]);
}

} // namespace tools::bench
