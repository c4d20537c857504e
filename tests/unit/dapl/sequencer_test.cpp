// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The sequencer (tests/system/udapl/sequencer) with libdat2, the provider and the fake fabric in
// one process. No round may leave a verbs object. Without arguments: three seeds, 4 threads. With
// arguments: those of the sequencer.

#include "fake/fabric.hpp"
#include "run.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dat2/dat_registry.h>
#include <string>
#include <unistd.h>

extern "C" void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *args);

namespace {

constexpr const char *ia_name = SEQUENCER_DEVICE;

void register_provider() {
    DAT_PROVIDER_INFO info = {};
    std::strcpy(info.ia_name, ia_name);
    info.dapl_version_major = DAT_VERSION_MAJOR;
    info.dapl_version_minor = DAT_VERSION_MINOR;
    dat_provider_init(&info, SEQUENCER_DEVICE " 0");
}

void expect_no_verbs_objects() {
    // Threads of their own destroy attempts of iWARP that were ended.
    for (int tries = 0; tries != 60000 && !fake::get_fabric().count_objects().empty(); ++tries)
        usleep(1000);
    for (const auto &[kind, count] : fake::get_fabric().count_objects())
        sequencer::fail(std::to_string(count) + " " + kind + " leaked");
}

constexpr sequencer::round_hooks hooks = {[] { fake::get_fabric().reset(); },
                                          expect_no_verbs_objects};

} // namespace

int main(int argc, char **argv) {
    setenv("DAT_OVERRIDE", "/dev/null", 1); // no dat.conf
    setenv("COHERDMA_COUNTERS", "1", 0);
    register_provider();
    if (argc > 1)
        return sequencer::run_program(argc, argv, hooks);
    std::puts("1..3");
    for (const unsigned seed : {1U, 2U, 3U}) {
        sequencer::settings config;
        config.ia_name = ia_name;
        config.seed = seed;
        config.calls = 4000;
        config.command = std::string(argv[0]) + " " SEQUENCER_DEVICE " --calls 4000 --seed " +
                         std::to_string(seed);
        if (const int status = sequencer::run(config, hooks))
            return status;
        std::printf("ok %u - seed_%u\n", seed, seed);
        std::fflush(stdout);
    }
}
