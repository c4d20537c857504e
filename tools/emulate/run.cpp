// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/run.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace tools::emulate {
namespace {

constexpr std::array SIGNALS = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr int NO_PROGRAM = 127, NO_RIGHT = 126;

volatile sig_atomic_t command = 0; ///< its process; 0: none
volatile sig_atomic_t last = 0;    ///< signal
std::array<struct sigaction, SIGNALS.size()> before;

void forward(int number, siginfo_t *how, void *) {
    const int error = errno;
    last = number;
    if (command != 0 && how->si_code != SI_KERNEL)
        kill(command, number);
    errno = error;
}

sigset_t all_of_them() {
    sigset_t all;
    sigemptyset(&all);
    for (const int each : SIGNALS)
        sigaddset(&all, each);
    return all;
}

/// While it lives, signals wait.
class pause_of_signals {
  public:
    pause_of_signals() {
        const sigset_t all = all_of_them();
        sigprocmask(SIG_BLOCK, &all, &before_);
    }
    ~pause_of_signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    pause_of_signals(const pause_of_signals &) = delete;
    pause_of_signals &operator=(const pause_of_signals &) = delete;
    [[nodiscard]] const sigset_t *before() const noexcept { return &before_; }

  private:
    sigset_t before_{};
};

std::vector<std::string> environment_with(const std::map<std::string, std::string> &more) {
    std::vector<std::string> all;
    for (char **each = environ; *each != nullptr; ++each) {
        const std::string_view word = *each;
        if (more.count(std::string(word.substr(0, word.find('=')))) == 0)
            all.emplace_back(word);
    }
    for (const auto &[name, value] : more)
        if (!value.empty())
            all.push_back(name + "=" + value);
    return all;
}

std::vector<char *> pointers(std::vector<std::string> &to) {
    std::vector<char *> all;
    for (std::string &each : to)
        all.push_back(each.data());
    all.push_back(nullptr);
    return all;
}

/// 0, or an errno.
int start(std::vector<std::string> words, const std::map<std::string, std::string> &more) {
    std::vector<std::string> variables = environment_with(more);
    const pause_of_signals until_it_is_known;
    if (last != 0)
        return EINTR;
    posix_spawnattr_t how;
    posix_spawnattr_init(&how);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&how, until_it_is_known.before());
    pid_t made = 0;
    const int error = posix_spawnp(&made, words.front().c_str(), nullptr, &how,
                                   pointers(words).data(), pointers(variables).data());
    posix_spawnattr_destroy(&how);
    command = error == 0 ? made : 0;
    return error;
}

} // namespace

forwarding::forwarding() {
    last = 0;
    struct sigaction ours = {};
    ours.sa_sigaction = forward;
    ours.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t each = 0; each < SIGNALS.size(); ++each) {
        sigaction(SIGNALS[each], nullptr, &before[each]);
        if (before[each].sa_handler != SIG_IGN) // then the command ignores it, too
            sigaction(SIGNALS[each], &ours, nullptr);
    }
}

forwarding::~forwarding() {
    for (std::size_t each = 0; each < SIGNALS.size(); ++each)
        sigaction(SIGNALS[each], &before[each], nullptr);
}

int forwarding::caught() noexcept {
    return last;
}

int run(const std::vector<std::string> &words, const std::map<std::string, std::string> &more) {
    const int error = start(words, more);
    if (error == EINTR)
        return BY_SIGNAL + last;
    if (error != 0) {
        std::fprintf(stderr, "coherdma: cannot run %s: %s\n", words.front().c_str(),
                     std::strerror(error));
        return error == ENOENT ? NO_PROGRAM : NO_RIGHT;
    }
    int status = 0;
    // Its process is not taken away before signals for it wait.
    siginfo_t ended = {};
    while (waitid(P_PID, static_cast<id_t>(command), &ended, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    {
        const pause_of_signals until_it_is_known;
        waitpid(command, &status, 0);
        command = 0;
    }
    return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

} // namespace tools::emulate
