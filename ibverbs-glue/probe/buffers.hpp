// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <sys/mman.h>

namespace coherdma::probe {

/// Whole pages, so that their lines are shared with no other data.
template <std::size_t size>
class buffer {
  public:
    buffer()
        : addr_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
        if (addr_ == MAP_FAILED)
            throw std::bad_alloc();
    }
    ~buffer() { munmap(addr_, size); }
    buffer(const buffer &) = delete;
    buffer &operator=(const buffer &) = delete;
    std::span<std::uint64_t> words() const {
        return {static_cast<std::uint64_t *>(addr_), size / sizeof(std::uint64_t)};
    }

  private:
    void *addr_;
};

/// Of the source and of the sink: enough lines for a reliable result, few enough to stay in the
/// cache until the device reads them.
constexpr std::size_t BUFFER_SIZE = 65536;

struct buffers {
    buffer<BUFFER_SIZE> source, sink;
};

/// What an RDMA Read reads to learn that an RDMA Write before it has arrived.
using flush_buffer = buffer<sizeof(std::uint64_t)>;

} // namespace coherdma::probe
