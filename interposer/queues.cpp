// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Completion channels, CQs, SRQs and QPs.

#include "calls.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

using namespace coherdma::interposer;

namespace coherdma::interposer {
namespace {

/// A record of an object whose context is observed; nullptr: it is not, or there is no memory.
template <class record>
std::unique_ptr<record> make_record(object_kind kind, const void *handle,
                                    ibv_context *context) noexcept try {
    context_record *const owner = tables().contexts.find(context);
    if (handle == nullptr || !is_observed(owner))
        return nullptr;
    auto made = std::make_unique<record>();
    init_record(*made, kind, handle, context, owner->observers);
    made->context = owner;
    return made;
} catch (const std::bad_alloc &) {
    return nullptr;
}

/// Makes the object known: hook() may then replace its functions, which find the record. Notifies
/// the observers.
template <class record, class function>
void add(handle_table<record> &table, std::unique_ptr<record> added, function hook) {
    if (!table.insert(added->info.handle, added.get()))
        return; // no memory
    record &known = *added.release();
    hook(known);
    notify(known, &observer::on_create, std::as_const(known.info));
}

/// While the driver creates a queue. Also for observers that create one.
class queue_creation {
  public:
    queue_creation(ibv_context *context, const queue_request &asked)
        : record_(tables().contexts.find(context))
        , context_(*context) {
        for (observer *const each : observers()) {
            const unobserved_scope scope;
            const int error = each->before_create_queue(context_, asked);
            if (error_ == 0)
                error_ = error;
        }
    }
    ~queue_creation() {
        const int driver_error = errno;
        for (observer *const each : observers()) {
            const unobserved_scope scope;
            each->after_create_queue(context_);
        }
        errno = driver_error;
    }
    queue_creation(const queue_creation &) = delete;
    queue_creation &operator=(const queue_creation &) = delete;

    /// An errno: an observer wants it to fail.
    [[nodiscard]] int error() const noexcept { return error_; }

  private:
    [[nodiscard]] std::span<observer *const> observers() const noexcept {
        return record_ != nullptr ? std::span<observer *const>(record_->observers)
                                  : std::span<observer *const>();
    }

    const context_record *const record_;
    ibv_context &context_;
    int error_ = 0;
};

/// Calls create(), which creates a queue, unless an observer wants the program's call to fail.
template <class function>
auto create_queue(ibv_context *context, const queue_request &asked, function create)
    -> decltype(create()) {
    const queue_creation creation(context, asked);
    if (creation.error() != 0)
        return fail_with(creation.error());
    return create();
}

queue_request ask_for_cq(std::uint32_t max_entries) noexcept {
    return {.kind = object_kind::CQ, .max_entries = max_entries};
}
queue_request ask_for_srq(const ibv_srq_attr &attr) noexcept {
    return {.kind = object_kind::SRQ, .max_entries = attr.max_wr, .max_sge = attr.max_sge};
}
queue_request ask_for_qp(const ibv_qp_cap *cap) noexcept {
    return {.kind = object_kind::QP, .cap = cap};
}

constexpr auto NO_HOOK = [](const object_record &) {
};

ibv_cq *added_cq(ibv_cq *cq, ibv_context *context) {
    if (auto record = make_record<cq_record>(object_kind::CQ, cq, context))
        add(tables().cqs, std::move(record), NO_HOOK);
    return cq;
}

bool is_cq_single_threaded(const ibv_cq_init_attr_ex &attr) noexcept {
    const bool has_flag = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
                          (attr.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    return has_flag || ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
                        is_single_threaded(attr.parent_domain));
}

ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr) {
    if (const int error = failure_of("ibv_create_cq"))
        return fail_with(error);
    const std::uint64_t wc_flags = attr->wc_flags; // the call may change attr
    const bool is_single = is_cq_single_threaded(*attr);
    ibv_cq_ex *const cq = create_queue(context, ask_for_cq(attr->cqe), [=] {
        return context_of(context).driver_ex.create_cq_ex(context, attr);
    });
    if (auto record = make_record<cq_record>(object_kind::CQ, cq, context)) {
        record->info.is_single_threaded = is_single;
        add(tables().cqs, std::move(record), [=](cq_record &known) {
            known.wc_flags = wc_flags;
            hook_extended_poll(known, *cq);
        });
    }
    return cq;
}

ibv_srq *added_srq(ibv_srq *srq, ibv_context *context) {
    if (auto record = make_record<srq_record>(object_kind::SRQ, srq, context)) {
        record->info.is_single_threaded = is_single_threaded(srq->pd);
        record->receives = request_queue::take();
        add(tables().srqs, std::move(record), NO_HOOK);
    }
    return srq;
}

ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr) {
    if (const int error = failure_of("ibv_create_srq"))
        return fail_with(error);
    ibv_srq *const srq = create_queue(context, ask_for_srq(attr->attr), [=] {
        return context_of(context).driver_ex.create_srq_ex(context, attr);
    });
    return added_srq(srq, context);
}

/// 0: the CQ was not created by a function that the interposer has (efadv_create_cq()), and nothing
/// gives its completions their wr_id back: requests on it keep it.
std::uint64_t number_of(const ibv_cq *cq) noexcept {
    const cq_record *const record = tables().cqs.find(cq);
    return record != nullptr ? record->info.number : 0;
}

void take_queues(qp_record &record, bool has_srq) noexcept {
    record.sends = record.send_cq_number != 0 ? request_queue::take() : nullptr;
    record.receives = record.recv_cq_number != 0 && !has_srq ? request_queue::take() : nullptr;
}

/// Whether the environment tells a driver that the program has one thread, so that it takes no
/// locks: libmlx5 ends a process with another thread.
bool is_without_locks() noexcept {
    return std::getenv("MLX5_SINGLE_THREADED") != nullptr ||
           std::getenv("MLX4_SINGLE_THREADED") != nullptr;
}

/// nullptr: no observer asks for it, or the QP's sends cannot be held. cap: nullptr: it is not
/// known.
held_posts *make_held_posts(const qp_record &record, ibv_qp &qp, const ibv_qp_cap *cap) {
    // A QP without books: it is not known how many requests it has. Single-threaded: the driver may
    // take no lock when it posts.
    if (cap == nullptr || record.sends == nullptr || record.info.is_single_threaded ||
        is_without_locks())
        return nullptr;
    std::chrono::microseconds delay{};
    for (observer *const asked : record.observers) {
        const unobserved_scope scope;
        delay = std::max(delay, asked->delay_of_sends(record.info));
    }
    return delay.count() > 0 ? held_posts::create(qp, *cap, record.context->driver_ops.post_send,
                                                  record.observers, delay)
                             : nullptr;
}

/// send_ops_flags: which ibv_wr_* functions the program asked for; 0: none. cap: as the driver has
/// returned it; nullptr: it has not.
ibv_qp *added_qp(ibv_qp *qp, ibv_context *context, bool is_sig_all, std::uint64_t send_ops_flags,
                 const ibv_qp_cap *cap) {
    auto record = make_record<qp_record>(object_kind::QP, qp, context);
    if (record == nullptr)
        return qp;
    record->info.is_single_threaded = is_single_threaded(qp->pd);
    record->is_sig_all = is_sig_all;
    record->send_cq_number = number_of(qp->send_cq);
    record->recv_cq_number = number_of(qp->recv_cq);
    record->send_ops_flags = send_ops_flags;
    take_queues(*record, qp->srq != nullptr);
    record->held = make_held_posts(*record, *qp, cap);
    ibv_qp_ex *const qp_ex = send_ops_flags != 0 ? libibverbs().qp_to_qp_ex(qp) : nullptr;
    if (qp_ex != nullptr)
        record->driver_ex.reset(new (std::nothrow) driver_wr_functions);
    add(tables().qps, std::move(record), [=](qp_record &known) {
        if (known.driver_ex != nullptr)
            hook_wr_functions(known, *qp_ex, send_ops_flags);
    });
    return qp;
}

ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) {
    if (const int error = failure_of("ibv_create_qp"))
        return fail_with(error);
    // Before the call, which may change attr.
    const bool is_sig_all = attr->sq_sig_all != 0;
    const std::uint64_t send_ops_flags =
        (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 ? attr->send_ops_flags : 0;
    ibv_qp *const qp = create_queue(context, ask_for_qp(&attr->cap), [=] {
        return context_of(context).driver_ex.create_qp_ex(context, attr);
    });
    return added_qp(qp, context, is_sig_all, send_ops_flags, &attr->cap);
}

ibv_qp *open_qp(ibv_context *context, ibv_qp_open_attr *attr) {
    if (const int error = failure_of("ibv_open_qp"))
        return fail_with(error);
    return added_qp(context_of(context).driver_ex.open_qp(context, attr), context, false, 0,
                    nullptr);
}

ibv_wq *create_wq(ibv_context *context, ibv_wq_init_attr *attr) {
    return create_queue(context, ask_for_qp(nullptr),
                        [=] { return context_of(context).driver_ex.create_wq(context, attr); });
}

/// Of a QP that no function of libibverbs created: mlx5dv_create_qp(). Its driver may have setters
/// for its requests that libibverbs does not have. Said once.
void say_unobserved(const ibv_qp &qp) {
    static std::atomic<bool> is_said = false;
    if (!is_observed(tables().contexts.find(qp.context)) ||
        is_said.exchange(true, std::memory_order_relaxed))
        return;
    const unobserved_scope scope;
    std::fprintf(stderr,
                 "coherdma: %s: requests of QPs that this program creates by functions of the "
                 "driver are not observed\n",
                 qp.context->device->name);
}

/// What is held of the QP; nullptr: nothing can be.
held_posts *find_held(const ibv_qp *qp) noexcept {
    const qp_record *const record = tables().qps.find(qp);
    return is_observed(record) ? record->held : nullptr;
}

void drop_requests(const qp_record &record) noexcept {
    if (record.sends != nullptr)
        record.sends->drop(record.send_cq_number);
    if (record.receives != nullptr)
        record.receives->drop(record.recv_cq_number);
}

} // namespace

void hook_queue_functions(ibv_context &context, extended_functions &driver) {
    driver.create_cq_ex = replace_extended(context, &verbs_context::create_cq_ex, create_cq_ex);
    driver.create_srq_ex = replace_extended(context, &verbs_context::create_srq_ex, create_srq_ex);
    driver.create_qp_ex = replace_extended(context, &verbs_context::create_qp_ex, create_qp_ex);
    driver.open_qp = replace_extended(context, &verbs_context::open_qp, open_qp);
    driver.create_wq = replace_extended(context, &verbs_context::create_wq, create_wq);
}

} // namespace coherdma::interposer

extern "C" {

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context) {
    if (const int error = failure_of("ibv_create_comp_channel"))
        return fail_with(error);
    ibv_comp_channel *const channel = libibverbs().create_comp_channel(context);
    add_object(object_kind::CHANNEL, channel, context);
    return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel *channel) {
    if (const int error = failure_of("ibv_destroy_comp_channel"))
        return error;
    return destroy_object(channel, [=] { return libibverbs().destroy_comp_channel(channel); });
}

ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *cq_context, ibv_comp_channel *channel,
                      int comp_vector) {
    if (const int error = failure_of("ibv_create_cq"))
        return fail_with(error);
    const queue_request asked = ask_for_cq(static_cast<std::uint32_t>(std::max(cqe, 0)));
    ibv_cq *const cq = create_queue(context, asked, [=] {
        return libibverbs().create_cq(context, cqe, cq_context, channel, comp_vector);
    });
    return added_cq(cq, context);
}

int ibv_destroy_cq(ibv_cq *cq) {
    if (tables().cqs.find(cq) == nullptr && is_refused(object_kind::CQ, cq, "ibv_destroy_cq"))
        return EINVAL;
    int error = failure_of("ibv_destroy_cq");
    if (error != 0)
        return error;
    const auto record = destroy(
        tables().cqs, cq, [=] { return libibverbs().destroy_cq(cq); }, error);
    if (record != nullptr)
        request_queue::forget_dropped(record->info.number);
    return error;
}

ibv_srq *ibv_create_srq(ibv_pd *pd, ibv_srq_init_attr *attr) {
    if (const int error = failure_of("ibv_create_srq"))
        return fail_with(error);
    ibv_srq *const srq = create_queue(pd->context, ask_for_srq(attr->attr),
                                      [=] { return libibverbs().create_srq(pd, attr); });
    return added_srq(srq, pd->context);
}

int ibv_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask) {
    if (tables().srqs.find(srq) == nullptr && is_refused(object_kind::SRQ, srq, "ibv_modify_srq"))
        return EINVAL;
    if (const int error = failure_of("ibv_modify_srq"))
        return error;
    return libibverbs().modify_srq(srq, attr, mask);
}

int ibv_destroy_srq(ibv_srq *srq) {
    if (tables().srqs.find(srq) == nullptr && is_refused(object_kind::SRQ, srq, "ibv_destroy_srq"))
        return EINVAL;
    int error = failure_of("ibv_destroy_srq");
    if (error != 0)
        return error;
    const auto record = destroy(
        tables().srqs, srq, [=] { return libibverbs().destroy_srq(srq); }, error);
    if (record != nullptr && record->receives != nullptr)
        record->receives->drop(0);
    return error;
}

ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) {
    if (const int error = failure_of("ibv_create_qp"))
        return fail_with(error);
    const bool is_sig_all = attr->sq_sig_all != 0; // the call may change attr
    ibv_qp *const qp = create_queue(pd->context, ask_for_qp(&attr->cap),
                                    [=] { return libibverbs().create_qp(pd, attr); });
    return added_qp(qp, pd->context, is_sig_all, 0, &attr->cap);
}

int ibv_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask) {
    if (tables().qps.find(qp) == nullptr && is_refused(object_kind::QP, qp, "ibv_modify_qp"))
        return EINVAL;
    if (const int error = failure_of("ibv_modify_qp"))
        return error;
    if (const qp_record *const known = tables().qps.find(qp); is_observed(known))
        notify(*known, &observer::before_modify_qp, *qp, std::as_const(*attr), mask);
    const direct_use direct(find_held(qp));
    const int error = libibverbs().modify_qp(qp, attr, mask);
    qp_record *record = tables().qps.find(qp);
    if (record != nullptr && record->is_being_destroyed)
        record = nullptr; // of a QP that had this address, which another thread destroys
    if (record == nullptr)
        say_unobserved(*qp);
    if (error != 0 || !is_observed(record))
        return error;
    if (record->driver_ex != nullptr)
        hook_wr_functions(*record, *libibverbs().qp_to_qp_ex(qp), record->send_ops_flags);
    if ((mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET) {
        drop_requests(*record); // as the driver does
        take_queues(*record, qp->srq != nullptr);
    }
    notify(*record, &observer::on_modify_qp, *qp, std::as_const(*attr), mask);
    return 0;
}

int ibv_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask, ibv_qp_init_attr *init_attr) {
    if (tables().qps.find(qp) == nullptr && is_refused(object_kind::QP, qp, "ibv_query_qp"))
        return EINVAL;
    if (const int error = failure_of("ibv_query_qp"))
        return error;
    return libibverbs().query_qp(qp, attr, mask, init_attr);
}

int ibv_destroy_qp(ibv_qp *qp) {
    if (tables().qps.find(qp) == nullptr && is_refused(object_kind::QP, qp, "ibv_destroy_qp"))
        return EINVAL;
    int error = failure_of("ibv_destroy_qp");
    if (error != 0)
        return error;
    held_posts *const held = find_held(qp);
    if (held != nullptr)
        held->begin_direct_use();
    const auto record = destroy(
        tables().qps, qp, [=] { return libibverbs().destroy_qp(qp); }, error);
    if (record != nullptr)
        drop_requests(*record);
    if (held != nullptr && record != nullptr)
        held_posts::destroy(held);
    else if (held != nullptr)
        held->end_direct_use();
    return error;
}

} // extern "C"
