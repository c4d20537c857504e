// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "coherency/device.hpp"
#include "doctor/capture_stderr.hpp"
#include "doctor/host.hpp"

#include <exception>

tools::doctor::coherency_result tools::doctor::query_coherency(const std::string &name) try {
    const capture_stderr capture; // of what plugins print
    const tools::device device(name, rule_scope::UNTIL_DECIDED);
    return {coherdma_coherency_str(device.attr().coherency), device.attr().explanation,
            device.attr().sync_problem};
} catch (const std::exception &e) {
    return {"", e.what()};
}
