// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "played.hpp"

#include "parts.hpp"

#include <atomic>
#include <cstddef>
#include <new>
#include <vector>

namespace coherdma::emulation {
namespace {

struct everything {
    std::shared_mutex guard;
    std::vector<std::unique_ptr<played>> devices, inherited;
};

// Never destroyed: while one thread is in exit() others go on with their devices.
alignas(everything) std::byte room[sizeof(everything)];
everything &all = *new (room) everything;

std::atomic<world *> shared_by_all = nullptr;

} // namespace

world::world(const settings &given)
    : asked(given)
    , told(asked)
    , memory(asked, told, asked.marks ? watcher_here() : nullptr) {}

world &here() noexcept {
    return *shared_by_all.load(std::memory_order_acquire);
}

bool is_begun() noexcept {
    return shared_by_all.load(std::memory_order_acquire) != nullptr;
}

played *find(const ibv_context *context) noexcept {
    const std::shared_lock held(all.guard);
    for (const auto &each : all.devices)
        if (each->verbs == context)
            return each.get();
    return nullptr;
}

span played::where_of_own(const ibv_sge &piece) {
    const std::shared_lock held(guard);
    const auto found = local.find(piece.lkey);
    if (found == local.end())
        return {};
    const place &in = found->second;
    const std::uintptr_t begin = in.where.begin + (piece.addr - in.iova);
    return common({begin, begin + piece.length}, in.where);
}

// A context that is imported from another has regions of it; a device gives each key once.
span played::where(const ibv_sge &piece) {
    span found = where_of_own(piece);
    if (found.empty())
        each_device([&](played &other) {
            if (found.empty() && &other != this && other.device == device)
                found = other.where_of_own(piece);
        });
    return found;
}

span played::where_remote(std::uint32_t key, std::uint64_t address, std::uint64_t length) {
    const std::shared_lock held(guard);
    const auto found = remote.find(key);
    if (found == remote.end())
        return {};
    const place &in = found->second;
    if (address < in.iova || address - in.iova > in.where.size() ||
        length > in.where.size() - (address - in.iova))
        return {};
    const std::uintptr_t begin = in.where.begin + (address - in.iova);
    return {begin, begin + length};
}

bool played::signals_all(const ibv_qp *pair) {
    const std::shared_lock held(guard);
    return signalling.count(pair) != 0;
}

played &add_device(std::unique_ptr<played> one, const settings &asked) {
    const std::unique_lock held(all.guard);
    if (shared_by_all.load() == nullptr)
        shared_by_all.store(new world(asked), std::memory_order_release);
    return *all.devices.emplace_back(std::move(one));
}

void remove_device(const ibv_context *context) noexcept {
    const std::unique_lock held(all.guard);
    std::erase_if(all.devices, [=](const auto &each) { return each->verbs == context; });
}

void begin_anew() {
    new (&all.guard) std::shared_mutex;
    for (auto &each : all.devices) {
        new (&each->guard) std::shared_mutex;
        each->set_operations(each->verbs, each->under);
        give_back_parts(*each);
        all.inherited.push_back(std::move(each));
    }
    all.devices.clear();
    shared_by_all.store(nullptr, std::memory_order_release); // what it has is the other process's
}

played *inherited(const ibv_context *context) noexcept {
    const std::shared_lock held(all.guard);
    for (const auto &each : all.inherited)
        if (each->verbs == context)
            return each.get();
    return nullptr;
}

void each_device(const std::function<void(played &)> &visit) {
    const std::shared_lock held(all.guard);
    for (const auto &each : all.devices)
        visit(*each);
}

} // namespace coherdma::emulation
