// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/select_ia.hpp"
#include "dat_common/isolate.hpp"
#include "dat_common/to_string.hpp"
#include "datping/options.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <optional>

namespace tools::datping {
namespace {

constexpr std::chrono::seconds PROBE_TIMEOUT{20};

/// How well an IA's address matches a destination; larger is better.
enum match_quality : int { NO_ADDRESS = 0, ANY_ADDRESS, SAME_FAMILY, SAME_INTERFACE, SAME_ADDRESS };

/// destination: none for a server, for which any address will do.
match_quality match_address(const dat::address &ia_addr, const dat::address &destination) {
    if (!ia_addr)
        return NO_ADDRESS;
    if (!destination)
        return ANY_ADDRESS;
    const dat::address source = dat::source_address_for(destination);
    if (source.is_same_host(ia_addr))
        return SAME_ADDRESS;
    const std::string interface = dat::find_netdev(source);
    if (!interface.empty() && interface == dat::find_netdev(ia_addr))
        return SAME_INTERFACE;
    return ia_addr.family() == destination.family() ? SAME_FAMILY : ANY_ADDRESS;
}

/// Lists the first names only: OFED's dat.conf has 66.
std::string join_names(const std::vector<std::string> &names) {
    constexpr std::size_t MAX_SHOWN = 5;
    std::string text;
    for (std::size_t i = 0; i < std::min(MAX_SHOWN, names.size()); ++i)
        text += (i > 0 ? ", " : "") + names[i];
    if (names.size() > MAX_SHOWN)
        text += fmt::format(" and {} more", names.size() - MAX_SHOWN);
    return text.empty() ? "none" : text;
}

struct address_match {
    match_quality quality;
    dat::address addr;
};

/// The host address that matches the IA best.
address_match find_best_match(const dat::address &ia_addr,
                              const std::vector<dat::address> &host_addrs) {
    if (host_addrs.empty())
        return {match_address(ia_addr, {}), {}};
    address_match best = {NO_ADDRESS, host_addrs.front()};
    for (const dat::address &addr : host_addrs)
        if (const match_quality quality = match_address(ia_addr, addr); quality > best.quality)
            best = {quality, addr};
    return best;
}

/// Opens the IA, with the server's address that it reaches best.
selected_ia open_by_name(const std::string &name, const std::vector<dat::address> &host_addrs) {
    try {
        dat::adapter ia(name);
        const dat::address destination = find_best_match(ia.ia_address(), host_addrs).addr;
        return {std::move(ia), destination};
    } catch (const dat::error &e) {
        const auto names = dat::list_openable_ias();
        if (std::find(names.begin(), names.end(), name) != names.end())
            throw std::runtime_error(fmt::format("{}; type: datinfo", e.what()));
        throw std::runtime_error(fmt::format("no IA is named {}; there are: {}; type: datinfo",
                                             name, join_names(names)));
    }
}

/// Opens the only IA. If that fails, this machine has none to use.
selected_ia open_single(const std::string &name, const std::vector<dat::address> &host_addrs) {
    try {
        return open_by_name(name, host_addrs);
    } catch (const std::runtime_error &e) {
        throw not_available_error(e.what());
    }
}

/// The address of an IA, or nothing if it cannot be opened. The IA is opened in a child process:
/// providers for absent devices print errors, and some of OFED's crash.
std::optional<dat::address> probe_address(const std::string &name) {
    const dat::isolated_result probe = dat::run_isolated(
        [&] { return dat::adapter(name).ia_address().to_string(); }, PROBE_TIMEOUT);
    if (!probe.exit_reason.empty())
        return {};
    return probe.value == "none" ? dat::address() : dat::resolve(probe.value).front();
}

} // namespace

/// host_addrs: of the server; empty if this is the server, whose IA only needs an address.
selected_ia select_ia(const std::string &name, const std::vector<dat::address> &host_addrs) {
    if (!name.empty())
        return open_by_name(name, host_addrs);
    const auto names = dat::list_openable_ias();
    if (names.empty())
        throw not_available_error("there is no IA on this machine; type: datinfo");
    if (names.size() == 1)
        return open_single(names[0], host_addrs);
    std::string best_name;
    std::optional<match_quality> best_quality;
    for (const std::string &candidate : names) {
        const auto ia_addr = probe_address(candidate);
        if (!ia_addr)
            continue;
        const match_quality quality = find_best_match(*ia_addr, host_addrs).quality;
        if (best_quality && quality <= *best_quality)
            continue;
        best_quality = quality;
        best_name = candidate;
    }
    if (!best_quality)
        throw not_available_error(fmt::format(
            "no IA can be opened: {}; for the reasons, type: datinfo", join_names(names)));
    return open_by_name(best_name, host_addrs);
}

} // namespace tools::datping
