// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "interrupt.hpp"

#include <csignal>
#include <fmt/core.h>
#include <unistd.h>

namespace tools::bench {
namespace {

volatile std::sig_atomic_t interrupted = 0;

void on_sigint(int) {
    interrupted = 1;
}

/// Replaces the line on the terminal; without a terminal, prints nothing.
void print_progress(const std::string &text) {
    constexpr const char *CLEAR_LINE = "\r\033[K";
    if (isatty(STDERR_FILENO) != 0)
        fmt::print(stderr, "{}{}", CLEAR_LINE, text);
}

} // namespace

sigint_guard::sigint_guard() {
    struct sigaction action {};
    action.sa_handler = on_sigint;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, nullptr);
}

sigint_guard::~sigint_guard() {
    std::signal(SIGINT, SIG_DFL);
}

bool sigint_guard::is_interrupted() {
    return interrupted != 0;
}

void show_progress(std::size_t num_done, std::size_t num_steps, const std::string &step) {
    print_progress(fmt::format("{} of {}: {}", num_done + 1, num_steps, step));
}

void clear_progress() {
    print_progress("");
}

} // namespace tools::bench
