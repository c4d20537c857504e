// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "held_posts.hpp"

#include "objects.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace coherdma::interposer {

/// All QPs whose sends are held, and the thread that posts them.
struct schedule {
    std::mutex mutex; ///< protects the following
    std::condition_variable changed;
    std::vector<held_posts *> queues; ///< nullptr: the QP is destroyed, and the entry is used again
    bool has_thread = false;
    bool is_woken = false;   ///< the first post of a queue is held
    bool is_posting = false; ///< the thread is in held_posts::post_until()
    unsigned num_pauses = 0; ///< while there is one, the thread posts nothing

    std::atomic<bool> has_queues = false, is_ended = false;
    schedule *parents = nullptr; ///< of fork(): kept, so that a leak checker finds none

    void add(held_posts *);
    /// Once it has returned, no thread uses the queue.
    void remove(held_posts *) noexcept;
    /// Calls the function for each queue, without the mutex.
    template <class function>
    void for_each_queue(function call) noexcept {
        std::unique_lock lock(mutex);
        for (std::size_t i = 0; i < queues.size(); ++i) { // a queue keeps its place
            held_posts *const queue = queues[i];
            if (queue == nullptr)
                continue;
            ++queue->num_users_;
            lock.unlock();
            call(*queue);
            lock.lock();
            if (--queue->num_users_ == 0)
                changed.notify_all(); // remove() may wait
        }
    }
};

void schedule::add(held_posts *added) {
    const std::lock_guard guard(mutex);
    const auto unused = std::find(queues.begin(), queues.end(), nullptr);
    if (unused != queues.end())
        *unused = added;
    else
        queues.push_back(added);
    // Relaxed: a call that must come after a post of this QP also comes after its creation.
    has_queues.store(true, std::memory_order_relaxed);
}

void schedule::remove(held_posts *removed) noexcept {
    std::unique_lock lock(mutex);
    std::replace(queues.begin(), queues.end(), removed, static_cast<held_posts *>(nullptr));
    changed.wait(lock, [&] { return removed->num_users_ == 0; });
}

namespace {

/// Never destroyed: other threads post while one is in exit().
schedule *&current_schedule() noexcept {
    // Not allocated: TSan does not see which thread is the first.
    alignas(schedule) static std::byte storage[sizeof(schedule)];
    static schedule *current = new (storage) schedule;
    return current;
}

/// Of this thread: if a signal handler calls exit() there, it may have a mutex.
[[gnu::tls_model("initial-exec")]] thread_local unsigned num_locking_calls = 0;

class locking_call {
  public:
    locking_call() noexcept { ++num_locking_calls; }
    ~locking_call() { --num_locking_calls; }
    locking_call(const locking_call &) = delete;
    locking_call &operator=(const locking_call &) = delete;
};

/// If an observer makes the call, it may hold locks that its on_refuse() takes: nothing is done.
void release_everything() noexcept {
    if (!unobserved_scope::is_active())
        current_schedule()->for_each_queue([](held_posts &queue) { queue.release(); });
}

/// While it exists, the thread may use locks of a driver, and a pause waits; if one has begun, it
/// may not. Not for the events of observers: a pause must not wait for their locks.
class posting_scope {
  public:
    explicit posting_scope(schedule &all)
        : all_(all) {
        const std::lock_guard guard(all_.mutex);
        all_.is_posting = is_allowed_ = all_.num_pauses == 0;
    }
    ~posting_scope() {
        const std::lock_guard guard(all_.mutex);
        all_.is_posting = false;
        all_.changed.notify_all();
    }
    posting_scope(const posting_scope &) = delete;
    posting_scope &operator=(const posting_scope &) = delete;
    bool is_allowed() const noexcept { return is_allowed_; }

  private:
    schedule &all_;
    bool is_allowed_ = false;
};

void *run_thread(void *) noexcept {
    using time_point = held_posts::time_point;
    pthread_setname_np(pthread_self(), "coherdma-held");
    const unobserved_scope scope; // a driver may call verbs itself
    schedule &all = *current_schedule();
    std::unique_lock lock(all.mutex);
    for (;;) {
        all.changed.wait(lock, [&] { return all.num_pauses == 0; });
        // Before the queues are searched: what is held later wakes the thread again.
        all.is_woken = false;
        lock.unlock();
        time_point next = time_point::max();
        const time_point now = std::chrono::steady_clock::now();
        all.for_each_queue([&](held_posts &queue) {
            held_posts::post_list posted;
            {
                const posting_scope posting(all);
                next = posting.is_allowed() ? std::min(next, queue.post_until(now, posted)) : now;
            }
            queue.report_refused(posted);
        });
        lock.lock();
        const auto is_woken = [&] {
            return all.is_woken;
        };
        if (next == time_point::max())
            all.changed.wait(lock, is_woken);
        else
            all.changed.wait_until(lock, next, is_woken);
    }
}

/// Once it has returned, the thread holds no lock of a driver and takes none.
void begin_pause() noexcept {
    const unobserved_scope scope; // the wait is a cancellation point
    schedule &all = *current_schedule();
    std::unique_lock lock(all.mutex);
    ++all.num_pauses;
    all.changed.wait(lock, [&] { return !all.is_posting; });
}

void end_pause() noexcept {
    schedule &all = *current_schedule();
    const std::lock_guard guard(all.mutex);
    --all.num_pauses;
    all.changed.notify_all();
}

void prepare_fork() noexcept {
    begin_pause();
    release_everything();
}

/// In the child: the queues are the parent's, whose threads may have held any mutex.
void reset_after_fork() noexcept {
    auto *const all = new schedule;
    all->parents = current_schedule();
    // exit() in a parent that goes on to fork() in its handlers.
    all->is_ended.store(all->parents->is_ended.load(std::memory_order_relaxed),
                        std::memory_order_relaxed);
    current_schedule() = all;
}

/// In exit(). Handlers and destructors that were registered before come later: nothing is held any
/// more.
void end_holding() noexcept {
    // Relaxed: hold() reads it with the queue's mutex. If it has held a post before
    // release_everything() takes that mutex, this is released there, else it sees the value.
    current_schedule()->is_ended.store(true, std::memory_order_relaxed);
    if (num_locking_calls != 0)
        return;
    begin_pause();
    release_everything();
}

/// False: there is no thread. With the mutex.
bool start_thread(schedule &all) noexcept {
    // A child of fork() has inherited these handlers.
    static const bool has_handlers = [] {
        return pthread_atfork(prepare_fork, end_pause, reset_after_fork) == 0 &&
               std::atexit(end_holding) == 0;
    }();
    if (all.has_thread || !has_handlers)
        return all.has_thread;
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return false;
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    // The program's handlers run on its threads; but an observer may handle faults of any thread.
    // The new one inherits the mask.
    sigset_t blocked, current;
    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, &current);
    pthread_t thread;
    all.has_thread = pthread_create(&thread, &attr, run_thread, nullptr) == 0;
    pthread_sigmask(SIG_SETMASK, &current, nullptr);
    pthread_attr_destroy(&attr);
    return all.has_thread;
}

std::uint64_t length_of(const ibv_send_wr &wr) noexcept {
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i)
        length += wr.sg_list[i].length;
    return length;
}

bool is_iwarp(const ibv_qp &qp) noexcept {
    return qp.context->device->transport_type == IBV_TRANSPORT_IWARP;
}

} // namespace

held_wr::held_wr(const request &sent, const ibv_send_wr &original)
    : posted_request{.posted = sent}
    , wr(original)
    , sges(original.sg_list, original.sg_list + original.num_sge) {
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) { // the program may use the memory again at once
        inline_data.reserve(length_of(wr));
        for (ibv_sge &sge : sges) {
            const auto *const begin = reinterpret_cast<const std::byte *>(sge.addr);
            sge.addr = reinterpret_cast<std::uintptr_t>(inline_data.data() + inline_data.size());
            inline_data.insert(inline_data.end(), begin, begin + sge.length);
        }
    }
    wr.sg_list = sges.data(); // stays where it is when this object is moved
}

held_posts *held_posts::create(ibv_qp &qp, const ibv_qp_cap &cap, post_function *driver,
                               const std::vector<observer *> &observers,
                               std::chrono::microseconds delay) noexcept try {
    auto *const created = new held_posts(qp, cap, driver, observers, delay);
    try {
        current_schedule()->add(created);
    } catch (...) {
        delete created;
        throw;
    }
    return created;
} catch (const std::bad_alloc &) {
    return nullptr;
}

void held_posts::destroy(held_posts *destroyed) noexcept {
    const unobserved_scope scope; // the wait is a cancellation point
    current_schedule()->remove(destroyed);
    delete destroyed;
}

held_posts::held_posts(ibv_qp &qp, const ibv_qp_cap &cap, post_function *driver,
                       const std::vector<observer *> &observers, std::chrono::microseconds delay)
    : qp_(qp)
    , context_(*qp.context)
    , device_name_(qp.context->device->name)
    , qp_num_(qp.qp_num)
    , cap_(cap)
    , driver_post_send_(driver)
    , observers_(observers)
    , delay_(delay) {}

/// In another state, what the driver answers depends on the driver. On InfiniBand the state changes
/// by ibv_modify_qp() only, also where librdmacm changes it; on iWARP the kernel changes it, too,
/// when the peers connect and disconnect.
bool held_posts::is_ready_to_send() const noexcept {
    if (!is_iwarp(qp_))
        return qp_.state == IBV_QPS_RTS;
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    const unobserved_scope scope; // the thread is not cancelled in the call
    const int saved_errno = errno;
    const bool is_ready = libibverbs().query_qp(&qp_, &attr, IBV_QP_STATE, &init_attr) == 0 &&
                          attr.qp_state == IBV_QPS_RTS;
    errno = saved_errno;
    return is_ready;
}

/// A driver refuses what its device does not have: only what each device of the transport has is
/// held. IBV_WR_BIND_MW is not: a driver reads the key of the ibv_mw, which the program may have
/// changed by then.
bool held_posts::is_accepted(const ibv_send_wr &wr) const noexcept {
    constexpr unsigned KNOWN_FLAGS =
        IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
    constexpr std::uint64_t MAX_LENGTH = std::uint64_t{1} << 30, MAX_UD_LENGTH = 4096;
    const bool is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
    const bool is_ud = qp_.qp_type == IBV_QPT_UD;
    const bool is_reliable = qp_.qp_type == IBV_QPT_RC || qp_.qp_type == IBV_QPT_XRC_SEND;
    if ((wr.send_flags & ~KNOWN_FLAGS) != 0 || wr.num_sge < 0 ||
        static_cast<unsigned>(wr.num_sge) > cap_.max_send_sge ||
        (!is_reliable && !is_ud && qp_.qp_type != IBV_QPT_UC))
        return false;
    const std::uint64_t length = length_of(wr);
    if (length > (is_inline ? cap_.max_inline_data : is_ud ? MAX_UD_LENGTH : MAX_LENGTH))
        return false;
    switch (wr.opcode) {
    case IBV_WR_SEND:
        return !is_ud || wr.wr.ud.ah != nullptr;
    case IBV_WR_SEND_WITH_IMM:
        return !is_iwarp(qp_) && (!is_ud || wr.wr.ud.ah != nullptr);
    case IBV_WR_RDMA_WRITE:
        return !is_ud;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return !is_ud && !is_iwarp(qp_);
    case IBV_WR_RDMA_READ:
        return is_reliable && !is_inline && (!is_iwarp(qp_) || wr.num_sge == 1);
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return is_reliable && !is_inline && !is_iwarp(qp_) && length == sizeof(std::uint64_t) &&
               wr.wr.atomic.remote_addr % sizeof(std::uint64_t) == 0;
    default:
        return false;
    }
}

bool held_posts::hold(std::vector<held_wr> wrs, request_queue &sends) {
    const locking_call call;
    if (!is_ready_to_send())
        return false;
    post_list held(1);
    schedule &all = *current_schedule();
    {
        const std::lock_guard guard(all.mutex);
        if (!start_thread(all))
            return false;
    }
    bool is_first;
    {
        const std::lock_guard guard(mutex_);
        // The queue has room for what is posted by now: a direct post that is not in the books yet
        // is a direct use. A driver frees the place of a request before the books do.
        if (num_direct_uses_ != 0 || all.is_ended.load(std::memory_order_relaxed) ||
            sends.num_used() + wrs.size() > cap_.max_send_wr)
            return false;
        // With the mutex: the books have the order in which the driver gets the requests.
        const post_in_progress post(&sends, wrs, request_tokens::ADD);
        held.front() = {.wrs = std::move(wrs),
                        .sends = &sends,
                        .due = std::chrono::steady_clock::now() + delay_};
        is_first = posts_.empty();
        posts_.splice(posts_.end(), held);
    }
    if (is_first) { // else the thread comes for an earlier one, and sees this one then
        const std::lock_guard guard(all.mutex);
        all.is_woken = true;
        all.changed.notify_all();
    }
    return true;
}

/// With the mutex.
void held_posts::post(held_post &posted) noexcept {
    std::vector<held_wr> &wrs = posted.wrs;
    for (std::size_t i = 0; i < wrs.size(); ++i) {
        wrs[i].wr.wr_id = wrs[i].token != 0 ? wrs[i].token : wrs[i].posted.wr_id;
        wrs[i].wr.next = i + 1 < wrs.size() ? &wrs[i + 1].wr : nullptr;
    }
    ibv_send_wr *bad_wr = nullptr;
    posted.error = driver_post_send_(&qp_, &wrs.front().wr, &bad_wr);
    // As in post.cpp: siw says so of a full queue only by bad_wr.
    while (posted.num_accepted < wrs.size() && &wrs[posted.num_accepted].wr != bad_wr)
        ++posted.num_accepted;
    // With the mutex: the QP is not destroyed or reset yet, so that the tokens are still in its
    // books.
    for (std::size_t i = posted.num_accepted; i < wrs.size(); ++i)
        posted.sends->cancel(wrs[i].token);
}

/// The program has the answer that all were accepted. The observers learn what was not.
void held_posts::report_refused(const post_list &posted) const {
    static std::atomic<bool> is_said = false;
    const unobserved_scope scope;
    const int saved_errno = errno;
    for (const held_post &post : posted) {
        const bool is_accepted = post.num_accepted == post.wrs.size() && post.error == 0;
        if (!is_accepted && !is_said.exchange(true, std::memory_order_relaxed))
            std::fprintf(
                stderr,
                "coherdma: %s: the driver refuses sends of QP %u that were held back: %s. The "
                "program's ibv_post_send() has returned 0, and they have no completion\n",
                device_name_.c_str(), qp_num_,
                std::strerror(post.error != 0 ? post.error : ENOMEM));
        for (std::size_t i = post.num_accepted; i < post.wrs.size(); ++i)
            for (observer *const notified : observers_)
                notified->on_refuse(post.wrs[i].posted);
    }
    errno = saved_errno;
}

held_posts::time_point held_posts::post_until(time_point due, post_list &posted) noexcept {
    const locking_call call;
    const int saved_errno = errno;
    const unobserved_scope scope; // nor is the thread cancelled in the driver
    // It is held while the driver posts, or another thread would post the next ones before these.
    // The driver's function waits for the driver's own locks only: of a thread that has that of the
    // QP, between ibv_wr_start() and ibv_wr_complete(), the use is a direct one, and nothing is
    // held.
    const std::lock_guard guard(mutex_);
    while (!posts_.empty() && posts_.front().due <= due) {
        post(posts_.front());
        posted.splice(posted.end(), posts_, posts_.begin());
    }
    errno = saved_errno;
    return posts_.empty() ? time_point::max() : posts_.front().due;
}

void held_posts::release() noexcept {
    post_list posted; // freed without the mutex
    post_until(time_point::max(), posted);
    report_refused(posted);
}

void held_posts::begin_direct_use() noexcept {
    const locking_call call;
    {
        const std::lock_guard guard(mutex_);
        ++num_direct_uses_; // from here on nothing is added to what release() posts
    }
    release();
}

void held_posts::end_direct_use() noexcept {
    const locking_call call;
    // A post that is held from now on sees that the direct one is in the books.
    const std::lock_guard guard(mutex_);
    --num_direct_uses_;
}

void held_posts::release_all(const ibv_context *context) noexcept {
    const locking_call call;
    schedule &all = *current_schedule();
    if (!all.has_queues.load(std::memory_order_relaxed) || unobserved_scope::is_active())
        return;
    all.for_each_queue([=](held_posts &queue) {
        if (queue.context() == context)
            queue.release();
    });
}

} // namespace coherdma::interposer
