// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Objects: how they end, and what is called with them afterwards.

#include "rules.hpp"

#include "reports/text.hpp"

#include <algorithm>
#include <map>

namespace coherdma::check {
namespace {

using reports::count_of;

/// Whether the device executes no request of the QP any more.
bool is_stopped(const known_qp &qp) {
    const ibv_qp_state state = query_state(qp);
    const bool is_iwarp = qp.context->device->transport_type == IBV_TRANSPORT_IWARP;
    return state == IBV_QPS_RESET || state == IBV_QPS_ERR ||
           (is_iwarp && (state == IBV_QPS_SQD || state == IBV_QPS_SQE)); // its connection is closed
}

bool executes_sends(const known_qp &qp) {
    const ibv_qp_state state = query_state(qp);
    return (state == IBV_QPS_RTS || state == IBV_QPS_SQD) && !is_stopped(qp);
}

/// Sends whose fate the program does not know.
std::size_t count_unknown_sends(const known_qp &qp) noexcept {
    const auto first = qp.sends.upper_bound(qp.answered_send);
    return static_cast<std::size_t>(std::distance(first, qp.sends.end()));
}

/// verb: "is destroyed". If sends of the QP are outstanding that the device may execute.
void check_outstanding(const known_qp &qp, const std::string &verb, findings &result) {
    const std::size_t count = count_unknown_sends(qp);
    if (count == 0 || !executes_sends(qp))
        return;
    const posted_request &oldest = qp.sends.upper_bound(qp.answered_send)->second;
    finding added =
        make_finding(finding_kind::DESTROY_WHILE_OUTSTANDING, qp,
                     qp.name + " " + verb + " while " + count_of(count, "send") + " of it " +
                         (count == 1 ? "is" : "are") + " not complete or not polled",
                     "it " + verb);
    added.events.insert(added.events.end() - 1, post_event(oldest, ", the oldest, was posted"));
    result.push_back(std::move(added));
}

/// An outstanding request that the device may still execute, and that names memory for which
/// is_named(memory) is true.
struct pending_use {
    const known_object *queue = nullptr; ///< nullptr: there is none
    const posted_request *request = nullptr;
};

template <class function>
pending_use find_use(const process_books &books, function is_named) {
    pending_use use;
    books.for_each_request([&](const known_object &queue, const posted_request &request) {
        if (std::any_of(request.memory.begin(), request.memory.end(), is_named) &&
            may_execute(queue))
            use = {.queue = &queue, .request = &request};
        return use.queue != nullptr;
    });
    return use;
}

void check_mr(const process_books &books, const known_mr &mr, findings &result) {
    if (mr.num_requests == 0)
        return;
    const auto [queue, use] =
        find_use(books, [&](const named_memory &named) { return named.mr == mr.number; });
    if (queue == nullptr)
        return;
    finding added = make_finding(finding_kind::DEREG_WHILE_OUTSTANDING, mr,
                                 mr.name + " is deregistered while " + describe_request(*use) +
                                     ", is not complete",
                                 "it is deregistered");
    added.events.insert(added.events.end() - 1, post_event(*use, ", was posted with it"));
    result.push_back(std::move(added));
}

} // namespace

bool may_execute(const known_object &queue) {
    return queue.kind != object_kind::QP || !is_stopped(static_cast<const known_qp &>(queue));
}

void check_events(const known_object &object, findings &result) {
    if (object.num_unacknowledged == 0)
        return;
    result.push_back(make_finding(
        finding_kind::UNACKNOWLEDGED_EVENT, object,
        object.name + " is destroyed, and " + count_of(object.num_unacknowledged, "event") +
            " of it that the program has got " + (object.num_unacknowledged == 1 ? "is" : "are") +
            " not acknowledged",
        "it is destroyed, which waits until they are acknowledged"));
}

ibv_qp_state query_state(const known_qp &known) {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};
    auto *const qp = static_cast<ibv_qp *>(const_cast<void *>(known.handle));
    return ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0 ? attr.qp_state : known.state;
}

call_event post_event(const posted_request &request, const std::string &place) {
    return {.description = describe_request(request) + place,
            .stack = request.stack,
            .posted = posted_state::OUTSTANDING};
}

finding make_finding(finding_kind kind, const known_object &object, std::string title,
                     std::string call_description) {
    return make_finding(kind, object, std::move(title), std::move(call_description),
                        stack_trace::capture_all());
}

finding make_finding(finding_kind kind, const known_object &object, std::string title,
                     std::string call_description, const stack_trace &call) {
    finding made;
    made.kind = kind;
    made.device = object.device;
    made.title = std::move(title);
    made.events = {{.description = object.name + " was created", .stack = object.creation},
                   {.description = std::move(call_description), .stack = call}};
    return made;
}

void check_destroy(process_books &books, const interposer::object &ended, findings &result) {
    const known_object *const object = books.find(ended);
    if (object == nullptr)
        return;
    if (object->event_thread == std::this_thread::get_id()) // no other thread is known to have them
        check_events(*object, result);
    if (ended.kind == object_kind::MR)
        check_mr(books, *books.find_mr(ended.number), result);
    if (ended.kind != object_kind::QP)
        return;
    check_outstanding(*books.find_qp(ended.handle), "is destroyed", result);
}

void check_reset(const known_qp &qp, findings &result) {
    check_outstanding(qp, "is modified to RESET", result);
}

bool check_destroyed(const process_books &books, object_kind kind, const void *handle,
                     const char *call, findings &result) {
    const auto it = books.destroyed.find(handle);
    if (it == books.destroyed.end() || it->second.object.kind != kind)
        return false;
    const known_object &object = it->second.object;
    finding added = make_finding(finding_kind::USE_AFTER_DESTROY, object,
                                 std::string(call) + "() is called with " + object.name +
                                     ", which was destroyed",
                                 std::string(call) + "() is called with it");
    added.events.insert(added.events.end() - 1, {.description = object.name + " was destroyed",
                                                 .stack = it->second.destruction});
    result.push_back(std::move(added));
    return true;
}

void check_free(const process_books &books, std::uintptr_t begin, std::uintptr_t end,
                const char *call, findings &result) {
    const auto overlaps = [&](object_number number) {
        const known_mr &mr = books.mrs.at(number);
        return mr.memory < end && begin < mr.memory + (mr.end - mr.begin);
    };
    const bool may_be_named = std::any_of(books.busy_mrs.begin(), books.busy_mrs.end(), overlaps);
    if (!may_be_named)
        return;
    const auto [queue, use] = find_use(
        books, [&](const named_memory &named) { return named.begin < end && begin < named.end; });
    if (queue == nullptr)
        return;
    finding added = make_finding(finding_kind::MEMORY_FREED, *queue,
                                 std::string("memory is freed while ") + describe_request(*use) +
                                     ", which names it, is not complete",
                                 std::string(call) + "() is called with it");
    added.events.insert(added.events.end() - 1, post_event(*use, ", was posted to " + queue->name));
    result.push_back(std::move(added));
}

/// By the places that created them.
void find_leaks(const process_books &books, findings &result) {
    using place = std::pair<object_kind, std::vector<void *>>;
    struct group {
        const known_object *first = nullptr;
        std::size_t count = 0;
    };
    std::map<place, group> groups;
    const auto add = [&](const known_object &object) {
        // It opens devices for cm_ids, and keeps them.
        const bool is_shared =
            object.kind == object_kind::CONTEXT || object.kind == object_kind::PD;
        if (is_shared && reports::caller_of_verbs(object.creation).starts_with("librdmacm.so"))
            return;
        const auto begin = object.creation.frames.begin();
        group &added = groups[{object.kind, {begin, begin + object.creation.depth}}];
        if (added.count++ == 0)
            added.first = &object;
    };
    for (const auto &[number, object] : books.others)
        add(object);
    for (const auto &[number, mr] : books.mrs)
        add(mr);
    for (const auto &[handle, cq] : books.cqs)
        add(cq);
    for (const auto &[handle, srq] : books.srqs)
        add(srq);
    for (const auto &[handle, qp] : books.qps)
        add(qp);
    for (const auto &[creation, left] : groups) {
        finding added;
        added.kind = finding_kind::LEAKED;
        added.device = left.first->device;
        added.title = left.count == 1
                          ? left.first->name + " is left when the process ends"
                          : left.first->name + " and " + std::to_string(left.count - 1) +
                                " more of this place are left when the process ends";
        added.events = {
            {.description = left.first->name + " was created", .stack = left.first->creation}};
        result.push_back(std::move(added));
    }
}

} // namespace coherdma::check
