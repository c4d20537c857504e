// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datinfo/query.hpp"
#include "dat_common/isolate.hpp"
#include "dat_common/to_string.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <dlfcn.h>
#include <fmt/core.h>
#include <memory>
#include <regex.h>
#include <sstream>

namespace tools::datinfo {
namespace {

constexpr std::chrono::seconds PROBE_TIMEOUT{20};

/// "RoCE", "iWARP", "InfiniBand"; empty if libcoherdma does not list the device.
std::string query_transport(const std::string &device) {
    const std::unique_ptr<coherdma_port, void (*)(coherdma_port *)> ports(
        coherdma_get_port_list(nullptr, sizeof(coherdma_port)), coherdma_free_port_list);
    for (const coherdma_port *port = ports.get(); port && port->device; ++port) {
        if (device == port->device)
            return port->transport;
    }
    return {};
}

/// Removes the prefix that OFED's libraries print on each line: host, provider, process, thread,
/// times.
std::string strip_prefix(const std::string &output) {
    // POSIX regex: <regex> takes five seconds to compile.
    regex_t prefix;
    if (regcomp(&prefix,
                "^[^[:space:]]+:[A-Z]+:[[:alnum:]_]+:[[:alnum:]_]+: [0-9]+ us[(][0-9]+ us!*[)]: *",
                REG_EXTENDED) != 0)
        throw std::runtime_error("regcomp failed");
    std::istringstream lines(output);
    std::string text;
    for (std::string line; std::getline(lines, line);) {
        if (regmatch_t match = {}; regexec(&prefix, line.c_str(), 1, &match, 0) == 0)
            line.erase(0, static_cast<std::size_t>(match.rm_eo));
        if (!line.empty())
            text += (text.empty() ? "" : "; ") + line;
    }
    regfree(&prefix);
    return text;
}

json or_null(const std::string &text) {
    return text.empty() ? json() : json(text);
}

/// The value of ia_info::details.
json query_details(const dat::adapter &ia) {
    const DAT_PROVIDER_ATTR &provider = ia.provider_attr();
    const DAT_IA_ATTR &ia_attr = ia.attr();
    const std::string device = ia.device_name();
    return {
        {"device", or_null(device)},
        {"transport", or_null(query_transport(device))},
        {"extension", extension_name(ia_attr.extension_supported)},
        {"address", ia.ia_address() ? json(ia.ia_address().to_string()) : json()},
        {"lmr_sync_req", ia.needs_sync()},
        {"provider", fmt::format("{} {}.{}", provider.provider_name,
                                 provider.provider_version_major, provider.provider_version_minor)},
        {"library", or_null(ia.provider_library())},
        {"ia_attributes", ia_attributes(ia)},
        {"transport_specific",
         named_attributes(ia_attr.transport_attr, ia_attr.num_transport_attr)},
        {"vendor_specific", named_attributes(ia_attr.vendor_attr, ia_attr.num_vendor_attr)},
        {"provider_attributes", provider_attributes(ia)},
        {"provider_specific",
         named_attributes(provider.provider_specific_attr, provider.num_provider_specific_attr)},
    };
}

/// Runs in a child process; returns JSON with either "details" or "reason".
std::string query_in_child(const std::string &name) {
    json answer;
    try {
        answer["details"] = query_details(dat::adapter(name));
    } catch (const dat::error &e) {
        std::string reason = dat::to_string(e.code);
        if (DAT_GET_TYPE(e.code) == DAT_PROVIDER_NOT_FOUND)
            reason += ": its library was not found or rejected the name; for details set "
                      "DAT_DBG_TYPE=0xff";
        answer["reason"] = reason;
    }
    return answer.dump(-1, ' ', false, json::error_handler_t::replace);
}

/// Opens, queries and closes the IA in a child process; sets can_open and details, or the reason.
void open_ia(ia_info &info) {
    const auto is_openable = [](const dat::registered_ia &entry) {
        return entry.is_openable();
    };
    if (std::none_of(info.entries.begin(), info.entries.end(), is_openable)) {
        info.reason = fmt::format("only for programs of uDAPL {}.{}; datinfo is one of 2.0",
                                  info.entries[0].major, info.entries[0].minor);
        return;
    }
    const dat::isolated_result probe =
        dat::run_isolated([&] { return query_in_child(info.name); }, PROBE_TIMEOUT);
    info.library_output = strip_prefix(probe.output);
    if (!probe.exit_reason.empty()) {
        info.reason = "its library " + probe.exit_reason + " when it was opened";
        return;
    }
    const json answer = json::parse(probe.value);
    info.can_open = answer.contains("details");
    if (info.can_open)
        info.details = answer["details"];
    else
        info.reason = answer["reason"];
}

} // namespace

/// names: empty for all IAs. Throws for a name that is not registered.
std::vector<ia_info> query_ias(const std::vector<std::string> &names) {
    std::vector<ia_info> infos;
    const auto find_info = [&](const std::string &name) {
        return std::find_if(infos.begin(), infos.end(),
                            [&](const ia_info &info) { return info.name == name; });
    };
    for (const std::string &name : names)
        if (find_info(name) == infos.end())
            infos.emplace_back().name = name;
    for (const dat::registered_ia &entry : dat::list_registry()) {
        auto it = find_info(entry.name);
        if (it == infos.end() && !names.empty())
            continue;
        if (it == infos.end()) {
            infos.emplace_back().name = entry.name;
            it = infos.end() - 1;
        }
        it->entries.push_back(entry);
    }
    for (ia_info &info : infos) {
        if (info.entries.empty())
            throw std::runtime_error(
                fmt::format("no IA is named {}; to list the IAs, type: datinfo", info.name));
        open_ia(info);
    }
    return infos;
}

std::string registry_file() {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void *>(dat_ia_openv), &info) == 0 || !info.dli_fname)
        return "?";
    return info.dli_fname;
}

} // namespace tools::datinfo
