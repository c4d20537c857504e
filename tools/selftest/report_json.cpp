// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selftest/report.hpp"

#include "coherency/evidence.hpp"

#include <nlohmann/json.hpp>

namespace tools::selftest {
namespace {

using json = nlohmann::ordered_json;

const char *path_key(data_path path) {
    switch (path) {
    case data_path::PEER_READ:
        return "peer_read";
    case data_path::PEER_WRITE:
        return "peer_write";
    case data_path::OWN_WRITE:
        return "own_write";
    case data_path::OWN_READ:
        return "own_read";
    }
    return "";
}

const char *variant_key(sync_variant variant) {
    switch (variant) {
    case sync_variant::NONE:
        return "none";
    case sync_variant::FENCES:
        return "fences";
    case sync_variant::BEFORE_ONLY:
        return "before_only";
    case sync_variant::AFTER_ONLY:
        return "after_only";
    case sync_variant::NO_FENCES:
        return "no_fences";
    case sync_variant::FULL:
        return "full";
    }
    return "";
}

const char *agreement_key(agreement result) {
    switch (result) {
    case agreement::AGREES:
        return "agrees";
    case agreement::CONTRADICTS:
        return "contradicts";
    case agreement::CANNOT_TELL:
        break;
    }
    return "cannot_tell";
}

json machine_json(const machine_facts &machine) {
    return {{"cpu", machine.cpu},
            {"architecture", machine.architecture},
            {"board", machine.board},
            {"kernel", machine.kernel},
            {"environment", machine.environment},
            {"page_size", machine.page_size},
            {"line_size", machine.line_size},
            {"cache_line_sizes", machine.other_line_sizes},
            {"instructions", machine.instructions},
            {"instructions_problem", machine.instructions_problem}};
}

json device_json(const report &report) {
    const device_facts &device = report.device;
    const library_result &library = report.library;
    return {{"name", device.name},
            {"driver", device.driver},
            {"transport", device.transport},
            {"hardware", device.vendor_and_part},
            {"firmware", device.firmware},
            {"coherency", coherdma_coherency_str(library.coherency)},
            {"strength", coherdma_strength_str(library.strength)},
            {"emulated", library.is_emulated},
            {"rule", library.rule},
            {"explanation", library.explanation},
            {"sync_problem", library.sync_problem}};
}

json experiments_json(const test_run &test) {
    json list = json::array();
    for (const experiment &experiment : test.experiments)
        list.push_back({{"path", path_key(experiment.path)},
                        {"sync", variant_key(experiment.variant)},
                        {"problem", experiment.problem},
                        {"rounds", experiment.rounds},
                        {"lines", experiment.num_lines},
                        {"stale", experiment.num_stale},
                        {"other", experiment.num_other}});
    return list;
}

} // namespace

std::string report_json(const report &report, const conclusion &conclusion) {
    json document = {{"schema", 1},
                     {"time", report.time},
                     {"version", report.version},
                     {"left_out", LEFT_OUT},
                     {"root", report.is_root},
                     {"machine", machine_json(report.machine)},
                     {"device", device_json(report)},
                     {"rules", json::array()},
                     {"peer", report.test.has_peer},
                     {"rounds", report.test.rounds},
                     {"lines_per_round", report.test.lines_per_round},
                     {"line_size", report.device.line_size},
                     {"problem", report.test.problem},
                     {"experiments", experiments_json(report.test)},
                     {"conclusion", agreement_key(conclusion.result)},
                     {"reasons", conclusion.reasons},
                     {"advice", conclusion.advice},
                     {"limits", conclusion.limits}};
    for (const coherdma_evidence &rule : report.library.rules)
        document["rules"].push_back(evidence_json(rule));
    return document.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::selftest
