// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects that are left at exit. A PD or CQ stays as long as what uses it: the line that creates it
// is marked, too.

#include "loopback.hpp"

#include <array>

namespace check_corpus {

namespace {

/// Mooncake #1845: a transfer fails, and its QP is left.
void qp_left_after_failure(const target &target, bool corrected) {
    device dev(target);
    ibv_pd *const pd = check(ibv_alloc_pd(dev.context), "PD");                   // wrong: leaked
    ibv_cq *const cq = check(ibv_create_cq(dev.context, 4, nullptr, nullptr, 0), // wrong: leaked
                             "CQ");
    ibv_qp_init_attr attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {4, 4, 1, 1, 0};
    ibv_qp *const qp = check(ibv_create_qp(pd, &attr), "QP"); // wrong: leaked
    if (!corrected)
        return;
    ibv_destroy_qp(qp);
    ibv_destroy_cq(cq);
    ibv_dealloc_pd(pd);
}

/// The PD is deallocated before its MR, which fails, and the error is not looked at.
void mr_left_in_pd(const target &target, bool corrected) {
    device dev(target);
    alignas(4096) static std::array<std::byte, 4096> memory{};
    ibv_pd *const pd = check(ibv_alloc_pd(dev.context), "PD");          // wrong: leaked
    ibv_mr *const mr = ibv_reg_mr(pd, memory.data(), memory.size(), 0); // wrong: leaked
    if (corrected)
        ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
}

void channel_left(const target &target, bool corrected) {
    device dev(target);
    ibv_comp_channel *const channel = ibv_create_comp_channel(dev.context); // wrong: leaked
    if (corrected)
        ibv_destroy_comp_channel(channel);
}

void srq_left(const target &target, bool corrected) {
    device dev(target);
    ibv_pd *const pd = check(ibv_alloc_pd(dev.context), "PD"); // wrong: leaked
    ibv_srq_init_attr attr{};
    attr.attr = {8, 1, 0};
    ibv_srq *const srq = ibv_create_srq(pd, &attr); // wrong: leaked
    if (corrected)
        ibv_destroy_srq(srq);
    ibv_dealloc_pd(pd);
}

/// The id of a second connection is forgotten.
void cm_id_left(const target &target, bool corrected) {
    rdma_event_channel *const events = check(rdma_create_event_channel(), "event channel");
    rdma_cm_id *first = nullptr, *second = nullptr;
    check(rdma_create_id(events, &first, nullptr, RDMA_PS_TCP), "id");
    bind_to_device(target, *first);
    check(rdma_create_id(events, &second, nullptr, RDMA_PS_TCP), "id"); // wrong: leaked
    bind_to_device(target, *second);
    if (corrected)
        rdma_destroy_id(second);
    rdma_destroy_id(first);
    rdma_destroy_event_channel(events);
}

/// Memory before and behind the heap, which the checker uses, too, is registered.
void registered_around_heap(const target &target, bool corrected) {
    constexpr std::size_t size = 64;
    static std::array<std::byte, size> low{};
    std::array<std::byte, size> high{};
    device dev(target);
    ibv_pd *const pd = check(ibv_alloc_pd(dev.context), "PD");               // wrong: leaked
    const std::array mrs{check(ibv_reg_mr(pd, low.data(), size, 0), "MR"),   // wrong: leaked
                         check(ibv_reg_mr(pd, high.data(), size, 0), "MR")}; // wrong: leaked
    if (!corrected)
        return;
    for (ibv_mr *const mr : mrs)
        ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd);
}

constexpr std::string_view kind = "leaked";
constexpr std::array cases{
    corpus_case{.name = "qp_left_after_failure",
                .kind = kind,
                .run = qp_left_after_failure,
                .options = "leaks"},
    corpus_case{.name = "mr_left_in_pd", .kind = kind, .run = mr_left_in_pd, .options = "leaks"},
    corpus_case{.name = "registered_around_heap",
                .kind = kind,
                .run = registered_around_heap,
                .options = "leaks"},
    corpus_case{.name = "channel_left", .kind = kind, .run = channel_left, .options = "leaks"},
    corpus_case{.name = "srq_left", .kind = kind, .run = srq_left, .options = "leaks"},
    corpus_case{.name = "cm_id_left", .kind = kind, .run = cm_id_left, .options = "leaks"},
};

} // namespace

std::span<const corpus_case> leak_cases() {
    return cases;
}

} // namespace check_corpus
