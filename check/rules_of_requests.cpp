// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests: what their SGEs name, whether the QP takes them, and room for their completions.

#include "rules.hpp"

#include "reports/text.hpp"

namespace coherdma::check {
namespace {

using reports::hex_number;

std::string range_text(std::uint64_t begin, std::uint64_t end) {
    return hex_number(begin) + ".." + hex_number(end);
}

std::string post_of(const posted_request &request) {
    return describe_request(request) + ", is posted";
}

/// The lkey of an SGE is of no MR.
finding unknown_key(const process_books &books, const known_object &queue,
                    const posted_request &request, std::uint32_t lkey) {
    const auto rkey = books.mr_of_rkey.find({queue.context, lkey});
    std::string title = "lkey " + hex_number(lkey) + " is of no MR of this device";
    if (rkey != books.mr_of_rkey.end())
        title = hex_number(lkey) + " is the rkey of an MR; its lkey is " +
                hex_number(books.mrs.at(rkey->second).lkey);
    finding added = make_finding(finding_kind::LOCAL_KEY, queue, title, post_of(request));
    if (rkey != books.mr_of_rkey.end())
        added.events.insert(added.events.end() - 1,
                            {.description = books.mrs.at(rkey->second).name + " was registered",
                             .stack = books.mrs.at(rkey->second).creation});
    for (const auto &[handle, ended] : books.destroyed)
        if (ended.object.kind == object_kind::MR && ended.object.context == queue.context &&
            ended.object.name == "MR " + hex_number(lkey)) {
            added.title = "lkey " + hex_number(lkey) + " is of an MR that was deregistered";
            added.events.insert(added.events.end() - 1,
                                {{.description = ended.object.name + " was registered",
                                  .stack = ended.object.creation},
                                 {.description = ended.object.name + " was deregistered",
                                  .stack = ended.destruction}});
            break;
        }
    return added;
}

bool is_within(const known_mr &mr, const ibv_sge &sge) noexcept {
    const std::uint64_t end = sge.addr + sge.length;
    return mr.end == 0 || (sge.addr >= mr.begin && end <= mr.end && end >= sge.addr);
}

void check_sge(const known_object &queue, std::uint32_t pd_handle, const posted_request &request,
               const known_mr &mr, const ibv_sge &sge, findings &result) {
    const auto add = [&](finding_kind kind, const std::string &title) {
        finding added = make_finding(kind, queue, title, post_of(request));
        added.events.insert(added.events.end() - 1,
                            {.description = mr.name + " was registered", .stack = mr.creation});
        result.push_back(std::move(added));
    };
    const std::uint64_t end = sge.addr + sge.length;
    if (!is_within(mr, sge))
        add(finding_kind::LOCAL_RANGE, "an SGE has the addresses " + range_text(sge.addr, end) +
                                           ", and its MR " + range_text(mr.begin, mr.end));
    if (is_written(request) && (mr.access & IBV_ACCESS_LOCAL_WRITE) == 0)
        add(finding_kind::LOCAL_ACCESS,
            mr.name + " was registered without IBV_ACCESS_LOCAL_WRITE, and the device is to write "
                      "to it");
    if (mr.pd_handle != pd_handle)
        add(finding_kind::LOCAL_PD, mr.name + " is of PD " + std::to_string(mr.pd_handle) +
                                        ", and " + queue.name + " of PD " +
                                        std::to_string(pd_handle));
}

named_memory memory_of(const known_mr &mr, const ibv_sge &sge) noexcept {
    named_memory named = {.mr = mr.number};
    if (mr.memory != 0 && is_within(mr, sge)) { // else the device does not access it
        named.begin = mr.memory + (sge.addr - mr.begin);
        named.end = named.begin + sge.length;
        named.can_protect =
            (mr.access & IBV_ACCESS_LOCAL_WRITE) != 0 && (mr.access & IBV_ACCESS_ON_DEMAND) == 0;
    }
    return named;
}

/// A state in which the post is refused, or the request dropped.
bool takes_no_post(ibv_qp_state state, bool is_receive) noexcept {
    return state == IBV_QPS_RESET ||
           (!is_receive && (state == IBV_QPS_INIT || state == IBV_QPS_RTR));
}

/// The CQ that all receives of the SRQ complete into; nullptr: there is none, or there are more.
known_cq *find_cq_of(process_books &books, const known_srq &srq) {
    const void *common = nullptr;
    for (const auto &[handle, qp] : books.qps) {
        if (qp.srq != srq.handle)
            continue;
        if (common != nullptr && common != qp.recv_cq)
            return nullptr;
        common = qp.recv_cq;
    }
    return books.find_cq(common);
}

/// Receives of SRQs; cq: of those of which all complete into it.
std::size_t count_srq_receives(process_books &books, const known_cq *cq) {
    std::size_t count = 0;
    for (const auto &[handle, srq] : books.srqs)
        if (!srq.receives.empty() && (cq == nullptr || find_cq_of(books, srq) == cq))
            count += srq.receives.size();
    return count;
}

void check_cq(process_books &books, known_cq &cq, const posted_request &request, findings &result) {
    const int num_entries = static_cast<const ibv_cq *>(cq.handle)->cqe; // may have been resized
    const auto is_room_for = [&](std::size_t count) {
        return count <= static_cast<std::size_t>(num_entries);
    };
    if (cq.is_overflow_reported || num_entries <= 0 ||
        is_room_for(cq.num_expected + count_srq_receives(books, nullptr)))
        return; // without a look at all QPs
    const std::size_t num_expected = cq.num_expected + count_srq_receives(books, &cq);
    if (is_room_for(num_expected))
        return;
    cq.is_overflow_reported = true;
    result.push_back(make_finding(finding_kind::CQ_OVERFLOW, cq,
                                  std::to_string(num_expected) +
                                      " completions can come before one is polled, and " + cq.name +
                                      " has " + std::to_string(num_entries) + " entries",
                                  post_of(request)));
}

} // namespace

void check_srq_capacity(process_books &books, const known_srq &srq, const posted_request &request,
                        findings &result) {
    if (known_cq *const cq = find_cq_of(books, srq))
        check_cq(books, *cq, request, result);
}

std::vector<named_memory> check_sges(process_books &books, const known_object &queue,
                                     std::uint32_t pd_handle, const posted_request &request,
                                     std::span<const ibv_sge> sges, findings &result) {
    std::vector<named_memory> named;
    for (const ibv_sge &sge : sges) {
        if (sge.length == 0)
            continue; // some devices take it for 2 GiB, and others for nothing
        const known_mr *const mr = books.find_mr(queue.context, sge.lkey);
        if (mr == nullptr) {
            result.push_back(unknown_key(books, queue, request, sge.lkey));
            continue;
        }
        named.push_back(memory_of(*mr, sge));
        check_sge(queue, pd_handle, request, *mr, sge, result);
    }
    return named;
}

void check_wr_id(const known_object &queue, const posted_request &request, findings &result) {
    constexpr std::uint64_t EACH_BYTE = 0x0101'0101'0101'0101;
    if (request.wr_id == FILL * EACH_BYTE)
        result.push_back(make_finding(finding_kind::SHORT_POLL, queue,
                                      "a request has the wr_id of an entry that ibv_poll_cq() did "
                                      "not fill in",
                                      post_of(request)));
}

void check_state(known_qp &qp, const posted_request &request, findings &result) {
    if (!takes_no_post(qp.state, request.is_receive))
        return;
    qp.state = query_state(qp); // the kernel's connection manager may have modified it
    if (takes_no_post(qp.state, request.is_receive)) {
        finding added = make_finding(finding_kind::POST_DROPPED, qp,
                                     describe_request(request) + ", is posted to " + qp.name +
                                         " in the state " + state_name(qp.state),
                                     post_of(request));
        if (qp.last_modify.depth != 0)
            added.events.insert(added.events.end() - 1,
                                {.description = std::string("it was modified, to the state ") +
                                                state_name(qp.state),
                                 .stack = qp.last_modify});
        result.push_back(std::move(added));
    }
}

void check_after_failure(known_qp &qp, const posted_request &request, findings &result) {
    if (request.is_receive || !qp.has_failed)
        return;
    // The thread that polled the error knows of it; but it may post an empty request to find out
    // when the queue has been flushed.
    const bool knows = qp.failure_thread == std::this_thread::get_id() && !request.memory.empty();
    constexpr std::size_t MANY = 3;
    ++qp.num_sends_since_failure;
    if (qp.is_failure_reported || (!knows && qp.num_sends_since_failure < MANY))
        return;
    qp.is_failure_reported = true;
    finding added =
        make_finding(finding_kind::ERROR_IGNORED, qp,
                     "a request is posted to " + qp.name +
                         " after a completion of it said: " + ibv_wc_status_str(qp.failure),
                     post_of(request));
    added.events.insert(added.events.end() - 1,
                        {.description = "that completion was polled", .stack = qp.failure_poll});
    result.push_back(std::move(added));
}

void check_capacity(process_books &books, known_qp &qp, const posted_request &request,
                    findings &result) {
    known_cq *const cq = books.find_cq(request.is_receive ? qp.recv_cq : qp.send_cq);
    // One more than the queue has: the driver refuses it, or another thread is polling a completion
    // that the books do not know yet.
    const std::size_t num_queued = request.is_receive ? qp.receives.size() : qp.sends.size();
    const std::size_t max_queued = request.is_receive ? qp.max_receives : qp.max_sends;
    if (cq != nullptr && request.is_signaled && (max_queued == 0 || num_queued <= max_queued))
        check_cq(books, *cq, request, result);
    if (!request.is_receive && qp.max_sends != 0 && qp.sends.size() == qp.max_sends &&
        qp.num_signaled == 0)
        result.push_back(
            make_finding(finding_kind::SEND_QUEUE_STUCK, qp,
                         "the send queue of " + qp.name + " has " + std::to_string(qp.max_sends) +
                             " entries, and none of the " + std::to_string(qp.sends.size()) +
                             " outstanding requests is signaled",
                         post_of(request)));
}

} // namespace coherdma::check
