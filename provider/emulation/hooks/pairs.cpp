// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queue pairs and shared queues come and go, and their requests with them.

#include "parts.hpp"
#include "played.hpp"

namespace coherdma::emulation {
namespace {

void begin(played &on, ibv_qp *made, bool all_signalled) {
    const std::unique_lock held(on.guard);
    if (all_signalled)
        on.signalling.insert(made);
}

ibv_qp *create(ibv_pd *domain, ibv_qp_init_attr *wanted) noexcept {
    played &on = *find(domain->context);
    const bool all_signalled = wanted->sq_sig_all != 0;
    ibv_qp *const made = on.under.create_qp(domain, wanted);
    if (made != nullptr)
        begin(on, made, all_signalled);
    return made;
}

ibv_qp *create_ex(ibv_context *context, ibv_qp_init_attr_ex *wanted) noexcept {
    played &on = *find(context);
    const bool all_signalled = wanted->sq_sig_all != 0;
    const bool by_parts = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    ibv_qp *const made = on.under.create_qp_ex(context, wanted);
    if (made == nullptr)
        return nullptr;
    begin(on, made, all_signalled);
    if (by_parts)
        play_parts(on, made);
    return made;
}

int modify(ibv_qp *pair, ibv_qp_attr *attributes, int mask) noexcept {
    played &on = *find(pair->context);
    const int error = on.under.modify_qp(pair, attributes, mask);
    if (error == 0 && (mask & IBV_QP_STATE) != 0 && attributes->qp_state == IBV_QPS_RESET)
        on.requests.drop(pair);
    return error;
}

int destroy(ibv_qp *pair) noexcept {
    played &on = *find(pair->context);
    if (const int error = on.under.destroy_qp(pair))
        return error;
    on.requests.drop(pair);
    const std::unique_lock held(on.guard);
    on.signalling.erase(pair);
    on.by_parts.erase(pair);
    return 0;
}

int destroy_shared(ibv_srq *queue) noexcept {
    played &on = *find(queue->context);
    if (const int error = on.under.destroy_srq(queue))
        return error;
    on.requests.drop(queue);
    return 0;
}

} // namespace

void play_pairs(abi::operations &able) {
    able.create_qp = create;
    able.create_qp_ex = create_ex;
    able.modify_qp = modify;
    able.destroy_qp = destroy;
    able.destroy_srq = destroy_shared;
}

} // namespace coherdma::emulation
