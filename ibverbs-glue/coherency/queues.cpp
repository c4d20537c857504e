// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rule "queues" decides nothing; it informs the user. The table is from rdma-core 64 and Linux
// 6.1 to 7.2: a provider that allocates the memory of its queues itself has it pinned by the
// driver's ib_umem_get(); the others map what the driver allocated, by its mmap function.

#include "queues.hpp"

#include <algorithm>
#include <cstring>

namespace coherdma::coherency {
namespace {

using enum queue_memory;

constexpr driver_queues DRIVERS[] = {
    {"bnxt_re", program, "QP, CQ and SRQ rings"},
    // Stable kernels may have the change of c4iw_mmap() too, but their version does not tell.
    {"cxgb4", uncached, "dma_mmap_coherent(), since Linux 6.12", {.major = 6, .minor = 12}},
    {"efa", cached, "RQ and CQ, by vm_insert_page()"},
    {"erdma", program, "QP and CQ rings, doorbell records"},
    {"hfi1", cpu, "the driver processes them (rdmavt)"},
    {"hns", program, "QP, CQ and SRQ rings, doorbell records"},
    {"ionic", program, "QP and CQ rings"},
    {"irdma", program, "QP, CQ and SRQ rings, shadow areas"},
    {"mana", program, "QP and CQ rings"},
    {"mlx4", program, "QP, CQ and SRQ rings, doorbell records"},
    {"mlx5", program, "QP, CQ and SRQ rings, doorbell records"},
    {"mthca", program, "QP, CQ and SRQ rings, doorbell records"},
    {"ocrdma", cached, "QP, CQ and SRQ rings, by remap_pfn_range()"},
    {"qedr", program, "QP, CQ and SRQ rings"},
    {"qib", cpu, "the driver processes them (rdmavt)"},
    {"rxe", cpu, "the driver processes them"},
    {"siw", cpu, "the driver processes them"},
    {"vmw_pvrdma", program, "QP, CQ and SRQ rings"},
};

const driver_queues *find_driver(const std::string &driver) noexcept {
    const auto *const it = std::find_if(std::begin(DRIVERS), std::end(DRIVERS),
                                        [&](const auto &row) { return driver == row.driver; });
    return it != std::end(DRIVERS) ? it : nullptr;
}

queue_memory find_memory(const driver_queues &row, const std::string &kernel_release) {
    return parse_kernel_release(kernel_release) < row.uncached_since ? cached : row.memory;
}

const char *describe(queue_memory memory) noexcept {
    switch (memory) {
    case program:
        return "its queues are in the program's memory: if the device is not coherent, no call can "
               "sync them";
    case cached:
        return "the kernel maps its queues with the cache: if the device is not coherent, no call "
               "can sync them";
    case uncached:
        return "the kernel maps its queues without the cache: only data needs sync";
    case cpu:
        return "the CPU processes its queues: only data needs sync";
    }
    return "";
}

} // namespace

std::span<const driver_queues> all_driver_queues() noexcept {
    return DRIVERS;
}

/// The rule "queues" of rules.cpp. It never has a result, but informs the user.
evidence evaluate_queues(const rule_input &input) {
    evidence result;
    result.source = "RDMA netlink";
    result.value = input.driver.empty() ? "no driver" : "driver " + input.driver;
    if (const driver_queues *const row = find_driver(input.driver))
        result.reason = std::string(describe(find_memory(*row, input.kernel_release))) + " (" +
                        row->details + ")";
    else
        result.reason = "where the queues of the device are is not known";
    return result;
}

const char *queue_problem(const decision &result, const std::string &driver,
                          const std::string &kernel_release) {
    const auto &[rule, evidence] = result.deciding_rule();
    const bool is_declared =
        std::strcmp(rule->name, "override") == 0 || std::strcmp(rule->name, "assumed") == 0;
    if (evidence.coherency != COHERDMA_NON_COHERENT || is_declared)
        return "";
    const driver_queues *const row = find_driver(driver);
    if (row == nullptr)
        return "where its queues are is not known, and a sync may not reach them; to use it "
               "nevertheless, declare it in coherdma.conf";
    switch (find_memory(*row, kernel_release)) {
    case program:
        return "its queues are in the program's memory, which no call can sync";
    case cached:
        return "the kernel maps its queues with the cache, and no call can sync them";
    default:
        return "";
    }
}

} // namespace coherdma::coherency
