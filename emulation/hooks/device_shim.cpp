// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "device_shim.hpp"

#include "wr_api.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

namespace coherdma::emulation {
namespace {

struct device_list {
    std::shared_mutex mutex;
    std::vector<std::unique_ptr<emulated_device>> devices, inherited;
};

// Never destroyed: while one thread is in exit(), others use their devices.
alignas(device_list) std::byte list_storage[sizeof(device_list)];
device_list &all_devices = *new (list_storage) device_list;

std::atomic<shared_state *> current_state = nullptr;

} // namespace

shared_state::shared_state(const settings &initial_config)
    : config(initial_config)
    , mode(mode_text(config))
    , log(config)
    , cache(config, log, config.checker_marks ? running_checker() : nullptr) {}

shared_state &process_state() noexcept {
    return *current_state.load(std::memory_order_acquire);
}

bool has_process_state() noexcept {
    return current_state.load(std::memory_order_acquire) != nullptr;
}

emulated_device *find_device(const ibv_context *ctx) noexcept {
    const std::shared_lock guard(all_devices.mutex);
    for (const auto &device : all_devices.devices)
        if (device->ctx == ctx)
            return device.get();
    return nullptr;
}

/// find_memory_by_lkey() for the MRs of this context.
addr_range emulated_device::find_own_memory_by_lkey(const ibv_sge &sge) {
    const std::shared_lock guard(mutex);
    const auto it = by_lkey.find(sge.lkey);
    if (it == by_lkey.end())
        return {};
    const keyed_memory &memory = it->second;
    const std::uintptr_t begin = memory.range.begin + (sge.addr - memory.iova);
    return intersection({begin, begin + sge.length}, memory.range);
}

/// The program's memory that an SGE of its own WR names; empty if it is not emulated. An imported
/// context may use MRs of the context it was imported from: lkeys are unique in a device.
addr_range emulated_device::find_memory_by_lkey(const ibv_sge &sge) {
    addr_range range = find_own_memory_by_lkey(sge);
    if (range.empty())
        for_each_device([&](emulated_device &other) {
            if (range.empty() && &other != this && other.name == name)
                range = other.find_own_memory_by_lkey(sge);
        });
    return range;
}

/// This process's memory that a WR of a peer names; empty if not all of it is emulated.
addr_range emulated_device::find_memory_by_rkey(std::uint32_t rkey, std::uint64_t remote_addr,
                                                std::uint64_t length) {
    const std::shared_lock guard(mutex);
    const auto it = by_rkey.find(rkey);
    if (it == by_rkey.end())
        return {};
    const keyed_memory &memory = it->second;
    if (remote_addr < memory.iova || remote_addr - memory.iova > memory.range.size() ||
        length > memory.range.size() - (remote_addr - memory.iova))
        return {};
    const std::uintptr_t begin = memory.range.begin + (remote_addr - memory.iova);
    return {begin, begin + length};
}

bool emulated_device::is_sig_all(const ibv_qp *qp) {
    const std::shared_lock guard(mutex);
    return sig_all_qps.count(qp) != 0;
}

emulated_device &add_device(std::unique_ptr<emulated_device> device, const settings &config) {
    const std::unique_lock guard(all_devices.mutex);
    if (current_state.load() == nullptr)
        current_state.store(new shared_state(config), std::memory_order_release);
    return *all_devices.devices.emplace_back(std::move(device));
}

void remove_device(const ibv_context *ctx) noexcept {
    const std::unique_lock guard(all_devices.mutex);
    std::erase_if(all_devices.devices, [=](const auto &device) { return device->ctx == ctx; });
}

/// In the child: inherited devices get the driver's functions back. Threads of the parent may have
/// held any mutex.
void reset_devices_after_fork() {
    new (&all_devices.mutex) std::shared_mutex;
    for (auto &device : all_devices.devices) {
        new (&device->mutex) std::shared_mutex;
        device->set_ops(device->ctx, device->driver_ops);
        unhook_wr_api(*device);
        all_devices.inherited.push_back(std::move(device));
    }
    all_devices.devices.clear();
    current_state.store(nullptr, std::memory_order_release); // leaks the copy of the parent's state
}

emulated_device *find_inherited_device(const ibv_context *ctx) noexcept {
    const std::shared_lock guard(all_devices.mutex);
    for (const auto &device : all_devices.inherited)
        if (device->ctx == ctx)
            return device.get();
    return nullptr;
}

void for_each_device(const std::function<void(emulated_device &)> &func) {
    const std::shared_lock guard(all_devices.mutex);
    for (const auto &device : all_devices.devices)
        func(*device);
}

} // namespace coherdma::emulation
