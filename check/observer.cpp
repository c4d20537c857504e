// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The observer that the interposer loads: keeps the books, and has the rules look at each call.

#include "interposer/observer.hpp"

#include "process.hpp"
#include "requests.hpp"
#include "waits.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <dlfcn.h>
#include <fcntl.h>

namespace coherdma::check {
namespace {

using namespace interposer;

template <class wr_type>
std::span<const ibv_sge> sges_of(const wr_type &wr) noexcept {
    return {wr.sg_list, static_cast<std::size_t>(std::max(wr.num_sge, 0))};
}

/// The program has got an event of the object.
void note_event(known_object &object) noexcept {
    ++object.num_unacknowledged;
    object.event_thread = std::this_thread::get_id();
}

/// Whether it has SGEs that name MRs.
bool has_local_memory(const ibv_send_wr &wr) noexcept {
    return (wr.send_flags & IBV_SEND_INLINE) == 0 && wr.opcode != IBV_WR_BIND_MW &&
           wr.opcode != IBV_WR_LOCAL_INV;
}

/// Whether registered memory stays the parent's. True if libibverbs does not say it.
bool is_fork_safe() noexcept {
    // By the kernel, which libibverbs asks each time.
    static std::atomic<bool> is_always_safe = false;
    if (is_always_safe.load(std::memory_order_relaxed))
        return true;
    const auto is_initialized = reinterpret_cast<decltype(ibv_is_fork_initialized) *>(
        dlsym(RTLD_DEFAULT, "ibv_is_fork_initialized")); // since rdma-core 33
    const ibv_fork_status status = is_initialized != nullptr ? is_initialized() : IBV_FORK_UNNEEDED;
    if (status == IBV_FORK_UNNEEDED)
        is_always_safe.store(true, std::memory_order_relaxed);
    return status != IBV_FORK_DISABLED;
}

/// While it exists, the kernel may pin this memory, which it cannot while pages are protected.
class open_pages {
  public:
    explicit open_pages(std::size_t length, const void *addr = nullptr) noexcept {
        const auto begin = reinterpret_cast<std::uintptr_t>(addr);
        const std::uintptr_t end = length < UINTPTR_MAX - begin ? begin + length : UINTPTR_MAX;
        with_books([&](locked_books &locked) {
            if (length != 0 && locked.books.owned.is_started()) {
                locked.books.owned.pages().suspend(begin, end);
                is_suspended_ = true;
            }
        });
    }
    ~open_pages() {
        if (is_suspended_)
            with_books([](locked_books &locked) { locked.books.owned.pages().resume(); });
    }
    open_pages(const open_pages &) = delete;
    open_pages &operator=(const open_pages &) = delete;

  private:
    bool is_suspended_ = false;
};

class check_observer final : public observer {
  public:
    bool on_open(ibv_context &context, int &error) override try {
        settings config = read_settings();
        if (config.problem.empty() && config.late && find_late_holds() == nullptr)
            config.problem = "COHERDMA_CHECK_OPTIONS: late needs libcoherdma-late.so, as the next "
                             "one in COHERDMA_OBSERVERS";
        if (!config.problem.empty()) {
            std::fprintf(stderr, "coherdma: %s: cannot check this program: %s\n",
                         ibv_get_device_name(context.device), config.problem.c_str());
            error = EINVAL;
            return false;
        }
        start_check();
        current_check.load(std::memory_order_acquire)->log.note_device();
        return true;
    } catch (const std::bad_alloc &) {
        error = ENOMEM;
        return false;
    }

    void on_create(const object &created) override {
        if (created.kind == object_kind::CM_ID && current_check.load() == nullptr)
            start_without_device();
        with_books([&](locked_books &locked) {
            if (created.kind == object_kind::MR)
                add_mr(locked, created);
            else
                add_object(locked, created);
            if (sanitizers *const watcher = locked.process().watcher.get()) {
                watcher->note_object(created);
                if (created.kind == object_kind::MR)
                    watcher->note_registration(last_registration);
            }
        });
    }
    void before_destroy(const object &ended) override {
        with_books([&](locked_books &locked) {
            check_destroy(locked.books, ended, locked.results);
            begin_destroy(locked, ended);
            if (const known_mr *const mr = find_mr(locked, ended))
                locked.books.show_device_lkey(*mr);
        });
    }
    void on_destroy(const object &ended, int error) override {
        with_books([&](locked_books &locked) {
            end_wait(locked);
            if (error == 0)
                locked.books.remove(ended, stack_trace::capture_all());
            else if (const known_mr *const mr = find_mr(locked, ended))
                process_books::hide_device_lkey(*mr);
        });
    }
    bool refuses_unknown(object_kind kind, const void *handle, const char *call) override {
        bool was_destroyed = false;
        with_books([&](locked_books &locked) {
            was_destroyed = check_destroyed(locked.books, kind, handle, call, locked.results);
        });
        return was_destroyed;
    }

    ibv_mr *reg_mr(const registration &asked, registrar &next) override {
        const open_pages pinned(asked.kind == memory_kind::PROGRAM ? asked.length : 0, asked.addr);
        ibv_mr *const mr = next.reg_mr(asked);
        last_registration = asked;
        if (mr != nullptr && asked.kind == memory_kind::PROGRAM)
            add_bounds(asked.addr, asked.length);
        return mr;
    }
    int before_rereg_mr(const ibv_mr &, int) override {
        // All: it is not known which memory comes. Until the call ends, another thread may protect
        // pages again.
        open_pages{UINTPTR_MAX};
        return 0;
    }
    void on_rereg_mr(ibv_mr &mr, int flags, int access) override {
        with_books([&](locked_books &locked) {
            known_mr *const changed = locked.books.change_mr(mr, flags, access);
            change_lkey(locked, changed);
            if (sanitizers *const watcher = locked.process().watcher.get();
                watcher != nullptr && changed != nullptr && changed->memory != 0)
                watcher->note_registration({.addr = reinterpret_cast<void *>(changed->memory),
                                            .length = changed->end - changed->begin,
                                            .access = changed->access});
        });
        add_bounds(mr.addr, mr.length);
    }
    void before_modify_qp(ibv_qp &qp, const ibv_qp_attr &attr, int mask) override {
        if ((mask & IBV_QP_STATE) == 0 || attr.qp_state != IBV_QPS_RESET)
            return;
        with_books([&](locked_books &locked) {
            if (const known_qp *const known = locked.books.find_qp(&qp))
                check_reset(*known, locked.results);
        });
    }
    void on_modify_qp(ibv_qp &qp, const ibv_qp_attr &attr, int mask) override {
        note_connection(qp, attr, mask);
        check_modify(qp, attr, mask);
        if ((mask & IBV_QP_STATE) == 0)
            return;
        with_books([&](locked_books &locked) {
            known_qp *const known = locked.books.find_qp(&qp);
            if (known == nullptr)
                return;
            if (attr.qp_state == IBV_QPS_RESET)
                locked.books.drop_requests(*known);
            if (attr.qp_state == IBV_QPS_RTR) // before, the program could use the targets
                for (auto &[number, receive] : known->receives)
                    if (receive.copy != nullptr)
                        copy_memory(receive);
            if (attr.qp_state == IBV_QPS_ERR)
                locked.books.end_uses(*known);
            known->state = attr.qp_state;
            known->last_modify = stack_trace::capture_all();
            known->has_failed = false;
        });
    }

    void before_send(const request &sent, ibv_send_wr &wr) override {
        add_request(sent, has_local_memory(wr) ? sges_of(wr) : std::span<const ibv_sge>{},
                    (wr.send_flags & IBV_SEND_FENCE) != 0, wr.sg_list);
        check_send(sent, wr);
    }
    void before_receive(const request &receive, ibv_recv_wr &wr) override {
        add_request(receive, sges_of(wr), false, wr.sg_list);
        check_posted(receive); // there is no event of an accepted one
    }
    void on_post(const request &sent, const ibv_send_wr &) override {
        check_posted(sent);
        end_bind_of(sent);
    }
    void on_refuse(const request &refused) override {
        end_bind_of(refused);
        check_posted(refused);
        with_books([&](locked_books &locked) { remove_request(locked.books, refused); });
    }
    void on_abort(const request &aborted) override {
        end_bind_of(aborted);
        with_books([&](locked_books &locked) { remove_request(locked.books, aborted); });
    }
    void on_completion(ibv_cq &, completion &polled) override { note_completion(polled); }
    void on_short_poll(ibv_cq &, std::span<ibv_wc> rest) override { fill_rest(rest); }
    void on_poll(ibv_cq &cq, int) override {
        with_books([&](locked_books &locked) {
            if (known_cq *const known = locked.books.find_cq(&cq)) {
                known->is_polled_since_arm = true;
                ++known->num_polls;
            }
        });
    }

    void before_use(const object &used, const char *call) override {
        with_books(
            [&](locked_books &locked) { begin_use(locked.books, used, call, locked.results); });
    }
    void after_use(const object &used) override {
        with_books([&](locked_books &locked) { end_use(locked.books, used); });
    }

    void before_arm(ibv_cq &cq) override {
        with_books([&](locked_books &locked) { locked.books.arm(cq, stack_trace::capture_all()); });
    }
    void before_wait(ibv_comp_channel &channel) override {
        if ((fcntl(channel.fd, F_GETFL) & O_NONBLOCK) == 0)
            with_books([&](locked_books &locked) {
                check_missed(locked.books, channel, locked.results);
                begin_wait(locked, channel);
            });
    }
    void after_wait(ibv_comp_channel &) override {
        with_books([&](locked_books &locked) { end_wait(locked); });
    }
    void on_completion_event(const object &cq) override {
        with_books([&](locked_books &locked) {
            known_cq *const known = locked.books.find_cq(cq.handle);
            if (known == nullptr || known->number != cq.number)
                return;
            note_event(*known);
            if (known->max_events != 0)
                --known->max_events;
        });
    }
    void on_async_event(const object &subject) override {
        with_books([&](locked_books &locked) {
            if (known_object *const known = locked.books.find(subject))
                note_event(*known);
        });
    }
    void before_acknowledge(const object &subject, unsigned count) override {
        with_books([&](locked_books &locked) {
            if (known_object *const known = locked.books.find(subject))
                known->num_unacknowledged -=
                    std::min<std::size_t>(count, known->num_unacknowledged);
        });
    }

    bool wants_memory_events() override { return true; }
    void before_free(const void *addr, std::size_t length, const char *call) override {
        const auto begin = reinterpret_cast<std::uintptr_t>(addr);
        if (all_registered.overlap(begin, begin + length))
            with_books([&](locked_books &locked) {
                check_free(locked.books, begin, begin + length, call, locked.results);
                forget_memory(locked.books, begin, begin + length);
                if (sanitizers *const watcher = locked.process().watcher.get())
                    watcher->note_free(begin, begin + length, call);
            });
    }

    void before_fork() override {
        if (checking_scope::disable_checks != nullptr)
            return; // the memory sanitizer holds locks that its free() needs
        if (current_check.load() != nullptr && !is_fork_safe())
            with_books([](locked_books &locked) { check_fork(locked.books, locked.results); });
        with_books([](locked_books &locked) {
            if (sanitizers *const watcher = locked.process().watcher.get())
                watcher->before_fork();
        });
    }
    void on_fork() override { reset_check_after_fork(); }
    void before_inherited_use(const object &used, const char *call) override {
        if (current_check.load() == nullptr)
            start_without_device();
        with_books([&](locked_books &locked) { check_inherited(used, call, locked.results); });
    }

  private:
    /// A cm_id need not have a device, nor a child of fork() that uses its parent's objects.
    static void start_without_device() noexcept {
        try {
            if (read_settings().problem.empty()) // else it is said when a device is opened
                start_check();
        } catch (const std::bad_alloc &) {
        }
    }

    static void end_bind_of(const request &sent) {
        if (!sent.is_receive && sent.opcode == IBV_WR_BIND_MW)
            end_bind(sent);
    }

    /// nullptr: the object is none.
    static const known_mr *find_mr(locked_books &locked, const object &object) noexcept {
        return object.kind == object_kind::MR ? locked.books.find_mr(object.number) : nullptr;
    }
    static void add_object(locked_books &locked, const object &created) {
        locked.books.add(created);
        const known_object *const known = locked.books.find(created);
        for (const device_limits *const limits : locked.config().other_devices)
            if (known != nullptr)
                check_limits_of_object(*known, *limits, locked.results);
    }
    static void add_mr(locked_books &locked, const object &created) {
        locked.books.add_mr(created, last_registration);
        change_lkey(locked, locked.books.find_mr(created.number));
    }
    /// If the settings ask for it.
    static void change_lkey(locked_books &locked, known_mr *mr) {
        if (mr != nullptr && locked.config().distinct_keys)
            locked.books.change_lkey(*mr);
    }

    static void add_bounds(const void *addr, std::size_t length) noexcept {
        const auto begin = reinterpret_cast<std::uintptr_t>(addr);
        const std::uintptr_t end = begin + length;
        all_registered.add(begin, end < begin ? UINTPTR_MAX : end);
    }

    /// From a registration to on_create() of its MR, which come on one thread.
    /// initial-exec: without memory of the heap, which some sanitizers mistake for another layout.
    [[gnu::tls_model("initial-exec")]] static inline thread_local registration last_registration;
};

} // namespace
} // namespace coherdma::check

extern "C" [[gnu::visibility("default")]] coherdma::interposer::observer *
coherdma_make_observer_9() {
    return new (std::nothrow) coherdma::check::check_observer;
}
