// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "copy_struct.hpp"
#include "device.hpp"

#include <cerrno>

using coherdma::api::copy_out;
using coherdma::api::fail;

namespace {

std::uint32_t strength_of(const coherdma::coherency::rule &rule,
                          const coherdma::coherency::evidence &evidence) {
    return evidence.coherency == COHERDMA_UNKNOWN ? COHERDMA_STRENGTH_NONE : rule.strength;
}

} // namespace

int coherdma_query_device(const coherdma_device *device, coherdma_device_attr *attr, size_t size) {
    if (!device)
        return fail(EINVAL, "device is NULL");
    const auto &[rule, evidence] = device->decision.deciding_rule();
    coherdma_device_attr result = {};
    result.coherency = device->coherency;
    result.strength = strength_of(*rule, evidence);
    result.sync_required = device->sync_required ? 1 : 0;
    result.line_size = static_cast<std::uint32_t>(device->line_size);
    result.buffer_alignment = static_cast<std::uint32_t>(device->buffer_alignment);
    result.flags = device->is_emulated ? COHERDMA_DEVICE_EMULATED : 0;
    result.name = device->name.c_str();
    result.driver = device->driver.c_str();
    result.transport = device->transport.c_str();
    result.instructions = device->ops ? device->ops->name : "";
    result.rule = rule->name;
    result.source = evidence.source.c_str();
    result.value = evidence.value.c_str();
    result.explanation = device->explanation.c_str();
    result.sync_problem = device->sync_problem.c_str();
    return copy_out(result, attr, size);
}

int coherdma_query_evidence(const coherdma_device *device, size_t index, coherdma_evidence *out,
                            size_t size) {
    if (!device)
        return fail(EINVAL, "device is NULL");
    const auto &rules = device->decision.rules;
    if (index >= rules.size())
        return fail(ENOENT, "index %zu: only %zu rules were evaluated", index, rules.size());
    const auto &[rule, evidence] = rules[index];
    coherdma_evidence result = {};
    result.coherency = evidence.coherency;
    result.strength = strength_of(*rule, evidence);
    result.decided = index == device->decision.deciding_index ? 1 : 0;
    result.rule = rule->name;
    result.source = evidence.source.c_str();
    result.value = evidence.value.c_str();
    result.reason = evidence.reason.c_str();
    return copy_out(result, out, size);
}
