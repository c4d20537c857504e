// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fault/machine_actions.hpp"

#include "doctor/host.hpp"
#include "fault/log.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <net/if.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tools::fault {
namespace {

using coherdma::faults::action;
using json = nlohmann::ordered_json;
using std::chrono::steady_clock;

constexpr const char *PROGRAM_NAME = "coherdma";

/// Returns an errno.
int set_interface_up(const std::string &netdev, bool is_up) {
    const int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return errno;
    ifreq request{};
    netdev.copy(request.ifr_name, sizeof request.ifr_name - 1);
    int result = ioctl(sock, SIOCGIFFLAGS, &request);
    if (result == 0) {
        constexpr short UP = IFF_UP;
        request.ifr_flags =
            static_cast<short>(is_up ? request.ifr_flags | UP : request.ifr_flags & ~UP);
        result = ioctl(sock, SIOCSIFFLAGS, &request);
    }
    const int error = result == 0 ? 0 : errno;
    close(sock);
    return error;
}

std::string describe_error(int error) {
    return std::string(std::strerror(error)) +
           (error == EPERM ? "; it needs root, or CAP_NET_ADMIN" : "");
}

/// The environment without that of faults and other observers: the command is no part of the
/// program.
std::vector<std::string> environment_without_observers() {
    std::vector<std::string> result;
    for (char **entry = environ; *entry != nullptr; ++entry)
        if (std::strncmp(*entry, "COHERDMA_FAULT", std::strlen("COHERDMA_FAULT")) != 0 &&
            std::strncmp(*entry, "COHERDMA_OBSERVERS=", std::strlen("COHERDMA_OBSERVERS=")) != 0)
            result.emplace_back(*entry);
    return result;
}

std::vector<char *> make_argv(std::vector<std::string> &strings) {
    std::vector<char *> argv;
    for (std::string &s : strings)
        argv.push_back(s.data());
    argv.push_back(nullptr);
    return argv;
}

/// In a process group of its own, which may not read from the terminal. Returns an errno.
int spawn_shell(const std::string &command, pid_t &pid) {
    std::vector<std::string> args = {"sh", "-c", command}, env = environment_without_observers();
    posix_spawnattr_t attr;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    const int error =
        posix_spawn(&pid, "/bin/sh", &files, &attr, make_argv(args).data(), make_argv(env).data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);

    return error;
}

} // namespace

/// The log of this process, like those of the command's processes.
class machine_actions::journal {
  public:
    journal(const std::string &folder, const std::vector<coherdma::faults::fault> &scenario)
        : file_(fmt::format("{}/{}.json", folder, getpid())) {
        for (const coherdma::faults::fault &each : scenario)
            if (each.is_of_machine())
                counts_.push_back({.text = each.text});
    }
    ~journal() {
        json faults = json::array();
        for (const count &each : counts_)
            faults.push_back({{"fault", each.text}, {"counted", each.done}, {"done", each.done}});
        write({{"summary",
                {{"program", PROGRAM_NAME},
                 {"device", false},
                 {"faults", faults},
                 {"left", json::object()},
                 {"calls", json::array()}}}});
    }
    journal(const journal &) = delete;
    journal &operator=(const journal &) = delete;

    /// members: what programs learn of it, beside the text for people.
    void note(const coherdma::faults::fault &done, json members, const std::string &text) {
        const std::lock_guard guard(mutex_);
        const std::chrono::duration<double> elapsed = steady_clock::now() - begin_;
        json line = {{"pid", getpid()},
                     {"program", PROGRAM_NAME},
                     {"time", elapsed.count()},
                     {"fault", done.text}};
        line.update(members);
        line["text"] = text;
        write(line);
        if (members.contains("action"))
            for (count &each : counts_)
                each.done += each.text == done.text ? 1 : 0;
    }

  private:
    struct count {
        std::string text;
        long done = 0;
    };

    void write(const json &line) {
        file_ << line.dump(-1, ' ', false, json::error_handler_t::replace) << std::endl;
    }

    const steady_clock::time_point begin_ = steady_clock::now();
    std::mutex mutex_; ///< protects the following
    std::ofstream file_;
    std::vector<count> counts_;
};

machine_actions::machine_actions(const std::vector<coherdma::faults::fault> &scenario,
                                 const std::string &log_folder)
    : log_folder_(log_folder)
    , journal_(std::make_unique<journal>(log_folder, scenario))
    , starter_([this, scenario] { perform_all(scenario); }) {}

machine_actions::~machine_actions() {
    {
        std::unique_lock lock(mutex_);
        is_ending_ = true;
        ending_.notify_all();
        for (const int signal : {SIGTERM, SIGKILL}) { // a command may ignore the first
            for (const pid_t command : commands_)
                kill(-command, signal);
            constexpr std::chrono::seconds PATIENCE{2};
            ending_.wait_for(lock, PATIENCE, [this] { return commands_.empty(); });
        }
    }
    starter_.join();
}

void machine_actions::perform_all(const std::vector<coherdma::faults::fault> &scenario) {
    const std::string device = wait_for_device();
    const time_point start = steady_clock::now();
    std::vector<std::thread> threads;
    for (const coherdma::faults::fault &each : scenario)
        if (each.is_of_machine())
            threads.emplace_back([this, &each, &device, start] {
                if (!wait_until(start + each.begin))
                    return;
                if (each.effect == action::RUN)
                    run_command(each);
                else
                    take_port_down(each, device);
            });
    for (std::thread &each : threads)
        each.join();
}

std::string machine_actions::wait_for_device() {
    constexpr std::chrono::milliseconds INTERVAL{10};
    for (;;) {
        std::string device = read_logs(log_folder_).first_device();
        if (!device.empty() || !wait_until(steady_clock::now() + INTERVAL))
            return device;
    }
}

bool machine_actions::wait_until(time_point time) {
    std::unique_lock lock(mutex_);
    return !ending_.wait_until(lock, time, [this] { return is_ending_; });
}

void machine_actions::take_port_down(const coherdma::faults::fault &due,
                                     const std::string &device) {
    const auto netdevs = doctor::query_netlink().netdevs;
    const auto netdev = netdevs.find(device);
    const auto note_failure = [&](const std::string &reason) {
        journal_->note(due, {{"not_done", reason}, {"device", device}},
                       fmt::format("the port of {} did not go down: {}", device, reason));
    };
    if (netdev == netdevs.end())
        return note_failure("no network interface of it is known");
    const std::string name = fmt::format("the port of {} ({})", device, netdev->second);
    if (const int error = set_interface_up(netdev->second, false); error != 0)
        return note_failure(describe_error(error));
    journal_->note(due, {{"action", "port down"}, {"device", device}}, name + " is down");
    constexpr std::chrono::hours TO_THE_END{24 * 365};
    wait_until(steady_clock::now() +
               (due.duration.count() != 0 ? due.duration : steady_clock::duration(TO_THE_END)));
    const int error = set_interface_up(netdev->second, true);
    journal_->note(due, {{"restored", error == 0}, {"device", device}},
                   error == 0 ? name + " is up again"
                              : name + " could not be set up: " + describe_error(error));
}

void machine_actions::run_command(const coherdma::faults::fault &due) {
    pid_t pid = 0;
    {
        const std::lock_guard guard(mutex_);
        if (is_ending_)
            return;
        if (const int error = spawn_shell(due.command, pid); error != 0)
            return journal_->note(due, {{"not_done", std::strerror(error)}},
                                  fmt::format("cannot run a shell: {}", std::strerror(error)));
        commands_.push_back(pid);
    }
    int status = 0;
    siginfo_t ended{};
    while (waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT) != 0 &&
           errno == EINTR) {
    }
    {
        // It is reaped when it is no longer listed: the destructor signals no other process.
        const std::lock_guard guard(mutex_);
        std::erase(commands_, pid);
        waitpid(pid, &status, 0);
        ending_.notify_all();
    }
    const std::string text = WIFSIGNALED(status)
                                 ? fmt::format("ended by signal {}", WTERMSIG(status))
                                 : fmt::format("ended with status {}", WEXITSTATUS(status));
    const bool has_run = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    journal_->note(due, {{has_run ? "action" : "not_done", has_run ? "run" : text}}, text);
}

} // namespace tools::fault
