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

constexpr const char *skip = " # SKIP "; // TAP's word

/// skipping: why, if it was skipped.
void say(bool right, std::size_t number, const std::string &name, std::span<const std::string> why,
         const std::string &skipping) {
    std::printf("%s %zu - %s%s%s\n", right ? "ok" : "not ok", number, name.c_str(),
                skipping.empty() ? "" : skip, skipping.c_str());
    for (const std::string &line : why)
        std::printf("# %s\n", line.c_str());
    std::fflush(stdout);
}

// A case that ends the program prints its own name first. Nothing here
// may be asked for memory; what was noted is read as it stands.
std::string last_words;
void put(std::string_view words) {
    if (write(STDOUT_FILENO, words.data(), words.size()) < 0)
        _exit(1);
}
void die(int signal) {
    put(last_words);
    for (const std::string &line : wrongs())
        put("# "), put(line), put("\n");
    put("# ");
    put(signal == SIGALRM ? "never returned" : "crashed: SIG");
    put(signal == SIGALRM ? "" : sigabbrev_np(signal));
    put("\n");
    raise(signal); // now as without this
}
void say_when_dying(std::size_t number, const std::string &name) {
    last_words = text("not ok ", number, " - ", name, "\n");
    for (const int each : {SIGALRM, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
        struct sigaction action = {};
        sigaction(each, nullptr, &action);
        if (action.sa_handler != SIG_DFL)
            continue; // a sanitizer's
        action.sa_handler = die;
        action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
        sigaction(each, &action, nullptr);
    }
}

bool tried(const test_case &one, std::string &skipping) {
    wrongs().clear();
    alarm(given().patience);
    try {
        one.body();
    } catch (const stopped &) {
    } catch (const skipped &because) {
        skipping = because.why;
    } catch (const std::exception &error) {
        wrong(error.what());
    }
    alarm(0);
    return wrongs().empty();
}

/// Its exit status as waitpid tells it, and what it wrote.
struct ended {
    int how;
    std::string output;
};
ended run(std::vector<char *> words) {
    int ends[2];
    if (pipe(ends) != 0)
        throw std::runtime_error("pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    words.push_back(nullptr);
    pid_t child = 0;
    const int refused =
        posix_spawn(&child, "/proc/self/exe", &actions, nullptr, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (refused != 0)
        throw std::runtime_error(std::strerror(refused));
    ended is{0, {}};
    char part[4096];
    for (ssize_t count; (count = read(ends[0], part, sizeof part)) > 0;)
        is.output.append(part, static_cast<std::size_t>(count));
    close(ends[0]);
    while (waitpid(child, &is.how, 0) < 0 && errno == EINTR)
        ;
    return is;
}

std::string skipping_of(const std::string &text) {
    const std::size_t at = text.find(skip);
    if (at == std::string::npos)
        return {};
    const std::size_t begin = at + std::strlen(skip);
    return text.substr(begin, text.find('\n', begin) - begin);
}

std::vector<std::string> lines_of(const std::string &text) {
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("# "))
            lines.push_back(line.substr(2));
    return lines;
}

} // namespace

int try_here(std::span<const test_case> cases) {
    std::printf("1..%zu\n", cases.size());
    int status = 0;
    std::size_t number = 0;
    for (const test_case &one : cases) {
        std::string skipping;
        say_when_dying(++number, one.name);
        const bool right = tried(one, skipping);
        say(right, number, one.name, wrongs(), skipping);
        status |= !right;
    }
    return status;
}

int try_isolated(std::span<const test_case> cases, std::span<char *const> words) {
    std::printf("1..%zu\n", cases.size());
    int status = 0;
    std::size_t number = 0;
    for (const test_case &one : cases) {
        std::string name = one.name;
        std::vector<char *> all(words.begin(), words.end());
        all.push_back(name.data());
        const ended is = run(all);
        std::vector<std::string> why = lines_of(is.output);
        if (WIFSIGNALED(is.how) && why.empty())
            why.push_back(text("ended by signal ", WTERMSIG(is.how)));
        else if (!WIFSIGNALED(is.how) && WEXITSTATUS(is.how) != 0 && why.empty())
            why.push_back(text("exit status ", WEXITSTATUS(is.how)));
        say(is.how == 0, ++number, one.name, why, is.how == 0 ? skipping_of(is.output) : "");
        status |= is.how != 0;
    }
    return status;
}

} // namespace conform
