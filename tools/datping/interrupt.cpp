// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/interrupt.hpp"

#include <csignal>
#include <ctime>

namespace tools::datping {
namespace {

volatile std::sig_atomic_t signal_received = 0;

timespec first_signal_time = {};

/// The first signal sets a flag; one in a later second ends the process.
void on_signal(int number) {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!signal_received) {
        first_signal_time = now;
        signal_received = 1;
    } else if (now.tv_sec > first_signal_time.tv_sec) { // timeout(1) sends its signal twice at once
        std::signal(number, SIG_DFL);
        std::raise(number);
    }
}

} // namespace

void install_signal_handlers() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

bool is_interrupted() {
    return signal_received != 0;
}

} // namespace tools::datping
