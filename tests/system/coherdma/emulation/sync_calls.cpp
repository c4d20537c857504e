// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sync_calls.hpp"

#include "../../lib/verbs.hpp"

#include <algorithm>
#include <infiniband/verbs.h>
#include <unistd.h>

namespace synced {

const std::vector<phase> PHASES = {
    {"send", operation::MESSAGES, true},
    {"write", operation::WRITES, true},
    {"write-imm", operation::WRITES, false},
    {"read", operation::READS, true},
    {"unsignalled", operation::BOTH, true},
    {"fetch-add", operation::ATOMIC, false},
    {"compare-swap", operation::ATOMIC, false},
    {"window", operation::BOTH, false},
    {"srq", operation::BOTH, true},
    {"parts", operation::BOTH, true},
    {"cq-ex", operation::BOTH, true},
    {"threads", operation::BOTH, true, true},
};

namespace {

// The sync calls of the side whose memory the peer accesses.
std::vector<kind> kinds_of(operation op) {
    switch (op) {
    case operation::MESSAGES:
        return {};
    case operation::ATOMIC:
        return {kind::READ, kind::WRITE_AFTER};
    case operation::WRITES:
        return {kind::WRITE_BEFORE, kind::WRITE_AFTER};
    case operation::READS:
        return {kind::READ};
    case operation::BOTH:
        return {kind::WRITE_BEFORE, kind::WRITE_AFTER, kind::READ};
    }
    return {};
}

const char *name_of(kind k) noexcept {
    switch (k) {
    case kind::READ:
        return "read";
    case kind::WRITE_BEFORE:
        return "write-before";
    case kind::WRITE_AFTER:
        return "write-after";
    }
    return "?";
}

std::uint32_t coherdma_phase_of(kind k) noexcept {
    switch (k) {
    case kind::READ:
        return COHERDMA_BEFORE_READ;
    case kind::WRITE_BEFORE:
        return COHERDMA_BEFORE_WRITE;
    case kind::WRITE_AFTER:
        return COHERDMA_AFTER_WRITE;
    }
    return 0;
}

decltype(coherdma_sync_before_read) *sync_function_of(kind k) noexcept {
    switch (k) {
    case kind::READ:
        return coherdma_sync_before_read;
    case kind::WRITE_BEFORE:
        return coherdma_sync_before_write;
    case kind::WRITE_AFTER:
        return coherdma_sync_after_write;
    }
    return nullptr;
}

// The call's number selects one of the API's variants, so that all are used.
void make_sync_call(const coherdma_device *device, unsigned number, kind type,
                    const coherdma_range *ranges, std::size_t count) {
    coherdma_batch batch;
    if (number % 2 == 0) {
        verbs_test::check(sync_function_of(type)(device, ranges, count), "sync");
        return;
    }
    coherdma_batch_begin(&batch, device);
    coherdma_batch_add(&batch, ranges, count, coherdma_phase_of(type));
    verbs_test::check(coherdma_batch_end(&batch), "sync");
}

} // namespace

const char *name_of(side s) noexcept {
    return s == side::SERVER ? "server" : "client";
}

const std::vector<sync_call> &sync_calls() {
    static const std::vector<sync_call> calls = [] {
        std::vector<sync_call> result;
        for (const phase &p : PHASES)
            for (const side process_side : {side::SERVER, side::CLIENT})
                for (const kind type : kinds_of(p.op))
                    result.push_back(
                        {static_cast<unsigned>(result.size() + 1), &p, process_side, type});
        return result;
    }();
    return calls;
}

void print_calls(bool iwarp) {
    for (const sync_call &c : sync_calls())
        if (!iwarp || c.phase_info->iwarp)
            print_line(verbs_test::concat(c.number, '\t', c.phase_info->name, '\t',
                                          name_of(c.process_side), '\t', name_of(c.type), '\t',
                                          c.phase_info->name));
}

void syncer::operator()(const phase &p, kind type, const std::byte *begin,
                        std::size_t length) const {
    for (const sync_call &c : sync_calls()) {
        if (c.phase_info != &p || c.process_side != self_ || c.type != type)
            continue;
        if (std::ranges::find(skipped_, c.number) != skipped_.end()) {
            print_line(verbs_test::concat("without ", c.number, ' ', begin, ' ', length, ' ',
                                          name_of(self_)));
            return;
        }
        // The two ranges share a line.
        const std::size_t first = length / 2 + 1;
        const coherdma_range ranges[] = {{.addr = begin, .length = first},
                                         {.addr = begin + first, .length = length - first}};
        make_sync_call(device_, c.number, type, ranges, std::size(ranges));
        return;
    }
    throw verbs_test::failure(verbs_test::concat("no such sync call in ", p.name));
}

const char *name_of(local_kind k) noexcept {
    switch (k) {
    case local_kind::SEND:
        return "send";
    case local_kind::RECV_BEFORE:
        return "recv-before";
    case local_kind::RECV_AFTER:
        return "recv-after";
    case local_kind::SOURCE:
        return "source";
    case local_kind::SINK_BEFORE:
        return "sink-before";
    case local_kind::SINK_AFTER:
        return "sink-after";
    }
    return "?";
}

void local_syncer::sync_always(local_kind k, const ibv_sge *list, std::size_t count) const {
    if (device_ == nullptr)
        return;
    const bool is_after = k == local_kind::RECV_AFTER || k == local_kind::SINK_AFTER;
    const bool is_source = k == local_kind::SEND || k == local_kind::SOURCE;
    const std::uint32_t direction = is_source ? COHERDMA_TO_DEVICE : COHERDMA_FROM_DEVICE;
    std::vector<coherdma_range> ranges;
    for (std::size_t i = 0; i < count; ++i)
        ranges.push_back(
            {.addr = reinterpret_cast<const void *>(list[i].addr), .length = list[i].length});
    verbs_test::check((is_after ? coherdma_sync_for_cpu : coherdma_sync_for_device)(
                          device_, ranges.data(), count, direction),
                      "sync of local memory");
}

void local_syncer::operator()(local_kind k, const ibv_sge *ranges, std::size_t count) const {
    if (skipped_ != name_of(k))
        return sync_always(k, ranges, count);
    for (std::size_t i = 0; i < count; ++i)
        print_line(verbs_test::concat("without ", name_of(k), " 0x", std::hex, ranges[i].addr,
                                      std::dec, ' ', ranges[i].length, ' ', name_of(self_)));
}

void print_line(const std::string &line) {
    const std::string text_line = line + "\n";
    if (write(STDOUT_FILENO, text_line.data(), text_line.size()) < 0)
        _exit(2);
}

} // namespace synced
