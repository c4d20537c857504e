// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CQs, which have no room to run out of. The start_poll API is in cq_ex.cpp.

#include "objects.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace fake {
namespace {

void copy_data(fake_cqe &cqe) {
    if (!cqe.data.empty())
        std::memcpy(cqe.dest, cqe.data.data(), cqe.data.size());
    cqe.data.clear();
}

int poll_cq(ibv_cq *verbs, int num_entries, ibv_wc *wcs) noexcept {
    const std::lock_guard guard(lock);
    fake_cq &cq = to_fake_cq(verbs);
    int count = 0;
    while (count < num_entries && take_wc(cq, wcs[count]))
        ++count;
    return count;
}

ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel,
                  int comp_vector) noexcept {
    ibv_cq_init_attr_ex attr = {};
    attr.cqe = static_cast<std::uint32_t>(cqe);
    attr.channel = channel;
    attr.comp_vector = static_cast<std::uint32_t>(comp_vector);
    return ibv_cq_ex_to_cq(create_cq_ex(context, &attr));
}

/// False: QPs use it.
bool free_cq(fake_cq &cq) {
    const std::lock_guard guard(lock);
    if (cq.num_users != 0)
        return false;
    pool<fake_cq>().destroy(cq);
    return true;
}

int destroy_cq(ibv_cq *cq) noexcept {
    const bool is_freed = free_cq(to_fake_cq(cq));
    report_event(is_freed ? "CQ freed" : "CQ in use");
    return is_freed ? 0 : EBUSY;
}

} // namespace

/// Without events: the kernel raises them.
ibv_cq_ex *create_cq_ex(ibv_context *, ibv_cq_init_attr_ex *attr) noexcept {
    if (attr->channel != nullptr)
        return fail_with(EOPNOTSUPP);
    const unsigned flags = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr->flags : 0;
    const std::lock_guard guard(lock);
    fake_cq &cq = pool<fake_cq>().create();
    cq.is_single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    cq.verbs.cq.handle = next_handle();
    cq.verbs.cq.cqe = static_cast<int>(std::bit_ceil(attr->cqe)) - 1; // as mlx5
    set_poll_functions(cq, attr->wc_flags);
    return &cq.verbs.cq_ex;
}

void add_cqe(ibv_cq *cq, fake_cqe added) {
    to_fake_cq(cq).cqes.push_back(std::move(added));
}

void deliver_data(ibv_cq *cq, std::uint64_t queue_id) {
    for (fake_cqe &cqe : to_fake_cq(cq).cqes)
        if (cqe.queue_id == queue_id)
            copy_data(cqe);
}

/// The first one of the queue that has completed something last: among queues, a program may not
/// rely on an order. The firmware of an HCA executes QPs in any.
bool take_wc(fake_cq &cq, ibv_wc &wc) {
    if (cq.cqes.empty())
        return false;
    const std::uint64_t queue_id = cq.cqes.back().queue_id;
    const auto first = std::find_if(cq.cqes.begin(), cq.cqes.end(),
                                    [&](const fake_cqe &cqe) { return cqe.queue_id == queue_id; });
    copy_data(*first);
    slot_queue::release(first->slot_queue_id, first->slot_number);
    wc = first->wc;
    cq.cqes.erase(first);
    return true;
}

void set_cq_ops(abi::verbs_context_ops &ops) {
    ops.create_cq = create_cq;
    ops.create_cq_ex = create_cq_ex;
    ops.poll_cq = poll_cq;
    ops.destroy_cq = destroy_cq;
}

} // namespace fake
