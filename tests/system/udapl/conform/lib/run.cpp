// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run.hpp"

#include "check.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <spawn.h>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace conform {

namespace {

constexpr const char *skip_directive = " # SKIP "; // TAP's word

/// skip_reason: empty if the case ran.
void print_result(bool passed, std::size_t number, const std::string &name,
                  std::span<const std::string> diagnostics, const std::string &skip_reason) {
    std::printf("%s %zu - %s%s%s\n", passed ? "ok" : "not ok", number, name.c_str(),
                skip_reason.empty() ? "" : skip_directive, skip_reason.c_str());
    for (const std::string &line : diagnostics)
        std::printf("# %s\n", line.c_str());
    std::fflush(stdout);
}

// A case that ends the program prints its own name first. Nothing here
// may be asked for memory; what was noted is read as it stands.
std::string fatal_line;
void write_stdout(std::string_view text) {
    if (write(STDOUT_FILENO, text.data(), text.size()) < 0)
        _exit(1);
}
void report_fatal_signal(int signum) {
    write_stdout(fatal_line);
    for (const std::string &line : failures())
        write_stdout("# "), write_stdout(line), write_stdout("\n");
    write_stdout("# ");
    write_stdout(signum == SIGALRM ? "never returned" : "crashed: SIG");
    write_stdout(signum == SIGALRM ? "" : sigabbrev_np(signum));
    write_stdout("\n");
    raise(signum); // now as without this
}
void install_fatal_handlers(std::size_t number, const std::string &name) {
    fatal_line = concat("not ok ", number, " - ", name, "\n");
    for (const int signum : {SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
        struct sigaction action = {};
        sigaction(signum, nullptr, &action);
        if (action.sa_handler != SIG_DFL)
            continue; // a sanitizer's
        action.sa_handler = report_fatal_signal;
        action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
        sigaction(signum, &action, nullptr);
    }
}

bool run_case(const test_case &test, std::string &skip_reason) {
    failures().clear();
    alarm(settings().timeout_s);
    try {
        test.body();
    } catch (const case_aborted &) {
    } catch (const case_skipped &skip) {
        skip_reason = skip.reason;
    } catch (const std::exception &error) {
        add_failure(error.what());
    }
    alarm(0);
    return failures().empty();
}

/// Its exit status as waitpid tells it, and what it wrote.
struct exit_result {
    int wait_status;
    std::string output;
};
exit_result run_child(std::vector<char *> args) {
    int pipe_fds[2];
    if (pipe(pipe_fds) != 0)
        throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[0]);
    posix_spawn_file_actions_addclose(&actions, pipe_fds[1]);
    args.push_back(nullptr);
    pid_t child = 0;
    const int error =
        posix_spawn(&child, "/proc/self/exe", &actions, nullptr, args.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_fds[1]);
    if (error != 0)
        throw std::runtime_error(std::strerror(error));
    exit_result result{0, {}};
    char chunk[4096];
    for (ssize_t count; (count = read(pipe_fds[0], chunk, sizeof chunk)) > 0;)
        result.output.append(chunk, static_cast<std::size_t>(count));
    close(pipe_fds[0]);
    while (waitpid(child, &result.wait_status, 0) < 0 && errno == EINTR)
        ;
    return result;
}

std::string parse_skip_reason(const std::string &output) {
    const std::size_t pos = output.find(skip_directive);
    if (pos == std::string::npos)
        return {};
    const std::size_t begin = pos + std::strlen(skip_directive);
    return output.substr(begin, output.find('\n', begin) - begin);
}

std::vector<std::string> comment_lines(const std::string &output) {
    std::vector<std::string> lines;
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);)
        if (line.starts_with("# "))
            lines.push_back(line.substr(2));
    return lines;
}

} // namespace

int run_in_process(std::span<const test_case> cases) {
    std::printf("1..%zu\n", cases.size());
    int status = 0;
    std::size_t number = 0;
    for (const test_case &test : cases) {
        std::string skip_reason;
        install_fatal_handlers(++number, test.name);
        const bool passed = run_case(test, skip_reason);
        print_result(passed, number, test.name, failures(), skip_reason);
        status |= !passed;
    }
    return status;
}

int run_isolated(std::span<const test_case> cases, std::span<char *const> args) {
    std::printf("1..%zu\n", cases.size());
    int status = 0;
    std::size_t number = 0;
    for (const test_case &test : cases) {
        std::string name = test.name;
        std::vector<char *> argv(args.begin(), args.end());
        argv.push_back(name.data());
        const exit_result result = run_child(argv);
        std::vector<std::string> diagnostics = comment_lines(result.output);
        if (WIFSIGNALED(result.wait_status) && diagnostics.empty())
            diagnostics.push_back(concat("ended by signal ", WTERMSIG(result.wait_status)));
        else if (!WIFSIGNALED(result.wait_status) && WEXITSTATUS(result.wait_status) != 0 &&
                 diagnostics.empty())
            diagnostics.push_back(concat("exit status ", WEXITSTATUS(result.wait_status)));
        print_result(result.wait_status == 0, ++number, test.name, diagnostics,
                     result.wait_status == 0 ? parse_skip_reason(result.output) : "");
        status |= result.wait_status != 0;
    }
    return status;
}

} // namespace conform
