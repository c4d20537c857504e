// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace fake {
namespace {

ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) noexcept {
    if (attr->attr.max_sge > MAX_SGE)
        return fail_with(EINVAL);
    const std::lock_guard guard(lock);
    fake_srq &srq = pool<fake_srq>().create();
    srq.verbs.srq.handle = next_handle();
    srq.receives.set_depth(attr->attr.max_wr);
    attr->attr.max_wr = srq.receives.depth();
    attr->attr.max_sge = MAX_SGE;
    ++to_object<fake_pd>(pd).num_users;
    return &srq.verbs.srq;
}

int query_srq(ibv_srq *verbs, ibv_srq_attr *attr) noexcept {
    const std::lock_guard guard(lock);
    *attr = {
        .max_wr = to_object<fake_srq>(verbs).receives.depth(), .max_sge = MAX_SGE, .srq_limit = 0};
    return 0;
}

int destroy_srq(ibv_srq *verbs) noexcept {
    const std::lock_guard guard(lock);
    fake_srq &srq = to_object<fake_srq>(verbs);
    if (srq.num_users != 0)
        return EBUSY;
    --to_object<fake_pd>(verbs->pd).num_users;
    pool<fake_srq>().destroy(srq);
    return 0;
}

} // namespace

void set_srq_ops(abi::verbs_context_ops &ops) {
    ops.create_srq = create_srq;
    ops.query_srq = query_srq;
    ops.destroy_srq = destroy_srq;
}

} // namespace fake
