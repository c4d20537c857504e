// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that is unmapped or freed while requests name it.

#include "loopback.hpp"

#include <array>
#include <cstdlib>
#include <sys/mman.h>
#include <vector>

namespace check_corpus {

namespace {

constexpr std::size_t page_size = 4096;

/// slaclab/Simple-10GbE-RUDP-KCU105-Example #15: a slab of frames is freed while frames are held.
void unmap_under_receive(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    void *const slab =
        mmap(nullptr, 4 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, slab, 4 * page_size, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(slab) + page_size, 64, mr->lkey});
    if (corrected) {
        local.destroy_qp();
        ibv_dereg_mr(mr);
    }
    munmap(slab, 4 * page_size); // wrong: memory-freed
    if (!corrected) {
        local.destroy_qp();
        ibv_dereg_mr(mr);
    }
}

/// The receive buffer belongs to an object that is destroyed before the QP.
void free_under_receive(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    void *const buffer = std::malloc(512);
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, buffer, 512, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(buffer), 512, mr->lkey});
    if (corrected)
        local.destroy_qp();
    std::free(buffer); // wrong: memory-freed
    local.destroy_qp();
    ibv_dereg_mr(mr);
}

/// pegaflow #403: a transfer takes too long, its memory is freed, and the Read still writes to it.
void free_after_timeout(const target &target, bool corrected) {
    loopback link(target, !corrected);
    endpoint &local = link.requester;
    constexpr std::size_t size = 16 * page_size;
    void *const buffer = std::aligned_alloc(page_size, size);
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, buffer, size, full_access), "register");
    const ibv_sge sge{reinterpret_cast<std::uintptr_t>(buffer), 8192, mr->lkey};
    local.post_send(IBV_WR_RDMA_READ, sge, link.responder);
    let_complete(); // the time limit of the transfer
    if (corrected) {
        wait_success(local.send_cq, "the Read");
        ibv_dereg_mr(mr);
    }
    std::free(buffer); // wrong: memory-freed
    local.destroy_qp();
    if (!corrected)
        ibv_dereg_mr(mr);
}

/// A ring of receive buffers grows, and moves.
void realloc_under_srq(const target &target, bool corrected) {
    unconnected side(target, {.use_srq = true});
    endpoint &local = side.local;
    constexpr std::size_t size = 256 * page_size;
    void *ring = std::malloc(size);
    ibv_mr *mr = check(ibv_reg_mr(local.pd, ring, size, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(ring) + page_size, 64, mr->lkey});
    if (corrected) {
        local.destroy_qp();
        ibv_destroy_srq(local.srq);
        local.srq = nullptr;
        ibv_dereg_mr(mr);
    }
    ring = std::realloc(ring, 4 * size); // wrong: memory-freed
    if (!corrected) {
        local.destroy_qp();
        ibv_destroy_srq(local.srq);
        local.srq = nullptr;
        ibv_dereg_mr(mr);
    }
    std::free(ring);
}

/// Other memory is mapped over the buffer: the device writes to pages that the program does not
/// see.
void mapped_over_receive(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    local.post_recv(local.sge(64, page_size));
    if (corrected)
        local.destroy_qp();
    void *const page =
        mmap(local.memory + page_size, page_size, PROT_READ | PROT_WRITE, // wrong: memory-freed
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    check(page != MAP_FAILED ? 0 : -1, "map");
}

/// The ring is moved by mremap(), and the registration stays with the old pages' addresses.
void moved_under_receive(const target &target, bool corrected) {
    unconnected side(target);
    endpoint &local = side.local;
    void *ring =
        mmap(nullptr, 4 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ibv_mr *const mr = check(ibv_reg_mr(local.pd, ring, 4 * page_size, full_access), "register");
    local.post_recv({reinterpret_cast<std::uintptr_t>(ring), 64, mr->lkey});
    if (corrected)
        local.destroy_qp();
    void *const target_address =
        mmap(nullptr, 8 * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    constexpr int flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    ring = mremap(ring, 4 * page_size, 8 * page_size, flags, target_address); // wrong: memory-freed
    check(ring != MAP_FAILED ? 0 : -1, "move");
    local.destroy_qp();
    ibv_dereg_mr(mr);
    munmap(ring, 8 * page_size);
}

/// The source of a Send is a vector, which ends with its scope.
void vector_under_send(const target &target, bool corrected) {
    const endpoint_options options{.extended = true};
    loopback link(target, !corrected, {.requester = options, .responder = options});
    endpoint &local = link.requester;
    link.responder.post_recv();
    ibv_mr *mr = nullptr;
    {
        std::vector<std::byte> source(64);
        mr = check(ibv_reg_mr(local.pd, source.data(), source.size(), 0), "register");
        ibv_qp_ex *const qp = local.qp_ex();
        ibv_wr_start(qp);
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, mr->lkey, reinterpret_cast<std::uintptr_t>(source.data()), 64);
        check(ibv_wr_complete(qp), "post");
        if (corrected) {
            wait_success(local.send_cq, "the Send");
            ibv_dereg_mr(mr);
        }
    } // wrong: memory-freed
    local.destroy_qp();
    if (!corrected)
        ibv_dereg_mr(mr);
}

constexpr std::string_view kind = "memory-freed";
constexpr std::array cases{
    corpus_case{.name = "unmap_under_receive", .kind = kind, .run = unmap_under_receive},
    corpus_case{.name = "free_under_receive", .kind = kind, .run = free_under_receive},
    corpus_case{.name = "free_after_timeout", .kind = kind, .run = free_after_timeout},
    corpus_case{.name = "realloc_under_srq", .kind = kind, .run = realloc_under_srq},
    corpus_case{
        .name = "mapped_over_receive", .kind = kind, .run = mapped_over_receive, .needs = maps},
    corpus_case{.name = "moved_under_receive", .kind = kind, .run = moved_under_receive},
    corpus_case{
        .name = "vector_under_send", .kind = kind, .run = vector_under_send, .needs = extended},
};

} // namespace

std::span<const corpus_case> memory_cases() {
    return cases;
}

} // namespace check_corpus
