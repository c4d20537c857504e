// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "log_file.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace coherdma::reports {
namespace {

std::string expand_pid(std::string name) {
    const std::string pid = std::to_string(getpid());
    for (std::size_t pos = 0; (pos = name.find("%p", pos)) != std::string::npos; pos += pid.size())
        name.replace(pos, 2, pid);
    return name;
}

/// While it exists, a write to a pipe without a reader does not end the program.
class no_sigpipe {
  public:
    no_sigpipe() noexcept {
        sigset_t pending;
        was_pending_ = sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1;
        sigemptyset(&signal_);
        sigaddset(&signal_, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &signal_, &previous_mask_);
    }
    ~no_sigpipe() {
        const int saved_errno = errno;
        constexpr timespec NO_WAIT = {.tv_sec = 0, .tv_nsec = 0};
        while (!was_pending_ && sigtimedwait(&signal_, nullptr, &NO_WAIT) == SIGPIPE) {
        }
        pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
        errno = saved_errno;
    }
    no_sigpipe(const no_sigpipe &) = delete;
    no_sigpipe &operator=(const no_sigpipe &) = delete;

  private:
    sigset_t signal_{}, previous_mask_{};
    bool was_pending_ = false;
};

/// Whether the descriptor, which does not block, has room again after a while.
bool waits_for_room(int fd, int error) noexcept {
    constexpr int PATIENCE_MS = 1000;
    pollfd asked = {.fd = fd, .events = POLLOUT, .revents = 0};
    return error == EAGAIN && poll(&asked, 1, PATIENCE_MS) == 1;
}

} // namespace

int write_text(int fd, std::string_view text) noexcept {
    const no_sigpipe scope;
    while (!text.empty()) {
        const ssize_t length = write(fd, text.data(), text.size());
        if (length == 0 || (length < 0 && errno != EINTR && !waits_for_room(fd, errno)))
            return length == 0 ? EIO : errno;
        text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    }
    return 0;
}

log_file::~log_file() {
    if (fd_ >= 0)
        close(fd_);
}

std::string log_file::open() {
    if (name_.empty() || pid_ == getpid())
        return "";
    if (fd_ >= 0)
        close(fd_);
    pid_ = getpid();
    const std::string path = expand_pid(name_);
    constexpr mode_t OWNER_ONLY = 0600;
    const int fd = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, OWNER_ONLY);
    // If the program has closed stderr, the log must not get its descriptor.
    fd_ = fd >= 0 && fd <= STDERR_FILENO ? fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : fd;
    const int error = errno;
    if (fd >= 0 && fd_ != fd)
        close(fd);
    return fd_ < 0 ? "cannot write findings to " + path + ": " + std::strerror(error) : "";
}

std::string log_file::write(const std::string &line) {
    std::string problem = open();
    if (fd_ < 0)
        return problem;
    if (const int error = write_text(fd_, line); error != 0)
        problem = "cannot write findings to " + expand_pid(name_) + ": " + std::strerror(error);
    return problem;
}

} // namespace coherdma::reports
