// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs one thread at a time. Each thread of the program is a thread of the process that waits for
// its turn; the one whose turn it is asks at each point who goes on. So everything here is accessed
// by one thread at a time, and needs no lock.
#pragma once

#include "memory_model.hpp"
#include "strategy.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <dlfcn.h>
#include <functional>
#include <memory>
#include <pthread.h>
#include <string>
#include <vector>

namespace schedule {

/// What a thread does at a point.
enum class action : std::uint8_t {
    START,
    END,
    LOAD,
    LOAD_OLD, ///< not the newest value
    STORE,
    READ_MODIFY_WRITE,
    FENCE,
    READ,  ///< not atomic
    WRITE, ///< not atomic
    LOCK,
    UNLOCK,
    WAIT,
    WAKE,
    JOIN,
    YIELD,
    SLEEP,
    CREATE,
};
const char *name_of(action);

constexpr std::size_t MAX_EVENTS = 1U << 20;
constexpr std::size_t MAX_DECISIONS = 1U << 16;
constexpr std::size_t MAX_FRAMES = 32;

struct event {
    std::uint64_t step;
    const void *pc; ///< return address of the call into the runtime
    const void *object;
    std::uint8_t thread;
    action kind;
};

struct stack {
    std::uint8_t thread;
    const char *state; ///< a constant text
    std::size_t num_frames;
    std::array<const void *, MAX_FRAMES> frames; ///< innermost first
};

/// Two accesses to some memory that nothing orders.
struct data_race {
    struct side {
        std::uint8_t thread;
        access_kind kind;
        const void *pc;
    };
    side first, second;
};

/// What is known of a schedule after its process has ended: memory that the runner shares with it.
struct recording {
    std::uint64_t seed;
    std::uint64_t num_steps;       ///< of the present or last schedule
    std::uint64_t num_schedules;   ///< that have ended without a failure
    std::array<char, 512> failure; ///< "": none, or the process has died
    bool records_events;
    std::size_t num_events, num_decisions, num_stacks;
    std::array<decision, MAX_DECISIONS> decisions;
    std::array<stack, MAX_THREADS> stacks; ///< of all threads, if none could run
    std::optional<data_race> race;
    std::array<event, MAX_EVENTS> events;
};

/// Runs the program in one schedule. Writes to the recording. If the schedule fails, it says why
/// there, and ends the process.
void run_schedule(void (*program)(), const strategy_config &config, recording &shared);

// -- for the interposed functions. point(), yield(), join_thread() and the functions for stacks do
// nothing in a thread that is not scheduled, and create_thread() creates another one; the others
// are for scheduled threads.

bool is_scheduled() noexcept;

/// The current thread is about to do this: another may go on first.
void point(action kind, const void *object, const void *pc);

/// Part of what the last point() was for, such as what a load returns.
void note_action(action kind, const void *object, const void *pc);

/// As point(), but others go on first, if any can.
void yield(const void *pc);

/// The current thread cannot go on until wake() is called for the object, or, at the latest, at the
/// deadline, in virtual ns, which seldom passes at once. False: at the deadline.
constexpr std::uint64_t NEVER = ~std::uint64_t{0};
bool wait_for(const void *object, std::uint64_t deadline, action kind, const void *pc);

/// Threads that wait for the object can go on: all, or one that the schedule chooses. Returns how
/// many have waited.
unsigned wake_all(const void *object);
unsigned wake_one(const void *object);

/// Virtual time since the start of the schedule. It advances when all threads wait, when one
/// yields, and a little at each query.
std::uint64_t now_ns();

std::uint32_t choose_value(std::uint32_t limit);
/// Whether the schedule has it that something happens that happens seldom.
bool happens_seldom();

int create_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *),
                  void *arg, const void *pc);
/// Returns when that thread has ended. False: it is not scheduled.
bool join_thread(pthread_t thread, const void *pc);

/// The schedule has its end when that thread has ended, too, if it is scheduled.
void detach_thread(pthread_t thread);

/// Called and returned from, for stacks.
void enter_function(const void *pc) noexcept;
void exit_function() noexcept;

/// Whether the address is in the stack of the current thread: no other accesses it, as a rule.
bool is_on_own_stack(const void *addr) noexcept;

/// The memory model of the schedule, while it is used for what the current thread does. False: the
/// thread is not scheduled, or the schedule has no late stores.
class model_in_use {
  public:
    model_in_use() noexcept;
    ~model_in_use();
    model_in_use(const model_in_use &) = delete;
    model_in_use &operator=(const model_in_use &) = delete;
    explicit operator bool() const noexcept { return model_ != nullptr; }
    memory_model *operator->() const noexcept { return model_; }

  private:
    memory_model *model_;
};

/// What threads do with an object, such as a lock, orders what they do otherwise: the one that
/// acquires it knows what others knew when they released it.
void acquire(const void *object);
void release(const void *object);

/// The program frees memory. The next object there is another one.
void forget_memory(const void *addr, std::size_t size) noexcept;

/// The current thread's access and another one's before it are not ordered.
[[noreturn]] void fail_with_race(const memory_access &first, access_kind kind, const void *pc);

/// At the begin of a schedule: a program may destroy a lock that is locked.
void forget_locks();

[[noreturn]] void fail_schedule(const char *text);

/// The definition of a function after ours.
template <typename function>
function *find_real(function *, const char *name, std::atomic<void *> &definition) {
    if (definition == nullptr)
        definition = dlsym(RTLD_NEXT, name);
    return reinterpret_cast<function *>(definition.load());
}

} // namespace schedule

/// A static variable that the compiler guards would not do: a scheduled thread waits for a guard in
/// the schedule, and does not see when a thread that is not scheduled leaves it.
#define REAL(name)                                                                                 \
    static constinit std::atomic<void *> definition_##name = nullptr;                              \
    auto *const real_##name = schedule::find_real(&(name), #name, definition_##name)
