// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs: RC and UD.

#include "objects.hpp"

#include <map>

namespace fake {
namespace {

std::map<std::uint32_t, fake_qp *> &qps() {
    static auto &created = *new std::map<std::uint32_t, fake_qp *>;
    return created;
}

/// Numbers are used again late, as in an HCA, which has 2^24.
std::uint32_t take_qp_num() noexcept {
    static std::uint32_t last = 0x0bad00;
    return last += 3;
}

int check(const ibv_qp_init_attr_ex &attr) noexcept {
    if (attr.qp_type != IBV_QPT_RC && attr.qp_type != IBV_QPT_UD)
        return EOPNOTSUPP;
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr.cap.max_inline_data > MAX_INLINE_DATA ||
        attr.cap.max_send_sge > MAX_SGE || attr.cap.max_recv_sge > MAX_SGE)
        return EINVAL;
    return 0;
}

/// Calls a function for each object that the QP uses.
template <class function>
void for_each_num_users(const ibv_qp &qp, function call) {
    call(to_object<fake_pd>(qp.pd).num_users);
    call(to_fake_cq(qp.send_cq).num_users);
    call(to_fake_cq(qp.recv_cq).num_users);
    if (qp.srq != nullptr)
        call(to_object<fake_srq>(qp.srq).num_users);
}

ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept {
    if (const int error = check(*attr))
        return fail_with(error);
    const std::lock_guard guard(lock);
    fake_qp &qp = pool<fake_qp>().create();
    ibv_qp &verbs = qp.verbs.qp;
    verbs.context = context;
    verbs.qp_context = attr->qp_context;
    verbs.pd = attr->pd;
    verbs.send_cq = attr->send_cq;
    verbs.recv_cq = attr->recv_cq;
    verbs.srq = attr->srq;
    verbs.handle = next_handle();
    verbs.qp_num = take_qp_num();
    verbs.qp_type = attr->qp_type;
    pthread_mutex_init(&verbs.mutex, nullptr);
    pthread_cond_init(&verbs.cond, nullptr);
    qp.is_sig_all = attr->sq_sig_all != 0;
    qp.sends.set_depth(attr->cap.max_send_wr);
    qp.receives.set_depth(attr->cap.max_recv_wr);
    attr->cap = {.max_send_wr = qp.sends.depth(),
                 .max_recv_wr = attr->srq != nullptr ? 0 : qp.receives.depth(),
                 .max_send_sge = MAX_SGE,
                 .max_recv_sge = MAX_SGE,
                 .max_inline_data = MAX_INLINE_DATA};
    qp.cap = attr->cap;
    for_each_num_users(verbs, [](unsigned &num_users) { ++num_users; });
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0)
        set_wr_functions(qp, attr->send_ops_flags);
    qps()[verbs.qp_num] = &qp;
    return &verbs;
}

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept {
    ibv_qp_init_attr_ex attr_ex = {};
    attr_ex.qp_context = attr->qp_context;
    attr_ex.send_cq = attr->send_cq;
    attr_ex.recv_cq = attr->recv_cq;
    attr_ex.srq = attr->srq;
    attr_ex.cap = attr->cap;
    attr_ex.qp_type = attr->qp_type;
    attr_ex.sq_sig_all = attr->sq_sig_all;
    attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr_ex.pd = pd;
    ibv_qp *const qp = create_qp_ex(pd->context, &attr_ex);
    if (qp != nullptr)
        attr->cap = attr_ex.cap;
    return qp;
}

/// Requests that are not complete end without completion. Completions stay in the CQ, as in rxe and
/// siw; mlx5 removes them.
void reset(fake_qp &qp) {
    deliver_data(qp.verbs.qp.recv_cq, qp.receives.id());
    qp.sends.reset();
    qp.receives.reset();
}

int modify_qp(ibv_qp *verbs, ibv_qp_attr *attr, int mask) noexcept {
    const std::lock_guard guard(lock);
    fake_qp &qp = to_fake_qp(verbs);
    if ((mask & IBV_QP_DEST_QPN) != 0)
        qp.dest_qp_num = attr->dest_qp_num;
    if ((mask & IBV_QP_STATE) == 0)
        return 0;
    const bool is_next = attr->qp_state == qp.state + 1 && attr->qp_state <= IBV_QPS_RTS;
    if (!is_next && attr->qp_state != IBV_QPS_RESET && attr->qp_state != IBV_QPS_ERR)
        return EINVAL;
    qp.state = attr->qp_state;
    if (qp.state == IBV_QPS_RESET)
        reset(qp);
    else if (qp.state == IBV_QPS_ERR)
        flush(qp);
    execute_all();
    return 0;
}

int query_qp(ibv_qp *verbs, ibv_qp_attr *attr, int, ibv_qp_init_attr *init_attr) noexcept {
    const std::lock_guard guard(lock);
    const fake_qp &qp = to_fake_qp(verbs);
    *attr = {};
    attr->qp_state = attr->cur_qp_state = qp.state;
    attr->dest_qp_num = qp.dest_qp_num;
    attr->cap = qp.cap;
    *init_attr = {.qp_context = verbs->qp_context,
                  .send_cq = verbs->send_cq,
                  .recv_cq = verbs->recv_cq,
                  .srq = verbs->srq,
                  .cap = qp.cap,
                  .qp_type = verbs->qp_type,
                  .sq_sig_all = qp.is_sig_all};
    return 0;
}

void free_qp(ibv_qp &verbs) {
    const std::lock_guard guard(lock);
    fake_qp &qp = to_fake_qp(&verbs);
    deliver_data(verbs.recv_cq, qp.receives.id());
    for_each_num_users(verbs, [](unsigned &num_users) { --num_users; });
    qps().erase(verbs.qp_num);
    pthread_cond_destroy(&verbs.cond);
    pthread_mutex_destroy(&verbs.mutex);
    pool<fake_qp>().destroy(qp);
}

int destroy_qp(ibv_qp *qp) noexcept {
    free_qp(*qp);
    report_event("QP freed");
    return 0;
}

} // namespace

fake_qp *find_qp(std::uint32_t qp_num) {
    const auto entry = qps().find(qp_num);
    return entry != qps().end() ? entry->second : nullptr;
}

void execute_all() {
    for (bool is_progress = true; is_progress;) {
        is_progress = false;
        for (const auto &[qp_num, qp] : qps())
            is_progress = execute(*qp) || is_progress;
    }
}

/// The driver's own function, which libibverbs does not know.
extern "C" [[gnu::visibility("default")]] ibv_qp *fakedv_create_qp(ibv_context *context,
                                                                   ibv_qp_init_attr_ex *attr) {
    return create_qp_ex(context, attr);
}

void set_qp_ops(abi::verbs_context_ops &ops) {
    ops.create_qp = create_qp;
    ops.create_qp_ex = create_qp_ex;
    ops.modify_qp = modify_qp;
    ops.query_qp = query_qp;
    ops.destroy_qp = destroy_qp;
}

} // namespace fake
