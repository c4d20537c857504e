// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The sequencer (tests/system/udapl/sequencer) with libdat2, the provider and the fake fabric in
// one process. No round may leave a verbs object. Without arguments: three seeds, 4 threads, and
// one through the table of DAT 1.2. With arguments: those of the sequencer; --dat1 is the first.

#include "fake/fabric.hpp"
#include "run.hpp"
#include "sequencer_dat1.hpp"

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

/// From now on the generated calls, which go through the provider's DAT 2.0 table, reach its
/// DAT 1.2 table. Each object of the provider begins with a pointer to the DAT 2.0 table.
void use_dat1() {
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    DAT_EVD_HANDLE async_evd = DAT_HANDLE_NULL;
    std::string name = ia_name;
    if (dat_ia_open(name.data(), 8, &async_evd, &ia) != DAT_SUCCESS)
        sequencer::fail("no IA can be opened");
    DAT_PROVIDER &table = **static_cast<DAT_PROVIDER **>(async_evd);
    dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG);
    route_to_dat1(table);
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
    register_provider();
    if (argc > 1 && std::strcmp(argv[1], "--dat1") == 0) {
        use_dat1();
        return sequencer::run_program(argc - 1, argv + 1, hooks);
    }
    if (argc > 1)
        return sequencer::run_program(argc, argv, hooks);
    std::puts("1..4");
    for (const unsigned seed : {1U, 2U, 3U, 4U}) {
        const bool dat1 = seed == 4;
        if (dat1)
            use_dat1();
        sequencer::settings config;
        config.ia_name = ia_name;
        config.seed = seed;
        config.calls = 3000;
        config.command = std::string(argv[0]) + (dat1 ? " --dat1 " : " ") +
                         SEQUENCER_DEVICE " --calls 3000 --seed " + std::to_string(seed);
        if (const int status = sequencer::run(config, hooks))
            return status;
        std::printf("ok %u - seed_%u%s\n", seed, seed, dat1 ? "_dat1" : "");
        std::fflush(stdout);
    }
}
