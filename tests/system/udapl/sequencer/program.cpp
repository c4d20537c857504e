// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The command line.

#include "run.hpp"

#include <cstdio>
#include <cstdlib>
#include <getopt.h>

namespace sequencer {

namespace {

constexpr const char *usage =
    "usage: sequencer IA_NAME [--seed N] [--threads N] [--seconds S | --calls N]\n"
    "                 [--statistics] [--print-calls]\n"
    "Calls random functions of uDAPL by several threads, and checks each result.\n"
    "  --seed N      first of the threads' seeds (1); the same seed draws the same calls, as far\n"
    "                as their results are the same\n"
    "  --threads N   number of threads (4)\n"
    "  --seconds S   end after S seconds\n"
    "  --calls N     end after N calls of each thread (20000)\n"
    "  --print-calls print each call when it has returned\n"
    "  --statistics  print how often each function was called\n"
    "Exit status: 0 passed, 1 failed, 2 wrong arguments, 77 the IA cannot be opened.\n";

[[noreturn]] void reject_arguments() {
    std::fputs(usage, stderr);
    std::exit(2);
}

unsigned long parse_number(const char *text, unsigned long min, unsigned long max) {
    char *end = nullptr;
    const unsigned long number = std::strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || number < min || number > max)
        reject_arguments();
    return number;
}

} // namespace

int run_program(int argc, char **argv, const round_hooks &hooks) {
    static const option long_options[] = {
        {"help", no_argument, nullptr, 'h'},          {"seed", required_argument, nullptr, 's'},
        {"threads", required_argument, nullptr, 't'}, {"seconds", required_argument, nullptr, 'd'},
        {"calls", required_argument, nullptr, 'c'},   {"statistics", no_argument, nullptr, 'p'},
        {"print-calls", no_argument, nullptr, 'l'},   {}};
    settings config;
    for (int i = 0; i != argc; ++i)
        config.command.append(i != 0 ? " " : "").append(argv[i]);
    for (int option; (option = getopt_long(argc, argv, "", long_options, nullptr)) != -1;) {
        switch (option) {
        case 'h':
            std::fputs(usage, stdout);
            return 0;
        case 's':
            config.seed = parse_number(optarg, 0, ~0UL);
            break;
        case 't':
            config.num_threads = static_cast<unsigned>(parse_number(optarg, 1, 256));
            break;
        case 'd':
            config.seconds = static_cast<unsigned>(parse_number(optarg, 1, 1000000));
            config.calls = 0;
            break;
        case 'c':
            config.calls = parse_number(optarg, 1, ~0UL);
            break;
        case 'p':
            config.print_statistics = true;
            break;
        case 'l':
            config.print_calls = true;
            break;
        default:
            reject_arguments();
        }
    }
    if (optind != argc - 1)
        reject_arguments();
    config.ia_name = argv[optind];
    return run(config, hooks);
}

} // namespace sequencer
