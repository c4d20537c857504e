// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "doctor/host.hpp"
#include "doctor/kept.hpp"
#include "show/device.hpp"

#include <exception>

tools::doctor::verdict tools::doctor::ask_coherency(const std::string &name) try {
    const kept_stderr quiet;
    const tools::device device(name, false);
    return {coherdma_verdict_name(device.about().verdict), device.about().explanation};
} catch (const std::exception &problem) {
    return {"", problem.what()};
}
