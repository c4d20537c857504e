// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "poisoned_memory.hpp"

#include <algorithm>
#include <iterator>

namespace coherdma::check {
namespace {

constexpr std::uintptr_t GRANULE = 8;

std::uintptr_t round_down(std::uintptr_t addr) noexcept {
    return addr / GRANULE * GRANULE;
}
std::uintptr_t round_up(std::uintptr_t addr) noexcept {
    return round_down(addr + GRANULE - 1);
}

void *to_pointer(std::uintptr_t addr) noexcept {
    return reinterpret_cast<void *>(addr);
}

} // namespace

poisoned_memory::poisoned_memory(const asan_runtime &runtime)
    : runtime_(runtime) {
    runtime_.get_shadow_mapping(&shadow_scale_, &shadow_offset_);
}

poisoned_memory::segment_map::iterator poisoned_memory::first_after(std::uintptr_t addr) noexcept {
    auto it = segments_.upper_bound(addr);
    if (it != segments_.begin() && std::prev(it)->second.end > addr)
        --it;
    return it;
}

void poisoned_memory::split(std::uintptr_t addr) {
    const auto it = first_after(addr);
    if (it == segments_.end() || it->first >= addr)
        return;
    segments_.emplace(addr, it->second);
    it->second.end = addr;
}

/// Of a range that no segment has.
void poisoned_memory::add_new(owner added, std::uintptr_t begin, std::uintptr_t end) {
    while (begin < end) {
        const auto poisoned = reinterpret_cast<std::uintptr_t>(
            runtime_.find_poisoned(to_pointer(begin), end - begin));
        const std::uintptr_t clean_end = poisoned != 0 ? round_down(poisoned) : end;
        if (begin < clean_end) {
            segments_.emplace(begin, segment{.end = clean_end, .owners = {added}});
            runtime_.poison(to_pointer(begin), clean_end - begin);
        }
        begin = clean_end + GRANULE; // that one is the program's
    }
}

void poisoned_memory::add(owner added, std::uintptr_t begin, std::uintptr_t end) {
    begin = round_up(begin);
    end = round_down(end);
    if (begin >= end)
        return;
    split(begin);
    split(end);
    auto it = first_after(begin);
    while (begin < end) {
        const bool has_more = it != segments_.end() && it->first < end;
        const std::uintptr_t gap_end = has_more ? it->first : end;
        add_new(added, begin, gap_end);
        begin = gap_end;
        if (!has_more)
            continue;
        if (std::vector<owner> &owners = it->second.owners; owners.back() != added)
            owners.push_back(added);
        begin = it->second.end;
        ++it;
    }
}

void poisoned_memory::unpoison(std::uintptr_t begin, std::uintptr_t end) const noexcept {
    // The program, or the sanitizer by free(), may have set other marks since.
    constexpr unsigned char POISONED_BY_USER = 0xf7;
    const auto is_ours = [this](std::uintptr_t addr) {
        return *reinterpret_cast<const volatile unsigned char *>(
                   (addr >> shadow_scale_) + shadow_offset_) == POISONED_BY_USER;
    };
    while (begin < end) {
        std::uintptr_t ours_end = begin;
        while (ours_end < end && is_ours(ours_end))
            ours_end += GRANULE;
        if (begin < ours_end)
            runtime_.unpoison(to_pointer(begin), ours_end - begin);
        begin = ours_end + GRANULE;
    }
}

void poisoned_memory::remove(owner removed, std::uintptr_t begin, std::uintptr_t end) noexcept {
    // Its segments begin and end within the range: add() has split them.
    for (auto it = first_after(begin); it != segments_.end() && it->first < end;) {
        std::vector<owner> &owners = it->second.owners;
        std::erase(owners, removed);
        if (!owners.empty()) {
            ++it;
            continue;
        }
        unpoison(it->first, it->second.end);
        it = segments_.erase(it);
    }
}

void poisoned_memory::remove_freed(std::uintptr_t begin, std::uintptr_t end) noexcept {
    for (auto it = first_after(begin); it != segments_.end() && it->first < end;) {
        unpoison(it->first, std::min(it->second.end, round_down(begin)));
        unpoison(std::max(it->first, round_up(end)), it->second.end);
        it = segments_.erase(it);
    }
}

void poisoned_memory::remove_unmapped(std::uintptr_t begin, std::uintptr_t end) noexcept {
    for (auto it = first_after(begin); it != segments_.end() && it->first < end;) {
        unpoison(it->first, it->second.end);
        it = segments_.erase(it);
    }
}

void poisoned_memory::unpoison_all() const noexcept {
    for (const auto &[begin, part] : segments_)
        unpoison(begin, part.end);
}

std::vector<poisoned_memory::owner> poisoned_memory::owners_of(std::uintptr_t begin,
                                                               std::uintptr_t end) const {
    std::vector<owner> owners;
    for (const auto &[start, part] : segments_)
        if (start < end && begin < part.end)
            owners.insert(owners.end(), part.owners.begin(), part.owners.end());
    return owners;
}

} // namespace coherdma::check
