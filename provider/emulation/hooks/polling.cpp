// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Polling. What has arrived is fetched before the program learns of it, and the ids are its own
// again.

#include "played.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

/// So many bytes have come, into the sinks in their order.
void fetch(const std::vector<span> &sinks, std::uint64_t bytes) {
    for (const span &each : sinks) {
        const std::uint64_t part = std::min<std::uint64_t>(bytes, each.size());
        here().memory.arrived({each.begin, each.begin + part});
        bytes -= part;
    }
}

/// The program's id. Of those that say nothing by themselves all has gone well.
std::uint64_t finish(played &on, std::uint64_t number, bool success, ibv_wc_opcode opcode,
                     std::uint32_t bytes) {
    const std::vector<request> done = on.requests.take(number);
    if (done.empty())
        return number; // none of ours
    for (std::size_t each = 0; each + 1 < done.size(); ++each)
        fetch(done[each].sinks, ~std::uint64_t{0});
    const request &last = done.back();
    // What came with a Write went to where the Write said.
    if (success && (last.sent || opcode != IBV_WC_RECV_RDMA_WITH_IMM))
        fetch(last.sinks, last.sent ? ~std::uint64_t{0} : bytes);
    if (success && (!last.sent || !last.sinks.empty()))
        here().memory.heard();
    return last.id;
}

int poll(ibv_cq *queue, int most, ibv_wc *into) noexcept {
    played &on = *find(queue->context);
    const int count = on.under.poll_cq(queue, most, into);
    here().memory.step();
    for (int each = 0; each < count; ++each) {
        ibv_wc &one = into[each];
        one.wr_id = finish(on, one.wr_id, one.status == IBV_WC_SUCCESS, one.opcode, one.byte_len);
    }
    return count;
}

int show(played &on, ibv_cq_ex *queue, int found) {
    here().memory.step();
    if (found != 0)
        return found;
    const bool success = queue->status == IBV_WC_SUCCESS;
    queue->wr_id =
        finish(on, queue->wr_id, success, success ? queue->read_opcode(queue) : IBV_WC_SEND,
               success ? queue->read_byte_len(queue) : 0);
    return 0;
}

int start(ibv_cq_ex *queue, ibv_poll_cq_attr *how) noexcept {
    played *const on = find(queue->context);
    return on != nullptr ? show(*on, queue, on->start_poll(queue, how))
                         : inherited(queue->context)->start_poll(queue, how);
}

int next(ibv_cq_ex *queue) noexcept {
    played *const on = find(queue->context);
    return on != nullptr ? show(*on, queue, on->next_poll(queue))
                         : inherited(queue->context)->next_poll(queue);
}

ibv_cq_ex *create_ex(ibv_context *context, ibv_cq_init_attr_ex *wanted) noexcept {
    played &on = *find(context);
    ibv_cq_ex *const made = on.under.create_cq_ex(context, wanted);
    if (made != nullptr) {
        on.start_poll = made->start_poll; // the same of all queues
        on.next_poll = made->next_poll;
        made->start_poll = start;
        made->next_poll = next;
    }
    return made;
}

} // namespace

void play_polling(abi::operations &able) {
    able.poll_cq = poll;
    able.create_cq_ex = create_ex;
}

} // namespace coherdma::emulation
