// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tools::bench {
namespace {

using nlohmann::ordered_json;

/// Changes when a key changes its name or meaning.
constexpr int SCHEMA = 1;

/// null if there are no samples.
ordered_json to_json(const summary &s) {
    if (s.num_samples == 0)
        return nullptr;
    return {{"samples", s.num_samples}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}};
}

summary parse_summary(const ordered_json &json) {
    if (json.is_null())
        return {};
    return {json.at("samples"), json.at("p50"), json.at("p90"), json.at("p99")};
}

ordered_json to_json(const machine_info &m) {
    return {{"cpu_model", m.cpu_model},     {"architecture", m.architecture},
            {"cpus_online", m.cpus_online}, {"governor", m.governor},
            {"kernel", m.kernel},           {"line_size", m.line_size},
            {"time_source", m.time_source}, {"clock_read_ns", m.clock_read_ns}};
}

/// null if the ratio is not positive: it was not measured.
ordered_json ratio_to_json(double ratio) {
    return ratio > 0 ? ordered_json(ratio) : ordered_json(nullptr);
}

/// What a sync call costs, and for comparison the cache instruction in a loop without the library.
ordered_json to_json(const sync_timing &timing) {
    return {{"instructions", timing.instructions},
            {"call", timing.call},
            {"line_state", timing.line_state},
            {"bytes", timing.bytes},
            {"lines", timing.num_lines},
            {"ns_per_line", to_json(timing.ns_per_line)},
            {"gigabytes_per_second", timing.gigabytes_per_second()},
            {"raw_loop_ns_per_line", to_json(timing.raw_loop_ns_per_line)},
            {"ratio_to_raw_loop", ratio_to_json(timing.ratio_to_raw_loop)}};
}

sync_timing parse_timing(const ordered_json &json) {
    sync_timing timing;
    timing.instructions = json.at("instructions");
    timing.call = json.at("call");
    timing.line_state = json.at("line_state");
    timing.bytes = json.at("bytes");
    timing.num_lines = json.at("lines");
    timing.ns_per_line = parse_summary(json.at("ns_per_line"));
    timing.raw_loop_ns_per_line = parse_summary(json.at("raw_loop_ns_per_line"));
    const ordered_json &ratio = json.at("ratio_to_raw_loop");
    timing.ratio_to_raw_loop = ratio.is_null() ? 0.0 : ratio.get<double>();
    return timing;
}

ordered_json to_json(const scattered_timing &timing) {
    return {{"ranges", timing.num_ranges},
            {"one_call_ns", to_json(timing.one_call_ns)},
            {"call_per_range_ns", to_json(timing.call_per_range_ns)},
            {"speedup", timing.speedup}};
}

scattered_timing parse_scattered_timing(const ordered_json &json) {
    return {json.at("ranges"), parse_summary(json.at("one_call_ns")),
            parse_summary(json.at("call_per_range_ns")), json.at("speedup")};
}

} // namespace

std::string as_json(const measurements &results) {
    ordered_json json{
        {"schema", SCHEMA},
        {"program", "coherdma bench"},
        {"version", results.machine.library_version},
        {"utc_time", results.utc_time},
        {"interrupted", results.interrupted},
        {"machine", to_json(results.machine)},
        {"options", {{"quick", results.options.quick}, {"sizes", results.options.sizes}}},
        {"coherent_call_ns", to_json(results.coherent_call_ns)},
        {"default_instructions", results.default_instructions},
        {"scattered", ordered_json::array()},
        {"timings", ordered_json::array()}};
    for (const scattered_timing &timing : results.scattered)
        json["scattered"].push_back(to_json(timing));
    for (const sync_timing &timing : results.timings)
        json["timings"].push_back(to_json(timing));
    // CPU names need not be UTF-8.
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

measurements from_json(const std::string &text) {
    try {
        const ordered_json json = ordered_json::parse(text);
        if (json.at("schema") != SCHEMA)
            throw std::runtime_error("unsupported schema");
        measurements parsed; // only what --compare needs
        parsed.utc_time = json.at("utc_time");
        parsed.machine.cpu_model = json.at("machine").at("cpu_model");
        parsed.machine.kernel = json.at("machine").at("kernel");
        parsed.machine.library_version = json.at("version");
        parsed.coherent_call_ns = parse_summary(json.at("coherent_call_ns"));
        for (const ordered_json &entry : json.at("scattered"))
            parsed.scattered.push_back(parse_scattered_timing(entry));
        for (const ordered_json &entry : json.at("timings"))
            parsed.timings.push_back(parse_timing(entry));
        return parsed;
    } catch (const ordered_json::exception &e) {
        throw std::runtime_error(std::string("not written by --json: ") + e.what());
    }
}

} // namespace tools::bench
