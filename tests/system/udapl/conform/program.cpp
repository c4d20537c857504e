// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The list of cases, and the command line.

#include "lib/cases.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>
#include <getopt.h>
#include <string>

namespace {

using namespace conform;

constexpr const char *usage =
    "usage: conform --ia NAME [--device NAME] [--unused-address ADDRESS] [--ipv6 ADDRESS]\n"
    "               [--isolate] [--timeout SECONDS] [--silence MILLISECONDS] [--list] [CASE...]\n"
    "CASE may be a pattern of the shell, as 'evd.*'; none means all.\n"
    "--isolate runs each case in a process of its own, so that it may crash or hang.\n";

test_settings g_settings;

// In the order of their objects' lives.
constexpr void (*case_adders[])(case_list &) = {
    add_ia,
    add_ia_query,
    add_pz,
    add_lmr,
    add_sync,
    add_evd,
    add_evd_wait,
    add_evd_resize,
    add_cno,
    add_cno_fd,
    add_ep_create,
    add_ep_post,
    add_ep_modify,
    add_psp,
    add_rsp,
    add_cr,
    add_connect,
    add_disconnect,
    add_dto,
    add_dto_error,
    add_srq,
    add_context,
    add_handle,
    add_handle_argument,
    add_handle_provider,
    add_invalid,
    add_invalid_ep,
    add_invalid_connect,
};

bool matches_any(const test_case &test, std::span<char *const> patterns) {
    return patterns.empty() ||
           std::any_of(patterns.begin(), patterns.end(), [&](const char *pattern) {
               return fnmatch(pattern, test.name.c_str(), 0) == 0;
           });
}

struct command_line {
    bool isolate = false, list = false;
    std::vector<char *> child_args; // arguments of a child, without the case
    std::span<char *const> patterns;
};

command_line parse_command_line(int argc, char **argv) {
    static const option long_options[] = {{"ia", required_argument, nullptr, 'i'},
                                          {"device", required_argument, nullptr, 'd'},
                                          {"unused-address", required_argument, nullptr, 'n'},
                                          {"ipv6", required_argument, nullptr, '6'},
                                          {"silence", required_argument, nullptr, 'q'},
                                          {"timeout", required_argument, nullptr, 't'},
                                          {"isolate", no_argument, nullptr, 's'},
                                          {"list", no_argument, nullptr, 'l'},
                                          {}};
    command_line cmdline;
    for (int option; (option = getopt_long(argc, argv, "", long_options, nullptr)) != -1;) {
        switch (option) {
        case 'i':
            g_settings.ia = optarg;
            break;
        case 'd':
            g_settings.device = optarg;
            break;
        case 'n':
            g_settings.unused_address = optarg;
            break;
        case '6':
            g_settings.ipv6_address = optarg;
            break;
        case 't':
            g_settings.timeout_s = static_cast<unsigned>(std::atoi(optarg));
            break;
        case 'q':
            g_settings.quiet_ms = static_cast<unsigned>(std::atoi(optarg));
            break;
        case 's':
            cmdline.isolate = true;
            break;
        case 'l':
            cmdline.list = true;
            break;
        default:
            std::fputs(usage, stderr);
            std::exit(2);
        }
    }
    for (int i = 0; i < optind; ++i)
        if (std::strcmp(argv[i], "--isolate") != 0)
            cmdline.child_args.push_back(argv[i]);
    cmdline.patterns = {argv + optind, static_cast<std::size_t>(argc - optind)};
    return cmdline;
}

} // namespace

const test_settings &conform::settings() {
    return g_settings;
}

case_list conform::all_cases() {
    case_list all;
    for (const auto add : case_adders)
        add(all);
    return all;
}

int conform::run_program(int argc, char **argv, case_list cases) {
    const command_line cmdline = parse_command_line(argc, argv);
    std::erase_if(cases,
                  [&](const test_case &test) { return !matches_any(test, cmdline.patterns); });
    if (cmdline.list) {
        for (const test_case &test : cases)
            std::printf("%s\n", test.name.c_str());
        return 0;
    }
    if (!g_settings.ia || cases.empty()) {
        std::fputs(g_settings.ia ? "conform: no such case\n" : usage, stderr);
        return 2;
    }
    return cmdline.isolate ? run_isolated(cases, cmdline.child_args) : run_in_process(cases);
}
