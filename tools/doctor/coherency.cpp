// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks whether the device is cache-coherent. Non-coherence is not a failure, but a warning.

#include "doctor/doctor.hpp"

namespace tools::doctor {

void check_coherency(const host &machine, report &results, const std::string &device) {
    check &c = results.add("coherency", "cache coherency", device);
    const coherency_result coherency = machine.query_coherency(device);
    const std::string explain_command = "coherdma explain " + device;
    if (coherency.coherency == "coherent")
        c.ok(coherency.explanation + ".");
    else if (coherency.coherency.empty()) // the query failed
        c.warn("unknown: " + coherency.explanation, NO_ADVICE, explain_command);
    else
        c.warn(coherency.explanation + ".",
               "Programs must call libcoherdma's sync functions around each transfer. The command "
               "below prints the evidence.",
               explain_command);
}

} // namespace tools::doctor
