// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Many processes, or many threads, that misuse verbs.
//
// many children|threads COUNT DRIVER DEVICE ADDRESS: each child of fork(), or each thread, opens
// the device, and deregisters memory that a receive names. Exit status 0: all have ended as
// intended. many forever DRIVER DEVICE ADDRESS: one process does it again and again until it is
// killed.

#include "loopback.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <span>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace check_corpus {

namespace {

void deregister_posted(const target &target) {
    unconnected side(target);
    endpoint &local = side.local;
    ibv_mr *const mr = local.register_memory();
    local.post_recv({reinterpret_cast<std::uintptr_t>(local.memory), 64, mr->lkey});
    check(ibv_dereg_mr(mr), "deregister"); // wrong: dereg-while-outstanding
}

int run_in_process(const target &target) noexcept {
    try {
        deregister_posted(target);
        return EXIT_SUCCESS;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "many: %s\n", error.what());
        return EXIT_FAILURE;
    }
}

/// Returns the number of those that have failed.
int run_children(const target &target, int count) {
    for (int i = 0; i < count; ++i) {
        const pid_t child = fork();
        if (child == 0)
            std::exit(run_in_process(target));
        if (child < 0)
            throw failure("fork");
    }
    int num_failed = 0;
    for (int status = 0; wait(&status) > 0;)
        num_failed += status == 0 ? 0 : 1;
    return num_failed;
}

int run_threads(const target &target, int count) {
    std::vector<std::thread> threads;
    std::atomic<int> num_failed = 0;
    for (int i = 0; i < count; ++i)
        threads.emplace_back([&] { num_failed += run_in_process(target); });
    for (std::thread &each : threads)
        each.join();
    return num_failed;
}

int print_usage() {
    std::fprintf(stderr, "usage: many children|threads COUNT DRIVER DEVICE ADDRESS\n"
                         "       many crash|forever DRIVER DEVICE ADDRESS\n");
    return 2;
}

int run(std::span<char *const> args) {
    const std::string_view mode = args.size() > 1 ? args[1] : "";
    const bool has_count = mode == "children" || mode == "threads";
    if (args.size() != (has_count ? 6 : 5))
        return print_usage();
    const auto facts = args.last(3);
    const target target{.driver = facts[0], .device = facts[1], .address = facts[2]};
    if (mode == "children")
        return run_children(target, std::atoi(args[2]));
    if (mode == "threads")
        return run_threads(target, std::atoi(args[2]));
    if (mode != "crash" && mode != "forever")
        return print_usage();
    do
        deregister_posted(target);
    while (mode == "forever");
    std::abort();
}

} // namespace

} // namespace check_corpus

int main(int argc, char **argv) {
    return check_corpus::run({argv, static_cast<std::size_t>(argc)});
}
