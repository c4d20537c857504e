// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat/apart.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace tools::dat {
namespace {

using clock = std::chrono::steady_clock;

class descriptor {
  public:
    explicit descriptor(int opened)
        : number(opened) {
        if (number < 0)
            throw std::system_error(errno, std::generic_category(), "cannot open a file");
    }
    descriptor(const descriptor &) = delete;
    descriptor &operator=(const descriptor &) = delete;
    ~descriptor() { shut(); }
    void shut() {
        if (number >= 0)
            close(number);
        number = -1;
    }
    int get() const { return number; }

  private:
    int number;
};

[[noreturn]] void child(const std::function<std::string()> &function, int answer, int said) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(said, STDOUT_FILENO);
    dup2(said, STDERR_FILENO);
    std::string text;
    int status = 0;
    try {
        text = function();
    } catch (const std::exception &problem) {
        fmt::print(stderr, "{}\n", problem.what());
        status = 1;
    }
    std::fflush(nullptr);
    for (std::size_t done = 0; done < text.size();) {
        const ssize_t wrote = write(answer, &text[done], text.size() - done);
        if (wrote <= 0)
            _exit(1);
        done += static_cast<std::size_t>(wrote);
    }
    _exit(status); // nothing of the parent's is to be tidied up here
}

/// Until the other end is closed; false if that takes too long.
bool read_all(int from, clock::time_point until, std::string &all) {
    for (;;) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now());
        pollfd ready = {from, POLLIN, 0};
        const int some = poll(&ready, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            return false;
        char part[4096];
        const ssize_t got = read(from, part, sizeof part);
        if (got <= 0)
            return true;
        all.append(part, static_cast<std::size_t>(got));
    }
}

std::string contents(int file) {
    std::string all;
    char part[512];
    for (;;) {
        const ssize_t got = pread(file, part, sizeof part, static_cast<off_t>(all.size()));
        if (got <= 0)
            return all;
        all.append(part, static_cast<std::size_t>(got));
    }
}

std::string fate_of(int status) {
    if (WIFSIGNALED(status))
        return fmt::format("died of signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with {}", WEXITSTATUS(status));
}

} // namespace

apart call_apart(const std::function<std::string()> &function, std::chrono::milliseconds limit) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "cannot make a pipe");
    descriptor from(ends[0]), to(ends[1]), said(memfd_create("said", MFD_CLOEXEC));
    std::fflush(nullptr);
    const pid_t made = fork();
    if (made < 0)
        throw std::system_error(errno, std::generic_category(), "cannot make a process");
    if (made == 0)
        child(function, to.get(), said.get());
    to.shut();
    apart result;
    const bool ended = read_all(from.get(), clock::now() + limit, result.answer);
    if (!ended)
        kill(made, SIGKILL);
    int status = 0;
    while (waitpid(made, &status, 0) < 0 && errno == EINTR)
        continue;
    result.fate = ended ? fate_of(status)
                        : fmt::format("did not end within {} s",
                                      std::chrono::duration<double>(limit).count());
    if (!result.fate.empty())
        result.answer.clear();
    result.said = contents(said.get());
    return result;
}

} // namespace tools::dat
