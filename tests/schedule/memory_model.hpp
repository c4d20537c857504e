// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which stores the C++ memory model lets a load return, and whether it orders two accesses. All of
// it, but that the stores to an object are made in the order of the schedule, which is also the
// total order of what is seq_cst.
//
// Each thread counts what it does. A vector clock says how much of what each thread has done
// happens before something.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace schedule {

constexpr std::size_t MAX_THREADS = 32; ///< of a schedule

/// What a thread has done at a point of the schedule.
struct moment {
    std::uint32_t number;
    std::uint8_t thread;
};

class vector_clock {
  public:
    bool has(moment each) const noexcept { return each.number <= numbers_[each.thread]; }
    void join(const vector_clock &other) noexcept;
    moment next(std::uint8_t thread) noexcept {
        return {.number = ++numbers_[thread], .thread = thread};
    }

  private:
    std::array<std::uint32_t, MAX_THREADS> numbers_{};
};

/// What happens before an operation.
struct knowledge {
    vector_clock known;
    vector_clock seen;            ///< not known, but no load may return to stores before it
    std::uint64_t fence_step = 0; ///< of the last fence with seq_cst

    void join(const knowledge &other) noexcept;
};

constexpr std::uintptr_t BLOCK_SIZE = 8;

enum class access_kind : std::uint8_t { READ, WRITE, ATOMIC_READ, ATOMIC_WRITE };

struct memory_access {
    moment made;
    access_kind kind;
    std::uint8_t bytes; ///< a bit for each of the block
    const void *pc;
};

/// Of one schedule. memory_order is that of the compiler (__ATOMIC_RELAXED).
class memory_model {
  public:
    /// A thread does what follows, at this step.
    void set_current(std::uint8_t thread, std::uint64_t step) noexcept;

    // -- atomic operations on an object of size bytes, whose memory has the value newest.

    /// How many stores the load may return.
    std::size_t count_loadable(const void *addr, std::size_t size, int memory_order,
                               std::uint64_t newest);
    /// The value of the one that is older by age, of those.
    std::uint64_t value(const void *addr, std::size_t size, std::uint64_t newest, std::size_t age);
    /// The load returns that value.
    std::uint64_t load(const void *addr, std::size_t size, int memory_order, std::uint64_t newest,
                       std::size_t age);
    void store(const void *addr, std::size_t size, int memory_order, std::uint64_t newest,
               std::uint64_t value);
    void change(const void *addr, std::size_t size, int memory_order, std::uint64_t newest,
                std::uint64_t value);
    void fence(int memory_order);

    // -- other operations that order what threads do.

    /// The thread knows what others knew when they released the object, as when it gets a lock.
    void acquire(const void *object);
    void release(const void *object);
    void create_thread(std::uint8_t created);

    /// The thread accesses memory. Returns another thread's access to some of it that nothing
    /// orders with this one, if any; one of them writes, and not both are atomic.
    std::optional<memory_access> access(const void *addr, std::size_t size, access_kind kind,
                                        const void *pc);
    /// It is freed.
    void forget(const void *addr, std::size_t size);

  private:
    struct atomic_store {
        std::uint64_t value;
        moment made;
        knowledge released;         ///< what a load with acquire gets to know
        std::vector<moment> loads;  ///< that have returned it, the first of each thread
        std::uint64_t seq_cst_step; ///< of the first such operation on it
    };
    struct atomic_object {
        const void *addr;
        std::size_t size;
        std::vector<atomic_store> stores; ///< in their order
    };
    struct memory_block {
        std::vector<memory_access> accesses; ///< with which a later one may be in conflict
        std::vector<atomic_object> objects;
    };
    struct thread_state {
        knowledge now;
        knowledge released_by_fence, not_acquired;
    };

    thread_state &self() { return threads_[thread_]; }
    moment next_moment() { return self().now.known.next(thread_); }
    std::vector<atomic_store> &find_stores(const void *addr, std::size_t size,
                                           std::uint64_t newest);
    /// Whether the current thread may not return to stores before this one.
    bool is_seen(const atomic_store &store, bool is_seq_cst);
    void note_load(atomic_store &store, int memory_order);
    void add_store(std::vector<atomic_store> &stores, int memory_order, std::uint64_t value);

    std::uint8_t thread_ = 0;
    std::uint64_t step_ = 0;
    std::array<thread_state, MAX_THREADS> threads_;
    vector_clock seq_cst_fences_;
    std::unordered_map<const void *, knowledge> released_;    ///< by object
    std::unordered_map<std::uintptr_t, memory_block> blocks_; ///< by address / BLOCK_SIZE
};

} // namespace schedule
