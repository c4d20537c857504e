// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run.hpp"

#include "check.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <sys/wait.h>
#include <unistd.h>

namespace conform {

namespace {

constexpr unsigned first_port = 45300;
constexpr int skip_status = 77;

/// Runs in the child. The exit status is 0, 1, or skip_status with the reason as the only output.
[[noreturn]] void run_in_child(const test_case &test) {
    alarm(settings().timeout_s);
    try {
        test.body();
    } catch (const case_aborted &) {
    } catch (const case_skipped &skip) {
        if (!has_failed()) {
            std::printf("%s", skip.reason.c_str());
            std::fflush(stdout);
            _exit(skip_status);
        }
    } catch (const std::exception &error) {
        add_failure(error.what());
    }
    std::fflush(nullptr);
    _exit(has_failed()
              ? 1
              : 0); // without destructors of the library: what leaks is the kernel's to free
}

struct child_result {
    int wait_status = 0;
    std::string output;
};
child_result run_child(const test_case &test) {
    int fds[2];
    if (pipe(fds) != 0)
        throw std::runtime_error("pipe");
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child < 0)
        throw std::runtime_error("fork");
    if (child == 0) {
        dup2(fds[1], STDOUT_FILENO);
        dup2(fds[1], STDERR_FILENO);
        close(fds[0]);
        close(fds[1]);
        run_in_child(test);
    }
    close(fds[1]);
    child_result result;
    char chunk[4096];
    for (ssize_t count; (count = read(fds[0], chunk, sizeof chunk)) > 0;)
        result.output.append(chunk, static_cast<std::size_t>(count));
    close(fds[0]);
    waitpid(child, &result.wait_status, 0);
    return result;
}

void print_comments(const std::string &output) {
    std::istringstream stream(output);
    for (std::string line; std::getline(stream, line);)
        std::printf("%s%s\n", line.starts_with("# ") ? "" : "# ", line.c_str());
}

} // namespace

int run_cases(std::span<const test_case> cases) {
    std::printf("1..%zu\n", cases.size());
    int status = 0;
    unsigned number = 0;
    for (const test_case &test : cases) {
        settings().port = std::to_string(first_port + number);
        const child_result result = run_child(test);
        const bool skipped =
            WIFEXITED(result.wait_status) && WEXITSTATUS(result.wait_status) == skip_status;
        const bool passed = skipped || result.wait_status == 0;
        std::printf("%s %u - %s%s%s\n", passed ? "ok" : "not ok", ++number, test.name.c_str(),
                    skipped ? " # SKIP " : "", skipped ? result.output.c_str() : "");
        if (!skipped)
            print_comments(result.output);
        if (WIFSIGNALED(result.wait_status)) {
            const int signum = WTERMSIG(result.wait_status);
            if (signum == SIGALRM)
                std::printf("# never returned\n");
            else
                std::printf("# crashed: SIG%s\n", sigabbrev_np(signum));
        }
        std::fflush(stdout);
        status |= !passed;
    }
    return status;
}

} // namespace conform
