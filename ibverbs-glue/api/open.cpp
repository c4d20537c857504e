// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Opening determines the device, the result of the coherency rules, and the cache_ops for sync.
// None of them changes later.

#include "coherency/architecture.hpp"
#include "coherency/bounce/confidential_guest.hpp"
#include "coherency/kernel_version.hpp"
#include "coherency/queues.hpp"
#include "copy_struct.hpp"
#include "cpu.hpp"
#include "device.hpp"
#include "devices/devices.hpp"
#include "memory.hpp"
#include "provider_query.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <infiniband/verbs.h>
#include <memory>
#include <new>
#include <sys/utsname.h>
#include <unistd.h>

namespace {

using coherdma::api::fail;
using namespace coherdma;

constexpr std::uint32_t KNOWN_FLAGS = COHERDMA_OPEN_QUERY_ONLY | COHERDMA_OPEN_ALL_RULES |
                                      COHERDMA_OPEN_CHECK_MEMORY | COHERDMA_OPEN_ASSUME;

bool has_flag(const coherdma_open_attr &attr, std::uint32_t flag) {
    return (attr.flags & flag) != 0;
}

bool is_check_requested_by_environment() {
    const char *value = secure_getenv("COHERDMA_CHECK");
    return value && *value && std::string(value) != "0";
}

// Values of coherdma_device::check_memory: by the kernel, and for a device that is emulated.
int check_mapped(const coherdma_device &, const cache::range *ranges, std::size_t count) noexcept {
    return api::check_mapped(ranges, count);
}

int check_mapped_emulated(const coherdma_device &device, const cache::range *ranges,
                          std::size_t count) noexcept {
    std::uintptr_t addr = 0;
    const int error = device.emulated->check_mapped(ranges, count, &addr);
    if (error == 0)
        return 0;
    return fail(error, "one of the ranges has no readable memory at %p",
                reinterpret_cast<void *>(addr));
}

/// Returns 0, or an errno value with coherdma_error() set, as all functions of this file that
/// return int.
int check_attr(const coherdma_open_attr &attr) {
    const bool has_device = attr.context || attr.name;
    if ((attr.flags & ~KNOWN_FLAGS) != 0)
        return fail(EINVAL, "flags 0x%x are unknown to this version of libcoherdma",
                    attr.flags & ~KNOWN_FLAGS);
    if (has_flag(attr, COHERDMA_OPEN_ASSUME)) {
        if (has_device)
            return fail(EINVAL, "COHERDMA_OPEN_ASSUME cannot be combined with a context or name");
        if (attr.assume > COHERDMA_NON_COHERENT)
            return fail(EINVAL,
                        "assume is %u, not COHERDMA_UNKNOWN, COHERDMA_COHERENT or "
                        "COHERDMA_NON_COHERENT",
                        attr.assume);
    } else if (!has_device) {
        return fail(EINVAL, "neither a context nor a name is set");
    }
    return 0;
}

/// Sets the name, driver and transport of the device. Returns 0 or an errno value.
int find_device(const coherdma_open_attr &attr, coherdma_device &device) {
    device.name = attr.context ? ibv_get_device_name(attr.context->device) : attr.name;
    for (const devices::device &listed : devices::list_devices()) {
        if (listed.name == device.name) {
            device.driver = listed.driver;
            device.transport = listed.transport;
            return 0;
        }
    }
    if (attr.context)
        return 0; // an open device exists, even if this process cannot list it
    return fail(ENODEV, "no RDMA device '%.64s'; to list the devices: coherdma show",
                device.name.c_str());
}

struct close_verbs_device {
    void operator()(ibv_context *context) const { ibv_close_device(context); }
};
using unique_context = std::unique_ptr<ibv_context, close_verbs_device>;

/// nullptr: this process cannot open the device.
unique_context open_verbs_device(const std::string &name) {
    ibv_device **const list = ibv_get_device_list(nullptr);
    unique_context context;
    for (ibv_device **device = list; device && *device && !context; ++device) {
        if (name == ibv_get_device_name(*device))
            context.reset(ibv_open_device(*device));
    }
    if (list)
        ibv_free_device_list(list);
    return context;
}

/// Sets the decision of the coherency rules and the coherency.
int evaluate_rules(const coherdma_open_attr &attr, coherdma_device &device) {
    const coherency::settings settings = coherency::read_settings();
    if (!settings.problem.empty())
        return fail(settings.error, "%s", settings.problem.c_str());
    coherency::rule_input input;
    input.name = device.name;
    input.driver = device.driver;
    input.machine = device.machine;
    input.kernel_release = device.kernel_release;
    input.settings = &settings;
    input.context = attr.context;
    input.try_reg_mr = coherency::try_reg_mr;
    input.has_dma_bounce_flag = coherency::has_dma_bounce_flag;
    input.x86_guest = coherency::find_x86_confidential_guest();
    coherdmadv_device_attr provider_attr = {};
    if (attr.context &&
        api::query_provider(attr.context, &provider_attr, sizeof provider_attr) == 0)
        input.provider_attr = &provider_attr;
    device.decision = coherency::decide(input, has_flag(attr, COHERDMA_OPEN_ALL_RULES)
                                                   ? coherency::rule_scope::all
                                                   : coherency::rule_scope::until_decided);
    device.coherency = device.decision.deciding_rule().evidence.coherency;
    device.is_emulated = std::strcmp(device.decision.deciding_rule().rule->name, "emulation") == 0;
    return 0;
}

/// COHERDMA_OPEN_ASSUME: sets the coherency that the program assumes instead of evaluating rules.
void assume_coherency(const coherdma_open_attr &attr, coherdma_device &device) {
    static constexpr coherency::rule ASSUMED = {
        .name = "assumed", .strength = COHERDMA_STRENGTH_ASSUMED, .evaluate = nullptr};
    coherency::evidence evidence;
    evidence.coherency = attr.assume;
    evidence.source = "the program";
    evidence.reason = "the program assumes it";
    device.name = "(no device)";
    device.coherency = attr.assume;
    device.decision.rules.push_back({&ASSUMED, evidence});
}

// "rxe0 is coherent: REASON (SOURCE: VALUE)"
std::string make_explanation(const coherdma_device &device) {
    const coherency::evidence &evidence = device.decision.deciding_rule().evidence;
    std::string text =
        device.name + " is " +
        (device.coherency == COHERDMA_UNKNOWN ? "of unknown coherency"
                                              : coherdma_coherency_str(device.coherency));
    text += ": " + evidence.reason;
    if (!evidence.value.empty())
        text += " (" + evidence.source + ": " + evidence.value + ")";
    return text;
}

// Chooses what sync calls will do: sets ops, line_size, sync_required and sync_problem.
int choose_cache_ops(const coherdma_open_attr &attr, coherdma_device &device) {
    if (device.is_emulated) {
        device.emulated = api::find_emulated_cache(attr.context);
        if (!device.emulated)
            return fail(EOPNOTSUPP,
                        "%s is emulated by coherdma of another release than this libcoherdma: "
                        "install coherdma-provider and libcoherdma of one release",
                        device.name.c_str());
        device.line_size = device.emulated->line_size();
        device.ops = device.emulated->ops;
        device.sync_required = true;
        return 0;
    }
    device.line_size = cache::line_size();
    device.sync_required = device.coherency != COHERDMA_COHERENT;
    if (!device.sync_required) {
        device.ops = &cache::ordering_ops(); // only fences
        return 0;
    }
    const api::ops_choice choice =
        attr.instructions ? api::find_ops(attr.instructions) : api::default_ops();
    if (attr.instructions && !choice.ops)
        return fail(EINVAL, "instructions '%.32s' are not usable on this CPU; usable: %s",
                    attr.instructions, *api::usable_ops_names() ? api::usable_ops_names() : "none");
    const char *problem =
        device.coherency == COHERDMA_BOUNCED
            ? "the kernel gives the device copies of the memory, which no sync reaches"
            : coherency::queue_problem(device.decision, device.driver, device.kernel_release);
    device.ops = *problem ? nullptr : choice.ops;
    if (device.ops)
        return 0;
    if (!*problem)
        problem = choice.problem;
    device.sync_problem = "sync is required for " + device.name + ", but " + problem;
    if (has_flag(attr, COHERDMA_OPEN_QUERY_ONLY))
        return 0;
    if (device.coherency == COHERDMA_BOUNCED)
        return fail(EOPNOTSUPP, "%s; no sync reaches the copies", make_explanation(device).c_str());
    return fail(EOPNOTSUPP, "sync is required for %s (%s), but %s", device.name.c_str(),
                coherdma_coherency_str(device.coherency), problem);
}

/// Whether deregistration may discard stores to the pages of the memory that have not been written
/// back. Linux before 7.0 invalidates these pages if it treats the device as non-coherent: without
/// a write-back on Arm, and on RISC-V in later releases. Assumed of every architecture that has
/// such devices.
bool does_deregistration_discard(const coherdma_device &device) {
    const bool is_proven_coherent =
        device.coherency == COHERDMA_COHERENT &&
        device.decision.deciding_rule().rule->strength != COHERDMA_STRENGTH_ASSUMED;
    return !device.is_emulated && !is_proven_coherent &&
           coherency::parse_kernel_release(device.kernel_release) <
               coherency::kernel_version{.major = 7, .minor = 0} &&
           !coherency::has_only_coherent_devices(device.machine);
}

/// coherdma_device_attr::buffer_alignment.
std::size_t find_buffer_alignment(const coherdma_device &device) {
    const std::size_t alignment = api::buffer_alignment(device.line_size);
    return does_deregistration_discard(device)
               ? std::max(alignment, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)))
               : alignment;
}

// Fills in the device, as for coherdma_open_device_ex(): 0 or an errno value.
int open_device(const coherdma_open_attr *caller_attr, std::size_t size, coherdma_device &device) {
    coherdma_open_attr attr = {}; // as this version of the library knows it
    int error = api::copy_in(caller_attr, size, attr);
    if (error == 0)
        error = check_attr(attr);
    if (error != 0)
        return error;
    utsname system = {};
    uname(&system);
    device.kernel_release = system.release;
    device.machine = system.machine;
    // With a name the result must be the same as with a context, so the device is opened.
    unique_context context_by_name;
    if (has_flag(attr, COHERDMA_OPEN_ASSUME)) {
        assume_coherency(attr, device);
    } else {
        error = find_device(attr, device);
        if (error == 0 && !attr.context) {
            context_by_name = open_verbs_device(device.name);
            attr.context = context_by_name.get();
        }
        if (error == 0)
            error = evaluate_rules(attr, device);
    }
    if (error == 0)
        error = choose_cache_ops(attr, device);
    if (device.emulated)
        device.check_memory = check_mapped_emulated;
    else if (has_flag(attr, COHERDMA_OPEN_CHECK_MEMORY) || is_check_requested_by_environment())
        device.check_memory = check_mapped;
    if (error == 0) {
        device.buffer_alignment = find_buffer_alignment(device);
        device.explanation = make_explanation(device);
    }
    return error;
}

} // namespace

/// On failure returns nullptr and sets errno and coherdma_error().
coherdma_device *coherdma_open_device_ex(const coherdma_open_attr *attr, size_t size) {
    int error = ENOMEM;
    try {
        auto device = std::make_unique<coherdma_device>();
        error = open_device(attr, size, *device);
        if (error == 0)
            return device.release();
    } catch (const std::bad_alloc &) {
        error = fail(ENOMEM, "out of memory");
    } catch (const std::exception &exception) {
        error = fail(EINVAL, "%s", exception.what());
    }
    errno = error;
    return nullptr;
}

coherdma_device *coherdma_open_device(ibv_context *context) {
    coherdma_open_attr attr = {};
    attr.context = context;
    return coherdma_open_device_ex(&attr, sizeof attr);
}

void coherdma_close_device(coherdma_device *device) {
    delete device;
}
