// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Decides whether a device snoops the CPU's cache.
//
// Only root can read whether the kernel treats a device as coherent. So there are rules, one per
// file, each of which evaluates one kind of evidence; what only one of them needs is in the folder
// of its name. They are evaluated in order of reliability, and of cost; the first with a result
// decides. The source, value and reason of each are kept for the user.
#pragma once

#include "bounce/confidential_guest.hpp"
#include "config.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/coherdmadv.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace coherdma::coherency {

struct rule_input {
    std::string root;           ///< prefix of /sys and /proc; "" except in tests
    std::string name;           ///< of the device
    std::string driver;         ///< of the kernel, such as "mlx5"; "" if unknown
    std::string machine;        ///< as uname -m
    std::string kernel_release; ///< as uname -r
    const struct settings *settings = nullptr;
    ibv_context *context = nullptr;        ///< nullptr: it cannot be opened
    int (*try_reg_mr)(ibv_context *) = {}; ///< registers a page; 0 or an errno
    bool (*has_dma_bounce_flag)(ibv_context *) = {};
    confidential_guest x86_guest; ///< by find_x86_confidential_guest()
    /// What coherdma's provider and the emulation know; nullptr: neither serves the device.
    const coherdmadv_device_attr *provider_attr = nullptr;
};

/// The result of a rule, and what it is based on: a coherdma_evidence.
struct evidence {
    std::uint32_t coherency = COHERDMA_UNKNOWN; ///< unknown: the rule has no result
    std::string source;                         ///< the file or system call that the rule read
    std::string value;                          ///< what it read there
    std::string reason;                         ///< for the coherency, as the end of a sentence
    /// Something that cannot be read may make the device other than coherent: no later rule can
    /// decide that it is coherent.
    bool forbids_coherent = false;
};

struct rule {
    const char *name;
    coherdma_strength strength; ///< of its result
    evidence (*evaluate)(const rule_input &);
};

struct evaluated_rule {
    const coherency::rule *rule;
    coherency::evidence evidence;
};

struct decision {
    std::vector<evaluated_rule> rules; ///< in order of evaluation
    std::size_t deciding_index = 0;    ///< in rules; of the last if all are unknown

    const evaluated_rule &deciding_rule() const { return rules[deciding_index]; }
};

/// Which rules are evaluated: all, or those up to the deciding one.
enum class rule_scope { all, until_decided };

decision decide(const rule_input &input, rule_scope scope);

evidence evaluate_emulation(const rule_input &);
evidence evaluate_override(const rule_input &);
evidence evaluate_software(const rule_input &);
evidence evaluate_bounce(const rule_input &);
evidence evaluate_registration(const rule_input &);
evidence evaluate_architecture(const rule_input &);
evidence evaluate_devicetree(const rule_input &);
evidence evaluate_kernel(const rule_input &);
evidence evaluate_acpi(const rule_input &);
evidence evaluate_pcie(const rule_input &);
evidence evaluate_queues(const rule_input &);

/// Members of rule_input for a device that is open.
int try_reg_mr(ibv_context *context);
bool has_dma_bounce_flag(ibv_context *context);

} // namespace coherdma::coherency
