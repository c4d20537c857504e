// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "scheduler.hpp"

#include "schedule.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <linux/futex.h>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>

namespace schedule {
namespace {

/// A schedule that takes more steps does not end: threads wait for each other in loops.
constexpr std::uint64_t MAX_STEPS = 200'000;
/// A thread that goes on for so many steps alone waits in a loop, presumably: others go on.
constexpr std::uint64_t MAX_STEPS_ALONE = 256;
constexpr std::uint64_t NS_PER_TIME_QUERY = 100;
constexpr std::uint64_t MIN_NS_PER_YIELD = 1'000, MAX_NS_PER_YIELD = 60'000'000'000;

struct stack_bounds {
    std::uintptr_t begin = 0, end = 0;
};

struct scheduled_thread {
    std::uint32_t number = 0;
    std::uint32_t has_turn = 0; ///< a futex
    bool is_waiting = false, has_ended = false, is_detached = false;
    bool timed_out = false;
    const void *waited_object = nullptr;
    std::uint64_t deadline = NEVER;
    pthread_t handle{};
    void *(*function)(void *) = nullptr;
    void *arg = nullptr;
    stack_bounds stack;
    std::vector<const void *> frames; ///< where the present calls return to, outermost first
    const void *pc = nullptr;         ///< of its last point
    action kind = action::START;      ///< at that point
};

/// One schedule.
struct schedule_state {
    schedule_state(const strategy_config &config, recording &shared)
        : chooser(config)
        , record(shared) {
        if (config.has_late_stores)
            model.emplace();
    }

    strategy chooser;
    recording &record;
    std::optional<memory_model> model; ///< none: loads return the newest value
    bool is_model_in_use = false;
    std::vector<std::unique_ptr<scheduled_thread>> threads;
    std::uint64_t step = 0, time_ns = 0;
    std::uint64_t steps_alone = 0; ///< since the current thread has begun its turn, or yielded
};

std::optional<schedule_state> state;
thread_local scheduled_thread *current = nullptr; ///< nullptr: not scheduled

/// libc's syscall(), not one that the program may have in its place.
long futex(std::uint32_t *word, int operation, std::uint32_t value) {
    REAL(syscall);
    return real_syscall(SYS_futex, word, operation, value, nullptr, nullptr, 0);
}

// Ordering: acquire. What the thread that gave the turn has done is seen.
void wait_for_turn(scheduled_thread &self) {
    while (__atomic_exchange_n(&self.has_turn, 0, __ATOMIC_ACQUIRE) == 0)
        futex(&self.has_turn, FUTEX_WAIT_PRIVATE, 0);
}

// Ordering: release, for wait_for_turn().
void give_turn(scheduled_thread &next) {
    __atomic_store_n(&next.has_turn, 1, __ATOMIC_RELEASE);
    futex(&next.has_turn, FUTEX_WAKE_PRIVATE, 1);
}

void record_decision(std::uint32_t value) {
    recording &record = state->record;
    if (record.num_decisions < MAX_DECISIONS)
        record.decisions[record.num_decisions++] = {.step = state->step, .value = value};
}

void record_event(const scheduled_thread &thread, const void *object) {
    recording &record = state->record;
    if (record.records_events && record.num_events < MAX_EVENTS)
        record.events[record.num_events++] = {.step = state->step,
                                              .pc = thread.pc,
                                              .object = object,
                                              .thread = static_cast<std::uint8_t>(thread.number),
                                              .kind = thread.kind};
}

void record_stacks() {
    recording &record = state->record;
    for (const auto &thread : state->threads) {
        if (thread->has_ended)
            continue;
        stack &entry = record.stacks[record.num_stacks++];
        entry = {.thread = static_cast<std::uint8_t>(thread->number),
                 .state = name_of(thread->kind),
                 .num_frames = 0,
                 .frames = {}};
        entry.frames[entry.num_frames++] = thread->pc;
        for (auto frame = thread->frames.rbegin();
             frame != thread->frames.rend() && entry.num_frames < MAX_FRAMES; ++frame)
            entry.frames[entry.num_frames++] = *frame;
    }
}

void wake(scheduled_thread &thread) {
    thread.is_waiting = false;
    thread.waited_object = nullptr;
    thread.deadline = NEVER;
}

/// The threads that can go on. If all wait, time passes until the first deadline.
std::vector<std::uint32_t> runnable_threads() {
    bool all_wait = true;
    std::uint64_t first = NEVER;
    for (const auto &thread : state->threads) {
        all_wait = all_wait && (thread->has_ended || thread->is_waiting);
        first = std::min(first, thread->deadline);
    }
    if (all_wait && first == NEVER) {
        record_stacks();
        fail_schedule("no thread can go on");
    }
    if (all_wait)
        state->time_ns = std::max(state->time_ns, first);
    std::vector<std::uint32_t> runnable;
    for (const auto &thread : state->threads) {
        if (thread->deadline <= state->time_ns) {
            wake(*thread);
            thread->timed_out = true;
        }
        if (!thread->has_ended && !thread->is_waiting)
            runnable.push_back(thread->number);
    }
    return runnable;
}

/// The more time has passed the more passes, so that a loop that yields until a deadline has an end
/// soon.
void pass_time() {
    state->time_ns += std::clamp(state->time_ns / 8, MIN_NS_PER_YIELD, MAX_NS_PER_YIELD);
}

/// Another thread, or the same, goes on; returns when it is the current one's turn again. It may be
/// waiting or have ended.
void switch_threads(bool lets_others) {
    scheduled_thread &self = *current;
    if (++state->step > MAX_STEPS)
        fail_schedule("the threads go on without end");
    state->record.num_steps = state->step;
    lets_others = lets_others || ++state->steps_alone == MAX_STEPS_ALONE;
    if (lets_others) {
        state->steps_alone = 0;
        state->chooser.yielded(self.number);
        pass_time();
    }
    std::vector<std::uint32_t> runnable = runnable_threads();
    if (lets_others && runnable.size() > 1)
        std::erase(runnable, self.number);
    const std::uint32_t next = state->chooser.next_thread(state->step, runnable, self.number);
    if (next != default_thread(runnable, self.number))
        record_decision(next);
    if (next == self.number)
        return;
    state->steps_alone = 0;
    const bool has_ended = self.has_ended; // afterwards the next may destroy it
    if (has_ended) // it goes on beside the schedule: what it frees is not the program's
        current = nullptr;
    give_turn(*state->threads[next]);
    if (!has_ended)
        wait_for_turn(self);
}

/// Of the calling thread.
stack_bounds find_stack_bounds() {
    pthread_attr_t attr;
    void *addr = nullptr;
    std::size_t size = 0;
    stack_bounds bounds;
    if (pthread_getattr_np(pthread_self(), &attr) != 0)
        return bounds;
    if (pthread_attr_getstack(&attr, &addr, &size) == 0) {
        bounds.begin = reinterpret_cast<std::uintptr_t>(addr);
        bounds.end = bounds.begin + size;
    }
    pthread_attr_destroy(&attr);
    return bounds;
}

/// The end of a thread. The first of its thread_local objects, so that the others are destroyed in
/// the schedule.
struct thread_end {
    scheduled_thread &self;

    ~thread_end() {
        note_action(action::END, nullptr, reinterpret_cast<const void *>(self.function));
        release(&self);
        self.has_ended = true;
        wake_all(&self);
        switch_threads(false);
    }
};

void *run_thread(void *arg) {
    scheduled_thread &self = *static_cast<scheduled_thread *>(arg);
    self.stack = find_stack_bounds();
    wait_for_turn(self);
    current = &self;
    // Of an ended thread; its thread_local objects, too.
    forget_memory(reinterpret_cast<const void *>(self.stack.begin),
                  self.stack.end - self.stack.begin);
    note_action(action::START, nullptr, reinterpret_cast<const void *>(self.function));
    thread_local const thread_end end{self};
    return self.function(self.arg);
}

/// The latest: the handle of an ended thread is used again. nullptr: it is not scheduled.
scheduled_thread *find_thread(pthread_t handle) {
    const auto match =
        std::find_if(state->threads.rbegin(), state->threads.rend(),
                     [&](const auto &each) { return pthread_equal(each->handle, handle) != 0; });
    return match == state->threads.rend() ? nullptr : match->get();
}

void wait_for_end(const scheduled_thread &thread, const void *pc) {
    point(action::JOIN, &thread, pc);
    while (!thread.has_ended)
        wait_for(&thread, NEVER, action::JOIN, pc);
    acquire(&thread);
}

std::vector<scheduled_thread *> waiting_threads(const void *object) {
    std::vector<scheduled_thread *> waiting;
    for (const auto &thread : state->threads)
        if (thread->is_waiting && thread->waited_object == object)
            waiting.push_back(thread.get());
    return waiting;
}

} // namespace

const char *name_of(action kind) {
    constexpr std::array<const char *, 17> NAMES = {
        "starts", "ends",  "loads",  "loads old", "stores",  "changes",
        "fence",  "reads", "writes", "locks",     "unlocks", "waits",
        "wakes",  "joins", "yields", "sleeps",    "creates"};
    return NAMES[static_cast<std::size_t>(kind)];
}

void fail_schedule(const char *text) {
    std::strncpy(state->record.failure.data(), text, state->record.failure.size() - 1);
    _exit(1);
}

void fail_with_race(const memory_access &first, access_kind kind, const void *pc) {
    state->record.race = {
        .first = {.thread = first.made.thread, .kind = first.kind, .pc = first.pc},
        .second = {.thread = static_cast<std::uint8_t>(current->number), .kind = kind, .pc = pc}};
    fail_schedule("two threads access the same memory, and nothing orders them");
}

model_in_use::model_in_use() noexcept
    : model_(current != nullptr && state->model ? &*state->model : nullptr) {
    if (model_ == nullptr)
        return;
    state->is_model_in_use = true;
    model_->set_current(static_cast<std::uint8_t>(current->number), state->step);
}

model_in_use::~model_in_use() {
    if (model_ != nullptr)
        state->is_model_in_use = false;
}

void acquire(const void *object) {
    if (const model_in_use model; model)
        model->acquire(object);
}

void release(const void *object) {
    if (const model_in_use model; model)
        model->release(object);
}

void forget_memory(const void *addr, std::size_t size) noexcept {
    if (current == nullptr || state->is_model_in_use) // it frees memory of its own
        return;
    if (const model_in_use model; model)
        model->forget(addr, size);
}

void require(bool condition, const char *text) {
    if (!condition)
        fail_schedule(text);
}

unsigned choose(unsigned limit) {
    return choose_value(limit);
}

void run_schedule(void (*program)(), const strategy_config &config, recording &shared) {
    shared.seed = config.seed;
    shared.num_steps = shared.num_events = shared.num_decisions = shared.num_stacks = 0;
    shared.failure[0] = '\0';
    shared.race.reset();
    state.emplace(config, shared);
    forget_locks();
    state->threads.push_back(std::make_unique<scheduled_thread>());
    scheduled_thread &main_thread = *state->threads.front();
    main_thread.handle = pthread_self();
    static const stack_bounds stack_of_main = find_stack_bounds(); // reads /proc/self/maps
    main_thread.stack = stack_of_main;
    current = &main_thread;
    program();
    for (std::size_t i = 0; i < state->threads.size(); ++i) // it may create others
        if (state->threads[i]->is_detached)
            wait_for_end(*state->threads[i], nullptr);
    for (const auto &thread : state->threads)
        if (thread.get() != &main_thread && !thread->has_ended)
            fail_schedule("the program has ended before one of its threads");
    current = nullptr;
    state.reset();
    ++shared.num_schedules;
}

bool is_scheduled() noexcept {
    return current != nullptr;
}

void point(action kind, const void *object, const void *pc) {
    if (current == nullptr)
        return;
    switch_threads(false);
    note_action(kind, object, pc);
}

void note_action(action kind, const void *object, const void *pc) {
    current->kind = kind;
    current->pc = pc;
    record_event(*current, object);
}

void yield(const void *pc) {
    if (current == nullptr)
        return;
    note_action(action::YIELD, nullptr, pc);
    switch_threads(true);
}

bool wait_for(const void *object, std::uint64_t deadline, action kind, const void *pc) {
    scheduled_thread &self = *current;
    note_action(kind, object, pc);
    if (deadline != NEVER && happens_seldom())
        state->time_ns = std::max(state->time_ns, deadline);
    self.is_waiting = true;
    self.timed_out = false;
    self.waited_object = object;
    self.deadline = deadline;
    switch_threads(false);
    self.waited_object = nullptr;
    return !self.timed_out;
}

unsigned wake_all(const void *object) {
    const auto waiting = waiting_threads(object);
    for (scheduled_thread *thread : waiting)
        wake(*thread);
    return static_cast<unsigned>(waiting.size());
}

unsigned wake_one(const void *object) {
    const auto waiting = waiting_threads(object);
    if (waiting.empty())
        return 0;
    wake(*waiting[choose_value(static_cast<std::uint32_t>(waiting.size()))]);
    return 1;
}

std::uint64_t now_ns() {
    return state->time_ns += NS_PER_TIME_QUERY;
}

std::uint32_t choose_value(std::uint32_t limit) {
    if (current == nullptr || limit < 2)
        return 0;
    ++state->step; // a step of its own, by which the decision is found again
    const std::uint32_t value = state->chooser.choose(state->step, limit);
    if (value != 0)
        record_decision(value);
    return value;
}

bool happens_seldom() {
    if (current == nullptr)
        return false;
    ++state->step;
    const bool happens = state->chooser.happens_seldom(state->step);
    if (happens)
        record_decision(1);
    return happens;
}

int create_thread(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *),
                  void *arg, const void *pc) {
    REAL(pthread_create);
    if (current == nullptr)
        return real_pthread_create(thread, attr, function, arg);
    if (state->threads.size() == MAX_THREADS)
        fail_schedule("the program has too many threads");
    auto created = std::make_unique<scheduled_thread>();
    created->number = static_cast<std::uint32_t>(state->threads.size());
    created->function = function;
    created->arg = arg;
    const int error = real_pthread_create(&created->handle, attr, run_thread, created.get());
    if (error != 0)
        return error;
    *thread = created->handle;
    if (const model_in_use model; model)
        model->create_thread(static_cast<std::uint8_t>(created->number));
    state->threads.push_back(std::move(created));
    point(action::CREATE, nullptr, pc);
    return 0;
}

bool join_thread(pthread_t thread, const void *pc) {
    if (current == nullptr)
        return false;
    const scheduled_thread *const joined = find_thread(thread);
    if (joined == nullptr)
        return false;
    wait_for_end(*joined, pc);
    return true;
}

void detach_thread(pthread_t thread) {
    if (current == nullptr)
        return;
    if (scheduled_thread *const detached = find_thread(thread); detached != nullptr)
        detached->is_detached = true;
}

void enter_function(const void *pc) noexcept {
    if (current != nullptr)
        current->frames.push_back(pc);
}

void exit_function() noexcept {
    if (current != nullptr && !current->frames.empty())
        current->frames.pop_back();
}

bool is_on_own_stack(const void *addr) noexcept {
    const auto number = reinterpret_cast<std::uintptr_t>(addr);
    return current != nullptr &&
           number - current->stack.begin < current->stack.end - current->stack.begin;
}

} // namespace schedule
