// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// corpus --list: the cases, a line each: name, kind, needs, when it may crash (bare: only
// without the checker), other kinds, options of the checker.
// corpus NAME wrong|corrected DRIVER DEVICE ADDRESS: run a case. Exit status 0: it went as
// intended.

#include "corpus.hpp"

#include <array>
#include <cstdio>
#include <exception>
#include <string_view>
#include <unistd.h>

namespace check_corpus {

namespace {

constexpr std::array themes{
    use_after_destroy_cases,
    destroy_cases,
    dereg_cases,
    memory_cases,
    overflow_cases,
    send_queue_cases,
    state_cases,
    error_cases,
    poll_cases,
    wait_cases,
    event_cases,
    local_key_cases,
    local_range_cases,
    local_access_cases,
    local_pd_cases,
    thread_domain_cases,
    fork_cases,
    remote_cases,
    limit_cases,
    late_cases,
    leak_cases,
    ownership_cases,
    correct_cases,
    correct_wait_cases,
    thread_domain_cases,
    sanitized_cases,
};

void print_word(std::string_view word, char end) {
    std::printf("%.*s%c", static_cast<int>(word.size()), word.data(), end);
}

void list_cases() {
    for (const auto theme : themes) {
        for (const corpus_case &each : theme()) {
            print_word(each.name, '\t');
            print_word(each.kind, '\t');
            std::printf("%s%s%s%s%s%s\t%s\t", (each.needs & rxe) != 0 ? "rxe" : "",
                        (each.needs & extended) != 0 ? ",extended" : "",
                        (each.needs & coherdma) != 0 ? ",coherdma" : "",
                        (each.needs & cancels) != 0 ? ",cancels" : "",
                        (each.needs & msan) != 0 ? ",msan" : "",
                        (each.needs & maps) != 0 ? ",maps" : "",
                        each.may_crash_checked ? "checked"
                        : each.may_crash       ? "bare"
                                               : "");
            print_word(each.also, '\t');
            print_word(each.options, '\n');
        }
    }
}

const corpus_case *find_case(std::string_view name) {
    for (const auto theme : themes) {
        for (const corpus_case &each : theme()) {
            if (each.name == name)
                return &each;
        }
    }
    return nullptr;
}

int run_case(std::span<char *const> args) {
    const corpus_case *const entry = find_case(args[1]);
    const std::string_view variant = args[2];
    if (entry == nullptr || (variant != "wrong" && variant != "corrected")) {
        std::fprintf(stderr, "corpus: no case %s %s\n", args[1], args[2]);
        return 2;
    }
    constexpr unsigned limit_s = 60; // ends a hang
    alarm(limit_s);
    try {
        entry->run(target{.driver = args[3], .device = args[4], .address = args[5]},
                   variant == "corrected");
        return 0;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "corpus: %s: %s\n", args[1], error.what());
        return 1;
    }
}

} // namespace

} // namespace check_corpus

int main(int argc, char **argv) {
    const std::span<char *const> args(argv, static_cast<std::size_t>(argc));
    if (args.size() == 2 && std::string_view(args[1]) == "--list") {
        check_corpus::list_cases();
        return 0;
    }
    if (args.size() != 6) {
        std::fprintf(stderr, "usage: corpus --list | NAME wrong|corrected DRIVER DEVICE ADDRESS\n");
        return 2;
    }
    return check_corpus::run_case(args);
}
