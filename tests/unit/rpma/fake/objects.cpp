// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

#include "../../dapl/fake/tsan_ordering.hpp"

#include <cerrno>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace fake {

namespace {

struct object_state {
    std::string kind;
    std::multiset<const void *> uses;
    int num_events = 0;
};

std::mutex lock; // of all that follows
std::map<const void *, object_state> objects;
std::string violations;
std::map<std::string, int> failing_calls;
unsigned failing_nth = 0;
int failing_error = 0;
std::string failed;
std::vector<std::string> calls;

/// TSan does not see the fake libraries: their lock would order calls that nothing else orders.
class guard {
  public:
    guard() { lock.lock(); }
    ~guard() { lock.unlock(); }
    guard(const guard &) = delete;

  private:
    tsan_ignore ignore_;
};

void add_violation_locked(const std::string &text) {
    violations += text + "\n";
}

object_state *find_locked(const void *object, const char *kind) {
    const auto it = objects.find(object);
    if (it != objects.end() && it->second.kind == kind)
        return &it->second;
    add_violation_locked(std::string("no live ") + kind);
    return nullptr;
}

} // namespace

void add_object(const void *object, const char *kind, std::initializer_list<const void *> uses) {
    const guard guard;
    object_state state;
    state.kind = kind;
    for (const void *use : uses) {
        if (use != nullptr && !objects.contains(use))
            add_violation_locked(std::string("a new ") + kind + " uses an object that is dead");
        if (use != nullptr)
            state.uses.insert(use);
    }
    objects[object] = state;
}

void replace_use(const void *object, const void *old_use, const void *new_use) {
    const guard guard;
    auto &uses = objects.at(object).uses;
    if (const auto it = uses.find(old_use); it != uses.end())
        uses.erase(it);
    uses.insert(new_use);
}

void remove_object(const void *object, const char *kind) {
    const guard guard;
    const object_state *const state = find_locked(object, kind);
    if (state == nullptr)
        return;
    if (state->num_events != 0)
        add_violation_locked(std::string(kind) + " has events that are not acknowledged");
    for (const auto &[address, user] : objects)
        if (user.uses.contains(object))
            add_violation_locked(std::string(kind) + " is still used by " + user.kind);
    objects.erase(object);
    errno = EXDEV; // as a function that succeeds may: callers keep the error of the one that failed
}

void check_object(const void *object, const char *kind) {
    const guard guard;
    find_locked(object, kind);
}

bool is_live(const void *object) {
    const guard guard;
    return objects.contains(object);
}

void add_events(const void *object, int difference) {
    const guard guard;
    const auto it = objects.find(object);
    if (it == objects.end())
        return add_violation_locked("an event of an object that is dead");
    it->second.num_events += difference;
    if (it->second.num_events < 0)
        add_violation_locked("more events are acknowledged than there were");
}

void add_violation(const std::string &text) {
    const guard guard;
    add_violation_locked(text);
}

int call(const char *name) {
    const guard guard;
    calls.emplace_back(name);
    int error = 0;
    if (failing_nth != 0 && --failing_nth == 0)
        error = failing_error;
    if (const auto it = failing_calls.find(name); it != failing_calls.end())
        error = it->second;
    if (error != 0)
        failed = name;
    return error;
}

std::size_t count_objects() {
    const guard guard;
    return objects.size();
}

std::string take_violations() {
    const guard guard;
    for (const auto &[address, state] : objects)
        add_violation_locked(state.kind + " is not destroyed");
    objects.clear();
    return std::exchange(violations, "");
}

void fail_nth(unsigned nth, int error) {
    const guard guard;
    failing_nth = nth;
    failing_error = error;
    failed.clear();
}

void fail_calls(const char *name, int error) {
    const guard guard;
    failing_calls[name] = error;
    failed.clear();
}

void fail_none() {
    const guard guard;
    failing_nth = 0;
    failing_calls.clear();
}

std::string failed_call() {
    const guard guard;
    return failed;
}

std::vector<std::string> take_calls() {
    const guard guard;
    return std::exchange(calls, {});
}

} // namespace fake
