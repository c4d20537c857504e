// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/report.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace tools::datping {
namespace {

using json = nlohmann::ordered_json;

json or_null(const std::string &text) {
    return text.empty() ? json() : json(text);
}

std::string text_of(const json &all) {
    return all.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

/// To the nanosecond.
double rounded(double microseconds) {
    return std::round(microseconds * 1000) / 1000;
}

json object(const mode_result &one, const options &asked) {
    json all = {{"mode", name_of(one.mode)}, {"rounds", one.times.count()}};
    if (asked.verify) {
        all["wrong"] = one.wrong;
        all["wrong_at_server"] = one.at_server;
        all["first_wrong"] = or_null(one.first_wrong);
    }
    if (one.times.count() > 0) {
        const auto times = one.times.summarize();
        all["microseconds"] = {{"min", rounded(times.least)},
                               {"median", rounded(times.median)},
                               {"p99", rounded(times.p99)},
                               {"max", rounded(times.largest)}};
    }
    return all;
}

json object(const served_client &one) {
    return {{"address", one.address},
            {"size", one.size},
            {"rounds", one.rounds},
            {"wrong", one.wrong},
            {"problem", or_null(one.problem)}};
}

} // namespace

std::string as_json(const options &asked, const client_result &all) {
    json document = {{"schema", 1},
                     {"host", all.host},
                     {"address", or_null(all.address)},
                     {"qualifier", asked.qualifier},
                     {"ia", or_null(all.ia)},
                     {"ia_address", or_null(all.ia_address)},
                     {"library", or_null(all.library)},
                     {"size", asked.size},
                     {"verified", asked.verify},
                     {"connected", all.connected}};
    if (all.connected)
        document["lmr_sync_req"] = {{"here", all.sync_here}, {"there", all.sync_there}};
    document["modes"] = json::array();
    for (const mode_result &each : all.modes)
        document["modes"].push_back(object(each, asked));
    document["seconds"] = all.seconds;
    document["interrupted"] = all.stopped;
    document["problem"] = or_null(all.problem);
    document["good"] = all.good();
    return text_of(document);
}

std::string as_json(const options &asked, const server_result &all) {
    json document = {{"schema", 1},
                     {"ia", all.ia},
                     {"ia_address", all.ia_address},
                     {"library", or_null(all.library)},
                     {"qualifier", asked.qualifier},
                     {"lmr_sync_req", all.sync_here},
                     {"refused", all.refused}};
    document["clients"] = json::array();
    for (const served_client &each : all.clients)
        document["clients"].push_back(object(each));
    document["good"] = all.good();
    return text_of(document);
}

} // namespace tools::datping
