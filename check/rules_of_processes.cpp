// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// fork(): what it does to registered memory, and to a child that uses its parent's objects.

#include "rules.hpp"

#include "reports/text.hpp"

#include <algorithm>

namespace coherdma::check {

void check_inherited(const interposer::object &used, const char *call, findings &result) {
    const known_object object = describe_object(used);
    finding added = make_finding(finding_kind::USED_AFTER_FORK, object,
                                 std::string(call) + "() is called in a child of fork() with " +
                                     object.name + " of its parent",
                                 std::string(call) + "() is called with it in the child");
    added.events.front().description = object.name + " was created by the parent";
    result.push_back(std::move(added));
}

void check_fork(const process_books &books, findings &result) {
    const known_mr *first = nullptr;
    std::size_t count = 0;
    for (const auto &[number, mr] : books.mrs) {
        if (mr.memory == 0)
            continue;
        ++count;
        if (first == nullptr || mr.number < first->number)
            first = &mr;
    }
    if (first == nullptr)
        return;
    result.push_back(make_finding(finding_kind::FORK_UNSAFE, *first,
                                  "fork() is called with " + reports::count_of(count, "MR") +
                                      " of the process's memory, and without ibv_fork_init()",
                                  "fork() is called"));
}

} // namespace coherdma::check
