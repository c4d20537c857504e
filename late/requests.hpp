// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests whose data go to memory of the module's, until the program has polled their completion.
#pragma once

#include "buffer_pool.hpp"
#include "check/device_threads.hpp"
#include "check/range_counts.hpp"
#include "interposer/observer.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace coherdma::late {

using object_number = std::uint64_t; ///< no other object of this process has or had it

/// Memory of the program that SGEs may name.
struct known_mr {
    object_number number = 0;
    const ibv_mr *handle = nullptr;
    ibv_pd *pd = nullptr;
    std::uint32_t lkey = 0;  ///< that the device has
    std::uint64_t begin = 0; ///< as SGEs name it
    std::size_t length = 0;
    std::uintptr_t memory = 0;
    int access = 0;
    std::size_t num_targets = 0; ///< of held requests
};

/// What a request writes.
struct held_target {
    std::uintptr_t addr = 0; ///< of the program
    std::size_t length = 0;
    object_number mr = 0;
    std::byte *bytes = nullptr; ///< that the device writes to
    bool is_gone = false;       ///< the program has freed the memory, or deregistered it
};

struct held_request {
    bool is_receive = false;
    std::vector<held_target> targets; ///< empty: it sends what others bring
    std::vector<ibv_sge> sges;        ///< that the device gets
    std::vector<device_buffer> buffers;
    ibv_pd *pd = nullptr; ///< that the buffer of the targets is registered with
};

/// A QP, or an SRQ. A driver refuses a request of more SGEs without a look at them.
struct known_queue {
    object_number number = 0;
    const ibv_context *context = nullptr;
    std::uint32_t pd_handle = 0;
    std::size_t max_send_sges = SIZE_MAX, max_receive_sges = SIZE_MAX;
    std::unordered_map<std::uint64_t, held_request> held; ///< by number
};

/// Thread-safe. No mutex is locked while a function of libibverbs runs, or the program's memory is
/// copied. Throws std::bad_alloc where it does not say noexcept.
class late_requests {
  public:
    void add_mr(const known_mr &, const ibv_context *);
    /// It was deregistered: the device would refuse what still comes.
    void remove_mr(const ibv_context *, object_number) noexcept;
    /// It is about to be changed: the device gets its requests as they are from now on.
    void leave_mr(const ibv_mr &) noexcept;
    void add_queue(const void *handle, known_queue);
    /// It was reset, or destroyed: the device does not write any more.
    void reset_queue(const void *handle) noexcept;
    void remove_queue(const void *handle, object_number) noexcept;
    /// The program is about to destroy the PD, which fails while memory is registered with it.
    void release_memory(const ibv_pd *);
    /// The device is about to be closed.
    void release_memory(const ibv_context *);
    void remove_context(const ibv_context *) noexcept;

    /// Puts other SGEs in place of the program's, which live until the request is complete or
    /// dropped. The request stays as it is if it has an SGE that does not name memory with this
    /// access of an MR of its PD: the device says so.
    void hold(const interposer::request &, ibv_sge *&sg_list, int num_sge, int access);
    /// The same of a send with a fence, which may send what Reads and atomics of the QP bring
    /// before the program has polled their completion: from the memory to which they bring it.
    void forward(const interposer::request &, ibv_sge *&sg_list, int num_sge);
    [[nodiscard]] bool holds(const interposer::request &) noexcept;
    /// The request is complete: copies that many bytes to the program's memory, if it is held.
    void deliver(const interposer::request &, std::size_t num_bytes) noexcept;
    /// The program is about to free this memory.
    void forget_memory(std::uintptr_t begin, std::uintptr_t end) noexcept;

    /// Whether this thread has a mutex of this class.
    static bool is_locked_here() noexcept { return is_locked_; }

    late_requests *parents = nullptr; ///< of fork(): kept, so that a leak checker finds none

  private:
    /// Also hides from the thread sanitizer that threads of the program synchronize by the mutex.
    class locked {
      public:
        explicit locked(std::mutex &mutex)
            : guard_(mutex) {}

      private:
        /// From before the wait for the mutex until it is unlocked.
        struct mark {
            mark() noexcept { is_locked_ = true; }
            ~mark() { is_locked_ = false; }
            mark(const mark &) = delete;
            mark &operator=(const mark &) = delete;
        };
        const mark mark_; // destroyed last
        const check::unseen_scope unseen_;
        const std::lock_guard<std::mutex> guard_;
    };

    known_queue *find_queue(const interposer::request &) noexcept;
    const known_mr *find_mr(const known_queue &, const ibv_sge &, int access) noexcept;
    std::optional<held_request> make_request(const interposer::request &, std::span<ibv_sge>,
                                             int access);
    void use_target(const known_queue &, ibv_sge &, std::vector<device_buffer> &);
    bool take_buffer(held_request &);
    bool add_chunk(ibv_pd &, std::size_t size);
    void say_exhausted(const ibv_pd &, const char *reason) noexcept;
    ibv_sge *keep(const interposer::request &, const held_request &) noexcept;
    std::optional<held_request> take(const interposer::request &) noexcept;
    void release(const held_request &) noexcept;
    void end_targets(const held_request &) noexcept;
    void drop_all(known_queue &) noexcept;
    template <class function>
    void for_each_target(function func) noexcept;

    /// initial-exec: as in check/observer.cpp.
    [[gnu::tls_model("initial-exec")]] static inline thread_local bool is_locked_ = false;

    std::mutex mutex_; ///< protects the following
    std::unordered_map<object_number, known_mr> mrs_;
    std::map<std::pair<const ibv_context *, std::uint32_t>, object_number> mr_of_lkey_;
    std::unordered_map<const void *, known_queue> queues_;
    std::unordered_map<const ibv_pd *, buffer_pool> pools_;
    std::size_t num_registered_ = 0; ///< bytes of all pools
    check::range_counts targets_;    ///< of held requests
    std::atomic<bool> has_said_exhausted_ = false;
};

} // namespace coherdma::late
