// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many LMRs at once. A thousand of them, spread over all, are synced in both directions: the
// instructions of dat_lmr_sync_* can be counted, and must not grow with the number of LMRs.

#include "ep_pair.hpp"
#include "modes.hpp"
#include "usage.hpp"

#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <vector>

namespace scale {

namespace {

constexpr std::size_t lmr_size = 256, memory_size = 1 << 20;
// Primes: i * stride modulo the number of LMRs visits them in scattered order, and all before one
// is visited again.
constexpr std::size_t sync_stride = 7919, send_stride = 6007;

/// A thousand of them, in both directions: the instructions are counted (scale.bats).
void sync_lmrs(const scale_ia &ia, const std::vector<registered_lmr> &lmrs) {
    for (std::size_t i = 0; i != 1000; ++i) {
        const DAT_LMR_TRIPLET &triplet = lmrs[i * sync_stride % lmrs.size()].triplet;
        check_dat(dat_lmr_sync_rdma_read(ia.handle, &triplet, 1), "dat_lmr_sync_rdma_read");
        check_dat(dat_lmr_sync_rdma_write(ia.handle, &triplet, 1), "dat_lmr_sync_rdma_write");
    }
}

/// Sends 20 messages, each from one LMR into another that is half the list away.
void send_between_lmrs(const scale_ia &ia, const std::vector<registered_lmr> &lmrs,
                       std::byte *memory) {
    const shared_objects shared(ia, 4);
    ep_pair eps;
    eps.create(shared);
    eps.connect(shared);
    for (std::size_t i = 0; i != 20; ++i) {
        const DAT_LMR_TRIPLET &src = lmrs[i * send_stride % lmrs.size()].triplet;
        const DAT_LMR_TRIPLET &dst =
            lmrs[(i * send_stride + lmrs.size() / 2) % lmrs.size()].triplet;
        auto *const src_data =
            memory + (src.virtual_address - reinterpret_cast<std::uintptr_t>(memory));
        auto *const dst_data =
            memory + (dst.virtual_address - reinterpret_cast<std::uintptr_t>(memory));
        std::memset(dst_data, 0, lmr_size);
        std::memset(src_data, static_cast<int>(i + 1), lmr_size);
        post_recv(eps.passive, dst, i);
        post_send(eps.active, src, i);
        require(expect_dto(shared.recv_evd, lmr_size) == i, "the message comes");
        require(expect_dto(shared.request_evd, lmr_size) == i, "the message is sent");
        require(dst_data[0] == std::byte(i + 1) &&
                    std::memcmp(dst_data, dst_data + 1, lmr_size - 1) == 0,
                "it comes as it was sent");
    }
    eps.disconnect(shared);
    eps.free();
}

/// Registers `count` LMRs in the memory, which they share once it is used up; syncs and sends some;
/// frees all.
void register_and_use_lmrs(const scale_ia &ia, std::size_t count, std::byte *memory) {
    std::vector<registered_lmr> lmrs;
    lmrs.reserve(count);
    for (std::size_t i = 0; i != count; ++i)
        lmrs.emplace_back(ia, std::span(memory + i * lmr_size % memory_size, lmr_size));
    sync_lmrs(ia, lmrs);
    send_between_lmrs(ia, lmrs, memory);
    const DAT_LMR_TRIPLET freed_triplet = lmrs.back().triplet;
    for (const registered_lmr &lmr : lmrs)
        lmr.free();
    require(dat_lmr_sync_rdma_read(ia.handle, &freed_triplet, 1) != DAT_SUCCESS,
            "a sync of a freed LMR fails");
}

} // namespace

void test_regions(const scale_ia &ia, std::size_t count) {
    void *const memory =
        mmap(nullptr, memory_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "there is memory");
    register_and_use_lmrs(ia, count, static_cast<std::byte *>(memory));
    const usage before = read_usage();
    register_and_use_lmrs(ia, count, static_cast<std::byte *>(memory));
    require_no_growth("regions", before, read_usage());
    munmap(memory, memory_size);
}

} // namespace scale
