// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Checks whether the device is cache-coherent. Non-coherence is not a failure, but a warning,
// unless no sync call can make the device usable.

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
    else if (!coherency.sync_problem.empty())
        c.fail(
            coherency.explanation + "; " + coherency.sync_problem + ".",
            "Programs cannot use the device here. If it is coherent, say so in coherdma.conf(5). "
            "The command below prints the evidence.",
            explain_command);
    else
        c.warn(coherency.explanation + ".",
               "Programs must call libcoherdma's sync functions around each transfer. The command "
               "below prints the evidence.",
               explain_command);
}

} // namespace tools::doctor
