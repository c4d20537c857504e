// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A device is looked at once, when it is opened: which it is, what the rules say of it, and which
// instructions sync will use.

#include "coherency/emulation.hpp"
#include "copy_out.hpp"
#include "cpu.hpp"
#include "device.hpp"
#include "devices/devices.hpp"
#include "memory.hpp"

#include <cerrno>
#include <cstdlib>
#include <exception>
#include <infiniband/verbs.h>
#include <memory>
#include <new>
#include <sys/utsname.h>

namespace {

using coherdma::api::fail;
using namespace coherdma;

constexpr std::uint64_t KNOWN_FLAGS = COHERDMA_OPEN_QUERY_ONLY | COHERDMA_OPEN_ALL_RULES |
                                      COHERDMA_OPEN_CHECK_MEMORY | COHERDMA_OPEN_ASSUME;

bool is_set(const coherdma_open_attr &wanted, std::uint64_t flag) {
    return (wanted.flags & flag) != 0;
}

bool check_memory_by_environment() {
    const char *value = secure_getenv("COHERDMA_CHECK");
    return value && *value && std::string(value) != "0";
}

int check_mapped(const coherdma_device &, const cache::range *ranges, std::size_t count) noexcept {
    return api::check_mapped(ranges, count);
}

int check_played(const coherdma_device &device, const cache::range *ranges,
                 std::size_t count) noexcept {
    std::uintptr_t where = 0;
    const int error = device.emulation->check(ranges, count, &where);
    if (error == 0)
        return 0;
    return fail(error, "one of the ranges has no memory that can be read at %p",
                reinterpret_cast<void *>(where));
}

int understand(const coherdma_open_attr &wanted) {
    const bool any = wanted.context || wanted.name;
    if ((wanted.flags & ~KNOWN_FLAGS) != 0)
        return fail(EINVAL, "flags 0x%llx are not known to this libcoherdma",
                    static_cast<unsigned long long>(wanted.flags & ~KNOWN_FLAGS));
    if (is_set(wanted, COHERDMA_OPEN_ASSUME)) {
        if (any)
            return fail(EINVAL, "COHERDMA_OPEN_ASSUME is for no device, but one is given");
        if (wanted.assume > COHERDMA_NON_COHERENT)
            return fail(EINVAL, "assume is %u, which is no verdict", wanted.assume);
    } else if (!any) {
        return fail(EINVAL, "no device is given, neither a context nor a name");
    }
    return 0;
}

int find(const coherdma_open_attr &wanted, coherdma_device &into) {
    into.name = wanted.context ? ibv_get_device_name(wanted.context->device) : wanted.name;
    for (const devices::device &each : devices::all()) {
        if (each.name == into.name) {
            into.driver = each.driver;
            into.transport = each.transport;
            return 0;
        }
    }
    if (wanted.context)
        return 0; // it is there, whatever the kernel lets us see of it
    return fail(ENODEV, "there is no RDMA device '%.64s' here; coherdma show lists those there are",
                into.name.c_str());
}

int decide(const coherdma_open_attr &wanted, coherdma_device &into) {
    const coherency::settings told = coherency::read_settings();
    if (!told.problem.empty())
        return fail(told.error, "%s", told.problem.c_str());
    utsname system = {};
    uname(&system);
    coherency::subject subject;
    subject.name = into.name;
    subject.driver = into.driver;
    subject.machine = system.machine;
    subject.release = system.release;
    subject.told = &told;
    subject.context = wanted.context;
    subject.registers = coherency::register_page;
    into.answer = coherency::decide(subject, is_set(wanted, COHERDMA_OPEN_ALL_RULES));
    into.verdict = into.answer.asked[into.answer.decided].second.verdict;
    return 0;
}

void assume(const coherdma_open_attr &wanted, coherdma_device &into) {
    static constexpr coherency::rule ASSUMED = {"assumed", nullptr};
    coherency::finding found;
    found.verdict = wanted.assume;
    found.source = "the program";
    found.reason = "the program assumes it";
    into.name = "(no device)";
    into.verdict = wanted.assume;
    into.answer.asked.emplace_back(&ASSUMED, found);
}

int choose(const coherdma_open_attr &wanted, coherdma_device &into) {
    into.emulation = coherency::emulation_of(wanted.context);
    if (into.emulation) {
        into.line = into.emulation->line();
        into.path = into.emulation->way;
        into.sync_required = true;
        return 0;
    }
    into.line = cache::line_size();
    into.sync_required = into.verdict != COHERDMA_COHERENT;
    if (!into.sync_required) {
        into.path = &cache::ordering();
        return 0;
    }
    const api::way way = wanted.instructions ? api::named(wanted.instructions) : api::usual();
    if (wanted.instructions && !way.path)
        return fail(EINVAL, "'%.32s' are no instructions that work here; those that do: %s",
                    wanted.instructions, *api::choices() ? api::choices() : "none");
    into.path = way.path;
    into.problem = way.problem;
    if (way.path || is_set(wanted, COHERDMA_OPEN_QUERY_ONLY))
        return 0;
    return fail(EOPNOTSUPP, "sync is needed for %s (%s), but %s", into.name.c_str(),
                coherdma_verdict_name(into.verdict), way.problem);
}

std::string explain(const coherdma_device &device) {
    const coherency::finding &found = device.answer.asked[device.answer.decided].second;
    std::string text = device.name + " is " +
                       (device.verdict == COHERDMA_UNKNOWN ? "of unknown coherency"
                                                           : coherdma_verdict_name(device.verdict));
    text += ": " + found.reason;
    if (!found.value.empty())
        text += " (" + found.source + ": " + found.value + ")";
    return text;
}

int open(const coherdma_open_attr *attr, std::size_t size, coherdma_device &into) {
    coherdma_open_attr wanted = {};
    int error = api::copy_in(attr, size, wanted);
    if (error == 0)
        error = understand(wanted);
    if (error != 0)
        return error;
    if (is_set(wanted, COHERDMA_OPEN_ASSUME)) {
        assume(wanted, into);
    } else {
        error = find(wanted, into);
        if (error == 0)
            error = decide(wanted, into);
    }
    if (error == 0)
        error = choose(wanted, into);
    if (into.emulation)
        into.check_memory = check_played;
    else if (is_set(wanted, COHERDMA_OPEN_CHECK_MEMORY) || check_memory_by_environment())
        into.check_memory = check_mapped;
    if (error == 0)
        into.explanation = explain(into);
    return error;
}

} // namespace

coherdma_device *coherdma_open(const coherdma_open_attr *attr, size_t size) {
    int error = ENOMEM;
    try {
        auto device = std::make_unique<coherdma_device>();
        error = open(attr, size, *device);
        if (error == 0)
            return device.release();
    } catch (const std::bad_alloc &) {
        error = fail(ENOMEM, "no memory left");
    } catch (const std::exception &problem) {
        error = fail(EINVAL, "%s", problem.what());
    }
    errno = error;
    return nullptr;
}

coherdma_device *coherdma_open_device(ibv_context *context) {
    coherdma_open_attr attr = {};
    attr.context = context;
    return coherdma_open(&attr, sizeof attr);
}

void coherdma_close(coherdma_device *device) {
    delete device;
}
