// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fault/machine_actions.hpp"

#include "doctor/host.hpp"
#include "fault/log.hpp"
#include "reports/blocked_signals.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
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

constexpr const char *PROGRAM_NAME = "coherdma";
constexpr std::chrono::milliseconds INTERVAL{10};

/// Flags of an interface.
class interface_flags {
  public:
    explicit interface_flags(const std::string &netdev)
        : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
        netdev.copy(request_.ifr_name, sizeof request_.ifr_name - 1);
        error_ = socket_ >= 0 && ioctl(socket_, SIOCGIFFLAGS, &request_) == 0 ? 0 : errno;
    }
    ~interface_flags() {
        if (socket_ >= 0)
            close(socket_);
    }
    interface_flags(const interface_flags &) = delete;
    interface_flags &operator=(const interface_flags &) = delete;

    /// An errno: they are not known.
    [[nodiscard]] int error() const noexcept { return error_; }
    [[nodiscard]] bool is_up() const noexcept { return (request_.ifr_flags & IFF_UP) != 0; }
    /// Returns an errno.
    int set_up(bool is_up) {
        constexpr short UP = IFF_UP;
        const int flags = is_up ? request_.ifr_flags | UP : request_.ifr_flags & ~UP;
        request_.ifr_flags = static_cast<short>(flags);
        return ioctl(socket_, SIOCSIFFLAGS, &request_) == 0 ? 0 : errno;
    }

  private:
    const int socket_;
    ifreq request_{};
    int error_ = 0;
};

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

/// In a process group of its own, without the program's input. Returns an errno.
int spawn_shell(const std::string &command, pid_t &pid) {
    std::vector<std::string> args = {"sh", "-c", command}, env = environment_without_observers();
    sigset_t no_signals;
    sigemptyset(&no_signals);
    posix_spawnattr_t attr;
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &no_signals);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    const int error =
        posix_spawn(&pid, "/bin/sh", &files, &attr, make_argv(args).data(), make_argv(env).data());
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return error;
}

std::string describe_end(int status) {
    return WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                               : fmt::format("ended with status {}", WEXITSTATUS(status));
}

} // namespace

/// The log of this process, like those of the command's processes.
class machine_actions::journal {
  public:
    journal(const std::string &folder, const std::vector<fault> &scenario)
        : file_(std::fopen(fmt::format("{}/{}.json", folder, getpid()).c_str(), "we")) {
        for (const fault &each : scenario)
            if (each.is_of_machine())
                counts_[each.text] = 0;
    }
    ~journal() {
        json faults = json::array();
        for (const auto &[text, count] : counts_)
            faults.push_back({{"fault", text}, {"counted", count}, {"done", count}});
        write({{"summary",
                {{"program", PROGRAM_NAME},
                 {"device", false},
                 {"faults", faults},
                 {"left", json::object()},
                 {"calls", json::array()}}}});
        if (file_ != nullptr)
            std::fclose(file_);
    }
    journal(const journal &) = delete;
    journal &operator=(const journal &) = delete;

    /// members: what programs learn of it, beside the text for people; with "action", it is done.
    void note(const fault &cause, const json &members, const std::string &text) {
        const std::chrono::duration<double> elapsed = clock::now() - begin_;
        json line = {{"pid", getpid()},
                     {"program", PROGRAM_NAME},
                     {"time", elapsed.count()},
                     {"fault", cause.text}};
        line.update(members);
        line["text"] = text;
        write(line);
        if (members.contains("action"))
            ++counts_[cause.text];
    }

  private:
    void write(const json &line) {
        if (file_ == nullptr) // the folder is gone
            return;
        std::fputs((line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n").c_str(),
                   file_);
        std::fflush(file_);
    }

    const clock::time_point begin_ = clock::now();
    std::FILE *const file_;
    std::map<std::string, long> counts_; ///< by the text of the fault
};

machine_actions::machine_actions(const std::vector<fault> &scenario, const std::string &log_folder)
    : scenario_(scenario)
    , log_folder_(log_folder)
    , journal_(std::make_unique<journal>(log_folder, scenario)) {
    const coherdma::reports::blocked_signals scope;
    thread_ = std::thread([this] { perform_all(); });
}

machine_actions::~machine_actions() {
    {
        const std::lock_guard guard(mutex_);
        is_ending_ = true;
    }
    ending_.notify_all();
    thread_.join();
}

void machine_actions::perform_all() {
    while (device_.empty() && !is_ending()) {
        try {
            device_ = read_logs(log_folder_).first_device();
        } catch (const std::exception &) { // the folder is gone: no device will be known
        }
        wait_until(clock::now() + INTERVAL);
    }
    std::multimap<std::chrono::microseconds, const fault *> due;
    for (const fault &each : scenario_)
        if (each.is_of_machine())
            due.emplace(each.begin, &each);
    const clock::time_point start = clock::now();
    for (const auto &[begin, each] : due) {
        wait_until(start + begin);
        if (is_ending())
            break;
        perform(*each);
    }
    while (!is_ending())
        wait_until(clock::now() + INTERVAL);
    end_commands();
    while (!ports_.empty())
        set_port_up(ports_.begin()->first);
}

void machine_actions::perform(const fault &due) {
    try {
        if (due.effect == action::RUN)
            start_command(due);
        else
            take_port_down(due);
    } catch (const std::exception &problem) {
        journal_->note(due, {{"not_done", problem.what()}}, problem.what());
    }
}

bool machine_actions::is_ending() {
    const std::lock_guard guard(mutex_);
    return is_ending_;
}

void machine_actions::wait_until(clock::time_point time) {
    while (!is_ending() && clock::now() < time) {
        std::unique_lock lock(mutex_);
        // A command may end at any time; a port that is due comes before the time.
        clock::time_point next = commands_.empty() ? time : std::min(time, clock::now() + INTERVAL);
        if (!due_ports_.empty())
            next = std::min(next, due_ports_.begin()->first);
        ending_.wait_until(lock, next, [this] { return is_ending_; });
        lock.unlock();
        note_ended_commands();
        while (!due_ports_.empty() && due_ports_.begin()->first <= clock::now()) {
            const std::string netdev = due_ports_.begin()->second;
            due_ports_.erase(due_ports_.begin());
            set_port_up(netdev);
        }
    }
}

void machine_actions::take_port_down(const fault &due) {
    const auto netdevs = doctor::query_netlink().netdevs;
    const auto netdev = netdevs.find(device_);
    const auto note_failure = [&](const std::string &reason) {
        journal_->note(due, {{"not_done", reason}, {"device", device_}},
                       fmt::format("the port of {} did not go down: {}", device_, reason));
    };
    if (netdev == netdevs.end())
        return note_failure("no network interface of it is known");
    interface_flags flags(netdev->second);
    if (flags.error() != 0)
        return note_failure(describe_error(flags.error()));
    const bool is_down_by_us = ports_.count(netdev->second) != 0;
    if (!flags.is_up() && !is_down_by_us)
        return note_failure("it is down already");
    if (const int error = flags.is_up() ? flags.set_up(false) : 0; error != 0)
        return note_failure(describe_error(error));
    port &down = ports_[netdev->second];
    down.cause = &due;
    down.device = device_;
    ++down.num_down;
    if (due.duration.count() != 0)
        due_ports_.emplace(clock::now() + due.duration, netdev->second);
    journal_->note(due, {{"action", "port down"}, {"device", device_}},
                   fmt::format("the port of {} ({}) is down", device_, netdev->second));
}

void machine_actions::set_port_up(const std::string &netdev) {
    const auto known = ports_.find(netdev);
    if (known == ports_.end())
        return;
    port &down = known->second;
    if (!is_ending() && --down.num_down > 0)
        return;
    interface_flags flags(netdev);
    const int error = flags.error() != 0 ? flags.error() : flags.set_up(true);
    const std::string name = fmt::format("the port of {} ({})", down.device, netdev);
    journal_->note(*down.cause, {{"restored", error == 0}, {"device", down.device}},
                   error == 0 ? name + " is up again"
                              : name + " could not be set up: " + describe_error(error));
    ports_.erase(known);
}

void machine_actions::start_command(const fault &due) {
    pid_t pid = 0;
    if (const int error = spawn_shell(due.command, pid); error != 0)
        return journal_->note(due, {{"not_done", std::strerror(error)}},
                              fmt::format("cannot run a shell: {}", std::strerror(error)));
    commands_.push_back({.cause = &due, .pid = pid});
    journal_->note(due, {{"action", "run"}}, "has started");
}

void machine_actions::note_ended_commands() {
    std::erase_if(commands_, [this](const running_command &each) {
        int status = 0;
        if (waitpid(each.pid, &status, WNOHANG) != each.pid)
            return false;
        journal_->note(*each.cause, {{"ended", describe_end(status)}}, describe_end(status));
        return true;
    });
}

void machine_actions::end_commands() {
    for (const int signal : {SIGTERM, SIGKILL}) { // a command may ignore the first
        for (const running_command &each : commands_)
            kill(-each.pid, signal);
        constexpr std::chrono::seconds PATIENCE{2};
        const clock::time_point last = clock::now() + PATIENCE;
        while (!commands_.empty() && clock::now() < last) {
            note_ended_commands();
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    for (const running_command &each : commands_) // of another user, by sudo
        journal_->note(*each.cause, {{"left", each.pid}},
                       fmt::format("does not end, and goes on (process {})", each.pid));
}

} // namespace tools::fault
