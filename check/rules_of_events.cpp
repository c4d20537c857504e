// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events of completions: whether the one that the program waits for can come.

#include "rules.hpp"

#include <algorithm>
#include <poll.h>
#include <thread>

namespace coherdma::check {
namespace {

/// Calls func for each CQ of the channel.
template <class function>
void for_each_cq(const process_books &books, const ibv_comp_channel &channel, function func) {
    for (const auto &[handle, cq] : books.cqs)
        if (cq.channel == &channel)
            func(cq);
}

/// Whether messages may come.
bool is_receiving(const known_qp &qp) noexcept {
    return (qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS) &&
           (qp.srq != nullptr || !qp.receives.empty());
}

/// Whether an event waits for the program, which may have asked by poll(). True if that is not
/// known.
bool has_event(const ibv_comp_channel &channel) noexcept {
    pollfd asked = {.fd = channel.fd, .events = POLLIN, .revents = 0};
    return poll(&asked, 1, 0) != 0;
}

} // namespace

std::size_t count_polls(const process_books &books, const ibv_comp_channel &channel) {
    std::size_t count = 0;
    for_each_cq(books, channel, [&](const known_cq &cq) { count += cq.num_polls; });
    return count;
}

bool is_unarmed(const process_books &books, const ibv_comp_channel &channel) {
    bool has_cq = false, is_armed = false;
    for_each_cq(books, channel, [&](const known_cq &cq) {
        has_cq = true;
        is_armed = is_armed || cq.max_events != 0;
    });
    return has_cq && !is_armed;
}

bool is_endless(const process_books &books, const ibv_comp_channel &channel) {
    if (!is_unarmed(books, channel))
        return false;
    bool has_requests = false;
    for_each_cq(books, channel, [&](const known_cq &cq) {
        for (const auto &[handle, qp] : books.qps)
            has_requests = has_requests || (qp.send_cq == cq.handle && qp.num_signaled != 0) ||
                           (qp.recv_cq == cq.handle && is_receiving(qp));
    });
    return has_requests;
}

void check_endless(const process_books &books, const ibv_comp_channel &channel,
                   const stack_trace &wait, findings &result) {
    const known_cq *first = nullptr;
    std::size_t count = 0;
    for_each_cq(books, channel, [&](const known_cq &cq) {
        first = &cq;
        ++count;
    });
    if (first == nullptr)
        return;
    finding added = make_finding(finding_kind::ENDLESS_WAIT, *first,
                                 count == 1 ? first->name + " is not armed: no event will come"
                                            : "none of the " + std::to_string(count) +
                                                  " CQs of the channel is armed: no event will "
                                                  "come",
                                 "the program waits for an event");
    added.events.back().stack = wait;
    if (first->arm.depth != 0)
        added.events.insert(
            added.events.end() - 1,
            {.description = "it was armed for the last time, and that event was got",
             .stack = first->arm});
    result.push_back(std::move(added));
}

void check_missed(const process_books &books, const ibv_comp_channel &channel, findings &result) {
    const known_cq *of_sends = nullptr, *of_receives = nullptr;
    bool has_other = false; // whose event may end the wait
    for_each_cq(books, channel, [&](const known_cq &cq) {
        if (cq.max_events == 0)
            return;
        // Another thread that has armed it may be about to poll it.
        const bool is_unpolled = cq.max_events == 1 && !cq.is_polled_since_arm &&
                                 cq.arm_thread == std::this_thread::get_id();
        if (is_unpolled && cq.num_sends_at_arm != 0)
            of_sends = &cq;
        else
            has_other = true;
        // Before it arms for the first time, a program may know that its peer has not begun.
        if (is_unpolled && cq.num_receives_at_arm != 0 && cq.num_arms > 1)
            of_receives = &cq;
    });
    const known_cq *const missed = of_sends != nullptr && !has_other ? of_sends : of_receives;
    if (missed == nullptr || has_event(channel))
        return;
    finding added = make_finding(finding_kind::MISSED_COMPLETION, *missed,
                                 missed->name + " was armed while " +
                                     (missed == of_receives ? "receives" : "sends") +
                                     " were outstanding, and is not polled before the wait",
                                 "the program waits for an event");
    added.events.insert(added.events.end() - 1,
                        {.description = "it was armed", .stack = missed->arm});
    result.push_back(std::move(added));
}

} // namespace coherdma::check
