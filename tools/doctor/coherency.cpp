// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Does the device see what is in the CPU's cache? Anything else is no fault, but has to be known.

#include "doctor/doctor.hpp"

namespace tools::doctor {

void check_coherency(const host &here, report &all, const std::string &device) {
    check &found = all.add("coherency", "cache coherency", device);
    const verdict is = here.coherency(device);
    const std::string why = "coherdma explain " + device;
    if (is.name == "coherent")
        found.ok(is.explanation + ".");
    else if (is.name.empty())
        found.warn("not known: " + is.explanation, "What was looked at:", why);
    else
        found.warn(is.explanation + ".",
                   "Programs have to call libcoherdma's sync around each transfer. Why:", why);
}

} // namespace tools::doctor
