// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The init of a guest booted by guest.py: prints "ready" on the console, waits for a byte, runs
// /program, prints its exit status and powers off. /words has the environment of /program, an empty
// word and its arguments; each word ends with a zero byte.

#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>
#include <vector>

namespace {

std::vector<char> read_file(const char *path) {
    std::vector<char> bytes(1 << 16);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t count = read(fd, bytes.data(), bytes.size() - 1);
    close(fd);
    bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    bytes.push_back('\0');
    return bytes;
}

// /words has the environment, an empty word, and the arguments, each word ended by 0.
void exec_program() {
    std::vector<char> bytes = read_file("/words");
    std::vector<char *> environment, arguments, *target = &environment;
    for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
        char *word = &bytes[i];
        if (*word == '\0' && target == &environment)
            target = &arguments;
        else
            target->push_back(word);
        while (bytes[i] != '\0')
            ++i;
    }
    environment.push_back(nullptr);
    arguments.push_back(nullptr);
    execve("/program", arguments.data(), environment.data());
    _exit(127);
}

} // namespace

// Process 1 of the guest: waits for a byte on the console, runs the program, reports how it ended,
// and powers the guest off.
int main() {
    termios tty = {};
    tcgetattr(0, &tty);
    cfmakeraw(&tty);
    tcsetattr(0, TCSANOW, &tty);
    std::printf("ready\n");
    std::fflush(stdout);
    char byte = 0;
    int status = -1;
    if (read(0, &byte, 1) == 1) {
        const pid_t child = fork();
        if (child == 0)
            exec_program();
        waitpid(child, &status, 0);
    }
    std::printf("ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    std::fflush(stdout);
    tcdrain(1);
    reboot(RB_POWER_OFF);
}
