// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "watch.hpp"

#include <csignal>
#include <fmt/format.h>
#include <unistd.h>

namespace tools::bench {
namespace {

volatile std::sig_atomic_t asked = 0;

void note(int) {
    asked = 1;
}

void say(const std::string &text) {
    if (isatty(STDERR_FILENO) != 0)
        fmt::print(stderr, "\r\033[K{}", text);
}

} // namespace

interruption::interruption() {
    struct sigaction action {};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, nullptr);
}

interruption::~interruption() {
    std::signal(SIGINT, SIG_DFL);
}

bool interruption::wished() {
    return asked != 0;
}

void show_progress(std::size_t done, std::size_t total, const std::string &what) {
    say(fmt::format("{} of {}: {}", done + 1, total, what));
}

void clear_progress() {
    say("");
}

} // namespace tools::bench
