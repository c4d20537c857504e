// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

namespace tools::bench {
namespace {

using nlohmann::ordered_json;

constexpr int SCHEMA = 1;

ordered_json of(const summary &figures) {
    if (figures.count == 0)
        return nullptr;
    return {{"repetitions", figures.count},
            {"p50", figures.p50},
            {"p90", figures.p90},
            {"p99", figures.p99}};
}

summary summary_of(const ordered_json &json) {
    if (json.is_null())
        return {};
    return {json.at("repetitions"), json.at("p50"), json.at("p90"), json.at("p99")};
}

ordered_json of(const machine &where) {
    return {{"cpu_model", where.cpu},           {"architecture", where.architecture},
            {"cpus_online", where.cpus},        {"governor", where.governor},
            {"kernel", where.kernel},           {"line_bytes", where.line_bytes},
            {"time_source", where.time_source}, {"time_cost_ns", where.clock_ns}};
}

ordered_json of(const cell &each) {
    return {{"instructions", each.instructions},
            {"call", "coherdma_sync_rdma_" + each.call},
            {"state", each.state},
            {"size_bytes", each.bytes},
            {"lines", each.lines},
            {"ns_per_line", of(each.call_ns)},
            {"gigabytes_per_second", each.gigabytes_per_second()},
            {"raw_ns_per_line", of(each.raw_ns)},
            {"ratio_to_raw", each.ratio > 0 ? ordered_json(each.ratio) : ordered_json(nullptr)}};
}

ordered_json of(const batch &each) {
    return {{"segments", each.segments},
            {"one_call_ns", of(each.one_call_ns)},
            {"calls_each_ns", of(each.calls_each_ns)},
            {"ratio_each_to_one", each.ratio}};
}

cell cell_of(const ordered_json &json) {
    cell each{json.at("instructions"),
              json.at("call"),
              json.at("state"),
              json.at("size_bytes"),
              json.at("lines"),
              {},
              {},
              0};
    each.call = each.call.substr(each.call.rfind('_') + 1);
    each.call_ns = summary_of(json.at("ns_per_line"));
    each.raw_ns = summary_of(json.at("raw_ns_per_line"));
    each.ratio = json.at("ratio_to_raw").is_null() ? 0.0 : json.at("ratio_to_raw").get<double>();
    return each;
}

} // namespace

std::string as_json(const results &all) {
    ordered_json json{{"schema", SCHEMA},
                      {"program", "coherdma bench"},
                      {"version", all.where.library},
                      {"when", all.when},
                      {"interrupted", all.interrupted},
                      {"machine", of(all.where)},
                      {"options", {{"quick", all.how.quick}, {"sizes_bytes", all.how.sizes}}},
                      {"coherent_call_ns", of(all.coherent_ns)},
                      {"batch_instructions", all.instructions},
                      {"batches", ordered_json::array()},
                      {"figures", ordered_json::array()}};
    for (const batch &each : all.batches)
        json["batches"].push_back(of(each));
    for (const cell &each : all.cells)
        json["figures"].push_back(of(each));
    // What the system calls a CPU need not be UTF-8.
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

results from_json(const std::string &text) {
    try {
        const ordered_json json = ordered_json::parse(text);
        if (json.at("schema") != SCHEMA)
            throw std::runtime_error("its schema is not the one that this version knows");
        results old;
        old.when = json.at("when");
        old.where.cpu = json.at("machine").at("cpu_model");
        old.where.kernel = json.at("machine").at("kernel");
        old.where.library = json.at("version");
        old.coherent_ns = summary_of(json.at("coherent_call_ns"));
        for (const ordered_json &each : json.at("batches"))
            old.batches.push_back({each.at("segments"), summary_of(each.at("one_call_ns")),
                                   summary_of(each.at("calls_each_ns")),
                                   each.at("ratio_each_to_one")});
        for (const ordered_json &each : json.at("figures"))
            old.cells.push_back(cell_of(each));
        return old;
    } catch (const ordered_json::exception &problem) {
        throw std::runtime_error(std::string("not what --json writes: ") + problem.what());
    }
}

} // namespace tools::bench
