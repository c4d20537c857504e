// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completion queues. What the kernel has completed comes from the ring; what it leaves undone of a
// broken pair comes after that, from the pair's own rings.

#include "common/creating.hpp"
#include "objects.hpp"

#include <array>
#include <cerrno>
#include <ctime>

namespace coherdma::provider::siw {
namespace {

int destroy(ibv_cq *cq) noexcept {
    if (const int error = library().destroy_cq(cq))
        return error;
    queue &own = of<queue>(cq);
    own.ring.at.unmap();
    std::free(&own);
    return 0;
}

// The kernel has made it; the rest is ours. If it cannot be, the kernel's is destroyed again.
queue *complete(fresh<queue> &own, ibv_context *context, const siw_uresp_create_cq &made) noexcept {
    completions &ring = own->ring;
    if (const int error = ring.at.map(context->cmd_fd, made.cq_key, made.num_cqe, sizeof(siw_cqe),
                                      sizeof(siw_cq_ctrl))) {
        own->verbs.cq.context = context;
        library().destroy_cq(&own->verbs.cq);
        errno = error;
        return nullptr;
    }
    const std::size_t slots = std::size_t{ring.at.mask} + 1;
    ring.control = reinterpret_cast<siw_cq_ctrl *>(ring.at.memory + slots * sizeof(siw_cqe));
    return own.take();
}

// Whether it was time to look at the suspects.
bool idle(queue &own) noexcept {
    constexpr std::uint64_t second = 1000000000, often = second / 20;
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const auto time =
        static_cast<std::uint64_t>(now.tv_sec) * second + static_cast<std::uint64_t>(now.tv_nsec);
    if (time - own.looked_at < often)
        return false;
    own.looked_at = time;
    look_at_suspects(own);
    return true;
}

// Always for any completion: the kernel takes no receive for a solicited one. What comes between
// the last poll and this is found by the poll that has to follow it.
int arm(ibv_cq *cq, int) noexcept {
    queue &own = of<queue>(cq);
    std::atomic_ref(own.ring.control->flags)
        .store(SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
    if (std::atomic_ref(own.suspects).load())
        look_at_suspects(own);
    return 0;
}

constexpr std::array statuses{IBV_WC_SUCCESS,        IBV_WC_LOC_LEN_ERR,    IBV_WC_LOC_PROT_ERR,
                              IBV_WC_LOC_QP_OP_ERR,  IBV_WC_WR_FLUSH_ERR,   IBV_WC_BAD_RESP_ERR,
                              IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR};
static_assert(statuses.size() == SIW_WC_GENERAL_ERR);

ibv_wc_status status_of(std::uint32_t kernel) noexcept {
    return kernel < statuses.size() ? statuses[kernel] : IBV_WC_GENERAL_ERR;
}

constexpr auto opcodes = [] {
    std::array<ibv_wc_opcode, 16> all = {};
    all.fill(IBV_WC_SEND);
    all[SIW_OP_WRITE] = IBV_WC_RDMA_WRITE;
    all[SIW_OP_READ] = all[SIW_OP_READ_LOCAL_INV] = IBV_WC_RDMA_READ;
    all[SIW_OP_RECEIVE] = IBV_WC_RECV;
    return all;
}();

ibv_wc_opcode opcode_of(std::uint8_t kernel) noexcept {
    return opcodes[kernel % opcodes.size()];
}

// Of a completion that nobody is to see; not the kernel's.
constexpr std::uint8_t forgotten = 128;

void translate(const siw_cqe &from, ibv_wc_status status, ibv_wc &into) noexcept {
    into = {};
    into.wr_id = from.id;
    into.status = status;
    into.opcode = opcode_of(from.opcode);
    into.byte_len = from.bytes;
    into.qp_num = static_cast<std::uint32_t>(from.qp_id);
}

bool take_flushed(queue &from, ibv_wc &into) noexcept {
    half *each = std::atomic_ref(from.broken).load(std::memory_order_acquire);
    for (; each != nullptr; each = each->next) {
        request &slot = each->ring.slot(each->flushed);
        if ((flags_of(slot) & SIW_WQE_VALID) == 0)
            continue;
        into = {};
        into.wr_id = slot.id;
        into.status = IBV_WC_WR_FLUSH_ERR;
        into.opcode = each->receives ? IBV_WC_RECV : opcode_of(slot.opcode);
        into.qp_num = each->pair;
        give(slot, 0);
        ++each->flushed;
        return true;
    }
    return false;
}

// Others only ever put halves at the front.
void leave_out(queue &of, const half &gone) noexcept {
    std::atomic_ref first(of.broken);
    half *seen = first.load();
    if (seen == &gone && first.compare_exchange_strong(seen, gone.next))
        return;
    for (half *each = first.load(); each != nullptr; each = each->next) {
        if (each->next == &gone) {
            each->next = gone.next;
            return;
        }
    }
}

// Any of the completions may have failed or be forgotten, or be flushed from here. The turn is
// taken already.
[[gnu::noinline]] int poll_with_care(queue &own, int most, ibv_wc *into) noexcept {
    int count = 0;
    while (count < most && (count == 0 ? take_first(own, *into) : take(own, into[count])))
        ++count;
    own.polling.leave();
    probe::poll(own.verbs.cq.handle, count);
    return count;
}

[[gnu::noinline, gnu::cold]] int poll_in_turn(queue &own, int most, ibv_wc *into) noexcept {
    own.polling.enter();
    return poll_with_care(own, most, into);
}

// In few instructions if all completions are the kernel's and have succeeded.
int poll(ibv_cq *cq, int most, ibv_wc *into) noexcept {
    queue &own = of<queue>(cq);
    if (!own.polling.try_to_enter()) [[unlikely]]
        return poll_in_turn(own, most, into);
    // In registers: the compiler has to take memory for changed by each completion.
    auto *const slots = reinterpret_cast<siw_cqe *>(own.ring.at.memory);
    const std::uint32_t mask = own.ring.at.mask;
    std::uint32_t next = own.ring.own;
    int count = 0;
    for (; count < most; ++count, ++into) {
        siw_cqe &slot = slots[next & mask];
        const std::uint8_t flags = std::atomic_ref(slot.flags).load(std::memory_order_acquire);
        if (flags != SIW_WQE_VALID || slot.status != SIW_WC_SUCCESS)
            break;
        translate(slot, IBV_WC_SUCCESS, *into);
        std::atomic_ref(slot.flags).store(0, std::memory_order_release);
        ++next;
    }
    own.ring.own = next;
    if (count == 0 && (own.ring.flags() != 0 || own.has_more())) [[unlikely]]
        return poll_with_care(own, most, into);
    own.polling.leave();
    probe::poll(cq->handle, count);
    return count;
}

} // namespace

bool take_first(queue &from, ibv_wc &into) noexcept {
    if (take(from, into))
        return true;
    return std::atomic_ref(from.suspects).load(std::memory_order_relaxed) && idle(from) &&
           take(from, into);
}

bool take(queue &from, ibv_wc &into) noexcept {
    completions &ring = from.ring;
    for (;;) {
        const std::uint8_t flags = ring.flags();
        if ((flags & SIW_WQE_VALID) == 0)
            return take_flushed(from, into);
        siw_cqe &slot = ring.slot(ring.own++);
        translate(slot, status_of(slot.status), into);
        std::atomic_ref(slot.flags).store(0, std::memory_order_release);
        if ((flags & forgotten) != 0)
            continue;
        if (into.status != IBV_WC_SUCCESS)
            break_pair(of<context>(from.verbs.cq.context), into.qp_num);
        return true;
    }
}

void forget_completions(queue &of, const pair &whose) noexcept {
    const taking_turn mine(of.polling);
    leave_out(of, whose.sends);
    leave_out(of, whose.receives);
    completions &ring = of.ring;
    const std::uint32_t emptied = ring.own;
    for (; ring.own - emptied <= ring.at.mask; ++ring.own) {
        const std::uint8_t flags = ring.flags();
        if ((flags & SIW_WQE_VALID) == 0)
            break;
        siw_cqe &slot = ring.slot(ring.own);
        if (slot.qp_id == whose.verbs.qp.qp_num)
            std::atomic_ref(slot.flags).store(flags | forgotten, std::memory_order_relaxed);
    }
    ring.own = emptied;
}

void fill_queue(abi::operations &able) noexcept {
    able.create_cq = create_cq<queue, siw_uresp_create_cq, complete>;
    able.create_cq_ex = create_cq_ex<queue, siw_uresp_create_cq, complete>;
    able.destroy_cq = destroy;
    able.poll_cq = poll;
    able.req_notify_cq = arm;
}

} // namespace coherdma::provider::siw
