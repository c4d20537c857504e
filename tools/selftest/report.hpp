// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What coherdma selftest reports. A report is meant to be sent to others, so it has no MAC, GID,
// host name or address.
#pragma once

#include "selftest/experiment.hpp"

#include <coherdma/coherdma.h>
#include <deque>
#include <string>
#include <vector>

namespace tools::selftest {

struct machine_facts {
    std::string cpu, architecture, kernel, board;
    std::vector<std::string> environment; ///< such as "virtual machine"; empty: none is known
    std::size_t page_size = 0;
    std::uint32_t line_size = 0;  ///< of the CPU, as libcoherdma uses it; 0: unknown
    std::string other_line_sizes; ///< as the kernel states those of the caches; "" if it does not
    std::string instructions, instructions_problem;
};

struct device_facts {
    std::string name, driver, transport;
    std::string firmware;        ///< "" if unknown, as the next one
    std::string vendor_and_part; ///< of the hardware
    std::uint32_t line_size = 0; ///< that is emulated, or the CPU's
};

/// What libcoherdma says about the device.
struct library_result {
    std::uint32_t coherency = COHERDMA_UNKNOWN, strength = COHERDMA_STRENGTH_NONE;
    bool is_emulated = false;
    std::string rule, explanation, sync_problem;
    std::vector<coherdma_evidence> rules; ///< their strings are of the open device, or rule_texts
    std::deque<std::string> rule_texts = {};
};

struct test_run {
    bool has_peer = false;                         ///< else the device is connected to itself
    std::uint32_t rounds = 0, lines_per_round = 0; ///< planned for each experiment
    std::vector<experiment> experiments;
    std::string problem;          ///< why there are none, or why they ended; "" if they did not
    bool is_sync_possible = true; ///< of the unexamined buffer, too
};

enum class agreement { AGREES, CONTRADICTS, CANNOT_TELL };

/// The comparison of the experiments, the library's result and the kernel's own answer.
struct conclusion {
    agreement result = agreement::CANNOT_TELL;
    std::vector<std::string> reasons;
    std::vector<std::string> advice; ///< what to do
    std::vector<std::string> limits; ///< what the run cannot show
};

struct report {
    std::string time, version;
    machine_facts machine;
    device_facts device;
    library_result library;
    bool is_root = false;
    test_run test;
};

/// The rule "kernel" among the rules; nullptr: there is none.
const coherdma_evidence *find_kernel_rule(const library_result &library);

conclusion conclude(const report &report);

/// "AGREES", "CONTRADICTS" or "CANNOT TELL".
const char *agreement_str(agreement result) noexcept;

std::string report_text(const report &report, const conclusion &conclusion);
std::string report_json(const report &report, const conclusion &conclusion);

/// Replaces wherever they are: the device's name by DEVICE if it has the GUID of the hardware in
/// it, as those of udev's scheme NAME_GUID; and the path in COHERDMA_CONFIG, in which the user's
/// name can be, by the variable's name.
void hide_private_texts(report &report, const std::string &device_name);

/// What the report leaves out, as a sentence.
extern const char *const LEFT_OUT;

} // namespace tools::selftest
