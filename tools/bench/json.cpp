// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tools::bench {
namespace {

using nlohmann::ordered_json;

constexpr int SCHEMA = 1;

ordered_json to_json(const summary &s) {
    if (s.count == 0)
        return nullptr;
    return {{"repetitions", s.count}, {"p50", s.p50}, {"p90", s.p90}, {"p99", s.p99}};
}

summary summary_of(const ordered_json &json) {
    if (json.is_null())
        return {};
    return {json.at("repetitions"), json.at("p50"), json.at("p90"), json.at("p99")};
}

ordered_json to_json(const machine &m) {
    return {{"cpu_model", m.cpu},           {"architecture", m.architecture},
            {"cpus_online", m.cpus},        {"governor", m.governor},
            {"kernel", m.kernel},           {"line_bytes", m.line_bytes},
            {"time_source", m.time_source}, {"time_cost_ns", m.clock_ns}};
}

ordered_json to_json(const sync_timing &timing) {
    return {
        {"instructions", timing.instructions},
        {"call", "coherdma_sync_rdma_" + timing.call},
        {"state", timing.line_state},
        {"size_bytes", timing.bytes},
        {"lines", timing.lines},
        {"ns_per_line", to_json(timing.ns_per_line)},
        {"gigabytes_per_second", timing.gigabytes_per_second()},
        {"raw_ns_per_line", to_json(timing.raw_ns_per_line)},
        {"ratio_to_raw", timing.ratio > 0 ? ordered_json(timing.ratio) : ordered_json(nullptr)}};
}

ordered_json to_json(const batch &b) {
    return {{"segments", b.segments},
            {"one_call_ns", to_json(b.one_call_ns)},
            {"calls_each_ns", to_json(b.calls_each_ns)},
            {"ratio_each_to_one", b.ratio}};
}

sync_timing parse_timing(const ordered_json &json) {
    sync_timing timing{json.at("instructions"),
                       json.at("call"),
                       json.at("state"),
                       json.at("size_bytes"),
                       json.at("lines"),
                       {},
                       {},
                       0};
    timing.call = timing.call.substr(timing.call.rfind('_') + 1);
    timing.ns_per_line = summary_of(json.at("ns_per_line"));
    timing.raw_ns_per_line = summary_of(json.at("raw_ns_per_line"));
    timing.ratio = json.at("ratio_to_raw").is_null() ? 0.0 : json.at("ratio_to_raw").get<double>();
    return timing;
}

} // namespace

std::string as_json(const measurements &results) {
    ordered_json json{
        {"schema", SCHEMA},
        {"program", "coherdma bench"},
        {"version", results.host.library},
        {"when", results.time},
        {"interrupted", results.interrupted},
        {"machine", to_json(results.host)},
        {"options", {{"quick", results.options.quick}, {"sizes_bytes", results.options.sizes}}},
        {"coherent_call_ns", to_json(results.coherent_call_ns)},
        {"batch_instructions", results.batch_instructions},
        {"batches", ordered_json::array()},
        {"figures", ordered_json::array()}};
    for (const batch &b : results.batches)
        json["batches"].push_back(to_json(b));
    for (const sync_timing &timing : results.timings)
        json["figures"].push_back(to_json(timing));
    // CPU names need not be UTF-8.
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

measurements from_json(const std::string &text) {
    try {
        const ordered_json json = ordered_json::parse(text);
        if (json.at("schema") != SCHEMA)
            throw std::runtime_error("unsupported schema");
        measurements parsed;
        parsed.time = json.at("when");
        parsed.host.cpu = json.at("machine").at("cpu_model");
        parsed.host.kernel = json.at("machine").at("kernel");
        parsed.host.library = json.at("version");
        parsed.coherent_call_ns = summary_of(json.at("coherent_call_ns"));
        for (const ordered_json &entry : json.at("batches"))
            parsed.batches.push_back({entry.at("segments"), summary_of(entry.at("one_call_ns")),
                                      summary_of(entry.at("calls_each_ns")),
                                      entry.at("ratio_each_to_one")});
        for (const ordered_json &entry : json.at("figures"))
            parsed.timings.push_back(parse_timing(entry));
        return parsed;
    } catch (const ordered_json::exception &e) {
        throw std::runtime_error(std::string("not written by --json: ") + e.what());
    }
}

} // namespace tools::bench
