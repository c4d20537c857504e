// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many LMRs at once. A thousand of them, spread over all, are synced in both directions: the
// instructions of dat_lmr_sync_* can be counted, and must not grow with the number of LMRs.

#include "modes.hpp"
#include "pair.hpp"
#include "usage.hpp"

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <vector>

namespace scale {

namespace {

constexpr std::size_t size = 256, pages = 1 << 20;

void synced(const adapter &ia, const std::vector<region> &all) {
    for (std::size_t i = 0; i != 1000; ++i) {
        const DAT_LMR_TRIPLET &triplet = all[i * 7919 % all.size()].all;
        must(dat_lmr_sync_rdma_read(ia.handle, &triplet, 1), "dat_lmr_sync_rdma_read");
        must(dat_lmr_sync_rdma_write(ia.handle, &triplet, 1), "dat_lmr_sync_rdma_write");
    }
}

/// Some of them are sent from, into some others.
void used(const adapter &ia, const std::vector<region> &all, std::byte *memory) {
    const station st(ia, 4);
    pair both;
    both.make(st);
    both.connect(st);
    for (std::size_t i = 0; i != 20; ++i) {
        const DAT_LMR_TRIPLET &src = all[i * 6007 % all.size()].all;
        const DAT_LMR_TRIPLET &dst = all[(i * 6007 + all.size() / 2) % all.size()].all;
        auto *const source =
            memory + (src.virtual_address - reinterpret_cast<std::uintptr_t>(memory));
        auto *const target =
            memory + (dst.virtual_address - reinterpret_cast<std::uintptr_t>(memory));
        std::memset(target, 0, size);
        std::memset(source, static_cast<int>(i + 1), size);
        receive(both.passive, dst, i);
        send(both.active, src, i);
        need(completed(st.receives, size) == i, "the message comes");
        need(completed(st.requests, size) == i, "the message is sent");
        need(target[0] == std::byte(i + 1) && std::memcmp(target, target + 1, size - 1) == 0,
             "it comes as it was sent");
    }
    both.disconnect(st);
    both.end();
}

void round(const adapter &ia, std::size_t count, std::byte *memory) {
    std::vector<region> all;
    all.reserve(count);
    for (std::size_t i = 0; i != count; ++i)
        all.emplace_back(ia, std::span(memory + i * size % pages, size));
    synced(ia, all);
    used(ia, all, memory);
    const DAT_LMR_TRIPLET last = all.back().all;
    for (const region &each : all)
        each.end();
    need(dat_lmr_sync_rdma_read(ia.handle, &last, 1) != DAT_SUCCESS, "what is freed is unknown");
}

} // namespace

void regions(const adapter &ia, std::size_t count) {
    void *const memory =
        mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    need(memory != MAP_FAILED, "there is memory");
    round(ia, count, static_cast<std::byte *>(memory));
    const usage before = now();
    round(ia, count, static_cast<std::byte *>(memory));
    not_more("regions", before, now());
    munmap(memory, pages);
}

} // namespace scale
