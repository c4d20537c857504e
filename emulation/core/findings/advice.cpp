// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "advice.hpp"

#include "event_history.hpp"
#include "format.hpp"
#include "reports/suppressions.hpp"
#include "reports/symbols.hpp"

#include <algorithm>
#include <filesystem>

namespace coherdma::emulation {

using namespace reports;

namespace {

namespace fs = std::filesystem;
using frame_list = std::vector<std::string>;

/// The call that the finding misses, as libcoherdma or uDAPL names it.
std::string missing_call(const finding &finding) {
    const bool is_atomic = finding.missing_before < finding.history.size() &&
                           finding.history[finding.missing_before]->kind == event_kind::PEER_ATOMIC;
    const bool is_udapl = is_of_udapl(finding.mr.reg_stack);
    switch (finding.kind) {
    case finding_kind::UNSYNCED_READ:
    case finding_kind::DISCARDED:
        if (is_udapl)
            return is_atomic ? "dat_lmr_sync_rdma_write(ia, &segment, 1)"
                             : "dat_lmr_sync_rdma_read(ia, &segment, 1)";
        return is_atomic ? "coherdma_sync_before_write(device, &range, 1)"
                         : "coherdma_sync_before_read(device, &range, 1)";
    case finding_kind::UNSYNCED_WRITE:
        return is_udapl ? "dat_lmr_sync_rdma_write(ia, &segment, 1)"
                        : "coherdma_sync_before_write(device, &range, 1)";
    case finding_kind::STALE:
    case finding_kind::CONFLICT: // sufficient in both places
        return is_udapl ? "dat_lmr_sync_rdma_write(ia, &segment, 1)"
                        : "coherdma_sync_after_write(device, &range, 1)";
    case finding_kind::UNSYNCED_SOURCE:
        return "coherdma_sync_for_device(device, &range, 1, COHERDMA_TO_DEVICE)";
    case finding_kind::UNSYNCED_SINK:
        return "coherdma_sync_for_device(device, &range, 1, COHERDMA_FROM_DEVICE)";
    case finding_kind::STALE_SINK:
    case finding_kind::CONFLICT_SINK:
        return "coherdma_sync_for_cpu(device, &range, 1, COHERDMA_FROM_DEVICE)";
    case finding_kind::SHARED_LINE:
    case finding_kind::BESIDE:
    case finding_kind::REDUNDANT:
        break;
    }
    return "";
}

/// Whether the sync belongs directly before the second of the two calls, not after the first.
bool is_before_request(finding_kind kind) noexcept {
    return kind == finding_kind::UNSYNCED_READ || kind == finding_kind::UNSYNCED_WRITE ||
           kind == finding_kind::UNSYNCED_SOURCE || kind == finding_kind::UNSYNCED_SINK ||
           kind == finding_kind::DISCARDED;
}

std::size_t first_with_source(const frame_list &stack) {
    for (std::size_t i = 0; i < stack.size(); ++i)
        if (!parse_frame(stack[i]).file.empty())
            return i;
    return 0;
}

/// The file and line as a compiler prints them: from the current folder, if they are in it.
std::string path_of(const source_frame &frame) {
    std::error_code error;
    const std::string folder = fs::current_path(error).string() + "/";
    const std::string file =
        !error && frame.file.starts_with(folder) ? frame.file.substr(folder.size()) : frame.file;
    return file + ":" + std::to_string(frame.line);
}

/// "transfer" of "ns::(anonymous namespace)::transfer(int) (/src/a.cpp:5)".
std::string plain_name(const std::string &frame_text) {
    constexpr std::string_view ANONYMOUS = "(anonymous namespace)::";
    std::string name = function_of(frame_text);
    for (std::size_t pos = 0; (pos = name.find(ANONYMOUS)) != std::string::npos;)
        name.erase(pos, ANONYMOUS.size());
    name = name.substr(0, name.find_first_of("(<"));
    return name.substr(name.rfind(':') + 1);
}

/// "the completion polled at mailbox.c:160 in transfer()"
std::string sentence_of(const described_call &place, std::size_t frame_index) {
    std::string text = place.description;
    if (!place.location.empty())
        text += " at " + place.location;
    if (!place.location.empty() && frame_index > 0)
        text += " in " + plain_name(place.stack[frame_index - 1]) + "()";
    return text;
}

/// "between A and B", "after A", "before B".
std::string interval_of(const advice &given, naming_frames index) {
    const described_call &after = given.after, &before = given.before;
    const std::string first = sentence_of(after, index.after),
                      second = sentence_of(before, index.before);
    if (first.empty() || second.empty())
        return first.empty() ? (second.empty() ? "" : "before " + second) : "after " + first;
    if (!after.location.empty() && after.location == before.location) { // in a loop
        const std::string noun = before.description.substr(before.description.find(' ') + 1);
        return "between " + first + " and the next " + noun + " there";
    }
    return "between " + first + " and " + second;
}

/// A line of source, not too long.
std::string shorten(std::string text) {
    constexpr std::size_t MAX_LENGTH = 45;
    text = trim(text);
    if (text.ends_with(';'))
        text.pop_back();
    return text.size() <= MAX_LENGTH ? text : text.substr(0, MAX_LENGTH) + "...";
}

/// Whether the text of a line has a call of the function, and what is before it.
bool find_call(const std::string &text, const std::string &function, std::string &prefix) {
    const std::size_t pos = function.empty() ? std::string::npos : text.find(function + "(");
    prefix = text.substr(0, pos);
    return pos != std::string::npos;
}

/// The line of source that gives the region its name: that of the registration; or that of a caller
/// which assigns what is returned.
std::string source_of_registration(const frame_list &stack, source_files &files) {
    std::string name, prefix;
    for (std::size_t i = 0; i < stack.size(); ++i) {
        const source_frame frame = parse_frame(stack[i]);
        const std::string text = files.line(frame.file, frame.line);
        if (i > 0 && !find_call(text, plain_name(stack[i - 1]), prefix))
            break;
        const bool is_assigned = prefix.find('=') != std::string::npos;
        if (i > 0 && !is_assigned && prefix.find("return") == std::string::npos)
            break;
        if (i == 0 ? !text.empty() : is_assigned)
            name = shorten(text) + " (" + location_of(stack[i]) + ")";
    }
    return name;
}

/// A variable, what allocated the memory, or the source of its registration.
std::string find_region_name(const memory_region &mr, const frame_list &reg_stack,
                             source_files &files) {
    if (std::string variable = describe_data(mr.range.begin); !variable.empty())
        return variable;
    if (const frame_list allocated = to_strings(mr.alloc_stack); !allocated.empty()) {
        const auto readable =
            std::find_if(allocated.begin(), allocated.end(), [&](const std::string &text) {
                const source_frame frame = parse_frame(text);
                return files.has_line(frame.file, frame.line); // the allocator's is not
            });
        const std::string &call = readable != allocated.end() ? *readable : allocated.front();
        const source_frame frame = parse_frame(call);
        const std::string text = shorten(files.line(frame.file, frame.line));
        return (text.empty() ? function_of(call) : text) + " (allocated at " + location_of(call) +
               ")";
    }
    return source_of_registration(reg_stack, files);
}

/// The line of a file of suppressions for findings with this kind, device and function.
std::string suppression_of(const finding &finding, const frame_list &reg_stack) {
    std::string line =
        std::string(kind_name(finding.kind)) + ":" + pattern_of(finding.mr.device_name);
    for (const frame_list &stack :
         {frames_of(finding.request), frames_of(finding.last_sync), reg_stack})
        if (!stack.empty())
            return line + ":" + pattern_of(function_of(stack.front()));
    return line;
}

} // namespace

naming_frames find_naming_frames(const frame_list &after, const frame_list &before) {
    const naming_frames innermost = {first_with_source(after), first_with_source(before)};
    naming_frames common = innermost;
    for (std::size_t i = 1; i <= std::min(after.size(), before.size()); ++i) {
        const naming_frames index = {after.size() - i, before.size() - i};
        const source_frame first = parse_frame(after[index.after]),
                           second = parse_frame(before[index.before]);
        if (first.file.empty() && after[index.after] == before[index.before])
            continue; // the same call of a library
        if (first.file.empty() || first.file != second.file || first.function != second.function)
            return innermost;
        common = index;
        if (first.line != second.line)
            break;
    }
    return common;
}

std::string advice::first_line() const {
    if (call.empty())
        return "";
    return (path.empty() ? "coherdma" : path) + ": insert " + call + ";";
}

const stack_trace &insertion_stack(const finding &finding) noexcept {
    const bool is_first = is_before_request(finding.kind) ? finding.before.stack.depth == 0
                                                          : finding.after.stack.depth != 0;
    return is_first ? finding.after.stack : finding.before.stack;
}

advice make_advice(const finding &finding, source_files &files) {
    const frame_list reg_stack = to_strings(finding.mr.reg_stack);
    advice given;
    given.call = missing_call(finding);
    given.region_name = find_region_name(finding.mr, reg_stack, files);
    given.suppression = suppression_of(finding, reg_stack);
    if (given.call.empty())
        return given;
    given.after.description = finding.after.text;
    given.after.stack = to_strings(finding.after.stack);
    given.before.description = finding.before.text;
    given.before.stack = to_strings(finding.before.stack);
    const naming_frames index = find_naming_frames(given.after.stack, given.before.stack);
    set_frame(given.after, index.after, files);
    set_frame(given.before, index.before, files);
    given.interval = interval_of(given, index);
    const described_call &place =
        &insertion_stack(finding) == &finding.after.stack ? given.after : given.before;
    given.frame = place.frame;
    given.path = place.frame.file.empty() ? place.location : path_of(place.frame);
    return given;
}

} // namespace coherdma::emulation
