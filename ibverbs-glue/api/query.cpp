// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "copy_out.hpp"
#include "cpu.hpp"
#include "device.hpp"

#include <cerrno>

using coherdma::api::copy_out;
using coherdma::api::fail;

int coherdma_query_device(const coherdma_device *device, coherdma_device_attr *attr, size_t size) {
    if (!device)
        return fail(EINVAL, "no device is given");
    const auto &[rule, found] = device->answer.asked[device->answer.decided];
    coherdma_device_attr all = {};
    all.verdict = device->verdict;
    all.sync_required = device->sync_required ? 1 : 0;
    all.line_size = static_cast<std::uint32_t>(device->line);
    all.alignment = coherdma::api::alignment(device->line);
    all.name = device->name.c_str();
    all.driver = device->driver.c_str();
    all.transport = device->transport.c_str();
    all.instructions = device->path ? device->path->name : "";
    all.rule = rule->name;
    all.source = found.source.c_str();
    all.value = found.value.c_str();
    all.explanation = device->explanation.c_str();
    return copy_out(all, attr, size);
}

int coherdma_query_evidence(const coherdma_device *device, size_t index,
                            coherdma_evidence *evidence, size_t size) {
    if (!device)
        return fail(EINVAL, "no device is given");
    if (index >= device->answer.asked.size())
        return fail(ENOENT, "there are only %zu rules", device->answer.asked.size());
    const auto &[rule, found] = device->answer.asked[index];
    coherdma_evidence one = {};
    one.verdict = found.verdict;
    one.decided = index == device->answer.decided ? 1 : 0;
    one.rule = rule->name;
    one.source = found.source.c_str();
    one.value = found.value.c_str();
    one.reason = found.reason.c_str();
    return copy_out(one, evidence, size);
}
