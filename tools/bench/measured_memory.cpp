// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "measured_memory.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <system_error>

namespace tools::bench {
namespace {

constexpr std::size_t HUGE_PAGE_SIZE = std::size_t{2} << 20;
constexpr std::size_t MIN_PAGE_SIZE = 4096;

} // namespace

measured_memory::measured_memory(std::size_t bytes)
    : size_((bytes + HUGE_PAGE_SIZE - 1) / HUGE_PAGE_SIZE * HUGE_PAGE_SIZE) {
    void *address =
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(),
                                "cannot map memory to measure with");
    madvise(address, size_, MADV_HUGEPAGE);
    bytes_ = static_cast<volatile unsigned char *>(address);
    make_lines_dirty(size_, MIN_PAGE_SIZE); // a write to each page, which the kernel then allocates
}

measured_memory::~measured_memory() {
    munmap(const_cast<unsigned char *>(bytes_), size_);
}

void measured_memory::make_lines_dirty(std::size_t bytes, std::size_t line_size) const {
    for (std::size_t offset = 0; offset < bytes; offset += line_size)
        bytes_[offset] = static_cast<unsigned char>(bytes_[offset] + 1);
}

void measured_memory::load_lines(std::size_t bytes, std::size_t line_size) const {
    for (std::size_t offset = 0; offset < bytes; offset += line_size)
        static_cast<void>(bytes_[offset]);
}

} // namespace tools::bench
