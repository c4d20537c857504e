// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/report/report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tools::datping {
namespace {

using json = nlohmann::ordered_json;

json or_null(const std::string &text) {
    return text.empty() ? json() : json(text);
}

/// Invalid UTF-8 in host and IA names is replaced.
std::string format_document(const json &value) {
    return value.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

/// Microseconds with at most three decimals.
double round_to_ns(double microseconds) {
    return std::round(microseconds * 1000) / 1000;
}

json to_json(const mode_result &m, const options &opts) {
    json object = {{"mode", mode_name(m.mode)}, {"rounds", m.times.count()}};
    if (opts.verify) {
        object["wrong"] = m.wrong_rounds;
        object["wrong_at_server"] = m.wrong_at_server;
        object["first_wrong"] = or_null(m.first_wrong);
    }
    if (m.times.count() > 0) {
        const auto times = m.times.summarize();
        object["microseconds"] = {{"min", round_to_ns(times.min)},
                                  {"median", round_to_ns(times.median)},
                                  {"p99", round_to_ns(times.p99)},
                                  {"max", round_to_ns(times.max)}};
    }
    return object;
}

json to_json(const served_client &client) {
    return {{"address", client.address},
            {"size", client.size},
            {"rounds", client.rounds},
            {"wrong", client.wrong_rounds},
            {"problem", or_null(client.problem)}};
}

} // namespace

std::string as_json(const options &opts, const client_result &result) {
    json document = {{"schema", 1},
                     {"host", result.host},
                     {"address", or_null(result.address)},
                     {"qualifier", opts.qualifier},
                     {"ia", or_null(result.ia)},
                     {"ia_address", or_null(result.ia_address)},
                     {"library", or_null(result.library)},
                     {"size", opts.size},
                     {"verified", opts.verify},
                     {"connected", result.connected}};
    if (result.connected)
        document["lmr_sync_req"] = {{"local", result.local_needs_sync},
                                    {"peer", result.peer_needs_sync}};
    document["modes"] = json::array();
    for (const mode_result &m : result.modes)
        document["modes"].push_back(to_json(m, opts));
    document["seconds"] = result.seconds;
    document["interrupted"] = result.interrupted;
    document["problem"] = or_null(result.problem);
    document["good"] = result.is_good();
    return format_document(document);
}

std::string as_json(const options &opts, const server_result &result) {
    json document = {{"schema", 1},
                     {"ia", result.ia},
                     {"ia_address", result.ia_address},
                     {"library", or_null(result.library)},
                     {"qualifier", opts.qualifier},
                     {"lmr_sync_req", result.local_needs_sync},
                     {"rejected", result.rejected},
                     {"served", result.served}};
    document["clients"] = json::array();
    for (const served_client &client : result.clients)
        document["clients"].push_back(to_json(client));
    document["good"] = result.is_good();
    return format_document(document);
}

} // namespace tools::datping
