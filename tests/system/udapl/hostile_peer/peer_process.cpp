// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "peer_process.hpp"

#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace hostile_peer {

namespace {

constexpr int line_timeout_ms = 60000;

/// `peer` is in the folder of the running program, `consumer`.
std::string peer_path() {
    std::array<char, 4096> path{};
    if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0)
        throw std::runtime_error("readlink");
    const std::string consumer = path.data();
    return consumer.substr(0, consumer.rfind('/')) + "/peer";
}

std::array<int, 2> create_pipe() {
    std::array<int, 2> fds{};
    if (pipe2(fds.data(), O_CLOEXEC) != 0)
        throw std::runtime_error("pipe");
    return fds;
}

} // namespace

action_list &operator+=(action_list &list, const action_list &more) {
    list.insert(list.end(), more.begin(), more.end());
    return list;
}

std::string action_with_bytes(const std::string &name, std::span<const std::byte> bytes) {
    std::string result = name + "=";
    for (const std::byte byte : bytes) {
        std::array<char, 3> digits{};
        std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned>(byte));
        result += digits.data();
    }
    return result;
}

peer_process::peer_process(sockaddr_in address, DAT_CONN_QUAL port, const action_list &actions) {
    std::array<char, INET_ADDRSTRLEN> address_text{};
    inet_ntop(AF_INET, &address.sin_addr, address_text.data(), address_text.size());
    std::vector<std::string> words = {peer_path(), address_text.data(), std::to_string(port)};
    words += actions;
    std::vector<char *> argv;
    for (std::string &word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    const auto stdin_pipe = create_pipe(), stdout_pipe = create_pipe();
    posix_spawn_file_actions_t file_actions;
    posix_spawn_file_actions_init(&file_actions);
    posix_spawn_file_actions_adddup2(&file_actions, stdin_pipe[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&file_actions, stdout_pipe[1], STDOUT_FILENO);
    const int error = posix_spawn(&pid_, argv[0], &file_actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&file_actions);
    close(stdin_pipe[0]);
    close(stdout_pipe[1]);
    stdin_ = stdin_pipe[1];
    stdout_ = stdout_pipe[0];
    if (error != 0)
        throw std::runtime_error(words[0] + ": " + std::strerror(error));
}

bool peer_process::receive(int timeout_ms, conform::source_location loc) {
    pollfd fd = {stdout_, POLLIN, 0};
    if (poll(&fd, 1, timeout_ms) != 1)
        return false;
    std::array<char, 4096> bytes{};
    const ssize_t count = read(stdout_, bytes.data(), bytes.size());
    conform::require(count > 0, "the peer has ended", loc);
    received_.append(bytes.data(), static_cast<std::size_t>(count));
    return true;
}

std::optional<std::string> peer_process::take_line() {
    const std::size_t end = received_.find('\n');
    if (end == std::string::npos)
        return std::nullopt;
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
}

namespace {

/// The peer prints "NAME RESULT" for an action that is done, or "failed REASON", which ends the
/// case. Returns RESULT if the line is of the action of this name.
std::optional<std::string> parse_result(const std::string &line, const std::string &name,
                                        conform::source_location loc) {
    conform::require(!line.starts_with("failed "), "the peer: " + line, loc);
    if (!line.starts_with(name + " "))
        return std::nullopt;
    return line.substr(name.size() + 1);
}

} // namespace

std::optional<std::string> peer_process::poll_action_done(const std::string &name,
                                                          conform::source_location loc) {
    while (receive(0, loc))
        ;
    const std::optional<std::string> line = take_line();
    return line ? parse_result(*line, name, loc) : std::nullopt;
}

std::string peer_process::wait_action_done(const std::string &name, conform::source_location loc) {
    for (;;) {
        const std::optional<std::string> line = take_line();
        if (!line)
            conform::require(receive(line_timeout_ms, loc), "the peer prints nothing", loc);
        else if (const auto result = parse_result(*line, name, loc))
            return *result;
    }
}

void peer_process::end_wait_action() {
    if (write(stdin_, "\n", 1) != 1)
        throw std::runtime_error("write to the peer");
}

void peer_process::send_sigkill() {
    ::kill(pid_, SIGKILL);
}

void peer_process::kill() {
    if (pid_ < 0)
        return;
    send_sigkill();
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR)
        ;
    pid_ = -1;
    close(stdin_);
    close(stdout_);
}

} // namespace hostile_peer
