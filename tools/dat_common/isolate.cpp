// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_common/isolate.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace tools::dat {
namespace {

using clock = std::chrono::steady_clock;

class fd_guard {
  public:
    explicit fd_guard(int fd)
        : fd_(fd) {
        if (fd_ < 0)
            throw std::system_error(errno, std::generic_category(), "cannot open a file");
    }
    fd_guard(const fd_guard &) = delete;
    fd_guard &operator=(const fd_guard &) = delete;
    ~fd_guard() { reset(); }
    void reset() {
        if (fd_ >= 0)
            close(fd_);
        fd_ = -1;
    }
    int get() const { return fd_; }

  private:
    int fd_;
};

/// The child of run_isolated(): writes the function's result to result_fd; what the function and
/// the libraries print goes to output_fd.
[[noreturn]] void run_child(const std::function<std::string()> &function, int result_fd,
                            int output_fd) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output_fd, STDOUT_FILENO);
    dup2(output_fd, STDERR_FILENO);
    std::string text;
    int status = 0;
    try {
        text = function();
    } catch (const std::exception &e) {
        fmt::print(stderr, "{}\n", e.what());
        status = 1;
    }
    std::fflush(nullptr);
    for (std::size_t written = 0; written < text.size();) {
        const ssize_t count = write(result_fd, &text[written], text.size() - written);
        if (count <= 0)
            std::quick_exit(1);
        written += static_cast<std::size_t>(count);
    }
    // The parent's destructors and exit handlers must not run in the child. _exit() would end it
    // without the summary of coherdma emulate.
    std::quick_exit(status);
}

/// Reads until the writer closes the pipe; false after the deadline.
bool read_all(int fd, clock::time_point deadline, std::string &text) {
    for (;;) {
        const auto timeout =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - clock::now());
        pollfd poll_fd = {fd, POLLIN, 0};
        const int num_ready =
            poll(&poll_fd, 1, static_cast<int>(std::max<std::int64_t>(timeout.count(), 0)));
        if (num_ready < 0 && errno == EINTR)
            continue;
        if (num_ready <= 0)
            return false;
        char chunk[4096];
        const ssize_t count = read(fd, chunk, sizeof chunk);
        if (count <= 0)
            return true;
        text.append(chunk, static_cast<std::size_t>(count));
    }
}

std::string read_file(int fd) {
    std::string text;
    char chunk[512];
    for (;;) {
        const ssize_t count = pread(fd, chunk, sizeof chunk, static_cast<off_t>(text.size()));
        if (count <= 0)
            return text;
        text.append(chunk, static_cast<std::size_t>(count));
    }
}

std::string describe_exit(int status) {
    if (WIFSIGNALED(status))
        return fmt::format("died of signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with {}", WEXITSTATUS(status));
}

} // namespace

isolated_result run_isolated(const std::function<std::string()> &function,
                             std::chrono::milliseconds timeout) {
    int pipe_fds[2];
    if (pipe2(pipe_fds, O_CLOEXEC) != 0)
        throw std::system_error(errno, std::generic_category(), "cannot create a pipe");
    fd_guard pipe_read(pipe_fds[0]), pipe_write(pipe_fds[1]),
        output_fd(memfd_create("output", MFD_CLOEXEC));
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid < 0)
        throw std::system_error(errno, std::generic_category(), "cannot create a process");
    if (pid == 0)
        run_child(function, pipe_write.get(), output_fd.get());
    pipe_write.reset();
    isolated_result result;
    const bool has_ended = read_all(pipe_read.get(), clock::now() + timeout, result.value);
    if (!has_ended)
        kill(pid, SIGKILL);
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    result.exit_reason = has_ended ? describe_exit(status)
                                   : fmt::format("did not finish within {} s",
                                                 std::chrono::duration<double>(timeout).count());
    if (!result.exit_reason.empty())
        result.value.clear();
    result.output = read_file(output_fd.get());
    return result;
}

} // namespace tools::dat
