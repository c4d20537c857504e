// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A corpus of programs that omit a sync, or make a wrong one, and of the same programs with all
// syncs.
//
//     omissions [--omit] [--local] [--registered] [--two-processes] [--only NAME] ADDRESS
//     omissions --list rxe|siw [--local]     prints NAME, subject is expected on a fresh page and
//     on a
//                                            page that is registered already, and "alone" if it
//                                            runs with --only, for each scenario
//
// --omit: the call is omitted or wrong. --local: those of local memory. --registered: on a page
// with other memory that is registered. --two-processes: the peer is another process, else a
// thread.
//
// Exit status: 0 all data were right, 1 some were wrong, 2 error. Prints "region NAME BEGIN LENGTH"
// for each scenario, and with --omit "without NAME CALL BEGIN LENGTH": a finding must be about
// these lines. "wrong NAME": the data were.

#include "scenarios.hpp"

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <unistd.h>

namespace {

using namespace omissions;

struct options {
    bool omit = false, local = false, two_processes = false;
    page_state page = page_state::FRESH;
    std::string only, address;
};

const char *name_of(expected result) noexcept {
    switch (result) {
    case expected::CERTAIN:
        return "certain";
    case expected::POSSIBLE:
        return "possible";
    case expected::ANY:
        return "any";
    case expected::UNKNOWN:
        return "unknown";
    case expected::HARMLESS:
        return "harmless";
    case expected::NONE:
        return "none";
    }
    return "?";
}

std::vector<scenario> scenarios(bool local) {
    if (local)
        return {LOCAL_SCENARIOS.begin(), LOCAL_SCENARIOS.end()};
    std::vector<scenario> result(READ_SCENARIOS.begin(), READ_SCENARIOS.end());
    result.insert(result.end(), WRITE_SCENARIOS.begin(), WRITE_SCENARIOS.end());
    return result;
}

/// "alone" or "strict": a process of its own runs it, with that option.
const char *run_of(const scenario &each) noexcept {
    return (each.needs & scenario::STRICT) != 0  ? "strict"
           : (each.needs & scenario::ALONE) != 0 ? "alone"
                                                 : "";
}

void print_list(bool iwarp, bool local) {
    for (const scenario &each : scenarios(local))
        if (!iwarp || (each.needs & scenario::ROCE) == 0)
            std::printf("%s\t%s\t%s\t%s\n", each.name, name_of(each.on_fresh_page),
                        name_of(each.on_registered_page), run_of(each));
}

/// Exit handlers of main() run before the destructors of objects that are older than it.
struct last_look {
    std::unique_ptr<stage> kept;
    last_look() = default;
    last_look(const last_look &) = delete;
    last_look &operator=(const last_look &) = delete;
    ~last_look() {
        if (kept)
            finish_at_exit(*kept);
    }
};
last_look at_exit;

/// Returns the exit status.
int run_scenarios(const options &opts) {
    auto *const owner = new side; // not destroyed: used at exit
    const peer_proxy peer(opts.address, !opts.two_processes);
    owner->accept_peer(opts.address, [&](std::uint16_t port) { peer.tell_port(port); });
    peer.execute(command::SEND); // on iWARP it must send first
    owner->receive_message();
    bool has_wrong_data = false;
    for (const scenario &each : scenarios(opts.local)) {
        if (opts.only.empty() ? (each.needs & scenario::ALONE) != 0 : opts.only != each.name)
            continue;
        if (owner->is_iwarp() && (each.needs & scenario::ROCE) != 0)
            continue;
        auto state = std::make_unique<stage>(each.name, *owner, peer, opts.page, opts.omit,
                                             (each.needs & scenario::SHARED) != 0);
        each.run(*state);
        has_wrong_data = has_wrong_data || state->has_wrong_data();
        if ((each.needs & scenario::AT_EXIT) != 0)
            at_exit.kept = std::move(state);
        if ((each.needs & scenario::KEPT) != 0)
            static_cast<void>(state.release());
    }
    return has_wrong_data ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) try {
    constexpr unsigned limit_seconds = 300; // ends a hang
    alarm(limit_seconds);
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    options opts;
    std::string list;
    for (int i = 1; i < argc; ++i) {
        const std::string_view arg = argv[i];
        if (arg == "--peer" && i + 2 < argc) {
            run_peer(std::atoi(argv[i + 1]), argv[i + 2]);
            return 0;
        }
        if (arg == "--omit")
            opts.omit = true;
        else if (arg == "--local")
            opts.local = true;
        else if (arg == "--registered")
            opts.page = page_state::REGISTERED;
        else if (arg == "--two-processes")
            opts.two_processes = true;
        else if (arg == "--only" && i + 1 < argc)
            opts.only = argv[++i];
        else if (arg == "--list" && i + 1 < argc)
            list = argv[++i];
        else
            opts.address = arg;
    }
    if (!list.empty()) {
        print_list(list == "siw", opts.local);
        return 0;
    }
    if (opts.address.empty() || opts.address.front() == '-')
        throw failure("omissions [--omit] [--local] [--registered] [--two-processes] [--only NAME] "
                      "ADDRESS, or --list rxe|siw [--local]");
    std::printf("owner %d\n", getpid());
    return run_scenarios(opts);
} catch (const std::exception &e) {
    std::printf("error: %s\n", e.what());
    return 2;
}
