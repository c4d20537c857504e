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

constexpr std::size_t size = 256, pages = 1 << 20;
// Primes: the LMRs are visited in scattered order, and all before one is visited again.
constexpr std::size_t sync_stride = 7919, send_stride = 6007;

void sync_lmrs(const scale_ia &ia, const std::vector<registered_lmr> &lmrs) {
    for (std::size_t i = 0; i != 1000; ++i) {
        const DAT_LMR_TRIPLET &triplet = lmrs[i * sync_stride % lmrs.size()].triplet;
        check_dat(dat_lmr_sync_rdma_read(ia.handle, &triplet, 1), "dat_lmr_sync_rdma_read");
        check_dat(dat_lmr_sync_rdma_write(ia.handle, &triplet, 1), "dat_lmr_sync_rdma_write");
    }
}

/// Some of them are sent from, into some others.
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
        std::memset(dst_data, 0, size);
        std::memset(src_data, static_cast<int>(i + 1), size);
        post_recv(eps.passive, dst, i);
        post_send(eps.active, src, i);
        require(expect_dto(shared.recv_evd, size) == i, "the message comes");
        require(expect_dto(shared.request_evd, size) == i, "the message is sent");
        require(dst_data[0] == std::byte(i + 1) &&
                    std::memcmp(dst_data, dst_data + 1, size - 1) == 0,
                "it comes as it was sent");
    }
    eps.disconnect(shared);
    eps.free();
}

void run_round(const scale_ia &ia, std::size_t count, std::byte *memory) {
    std::vector<registered_lmr> lmrs;
    lmrs.reserve(count);
    for (std::size_t i = 0; i != count; ++i)
        lmrs.emplace_back(ia, std::span(memory + i * size % pages, size));
    sync_lmrs(ia, lmrs);
    send_between_lmrs(ia, lmrs, memory);
    const DAT_LMR_TRIPLET freed_triplet = lmrs.back().triplet;
    for (const registered_lmr &lmr : lmrs)
        lmr.free();
    require(dat_lmr_sync_rdma_read(ia.handle, &freed_triplet, 1) != DAT_SUCCESS,
            "what is freed is unknown");
}

} // namespace

void test_regions(const scale_ia &ia, std::size_t count) {
    void *const memory =
        mmap(nullptr, pages, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(memory != MAP_FAILED, "there is memory");
    run_round(ia, count, static_cast<std::byte *>(memory));
    const usage before = read_usage();
    run_round(ia, count, static_cast<std::byte *>(memory));
    require_no_growth("regions", before, read_usage());
    munmap(memory, pages);
}

} // namespace scale
