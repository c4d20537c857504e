// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "common/creating.hpp"
#include "completion.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace coherdma::provider::rxe {
namespace {

int destroy(ibv_cq *cq) noexcept {
    if (const int error = library().destroy_cq(cq))
        return error;
    queue &own = of<queue>(cq);
    own.completions.unmap();
    std::free(&own);
    return 0;
}

// The kernel has made it; the rest is ours. If it cannot be, the kernel's is destroyed again.
queue *complete(fresh<queue> &own, ibv_context *context, const place &where) noexcept {
    if (const int error = own->completions.map(context->cmd_fd, where, sizeof(completion_slot))) {
        own->verbs.cq.context = context;
        library().destroy_cq(&own->verbs.cq);
        errno = error;
        return nullptr;
    }
    own->completions.start_over(false);
    return own.take();
}

// The kernel takes along what is in the old ring, so nobody may take it from there meanwhile.
int resize(ibv_cq *cq, int entries) noexcept {
    queue &own = of<queue>(cq);
    const keeping_closed closed(own.polling);
    abi::message<abi::command::resize_cq> command = {};
    abi::message<abi::response::resize_cq, place> response = {};
    if (const int error =
            library().resize_cq(cq, entries, &command, command.size, &response, response.size))
        return error;
    ring bigger = {};
    if (const int error = bigger.map(cq->context->cmd_fd, response.driver, sizeof(completion_slot)))
        return error;
    bigger.start_over(false);
    own.completions.unmap();
    own.completions = bigger;
    return 0;
}

// Any of the completions may have failed or be forgotten. The turn is taken already.
[[gnu::noinline]] int poll_with_care(queue &own, int most, ibv_wc *into) noexcept {
    const int count = take(own, into, most);
    own.completions.give_back();
    own.polling.leave();
    probe::poll(own.verbs.cq.handle, count);
    return count;
}

[[gnu::noinline, gnu::cold]] int poll_in_turn(queue &own, int most, ibv_wc *into) noexcept {
    own.polling.enter();
    return poll_with_care(own, most, into);
}

// In few instructions if all completions have succeeded.
int poll(ibv_cq *cq, int most, ibv_wc *into) noexcept {
    queue &own = of<queue>(cq);
    if (!own.polling.try_to_enter()) [[unlikely]]
        return poll_in_turn(own, most, into);
    ring &all = own.completions;
    // In registers: the compiler has to take memory for changed by each completion.
    const auto *const slots = static_cast<const unsigned char *>(all.slot(0));
    const std::uint32_t mask = all.mask, shift = all.log2_slot;
    std::uint32_t next = all.own;
    const int count = std::min(most, static_cast<int>(all.ready()));
    if (count > 0) {
        int left = count;
        ibv_wc *is = into;
        do {
            const auto &slot = *reinterpret_cast<const completion_slot *>(
                slots + (static_cast<std::size_t>(next) << shift));
            if (slot.status != IBV_WC_SUCCESS) [[unlikely]]
                return poll_with_care(own, most, into);
            next = (next + 1) & mask;
            std::memcpy(is, &slot, sizeof(*is));
            is->wc_flags = translated_flags[slot.wc_flags % translated_flags.size()];
            ++is;
        } while (--left != 0);
        all.own = next;
        all.give_back();
    }
    own.polling.leave();
    probe::poll(cq->handle, count);
    return count;
}

// libibverbs' own way goes through a longer command; it is there for kernels that refuse this one.
int arm(ibv_cq *cq, int solicited_only) noexcept {
    arming command;
    command.queue = cq->handle;
    command.solicited_only = solicited_only != 0;
    if (write(cq->context->cmd_fd, &command, sizeof(command)) == ssize_t{sizeof(command)})
        return 0;
    return library().req_notify_cq(cq, solicited_only);
}

} // namespace

int take(queue &from, ibv_wc *into, int most) noexcept {
    ring &all = from.completions;
    int count = 0;
    while (count < most) {
        const auto *const slot = static_cast<const completion_slot *>(all.occupied());
        if (slot == nullptr)
            break;
        all.emptied();
        const std::uint32_t status = slot->status;
        if (status == forgotten)
            continue;
        ibv_wc &is = into[count++];
        std::memcpy(&is, slot, sizeof(is));
        is.wc_flags = flags_of(slot->wc_flags);
        if (status != IBV_WC_SUCCESS) // as a number: a kernel may say any
            found_broken(of<context>(from.verbs.cq.context), is.qp_num);
    }
    return count;
}

// What is occupied is ours to write to, until it is emptied.
void forget_completions(queue &of, std::uint32_t pair) noexcept {
    const taking_turn mine(of.polling);
    ring &all = of.completions;
    const std::uint32_t emptied = all.own;
    while (auto *const slot = static_cast<completion_slot *>(all.occupied())) {
        if (slot->qp_num == pair)
            slot->status = forgotten;
        all.emptied();
    }
    all.own = emptied;
}

void fill_queue(abi::operations &able) noexcept {
    able.create_cq = create_cq<queue, place, complete>;
    able.create_cq_ex = create_cq_ex<queue, place, complete>;
    able.resize_cq = resize;
    able.destroy_cq = destroy;
    able.poll_cq = poll;
    able.req_notify_cq = arm;
}

} // namespace coherdma::provider::rxe
