// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace coherdma::provider::rxe {
namespace {

using abi::library;

int destroy(ibv_cq *cq) noexcept {
    if (const int error = library().destroy_cq(cq))
        return error;
    queue &own = of<queue>(cq);
    own.completions.unmap();
    std::free(&own);
    return 0;
}

ibv_cq *create(ibv_context *context, int entries, ibv_comp_channel *channel, int vector) noexcept {
    fresh<queue> own;
    if (!own)
        return nullptr;
    own->polling.init();
    abi::message<abi::command::create_cq> command = {};
    abi::message<abi::response::create_cq, place> response = {};
    int error = library().create_cq(context, entries, channel, vector, &own->verbs.cq, &command,
                                    command.size, &response, response.size);
    if (error == 0) {
        error = own->completions.map(context->cmd_fd, response.driver, sizeof(completion_slot));
        if (error != 0) {
            own->verbs.cq.context = context;
            library().destroy_cq(&own->verbs.cq);
        }
    }
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    own->completions.start_over(false);
    return &own.take()->verbs.cq;
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

// The kernel's flags are not those of programs.
unsigned flags_of(unsigned kernel) noexcept {
    return ((kernel & kernel_says_grh) != 0 ? unsigned{IBV_WC_GRH} : 0U) |
           ((kernel & kernel_says_imm) != 0 ? unsigned{IBV_WC_WITH_IMM} : 0U) |
           ((kernel & kernel_says_inv) != 0 ? unsigned{IBV_WC_WITH_INV} : 0U);
}

int poll(ibv_cq *cq, int most, ibv_wc *into) noexcept {
    queue &own = of<queue>(cq);
    const taking_turn mine(own.polling);
    int count = 0;
    for (; count < most; ++count) {
        const void *const from = own.completions.occupied();
        if (from == nullptr)
            break;
        std::memcpy(into + count, from, sizeof(ibv_wc));
        into[count].wc_flags = flags_of(into[count].wc_flags);
        own.completions.emptied();
    }
    own.completions.publish(own.completions.head->consumer);
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

void fill_queue(abi::operations &able) noexcept {
    able.create_cq = create;
    able.resize_cq = resize;
    able.destroy_cq = destroy;
    able.poll_cq = poll;
    able.req_notify_cq = arm;
}

} // namespace coherdma::provider::rxe
