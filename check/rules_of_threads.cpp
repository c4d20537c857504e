// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects that the program has promised to use from one thread at a time.

#include "rules.hpp"

#include <algorithm>

namespace coherdma::check {

void begin_use(process_books &books, const interposer::object &used, const char *call,
               findings &result) {
    const known_object *const object = books.find(used);
    if (object == nullptr)
        return;
    const std::thread::id thread = std::this_thread::get_id();
    std::vector<use_in_progress> &uses = books.uses[used.number];
    const auto other = std::find_if(
        uses.begin(), uses.end(), [&](const use_in_progress &use) { return use.thread != thread; });
    if (other != uses.end()) {
        finding added =
            make_finding(finding_kind::THREAD_DOMAIN, *object,
                         object->name + " has no locks, as the program asked for, and two threads "
                                        "use it at the same time",
                         std::string(call) + "() is called with it");
        added.events.insert(
            added.events.end() - 1,
            {.description = std::string(other->call) +
                            "() of another thread was called, and that use has not ended",
             .stack = other->stack});
        result.push_back(std::move(added));
    }
    uses.push_back({.thread = thread, .call = call, .stack = stack_trace::capture_all()});
}

void end_use(process_books &books, const interposer::object &used) noexcept {
    const auto entry = books.uses.find(used.number);
    if (entry == books.uses.end())
        return;
    std::vector<use_in_progress> &uses = entry->second;
    const auto ended = std::find_if(uses.begin(), uses.end(), [](const use_in_progress &use) {
        return use.thread == std::this_thread::get_id();
    });
    if (ended != uses.end())
        uses.erase(ended);
    else if (!uses.empty())
        uses.erase(uses.begin());
    if (uses.empty())
        books.uses.erase(entry);
}

} // namespace coherdma::check
