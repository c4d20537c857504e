// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects of the program, each from the end of the call that creates it to the end of the one
// that destroys it.
#pragma once

#include "driver_functions.hpp"
#include "handle_table.hpp"
#include "held_posts.hpp"
#include "observer.hpp"
#include "process_memory.hpp"
#include "request_books.hpp"

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <utility>
#include <vector>

namespace coherdma::interposer {

/// The members of verbs_context that the interposer replaces; nullptr: the library does not have
/// it.
struct extended_functions {
    decltype(verbs_context::alloc_parent_domain) alloc_parent_domain = nullptr;
    decltype(verbs_context::alloc_null_mr) alloc_null_mr = nullptr;
    decltype(verbs_context::reg_dm_mr) reg_dm_mr = nullptr;
    decltype(verbs_context::create_cq_ex) create_cq_ex = nullptr;
    decltype(verbs_context::create_srq_ex) create_srq_ex = nullptr;
    decltype(verbs_context::create_qp_ex) create_qp_ex = nullptr;
    decltype(verbs_context::open_qp) open_qp = nullptr;
    decltype(verbs_context::create_wq) create_wq = nullptr;
    decltype(verbs_context::query_device_ex) query_device_ex = nullptr;
    decltype(verbs_context::query_port) query_port = nullptr;
};

/// Forks of this process and its ancestors that were seen: an object of another generation was
/// inherited by fork().
inline constinit std::atomic<unsigned> current_generation = 0;

struct object_record {
    object info;
    unsigned generation = current_generation.load(std::memory_order_relaxed);
    std::vector<observer *> observers; ///< that want events of its context
    std::atomic<bool> is_being_destroyed = false;
};

struct context_record : object_record {
    ibv_context_ops driver_ops = {}; ///< before the interposer replaced some
    extended_functions driver_ex;
};

struct cq_record : object_record {
    context_record *context = nullptr;
    int (*driver_start_poll)(ibv_cq_ex *, ibv_poll_cq_attr *) = nullptr; ///< of an extended CQ
    int (*driver_next_poll)(ibv_cq_ex *) = nullptr;
    void (*driver_end_poll)(ibv_cq_ex *) = nullptr; ///< of a single-threaded one
    std::uint64_t wc_flags = 0; ///< of an extended CQ: the members that its completions have
};

struct srq_record : object_record {
    context_record *context = nullptr;
    request_queue *receives = nullptr; ///< nullptr: there was no memory, so they are not followed
};

/// A request that is built by ibv_wr_* calls. Between wr_start and wr_complete, or wr_abort, the
/// driver admits one thread.
struct request_builder {
    bool is_begun = false; ///< the driver does not know of it yet
    ibv_send_wr wr = {};
    bool has_ud_addr = false, has_xrc_srqn = false;
    bool has_inline_data = false;
    struct built_request : posted_request {
        ibv_send_wr wr; ///< without its SGEs
    };
    std::vector<built_request> batch; ///< since wr_start
};

/// The driver's ibv_wr_* functions, in a structure that has all of them.
struct driver_wr_functions {
    ibv_qp_ex qp = {};
    void (*wr_flush)(ibv_qp_ex *, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
                     std::uint8_t type, std::uint8_t level) = nullptr; ///< since rdma-core 46
};

struct qp_record : object_record {
    context_record *context = nullptr;
    bool is_sig_all = false;
    std::uint64_t send_cq_number = 0, recv_cq_number = 0; ///< of the objects
    request_queue *sends = nullptr;                       ///< as of an SRQ
    request_queue *receives = nullptr;                    ///< nullptr also if it has an SRQ
    std::uint64_t send_ops_flags = 0;
    std::unique_ptr<driver_wr_functions> driver_ex; ///< nullptr: it has no ibv_wr_*
    request_builder builder;
    held_posts *held = nullptr; ///< nullptr: the driver gets all posts at once
};

/// Never destroyed: other threads use objects while one is in exit().
struct object_tables {
    handle_table<context_record> contexts;
    handle_table<cq_record> cqs;
    handle_table<srq_record> srqs;
    handle_table<qp_record> qps;
    handle_table<object_record> others;
    std::mutex adoption_mutex; ///< of contexts that are observed from their first PD
};
object_tables &tables() noexcept;

/// While one exists, calls of this thread are not observed: it is in an observer, or in a driver
/// that calls verbs itself. Nor is the thread cancelled: an observer may print where the program's
/// call is no cancellation point.
class unobserved_scope {
  public:
    unobserved_scope() noexcept {
        if (depth++ == 0)
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
    }
    ~unobserved_scope() {
        if (--depth == 0)
            pthread_setcancelstate(cancel_state_, nullptr);
    }
    unobserved_scope(const unobserved_scope &) = delete;
    unobserved_scope &operator=(const unobserved_scope &) = delete;
    static bool is_active() noexcept { return depth != 0; }

  private:
    [[gnu::tls_model("initial-exec")]] static inline thread_local unsigned depth = 0;
    int cancel_state_ = PTHREAD_CANCEL_ENABLE; ///< before, if this is the outermost one
};

/// Whether events of this object are delivered.
inline bool is_observed(const object_record *record) noexcept {
    return record != nullptr && !record->observers.empty() && !unobserved_scope::is_active() &&
           record->generation == current_generation.load(std::memory_order_relaxed);
}

/// Whether the program has inherited the object by fork().
inline bool is_inherited(const object_record *record) noexcept {
    return record != nullptr && !record->observers.empty() && !unobserved_scope::is_active() &&
           record->generation != current_generation.load(std::memory_order_relaxed);
}

/// Calls functions of the object's observers, while it exists. Keeps errno.
class delivery {
  public:
    explicit delivery(const object_record &record) noexcept
        : observers_(record.observers) {}
    ~delivery() { errno = saved_errno_; }
    delivery(const delivery &) = delete;
    delivery &operator=(const delivery &) = delete;

    /// Calls this function of each observer.
    template <class... parameters, class... arguments>
    void notify(void (observer::*event)(parameters...), arguments &&...args) const {
        for (observer *const notified : observers_)
            (notified->*event)(args...);
    }

  private:
    const std::vector<observer *> &observers_;
    const unobserved_scope scope_;
    const int saved_errno_ = errno;
};

/// Delivers one event.
template <class... parameters, class... arguments>
void notify(const object_record &record, void (observer::*event)(parameters...),
            arguments &&...args) {
    delivery(record).notify(event, args...);
}

/// A call is about to use an object that is not observed.
inline void note_unobserved_use(const object_record *used, const char *call) {
    if (is_inherited(used))
        notify(*used, &observer::before_inherited_use, used->info, call);
}

/// This thread begins to use the object, or ends it.
inline void begin_use(const object_record &used, const char *call) {
    if (used.info.is_single_threaded && is_observed(&used))
        notify(used, &observer::before_use, used.info, call);
}
inline void end_use(const object_record &used) {
    if (used.info.is_single_threaded && is_observed(&used))
        notify(used, &observer::after_use, used.info);
}

/// A call that uses the object while this exists. Nothing of one without a record.
class use_scope {
  public:
    use_scope(const object_record *used, const char *call)
        : used_(used) {
        if (used_ != nullptr)
            begin_use(*used_, call);
    }
    ~use_scope() {
        if (used_ != nullptr)
            end_use(*used_);
    }
    use_scope(const use_scope &) = delete;
    use_scope &operator=(const use_scope &) = delete;

  private:
    const object_record *const used_;
};

/// Whether the PD has a thread domain.
bool is_single_threaded(const ibv_pd *) noexcept;

/// Fills in what a record has of each kind.
void init_record(object_record &, object_kind, const void *handle, ibv_context *,
                 const std::vector<observer *> &);

/// The object exists: makes it known and notifies the observers. Nothing, if there are none, handle
/// is nullptr, or there is no memory.
void add_object(object_kind, const void *handle, ibv_context *, const std::vector<observer *> &);
/// For the observers of the context.
void add_object(object_kind, const void *handle, ibv_context *);

/// An observer is told of each call that begins: set before the first call.
inline constinit std::atomic<bool> are_calls_wanted = false;
int ask_for_failure(const char *call);
/// A call of the program begins. An errno: it is to fail with that. See observer::before_call().
inline int failure_of(const char *call) {
    // Relaxed: the observers are loaded before the thread has a device, and stay.
    return are_calls_wanted.load(std::memory_order_relaxed) ? ask_for_failure(call) : 0;
}
/// Of a call that returns an object.
inline std::nullptr_t fail_with(int error) noexcept {
    errno = error;
    return nullptr;
}

/// Whether an observer wants a call to fail that has the handle of an object without a record.
bool is_refused(object_kind, const void *handle, const char *call);

/// The record of an object whose functions were replaced. A program that uses one that it has
/// destroyed ends here, after the observers were told.
template <class record>
record &get_record(const handle_table<record> &table, object_kind kind, const void *handle,
                   const char *call) {
    record *const match = table.find(handle);
    if (match == nullptr) {
        static_cast<void>(is_refused(kind, handle, call));
        std::abort();
    }
    return *match;
}

/// The call that destroys an object of this kind; nullptr: it leaves that of a parent of fork() as
/// it is.
const char *name_of_destruction(object_kind) noexcept;

/// Calls the function that destroys an object, and notifies the observers. Returns its record if it
/// no longer exists; not if the library calls another such function for that itself, as
/// rdma_destroy_ep() does.
template <class record, class function>
std::unique_ptr<record> destroy(handle_table<record> &table, const void *handle, function end,
                                int &error) {
    // What an observer creates and destroys itself has no record: one of this address is that of an
    // object which the driver has freed, and which another thread is about to remove.
    record *const existing = unobserved_scope::is_active() ? nullptr : table.find(handle);
    const destruction_scope keeps_memory(handle);
    if (existing == nullptr || existing->is_being_destroyed) {
        error = end();
        return nullptr;
    }
    existing->is_being_destroyed = true;
    const bool has_observers = is_observed(existing);
    if (has_observers)
        notify(*existing, &observer::before_destroy, std::as_const(existing->info));
    else if (const char *const call = name_of_destruction(existing->info.kind))
        note_unobserved_use(existing, call);
    error = end();
    if (has_observers)
        notify(*existing, &observer::on_destroy, std::as_const(existing->info), error);
    if (error != 0) {
        existing->is_being_destroyed = false;
        return nullptr;
    }
    // Another thread may have got an object with this address since: its record stays.
    table.remove(handle, existing);
    return std::unique_ptr<record>(existing);
}

/// For an object that only its record belongs to.
template <class function>
int destroy_object(const void *handle, function end) {
    int error;
    destroy(tables().others, handle, end, error);
    return error;
}

/// From 1: a number that no other object or request of this process has.
std::uint64_t next_number() noexcept;

} // namespace coherdma::interposer
