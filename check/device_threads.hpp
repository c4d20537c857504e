// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The accesses of devices, for the thread sanitizer of the program: each queue is a thread that
// accesses the memory of a request between its post and its completion.
#pragma once

#include "books.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

namespace coherdma::check {

/// Functions of the sanitizer that runs the program. A fiber is a thread that it knows, which any
/// thread of the program may become for a while.
struct tsan_runtime {
    void *(*create_fiber)(unsigned flags);
    void (*destroy_fiber)(void *fiber);
    void (*set_fiber_name)(void *fiber, const char *name);
    void *(*get_current_fiber)();
    void (*switch_to_fiber)(void *fiber, unsigned flags);
    /// What was before a release of an address is before what is after an acquire of it.
    void (*acquire)(void *addr);
    void (*release)(void *addr);
    void (*read_range)(void *addr, std::size_t length, void *return_addr);
    void (*write_range)(void *addr, std::size_t length, void *return_addr);
    void (*enter_function)(void *return_addr);
    void (*exit_function)(void *);
    void (*ignore_sync_begin)(const char *file, int line);
    void (*ignore_sync_end)(const char *file, int line);
    void (*ignore_accesses_begin)(const char *file, int line);
    void (*ignore_accesses_end)(const char *file, int line);
};

/// While one exists, the sanitizer does not see this thread's locks and accesses: the mutex of the
/// books would order all threads that call verbs, and hide their races.
class unseen_scope {
  public:
    unseen_scope() noexcept {
        if (runtime == nullptr)
            return;
        runtime->ignore_sync_begin(__FILE__, __LINE__);
        runtime->ignore_accesses_begin(__FILE__, __LINE__);
    }
    ~unseen_scope() {
        if (runtime == nullptr)
            return;
        runtime->ignore_accesses_end(__FILE__, __LINE__);
        runtime->ignore_sync_end(__FILE__, __LINE__);
    }
    unseen_scope(const unseen_scope &) = delete;
    unseen_scope &operator=(const unseen_scope &) = delete;

    /// nullptr: no thread sanitizer runs the program. Set before the first scope.
    static inline constinit const tsan_runtime *runtime = nullptr;
};

/// While one exists, this thread, which is in a handler of the checker, is another one for the
/// sanitizer: it would report each allocation of a thread that handles a signal.
class handler_scope {
  public:
    handler_scope() noexcept {
        if (runtime_ == nullptr)
            return;
        thread_ = runtime_->get_current_fiber();
        fiber_ = runtime_->create_fiber(0);
        runtime_->switch_to_fiber(fiber_, NO_SYNC);
    }
    ~handler_scope() {
        if (runtime_ == nullptr)
            return;
        runtime_->switch_to_fiber(thread_, NO_SYNC);
        runtime_->destroy_fiber(fiber_);
    }
    handler_scope(const handler_scope &) = delete;
    handler_scope &operator=(const handler_scope &) = delete;

  private:
    static constexpr unsigned NO_SYNC = 1;

    const tsan_runtime *const runtime_ = unseen_scope::runtime;
    void *thread_ = nullptr, *fiber_ = nullptr;
};

/// Not thread-safe. Called in an unseen_scope.
class device_threads {
  public:
    explicit device_threads(const tsan_runtime &runtime)
        : runtime_(runtime) {}

    /// This thread is about to post the request. Throws std::bad_alloc.
    void post(const known_object &queue, std::uint64_t number, const posted_request &);
    /// The device has executed the request, and this thread knows it: what the device did is before
    /// what this thread does now. was_executed: false: it was flushed, or failed.
    void complete(std::uint64_t number, const posted_request &, bool was_executed) noexcept;
    /// The device does not access the memory any more, which may be freed. If it has done so
    /// before, it is not known any more when.
    void stop(std::uint64_t number) noexcept;
    void end(std::uint64_t number) noexcept { posted_.erase(number); }
    void end_queue(const known_object &queue) noexcept;
    /// fork() begins. The sanitizer takes fibers for threads, and a child of several threads may
    /// not start any: they end, and begin again when they are needed.
    void before_fork() noexcept;

  private:
    struct queue_thread {
        std::string name = {};
        void *fiber = nullptr; ///< nullptr: it has ended, to begin again
        bool has_ended = false;
        char end = 0; ///< its address is released by a fiber that ends, and acquired by the next
    };
    struct request_state {
        queue_thread *thread = nullptr;
        bool was_executed = false;
        bool is_stopped = false;
        char post = 0, completion = 0; ///< their addresses are acquired and released
    };
    using fiber_key = std::pair<object_number, bool>; ///< of a queue: is_receive

    queue_thread &thread_of(const known_object &queue, bool is_receive);
    void *fiber_of(queue_thread &) const noexcept;
    void end_fiber(queue_thread &) const noexcept;
    /// Calls func() as the fiber.
    template <class function>
    void become(void *fiber, function func) const noexcept {
        constexpr unsigned NO_SYNC = 1; // this thread is not before it
        void *const thread = runtime_.get_current_fiber();
        runtime_.switch_to_fiber(fiber, NO_SYNC);
        func();
        runtime_.switch_to_fiber(thread, NO_SYNC);
    }
    void access(const posted_request &) const noexcept;
    template <class function>
    void seen(function func) const noexcept {
        runtime_.ignore_sync_end(__FILE__, __LINE__);
        func();
        runtime_.ignore_sync_begin(__FILE__, __LINE__);
    }

    tsan_runtime runtime_;
    std::unordered_map<std::uint64_t, request_state> posted_;
    std::map<fiber_key, queue_thread> threads_;
    queue_thread common_thread_; ///< of the queues that are too many
};

} // namespace coherdma::check
