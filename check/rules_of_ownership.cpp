// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory that the program uses while it is the device's.

#include "program_memory.hpp"
#include "rules.hpp"

#include "reports/text.hpp"

#include <algorithm>
#include <cstring>

namespace coherdma::check {
namespace {

using reports::count_of;
using reports::hex_number;

constexpr std::size_t MAX_COPIED = std::size_t{256} << 20; ///< bytes of all outstanding requests

bool overlaps(const named_memory &named, std::uintptr_t begin, std::uintptr_t end) noexcept {
    return named.begin < end && begin < named.end;
}

bool have_common(const posted_request &request, const posted_request &other) noexcept {
    return std::any_of(
        request.memory.begin(), request.memory.end(), [&](const named_memory &named) {
            return std::any_of(other.memory.begin(), other.memory.end(),
                               [&](const named_memory &named_by_other) {
                                   return overlaps(named_by_other, named.begin, named.end);
                               });
        });
}

/// The memory of the request that has the address; nullptr: none.
const named_memory *find_memory(const posted_request &request, std::uintptr_t addr) noexcept {
    const auto it =
        std::find_if(request.memory.begin(), request.memory.end(),
                     [addr](const named_memory &named) { return overlaps(named, addr, addr + 1); });
    return it != request.memory.end() && !request.is_returned ? &*it : nullptr;
}

call_event post_event_of(const known_object &queue, const posted_request &request) {
    return post_event(request, ", was posted to " + queue.name);
}

/// How the bytes differ from those that the request was posted with.
struct difference {
    std::size_t first = 0, last = 0, count = 0; ///< offsets in the memory
    std::byte before{}, after{};                ///< of the first
};

void add_differences(std::span<const std::byte> now, const std::byte *posted, std::size_t offset,
                     difference &result) {
    for (std::size_t i = 0; i < now.size(); ++i) {
        // Once: the program may write meanwhile.
        const std::byte current = __atomic_load_n(&now[i], __ATOMIC_RELAXED);
        if (current == posted[i])
            continue;
        result.last = offset + i;
        if (result.count++ == 0) {
            result.first = offset + i;
            result.before = posted[i];
            result.after = current;
        }
    }
}

difference compare(const posted_request &request) {
    difference result;
    const std::byte *posted = request.copy->bytes.get();
    std::size_t offset = 0; // of the memory of the SGE
    for (const named_memory &named : request.memory) {
        if (named.is_protected) // from reading, if it is a target
            page_guard::open(named.begin, named.end);
        const std::optional<program_memory> memory = program_memory::read(named.begin, named.end);
        if (!memory)
            return {};
        const std::span<const std::byte> now = memory->bytes();
        if (std::memcmp(now.data(), posted + offset, now.size()) != 0)
            add_differences(now, posted + offset, offset, result);
        offset += now.size();
    }
    return result;
}

std::string text_of(const difference &changed) {
    std::string text = "byte " + std::to_string(changed.first) + " from " +
                       hex_number(std::to_integer<unsigned>(changed.before)) + " to " +
                       hex_number(std::to_integer<unsigned>(changed.after));
    if (changed.count > 1)
        text += ", and " + std::to_string(changed.count - 1) + " more up to byte " +
                std::to_string(changed.last);
    return text;
}

/// Whether the device may execute a receive or Read of the queue, as it is.
bool can_write_now(const known_object &queue) {
    return may_execute(queue) &&
           (queue.kind != object_kind::QP ||
            query_state(static_cast<const known_qp &>(queue)) != IBV_QPS_INIT);
}

/// The finding of a target that the program has accessed.
finding describe_access(const known_object &queue, const posted_request &request,
                        const named_memory &named, const refused_access &access,
                        const stack_trace &stack) {
    finding added =
        make_finding(finding_kind::EARLY_ACCESS, queue,
                     std::string("the program ") + (access.is_write ? "writes to" : "accesses") +
                         " byte " + std::to_string(access.addr - named.begin) + " of " +
                         std::to_string(named.end - named.begin) + " of " +
                         describe_request(request) + ", which is not complete",
                     "it is accessed", stack);
    added.events.insert(added.events.end() - 1, post_event_of(queue, request));
    return added;
}

} // namespace

void copy_memory(posted_request &request) {
    std::size_t length = 0;
    for (const named_memory &named : request.memory)
        length += named.end - named.begin;
    if (length == 0 || length > MAX_COPIED - memory_copy::total)
        return;
    const auto copy = std::make_shared<memory_copy>(length);
    std::byte *rest = copy->bytes.get();
    for (const named_memory &named : request.memory) {
        const std::optional<program_memory> memory = program_memory::read(named.begin, named.end);
        if (!memory)
            return;
        rest = std::copy(memory->bytes().begin(), memory->bytes().end(), rest);
    }
    request.copy = copy;
}

void check_change(const known_object &queue, const posted_request &request, findings &result) {
    if (request.copy == nullptr || request.is_returned)
        return;
    const difference changed = compare(request);
    if (changed.count == 0)
        return;
    const bool is_target = is_written(request);
    finding added =
        make_finding(is_target ? finding_kind::EARLY_ACCESS : finding_kind::SOURCE_CHANGED, queue,
                     std::string("the ") + (is_target ? "target" : "source") + " of " +
                         describe_request(request) +
                         ", changed before its completion was polled: " + text_of(changed),
                     "");
    added.events.back() = post_event_of(queue, request);
    added.events.back().posted = posted_state::COMPLETE;
    if (const stack_trace &change = request.copy->change; change.depth != 0)
        added.events.push_back({.description = "the program wrote to it", .stack = change});
    result.push_back(std::move(added));
}

const posted_request *find_earlier_target(const process_books &books, const known_object &queue,
                                          const posted_request &request) {
    const posted_request *earlier = nullptr;
    if (request.is_fenced)
        books.for_each_request([&](const known_object &other_queue, const posted_request &other) {
            if (&other_queue == &queue && waits_for(request, other) && have_common(request, other))
                earlier = &other;
            return earlier != nullptr;
        });
    return earlier;
}

bool shares_target(process_books &books, const posted_request &request) {
    const auto is_target = [&](const named_memory &named) { // of another
        return books.owned.conflicts(named.begin, named.end, memory_use::SOURCE);
    };
    if (std::none_of(request.memory.begin(), request.memory.end(), is_target))
        return false;
    books.for_each_request([&](const known_object &, posted_request &other) {
        if (is_written(other) && have_common(request, other))
            other.copy.reset();
        return false;
    });
    return true;
}

void check_overlap(const process_books &books, const known_object &queue,
                   const posted_request &request, findings &result) {
    const memory_use use = is_written(request) ? memory_use::TARGET : memory_use::SOURCE;
    const auto conflicts = [&](const named_memory &named) {
        return books.owned.conflicts(named.begin, named.end, use);
    };
    const auto it = std::find_if(request.memory.begin(), request.memory.end(), conflicts);
    if (it == request.memory.end())
        return;
    books.for_each_request([&](const known_object &other_queue, const posted_request &other) {
        if (other.is_returned || !(is_written(other) || is_written(request)) ||
            (&other_queue == &queue && waits_for(request, other)))
            return false;
        const auto common =
            std::find_if(other.memory.begin(), other.memory.end(), [&](const named_memory &named) {
                return overlaps(named, it->begin, it->end);
            });
        if (common == other.memory.end() || (&other_queue != &queue && !may_execute(other_queue)))
            return false;
        const std::size_t length =
            std::min(it->end, common->end) - std::max(it->begin, common->begin);
        finding added = make_finding(finding_kind::OVERLAP, queue,
                                     describe_request(request) + ", has " +
                                         count_of(length, "byte") + " in common with " +
                                         describe_request(other) + ", which is not complete",
                                     describe_request(request) + ", is posted");
        added.events.back().posted = posted_state::OUTSTANDING;
        added.events.insert(added.events.end() - 1, post_event_of(other_queue, other));
        result.push_back(std::move(added));
        return true;
    });
}

bool check_access(process_books &books, const refused_access &access, findings &result) {
    if (!books.owned.pages().is_protected(access.addr))
        return false;
    page_guard::open(access.addr, access.addr + 1);
    const stack_trace stack = {access.has_small_stack ? stack_trace::of_instruction(access.code)
                                                      : stack_trace::of_interrupted(access.code),
                               read_ticks()};
    books.for_each_request([&](const known_object &queue, posted_request &request) {
        const named_memory *const named = find_memory(request, access.addr);
        if (named == nullptr)
            return false;
        page_guard::open(named->begin, named->end); // once is enough
        if (!is_written(request)) {
            if (request.copy != nullptr && request.copy->change.depth == 0)
                request.copy->change = stack;
            return false;
        }
        request.copy.reset(); // the access is reported: its effect is the same mistake
        if (can_write_now(queue))
            result.push_back(describe_access(queue, request, *named, access, stack));
        return true;
    });
    return true;
}

void forget_memory(process_books &books, std::uintptr_t begin, std::uintptr_t end) {
    if (!books.owned.is_owned(begin, end))
        return;
    books.owned.forget(begin, end);
    books.for_each_request([&](const known_object &, posted_request &request) {
        for (const named_memory &named : request.memory)
            if (overlaps(named, begin, end))
                request.copy.reset();
        return false;
    });
}

} // namespace coherdma::check
