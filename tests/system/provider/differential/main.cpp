// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Executes verbs calls with the provider that libibverbs loads, and prints all that they return.
//
// differential rxe|siw DEVICE GID_INDEX ADDRESS PARTS CASES SEED STEPS
//
// PARTS: runs one of so many parts of the cases. CASES: a regular expression. SEED
// STEPS: of the random cases.

#include "../../lib/verbs.hpp"
#include "groups.hpp"

#include <cstdio>
#include <span>

using namespace differential;

int main(int argc, char **argv) try {
    const std::span<char *const> args(argv, static_cast<std::size_t>(argc));
    constexpr std::size_t num_args = 9;
    if (args.size() != num_args)
        throw verbs_test::failure("rxe|siw DEVICE GID_INDEX ADDRESS PARTS CASES SEED STEPS");
    settings options;
    options.driver = args[1];
    options.device = args[2];
    options.gid_index = std::stoi(args[3]);
    options.address = args[4];
    options.num_parts = static_cast<unsigned>(std::stoul(args[5]));
    options.name_filter = args[6];
    options.seed = std::stoul(args[7]);
    options.steps = static_cast<unsigned>(std::stoul(args[8]));
    const std::vector<group> groups{
        {"posts", run_posts},     {"extended posts", run_extended_posts}, {"lists", run_lists},
        {"receives", run_recvs},  {"remote accesses", run_accesses},      {"events", run_events},
        {"domains", run_domains}, {"processes", run_processes},           {"threads", run_threads},
        {"objects", run_objects}, {"modifications", run_modifications},   {"random", run_random},
    };
    return run_groups(options, groups);
} catch (const std::exception &error) {
    std::fprintf(stderr, "differential: %s\n", error.what());
    return 1;
}
