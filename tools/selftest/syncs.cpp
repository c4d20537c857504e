// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selftest/syncs.hpp"

#include "bench/raw_loop.hpp"

#include <stdexcept>

namespace tools::selftest {
namespace {

using words = std::span<std::uint64_t>;

struct close_device {
    void operator()(coherdma_device *handle) const { coherdma_close_device(handle); }
};
using unique_device = std::unique_ptr<coherdma_device, close_device>;

/// Syncs as for a device of this coherency. nullptr: not possible on this CPU.
unique_device open_assumed(std::uint32_t coherency) {
    coherdma_open_attr attr = {};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = coherency;
    return unique_device(coherdma_open_device_ex(&attr, sizeof attr));
}

void throw_if_failed(int error) {
    if (error != 0)
        throw std::runtime_error(std::string("cannot sync: ") + coherdma_error());
}

/// The sync that a program makes for this access.
void call_sync(const coherdma_device *device, data_path path, sync_time time, words memory) {
    const coherdma_range range = {.addr = memory.data(), .length = memory.size_bytes()};
    const bool is_before = time == sync_time::BEFORE_TRANSFER;
    switch (path) {
    case data_path::PEER_READ:
        return throw_if_failed(coherdma_sync_before_read(device, &range, 1));
    case data_path::PEER_WRITE:
        return throw_if_failed(is_before ? coherdma_sync_before_write(device, &range, 1)
                                         : coherdma_sync_after_write(device, &range, 1));
    case data_path::OWN_WRITE:
    case data_path::OWN_READ:
        const std::uint32_t direction =
            path == data_path::OWN_READ ? COHERDMA_FROM_DEVICE : COHERDMA_TO_DEVICE;
        return throw_if_failed(is_before ? coherdma_sync_for_device(device, &range, 1, direction)
                                         : coherdma_sync_for_cpu(device, &range, 1, direction));
    }
}

class library_sync final : public memory_sync {
  public:
    explicit library_sync(const device &device)
        : ordering_device_(open_assumed(COHERDMA_COHERENT))
        , is_emulated_((device.attr().flags & COHERDMA_DEVICE_EMULATED) != 0)
        , line_size_(device.attr().line_size) {
        if (!ordering_device_)
            throw std::runtime_error(coherdma_error());
        if (is_emulated_) {
            cache_device_ = device.handle();
            return;
        }
        owned_device_ = open_assumed(COHERDMA_NON_COHERENT);
        cache_device_ = owned_device_.get();
        coherdma_cpu_attr cpu = {};
        if (coherdma_query_cpu(&cpu, sizeof cpu) != 0)
            throw std::runtime_error(coherdma_error());
        raw_loop_ = bench::find_raw_loop(cpu.instructions);
        if (!cache_device_)
            problem_ = cpu.problem;
    }

    std::string problem(sync_part part) const override {
        if (part == sync_part::FENCES)
            return "";
        if (part == sync_part::CACHE_INSTRUCTIONS && is_emulated_)
            return "the emulation has no fences";
        if (part == sync_part::CACHE_INSTRUCTIONS && !raw_loop_ && problem_.empty())
            return "coherdma has no loop without fences for this CPU";
        return problem_;
    }

    void sync(data_path path, sync_time time, sync_part part, words memory) override {
        if (part != sync_part::CACHE_INSTRUCTIONS)
            return call_sync(part == sync_part::FENCES ? ordering_device_.get() : cache_device_,
                             path, time, memory);
        const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
        const auto loop =
            does_device_write(path) ? raw_loop_->writeback_invalidate : raw_loop_->writeback;
        loop(begin, begin + memory.size_bytes(), line_size_);
    }

    void writeback_invalidate(words memory) override {
        if (cache_device_)
            call_sync(cache_device_, data_path::PEER_WRITE, sync_time::AFTER_TRANSFER, memory);
    }

  private:
    unique_device ordering_device_, owned_device_;
    const coherdma_device *cache_device_ = nullptr; ///< nullptr: the CPU has no instructions
    const bench::raw_loop *raw_loop_ = nullptr;
    bool is_emulated_;
    std::size_t line_size_;
    std::string problem_;
};

} // namespace

std::unique_ptr<memory_sync> make_syncs(const device &device) {
    return std::make_unique<library_sync>(device);
}

} // namespace tools::selftest
