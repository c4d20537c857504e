// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/stop.hpp"

#include <csignal>
#include <ctime>

namespace tools::datping {
namespace {

volatile std::sig_atomic_t wished = 0;

timespec first = {};

void note(int number) {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!wished) {
        first = now;
        wished = 1;
    } else if (now.tv_sec > first.tv_sec) { // timeout(1) sends one twice, at once
        std::signal(number, SIG_DFL);
        std::raise(number);
    }
}

} // namespace

void listen_for_stop() {
    struct sigaction action {};
    action.sa_handler = note;
    sigaction(SIGINT, &action, nullptr);
    sigaction(SIGTERM, &action, nullptr);
}

bool stop_wished() {
    return wished != 0;
}

} // namespace tools::datping
