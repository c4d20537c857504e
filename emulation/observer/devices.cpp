// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "devices.hpp"

#include <atomic>

namespace coherdma::emulation {
namespace {

struct device_list {
    std::shared_mutex mutex;
    std::unordered_map<const ibv_context *, std::unique_ptr<emulated_device>> devices;
    std::unordered_map<std::uint64_t, std::unique_ptr<emulated_device>> closing;
};

// Never destroyed: while one thread is in exit(), others use their devices.
device_list *all_devices = new device_list;

std::atomic<shared_state *> current_state = nullptr;

/// What the parent of fork() had. It is not used, but kept: a program's leak checker finds none.
struct parent_state {
    device_list *devices;
    shared_state *state;
    parent_state *older; ///< of the parent's parent
};
parent_state *parents_state = nullptr;

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

emulated_device *find_device(const ibv_context *context) noexcept {
    const std::shared_lock guard(all_devices->mutex);
    const auto it = all_devices->devices.find(context);
    return it != all_devices->devices.end() ? it->second.get() : nullptr;
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
addr_range emulated_device::find_memory_by_rkey(const remote_memory &named, int needed_access) {
    const std::shared_lock guard(mutex);
    const auto it = by_rkey.find(named.rkey);
    if (it == by_rkey.end())
        return {};
    const keyed_memory &memory = it->second;
    if (named.addr < memory.iova || named.addr - memory.iova > memory.range.size() ||
        named.length > memory.range.size() - (named.addr - memory.iova) ||
        (memory.access_flags & needed_access) != needed_access)
        return {};
    const std::uintptr_t begin = memory.range.begin + (named.addr - memory.iova);
    return {begin, begin + named.length};
}

emulated_device &add_device(std::unique_ptr<emulated_device> device, const settings &config) {
    const std::unique_lock guard(all_devices->mutex);
    if (current_state.load() == nullptr)
        current_state.store(new shared_state(config), std::memory_order_release);
    const ibv_context *const context = device->context;
    return *all_devices->devices.insert_or_assign(context, std::move(device)).first->second;
}

void remove_device(const ibv_context *context) noexcept {
    const std::unique_lock guard(all_devices->mutex);
    all_devices->devices.erase(context);
}

void begin_close(const ibv_context *context, std::uint64_t object_number) {
    const std::unique_lock guard(all_devices->mutex);
    auto node = all_devices->devices.extract(context);
    if (node)
        all_devices->closing[object_number] = std::move(node.mapped());
}

std::unique_ptr<emulated_device> end_close(std::uint64_t object_number, int error) {
    const std::unique_lock guard(all_devices->mutex);
    auto node = all_devices->closing.extract(object_number);
    if (!node)
        return nullptr;
    if (error == 0)
        return std::move(node.mapped());
    const ibv_context *const context = node.mapped()->context;
    all_devices->devices.insert_or_assign(context, std::move(node.mapped()));
    return nullptr;
}

void reset_devices_after_fork() {
    parents_state = new parent_state{
        .devices = all_devices, .state = current_state.load(), .older = parents_state};
    all_devices = new device_list;
    current_state.store(nullptr, std::memory_order_release);
}

void for_each_device(const std::function<void(emulated_device &)> &func) {
    const std::shared_lock guard(all_devices->mutex);
    for (const auto &[context, device] : all_devices->devices)
        func(*device);
}

} // namespace coherdma::emulation
