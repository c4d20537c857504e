// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sites.hpp"

#include "../verbs.hpp"

#include <infiniband/verbs.h>
#include <unistd.h>

namespace synced {

const std::vector<phase> PHASES = {
    {"send", work::MESSAGES, true},
    {"write", work::WRITES, true},
    {"write-imm", work::WRITES, false},
    {"read", work::READS, true},
    {"unsignalled", work::BOTH, true},
    {"fetch-add", work::ATOMIC, false},
    {"compare-swap", work::ATOMIC, false},
    {"window", work::BOTH, false},
    {"srq", work::BOTH, true},
    {"parts", work::BOTH, true},
    {"cq-ex", work::BOTH, true},
    {"threads", work::BOTH, true, true},
};

namespace {

std::vector<kind> kinds_of(work which) {
    switch (which) {
    case work::MESSAGES:
        return {};
    case work::ATOMIC:
        return {kind::READ, kind::WRITE_AFTER};
    case work::WRITES:
        return {kind::WRITE_BEFORE, kind::WRITE_AFTER};
    case work::READS:
        return {kind::READ};
    case work::BOTH:
        return {kind::WRITE_BEFORE, kind::WRITE_AFTER, kind::READ};
    }
    return {};
}

const char *name_of(kind which) noexcept {
    switch (which) {
    case kind::READ:
        return "read";
    case kind::WRITE_BEFORE:
        return "write-before";
    case kind::WRITE_AFTER:
        return "write-after";
    }
    return "?";
}

std::uint32_t phase_of(kind which) noexcept {
    switch (which) {
    case kind::READ:
        return COHERDMA_BEFORE_READ;
    case kind::WRITE_BEFORE:
        return COHERDMA_BEFORE_WRITE;
    case kind::WRITE_AFTER:
        return COHERDMA_AFTER_WRITE;
    }
    return 0;
}

void call(const coherdma_device *device, unsigned number, kind is, const ibv_sge *list,
          std::size_t count) {
    const std::uint32_t phases[] = {phase_of(is), phase_of(is)};
    coherdma_batch batch;
    switch (number % 3) {
    case 0:
        carry::check(is == kind::READ ? coherdma_sync_rdma_read(device, list, count)
                                      : coherdma_sync_rdma_write(device, list, count),
                     "sync");
        return;
    case 1:
        carry::check(coherdma_sync(device, list, phases, count), "sync");
        return;
    default:
        coherdma_batch_begin(&batch, device);
        carry::check(coherdma_batch_add(&batch, list, count, phase_of(is)), "sync");
        coherdma_batch_end(&batch);
    }
}

} // namespace

const char *name_of(side which) noexcept {
    return which == side::SERVER ? "server" : "client";
}

const std::vector<site> &sites() {
    static const std::vector<site> all = [] {
        std::vector<site> made;
        for (const phase &in : PHASES)
            for (const side by : {side::SERVER, side::CLIENT})
                for (const kind is : kinds_of(in.does))
                    made.push_back({static_cast<unsigned>(made.size() + 1), &in, by, is});
        return made;
    }();
    return all;
}

void list(bool iwarp) {
    for (const site &each : sites())
        if (!iwarp || each.in->iwarp)
            say(carry::text(each.number, '\t', each.in->name, '\t', name_of(each.by), '\t',
                            name_of(each.is), '\t', each.in->name));
}

void syncing::operator()(const phase &in, kind is, const std::byte *begin,
                         std::size_t length) const {
    for (const site &each : sites()) {
        if (each.in != &in || each.by != me_ || each.is != is)
            continue;
        if (each.number == without_) {
            say(carry::text("without ", each.number, ' ', begin, ' ', length, ' ', name_of(me_)));
            return;
        }
        // In two ranges that share a line.
        const auto first = static_cast<std::uint32_t>(length / 2 + 1);
        const auto at = reinterpret_cast<std::uintptr_t>(begin);
        const ibv_sge ranges[] = {{at, first, 0},
                                  {at + first, static_cast<std::uint32_t>(length - first), 0}};
        call(device_, each.number, is, ranges, 2);
        return;
    }
    throw carry::failure(carry::text("no such sync in ", in.name));
}

void say(const std::string &line) {
    const std::string whole = line + "\n";
    if (write(STDOUT_FILENO, whole.data(), whole.size()) < 0)
        _exit(2);
}

} // namespace synced
