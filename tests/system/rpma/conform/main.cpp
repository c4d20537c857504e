// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rpma_conform: does this librpma do what its pages promise? See README.md.

#include "lib/run.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>
#include <getopt.h>

namespace {

using namespace conform;

constexpr const char *usage =
    "usage: rpma_conform [--device NAME --address ADDRESS] [--unused-address ADDRESS]\n"
    "                    [--timeout SECONDS] [--list] [CASE...]\n"
    "CASE may be a pattern of the shell, as 'mr.*'; none means all. Without a device: those that "
    "need none.\n";

test_settings g_settings;

// In the order of their objects' lives.
constexpr void (*adders_without_device[])(case_list &) = {
    add_text, add_log, add_null, add_null_operation, add_cfg, add_peer_cfg, add_remote_mr,
};
constexpr void (*adders_with_device[])(case_list &) = {
    add_context,
    add_peer,
    add_mr,
    add_advise,
    add_ep,
    add_request,
    add_private_data,
    add_connect,
    add_event,
    add_cq,
    add_shared_channel,
    add_read_write,
    add_operation_error,
    add_flush,
    add_send,
    add_srq,
};

bool matches_any(const test_case &test, std::span<char *const> patterns) {
    return patterns.empty() ||
           std::any_of(patterns.begin(), patterns.end(), [&](const char *pattern) {
               return fnmatch(pattern, test.name.c_str(), 0) == 0;
           });
}

} // namespace

test_settings &conform::settings() {
    return g_settings;
}

int main(int argc, char **argv) {
    static const option long_options[] = {{"device", required_argument, nullptr, 'd'},
                                          {"address", required_argument, nullptr, 'a'},
                                          {"unused-address", required_argument, nullptr, 'u'},
                                          {"timeout", required_argument, nullptr, 't'},
                                          {"list", no_argument, nullptr, 'l'},
                                          {}};
    bool list = false;
    for (int option; (option = getopt_long(argc, argv, "", long_options, nullptr)) != -1;) {
        switch (option) {
        case 'd':
            g_settings.device = optarg;
            break;
        case 'a':
            g_settings.address = optarg;
            break;
        case 'u':
            g_settings.unused_address = optarg;
            break;
        case 't':
            g_settings.timeout_s = static_cast<unsigned>(std::atoi(optarg));
            break;
        case 'l':
            list = true;
            break;
        default:
            std::fputs(usage, stderr);
            return 2;
        }
    }
    case_list cases;
    for (const auto add : adders_without_device)
        add(cases);
    if (list || !g_settings.device.empty())
        for (const auto add : adders_with_device)
            add(cases);
    const std::span patterns{argv + optind, static_cast<std::size_t>(argc - optind)};
    std::erase_if(cases, [&](const test_case &test) { return !matches_any(test, patterns); });
    if (list) {
        for (const test_case &test : cases)
            std::printf("%s\n", test.name.c_str());
        return 0;
    }
    if (cases.empty()) {
        std::fputs("rpma_conform: no such case\n", stderr);
        return 2;
    }
    return run_cases(cases);
}
