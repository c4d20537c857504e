// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The first program of a guest that guest.py boots. It says "ready" on the console and waits for a
// byte, runs /program, says how that ended, and switches the guest off. What /program is given is
// in /words, each word with a zero byte behind it: its environment, an empty word, its arguments.

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

namespace {

std::vector<char> contents(const char *path) {
    std::vector<char> bytes(1 << 16);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = read(file, bytes.data(), bytes.size() - 1);
    close(file);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    bytes.push_back('\0');
    return bytes;
}

void run() {
    std::vector<char> bytes = contents("/words");
    std::vector<char *> environment, arguments, *into = &environment;
    for (std::size_t at = 0; at + 1 < bytes.size(); ++at) {
        char *word = &bytes[at];
        if (*word == '\0' && into == &environment)
            into = &arguments;
        else
            into->push_back(word);
        while (bytes[at] != '\0')
            ++at;
    }
    environment.push_back(nullptr);
    arguments.push_back(nullptr);
    execve("/program", arguments.data(), environment.data());
    _exit(127);
}

} // namespace

int main() {
    termios line = {};
    tcgetattr(0, &line);
    cfmakeraw(&line);
    tcsetattr(0, TCSANOW, &line);
    std::printf("ready\n");
    std::fflush(stdout);
    char go = 0;
    int status = -1;
    if (read(0, &go, 1) == 1) {
        const pid_t child = fork();
        if (child == 0)
            run();
        waitpid(child, &status, 0);
    }
    std::printf("ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    std::fflush(stdout);
    tcdrain(1);
    reboot(RB_POWER_OFF);
}
