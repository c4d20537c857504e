// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run/run.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace tools::run {
namespace {

constexpr std::array SIGNALS = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int NOT_FOUND = 127, NOT_EXECUTABLE = 126;

volatile sig_atomic_t child_pid = 0;       ///< 0 if there is none
volatile sig_atomic_t received_signal = 0; ///< the last signal, or 0
std::array<struct sigaction, SIGNALS.size()> old_actions;

/// The signal handler. A signal from the terminal (SI_KERNEL) reaches the child by itself.
void forward_signal(int number, siginfo_t *info, void *) {
    const int saved_errno = errno;
    received_signal = number;
    if (child_pid != 0 && info->si_code != SI_KERNEL)
        kill(child_pid, number);
    errno = saved_errno;
}

sigset_t forwarded_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : SIGNALS)
        sigaddset(&set, signal);
    return set;
}

/// Blocks the forwarded signals while it exists.
class signal_blocker {
  public:
    signal_blocker() {
        const sigset_t set = forwarded_signals();
        sigprocmask(SIG_BLOCK, &set, &old_mask_);
    }
    ~signal_blocker() { sigprocmask(SIG_SETMASK, &old_mask_, nullptr); }
    signal_blocker(const signal_blocker &) = delete;
    signal_blocker &operator=(const signal_blocker &) = delete;
    [[nodiscard]] const sigset_t *old_mask() const noexcept { return &old_mask_; }

  private:
    sigset_t old_mask_{};
};

/// This process's environment, with the variables of env replaced, or removed if empty.
std::vector<std::string> build_environment(const std::map<std::string, std::string> &env) {
    std::vector<std::string> result;
    for (char **it = environ; *it != nullptr; ++it) {
        const std::string_view entry = *it;
        if (env.count(std::string(entry.substr(0, entry.find('=')))) == 0)
            result.emplace_back(entry);
    }
    for (const auto &[name, value] : env)
        if (!value.empty())
            result.push_back(name + "=" + value);
    return result;
}

std::vector<char *> make_argv(std::vector<std::string> &strings) {
    std::vector<char *> argv;
    for (std::string &s : strings)
        argv.push_back(s.data());
    argv.push_back(nullptr);
    return argv;
}

/// Starts the command; returns 0 or an errno: EINTR if a signal has already arrived.
int spawn_command(std::vector<std::string> args, const std::map<std::string, std::string> &env) {
    std::vector<std::string> variables = build_environment(env);
    const signal_blocker blocker;
    if (received_signal != 0)
        return EINTR;
    posix_spawnattr_t attr;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attr, blocker.old_mask());
    pid_t pid = 0;
    const int error = posix_spawnp(&pid, args.front().c_str(), nullptr, &attr,
                                   make_argv(args).data(), make_argv(variables).data());
    posix_spawnattr_destroy(&attr);
    child_pid = error == 0 ? pid : 0;
    return error;
}

} // namespace

signal_forwarder::signal_forwarder() {
    received_signal = 0;
    struct sigaction action = {};
    action.sa_sigaction = forward_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t i = 0; i < SIGNALS.size(); ++i) {
        sigaction(SIGNALS[i], nullptr, &old_actions[i]);
        if (old_actions[i].sa_handler != SIG_IGN) // if ignored, the command inherits that
            sigaction(SIGNALS[i], &action, nullptr);
    }
}

signal_forwarder::~signal_forwarder() {
    for (std::size_t i = 0; i < SIGNALS.size(); ++i)
        sigaction(SIGNALS[i], &old_actions[i], nullptr);
}

int signal_forwarder::last_signal() noexcept {
    return received_signal;
}

/// Runs the command to its end; returns the exit status that a shell would have.
int run_command(const std::vector<std::string> &args,
                const std::map<std::string, std::string> &env) {
    const int error = spawn_command(args, env);
    if (error == EINTR)
        return SIGNAL_STATUS_BASE + received_signal;
    if (error != 0) {
        std::fprintf(stderr, "coherdma: cannot run %s: %s\n", args.front().c_str(),
                     std::strerror(error));
        return error == ENOENT ? NOT_FOUND : NOT_EXECUTABLE;
    }
    int status = 0;
    // WNOWAIT: the process is reaped only after signals are blocked, so that none is sent to a
    // reused PID.
    siginfo_t info = {};
    while (waitid(P_PID, static_cast<id_t>(child_pid), &info, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    {
        const signal_blocker blocker;
        waitpid(child_pid, &status, 0);
        child_pid = 0;
    }
    return WIFSIGNALED(status) ? SIGNAL_STATUS_BASE + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace tools::run
