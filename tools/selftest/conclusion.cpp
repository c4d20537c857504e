// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selftest/report.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/core.h>

namespace tools::selftest {
namespace {

/// Stale lines of experiments, by what was synced.
struct stale_counts {
    std::uint64_t without_sync = 0; ///< of all experiments but those with a full sync
    std::uint64_t with_sync = 0;
    std::uint64_t by_device = 0, by_cpu = 0; ///< without_sync: who read them stale
    std::uint64_t num_lines = 0;             ///< of all experiments
};

stale_counts count_stale(const std::vector<experiment> &experiments) {
    stale_counts counts;
    for (const experiment &experiment : experiments) {
        counts.num_lines += experiment.num_lines;
        if (experiment.variant == sync_variant::FULL) {
            counts.with_sync += experiment.num_stale;
            continue;
        }
        counts.without_sync += experiment.num_stale;
        (does_device_write(experiment.path) ? counts.by_cpu : counts.by_device) +=
            experiment.num_stale;
    }
    return counts;
}

std::string describe_stale(const report &report, const stale_counts &counts) {
    if (!report.test.is_sync_possible)
        return fmt::format("{} stale lines were seen. Without cache instructions this test cannot "
                           "tell whether the device or the CPU read them stale.",
                           counts.without_sync);
    return fmt::format("Without a full sync the device read {} stale lines, and the CPU {}.",
                       counts.by_device, counts.by_cpu);
}

bool is_known(std::uint32_t coherency) noexcept {
    return coherency == COHERDMA_COHERENT || coherency == COHERDMA_NON_COHERENT;
}

/// Compares the experiments with the library's result.
void compare_experiments(const report &report, const stale_counts &counts, conclusion &result) {
    const std::uint32_t coherency = report.library.coherency;
    const std::string &name = report.device.name;
    const std::string declare =
        fmt::format("in /etc/coherdma.conf, write the lines [{}] and coherent = no", name);
    if (counts.with_sync != 0 && coherency != COHERDMA_BOUNCED) {
        result.result = agreement::CONTRADICTS;
        result.reasons.push_back(fmt::format(
            "STALE DATA IN SPITE OF THE SYNC: {} lines were stale although they were synced. The "
            "sync does not work on this machine, or the cause is not the cache.",
            counts.with_sync));
        result.advice.emplace_back(
            "Do not use this device for data that matters, and send this report.");
        return;
    }
    if (counts.without_sync != 0)
        result.reasons.push_back(describe_stale(report, counts));
    const bool is_stale = counts.without_sync != 0 || counts.with_sync != 0;
    const bool is_complete = report.test.problem.empty() && counts.num_lines != 0;
    switch (coherency) {
    case COHERDMA_COHERENT:
        if (is_stale) {
            result.result = agreement::CONTRADICTS;
            result.reasons.emplace_back("So the device is not coherent, but coherdma says that it "
                                        "is, and programs do not sync.");
            result.advice.push_back(
                fmt::format("Send this report. Until there is an answer, set "
                            "COHERDMA_COHERENT={}=no in the environment of programs, or {}.",
                            name, declare));
        } else if (is_complete) {
            result.result = agreement::AGREES;
            result.reasons.emplace_back("No line was stale, as with a coherent device.");
        }
        break;
    case COHERDMA_NON_COHERENT:
        if (is_stale) {
            result.result = agreement::AGREES;
            result.reasons.emplace_back("So the device is not coherent, as coherdma says.");
        } else if (is_complete) {
            result.reasons.emplace_back(
                "No line was stale, although coherdma says that the device is not coherent. The "
                "syncs may be needless; this test does not prove it.");
        }
        break;
    case COHERDMA_BOUNCED:
        if (counts.with_sync != 0) {
            result.result = agreement::AGREES;
            result.reasons.push_back(fmt::format("{} lines were stale although they were synced: "
                                                 "no sync reaches the copies of the memory.",
                                                 counts.with_sync));
        } else if (is_stale && report.test.is_sync_possible) {
            result.result = agreement::CONTRADICTS;
            result.reasons.emplace_back("With a sync no line was stale. So the device is not "
                                        "coherent, but it has no copies of this memory.");
            result.advice.emplace_back("Send this report.");
        } else if (!is_stale && is_complete) {
            result.reasons.emplace_back("No line was stale: the device had no copy of the memory "
                                        "of this test. Other memory may be copied.");
        }
        break;
    default:
        if (is_stale) {
            result.result = agreement::AGREES;
            result.reasons.emplace_back("So the device is not coherent. coherdma could not tell, "
                                        "and treats it as such.");
            result.advice.push_back(fmt::format("So that coherdma knows, {}.", declare));
        } else if (is_complete) {
            result.reasons.emplace_back("No line was stale, and coherdma cannot tell whether the "
                                        "device is coherent. It syncs, which is always right.");
        }
    }
}

/// The kernel's own answer, against the library's result and the experiments.
void compare_kernel(const report &report, const stale_counts &counts, conclusion &result) {
    const coherdma_evidence *const kernel = find_kernel_rule(report.library);
    if (!kernel || !is_known(kernel->coherency) || report.library.is_emulated)
        return;
    if (is_known(report.library.coherency) && kernel->coherency != report.library.coherency) {
        result.result = agreement::CONTRADICTS;
        result.reasons.push_back(fmt::format("The kernel treats the device as {}, but coherdma "
                                             "says that it is {}, by its rule {}.",
                                             coherdma_coherency_str(kernel->coherency),
                                             coherdma_coherency_str(report.library.coherency),
                                             report.library.rule));
        result.advice.emplace_back("Send this report.");
    } else if (kernel->coherency == COHERDMA_COHERENT && counts.without_sync != 0) {
        result.result = agreement::CONTRADICTS;
        result.reasons.emplace_back("The kernel treats the device as coherent. If it is not, the "
                                    "fault is in the device tree, the ACPI tables or the kernel.");
    } else {
        result.reasons.push_back(fmt::format("The kernel treats the device as {}, too.",
                                             coherdma_coherency_str(kernel->coherency)));
    }
}

void add_limits(const report &report, const stale_counts &counts, conclusion &result) {
    std::vector<std::string> &limits = result.limits;
    if (report.library.is_emulated)
        limits.emplace_back("The device is emulated as not coherent: only the emulation was "
                            "tested, no hardware and no cache. Unless --local-buffers says "
                            "otherwise, it syncs the memory of own requests by itself.");
    if (report.device.driver == "rxe" || report.device.driver == "siw")
        limits.emplace_back("The device is software: the CPU copies its data, without any DMA. So "
                            "nothing can be stale but what is emulated.");
    if (counts.without_sync == 0)
        limits.emplace_back("That no line was stale proves nothing about lines that were not in "
                            "the cache at that moment, other memory, or other load.");
    else
        limits.emplace_back("A cache evicts lines when it needs the room: so also without a sync "
                            "some lines are not stale, and their number means nothing.");
    if (report.test.has_peer)
        limits.emplace_back("With --peer, only the local memory of this machine's own requests was "
                            "tested, not what a peer reads or writes.");
    else
        limits.emplace_back("The device was connected to itself. Some devices then move data "
                            "otherwise than over the wire; compare with a run with --peer.");
    limits.emplace_back("Only data was tested. With most adapters (mlx5, irdma, bnxt_re, ...) the "
                        "queues are in cached memory, too, and no sync reaches them.");
}

} // namespace

const char *agreement_str(agreement result) noexcept {
    switch (result) {
    case agreement::AGREES:
        return "AGREES";
    case agreement::CONTRADICTS:
        return "CONTRADICTS";
    case agreement::CANNOT_TELL:
        break;
    }
    return "CANNOT TELL";
}

const coherdma_evidence *find_kernel_rule(const library_result &library) {
    const auto it =
        std::find_if(library.rules.begin(), library.rules.end(), [](const coherdma_evidence &rule) {
            return std::strcmp(rule.rule, "kernel") == 0;
        });
    return it != library.rules.end() ? &*it : nullptr;
}

conclusion conclude(const report &report) {
    conclusion result;
    const stale_counts counts = count_stale(report.test.experiments);
    if (!report.test.problem.empty())
        result.reasons.push_back(counts.num_lines == 0
                                     ? "No experiment was made: " + report.test.problem
                                     : "The experiments ended early: " + report.test.problem);
    compare_experiments(report, counts, result);
    compare_kernel(report, counts, result);
    add_limits(report, counts, result);
    return result;
}

} // namespace tools::selftest
