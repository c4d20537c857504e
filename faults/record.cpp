// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "record.hpp"

#include "names.hpp"
#include "reports/symbols.hpp"
#include "reports/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

namespace coherdma::faults {
namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t MAX_LINES = 100; ///< of one fault; more are only counted
constexpr int IS_DONE = 1;               ///< an event that counts as a fault that was made

const char *name_of(const interposer::request &posted) noexcept {
    if (posted.is_receive)
        return "receive";
    switch (posted.opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_SEND_WITH_INV:
        return "send";
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return "write";
    case IBV_WR_RDMA_READ:
        return "read";
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return "atomic";
    default:
        return "request";
    }
}

const char *name_of(interposer::object_kind kind) noexcept {
    using interposer::object_kind;
    switch (kind) {
    case object_kind::CONTEXT:
        return "context";
    case object_kind::PD:
        return "PD";
    case object_kind::MR:
        return "MR";
    case object_kind::MW:
        return "MW";
    case object_kind::CHANNEL:
        return "completion channel";
    case object_kind::CQ:
        return "CQ";
    case object_kind::SRQ:
        return "SRQ";
    case object_kind::QP:
        return "QP";
    case object_kind::AH:
        return "AH";
    case object_kind::CM_ID:
        return "cm_id";
    }
    return "object";
}

/// Where the program makes a call: also if that is in an inline function of verbs.h, which is a
/// real function of a program that is not optimized.
std::string describe_place(const reports::stack_trace &stack) {
    const std::vector<std::string> frames = reports::to_strings(stack);
    return frames.empty() ? "??" : frames.front();
}

bool are_equal(const reports::stack_trace &a, const reports::stack_trace &b) noexcept {
    return a.depth == b.depth &&
           std::equal(a.frames.begin(), a.frames.begin() + a.depth, b.frames.begin());
}

std::string dump(const json &line) {
    return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

} // namespace

struct record::entry {
    json members;
    std::string text; ///< for a person
};

record::record(std::string log_file, bool records_calls)
    : records_calls_(records_calls)
    , log_(log_file)
    , has_log_(!log_file.empty()) {}

record::entry record::begin_entry(const fault &done) const {
    const std::chrono::duration<double> elapsed = clock::now() - begin_;
    return {.members = {{"pid", getpid()},
                        {"program", program_invocation_short_name},
                        {"time", elapsed.count()},
                        {"fault", done.text}},
            .text = {}};
}

record::fault_counts &record::counts_of(std::size_t fault_index) {
    if (counts_.size() <= fault_index)
        counts_.resize(fault_index + 1);
    return counts_[fault_index];
}

bool record::wants_line(const fault &counted, int done) {
    const std::lock_guard guard(mutex_);
    fault_counts &counts = counts_of(counted.index);
    counts.done += static_cast<std::uint64_t>(done);
    return ++counts.events <= MAX_LINES && !is_ended_;
}

void record::write_line(const std::string &json_line) {
    const std::string problem = log_.write(json_line + "\n");
    if (!problem.empty() && !std::exchange(has_problem_, true))
        reports::write_text(STDERR_FILENO, "coherdma: " + problem + "\n");
}

void record::write(const fault &done, const entry &written) {
    const std::lock_guard guard(mutex_);
    if (is_ended_)
        return;
    if (has_log_) {
        json line = written.members;
        line["text"] = written.text;
        write_line(dump(line));
        return;
    }
    reports::write_text(STDERR_FILENO, "coherdma: " + done.text + ": " + written.text + "\n");
}

void record::note_call(const due_fault &due, const char *call) {
    if (!wants_line(*due.cause, IS_DONE))
        return;
    entry line = begin_entry(*due.cause);
    line.members["call"] = call;
    line.members["number"] = due.count;
    line.text = std::string(call) + " number " + std::to_string(due.count);
    if (due.cause->effect == action::FAIL) {
        line.members["error"] = name_of_errno(due.cause->error);
        line.text += " failed with " + name_of_errno(due.cause->error);
    } else {
        line.members["delay"] = std::chrono::duration<double>(due.cause->duration).count();
        line.text += " waited";
    }
    if (records_calls_)
        line.members["place"] = describe_place(reports::stack_trace::capture());
    write(*due.cause, line);
}

void record::note_request(const due_fault &due, const interposer::request &posted,
                          std::uint32_t qp_num) {
    // A receive fails only when a message comes.
    if (!wants_line(*due.cause, posted.is_receive ? 0 : IS_DONE))
        return;
    entry line = begin_entry(*due.cause);
    line.members["posted"] = name_of(posted);
    line.members["number"] = due.count;
    line.members["wr_id"] = posted.wr_id;
    line.members["qp_num"] = qp_num;
    line.text = std::string(name_of(posted)) + " number " + std::to_string(due.count) + " of " +
                (qp_num != 0 ? "QP " + reports::hex_number(qp_num) : "an SRQ") +
                " was posted to fail";
    write(*due.cause, line);
}

void record::note_completion(const fault &done, const interposer::request &completed,
                             std::uint32_t qp_num) {
    if (!wants_line(done, completed.is_receive ? IS_DONE : 0))
        return;
    entry line = begin_entry(done);
    line.members["completed"] = name_of(completed);
    line.members["status"] = name_of_status(done.error);
    line.members["wr_id"] = completed.wr_id;
    line.members["qp_num"] = qp_num;
    line.text = std::string("the completion of a ") + name_of(completed) + " of QP " +
                reports::hex_number(qp_num) + " has the status " + name_of_status(done.error);
    write(done, line);
}

void record::note_failed_attempt(const fault &done, const interposer::request &posted,
                                 const char *reason) {
    if (!wants_line(done, posted.is_receive ? 0 : -IS_DONE))
        return;
    entry line = begin_entry(done);
    line.members["not_done"] = reason;
    line.members["posted"] = name_of(posted);
    line.members["wr_id"] = posted.wr_id;
    line.text = std::string("the ") + name_of(posted) + " did not fail: " + reason;
    write(done, line);
}

void record::note_event(const fault &delivered, const char *device) {
    if (!wants_line(delivered, IS_DONE))
        return;
    entry line = begin_entry(delivered);
    line.members["event"] = name_of_event(delivered.event);
    line.members["device"] = device;
    line.text = "event " + name_of_event(delivered.event) + " of " + device;
    write(delivered, line);
}

void record::note_failed_event(const fault &failed, const char *device, const std::string &reason) {
    if (!wants_line(failed, 0))
        return;
    entry line = begin_entry(failed);
    line.members["not_done"] = reason;
    line.members["device"] = device;
    line.text = "no event " + name_of_event(failed.event) + " of " + device + ": " + reason;
    write(failed, line);
}

void record::note_late_queue(const fault &cause, std::uint64_t qp_number) {
    if (!wants_line(cause, IS_DONE))
        return;
    entry line = begin_entry(cause);
    line.members["late"] = qp_number;
    line.members["delay"] = std::chrono::duration<double>(cause.duration).count();
    line.text =
        "the device gets the requests of queue pair number " + std::to_string(qp_number) + " late";
    write(cause, line);
}

void record::note_limit(const fault &limit) {
    if (!wants_line(limit, IS_DONE))
        return;
    entry line = begin_entry(limit);
    line.members["limit"] = limit.limit;
    line.text =
        "the device told the program that " + limit.limit + " is " + std::to_string(limit.value);
    write(limit, line);
}

void record::note_refusal(const fault &limit, int error, std::uint64_t asked) {
    if (!wants_line(limit, IS_DONE))
        return;
    entry line = begin_entry(limit);
    line.members["limit"] = limit.limit;
    line.members["asked"] = asked;
    line.members["error"] = name_of_errno(error);
    line.text = "a call failed with " + name_of_errno(error) + ": it asked for " + limit.limit +
                " " + std::to_string(asked);
    write(limit, line);
}

void record::note_device(const char *device) {
    const std::lock_guard guard(mutex_);
    if (std::exchange(has_device_, true) || !has_log_ || is_ended_)
        return;
    // At once: the process may end without a summary.
    write_line(
        dump({{"opened", true}, {"device", device}, {"program", program_invocation_short_name}}));
}

void record::add_call(const char *call) {
    if (!records_calls_)
        return;
    const reports::stack_trace stack = reports::stack_trace::capture();
    const std::lock_guard guard(mutex_);
    const std::uint64_t number = ++num_calls_[call];
    const auto known = std::find_if(calls_.begin(), calls_.end(), [&](const recorded_call &each) {
        return each.name == call && are_equal(each.stack, stack);
    });
    if (known != calls_.end())
        ++known->count;
    else
        calls_.push_back({.name = call, .stack = stack, .first = number, .count = 1});
}

void record::add_object(interposer::object_kind kind) {
    const std::lock_guard guard(mutex_);
    ++objects_[kind];
}

void record::remove_object(interposer::object_kind kind) {
    const std::lock_guard guard(mutex_);
    --objects_[kind];
}

void record::write_summary(const plan &schedule) {
    const std::lock_guard guard(mutex_);
    if (std::exchange(is_ended_, true) || !has_log_)
        return;
    json calls = json::array(), faults = json::array(), left = json::object();
    for (const fault &each : schedule.faults())
        faults.push_back({{"fault", each.text},
                          {"counted", schedule.num_counted(each.index)},
                          {"done", counts_of(each.index).done}});
    for (const recorded_call &call : calls_)
        calls.push_back({{"call", call.name},
                         {"place", describe_place(call.stack)},
                         {"first", call.first},
                         {"count", call.count}});
    for (const auto &[kind, count] : objects_)
        if (count > 0)
            left[name_of(kind)] = count;
    write_line(dump({{"summary",
                      {{"program", program_invocation_short_name},
                       {"device", has_device_},
                       {"faults", faults},
                       {"left", left},
                       {"calls", calls}}}}));
}

} // namespace coherdma::faults
