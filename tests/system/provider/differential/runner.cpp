// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "runner.hpp"

#include "endpoints.hpp"

#include <array>
#include <csignal>
#include <cstdio>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace differential {
namespace {

constexpr unsigned case_limit_s = 120; ///< only ends a hang

// Shared between parent and child. The name is that of the running case.
struct progress {
    std::uint32_t next;
    std::array<char, 256> name;
};
progress *shared_progress;

// Opens the device. On siw QPs are connected by rdma_cm, which accepts objects of its own context
// only, so the context is that one.
environment open_environment(const settings &options) {
    if (!options.is_rxe())
        return {options, open_cm_context(options.address), {}};
    int count = 0;
    const unique_handle<ibv_device *, ibv_free_device_list> devices(ibv_get_device_list(&count));
    for (int i = 0; i < count; ++i) {
        if (ibv_get_device_name(devices.get()[i]) != options.device)
            continue;
        environment env{options, check(ibv_open_device(devices.get()[i]), "open the device"), {}};
        check(ibv_query_gid(env.context, 1, options.gid_index, &env.gid), "query the GID");
        return env;
    }
    throw failure(concat("no device ", options.device));
}

// Runs the group's cases from shared_progress->next on. An exit status other than 0 is a failure of
// the group itself; a case that crashes or hangs kills the child.
[[noreturn]] void run_child(const settings &options, const group &group) {
    int status = 0;
    try {
        const environment env = open_environment(options);
        runner runner(options, shared_progress->next);
        group.run(env, runner);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s: %s\n", std::string(group.name).c_str(), error.what());
        status = 1;
    }
    std::fflush(stdout);
    _exit(status);
}

} // namespace

// Selects the first cases of each kind, "KIND/...", and others by a hash of what follows KIND, so
// that the same request is selected as a post and as an extended post.
bool runner::is_selected(const std::string &name) {
    constexpr unsigned num_first = 10;
    const std::size_t kind_end = std::min(name.find('/'), name.size());
    const unsigned number = num_cases_[name.substr(0, kind_end)]++;
    return (number < num_first ||
            hash_of(std::as_bytes(std::span(name).subspan(kind_end))) % settings_.num_parts == 0) &&
           std::regex_search(name, settings_.name_filter);
}

// Runs the case if it is selected and no earlier child has run it; prints its name and record.
void runner::run(const std::string &name, const case_function &function) {
    const std::uint32_t index = index_++;
    if (!is_selected(name) || index < next_)
        return;
    next_ = index;
    name.copy(shared_progress->name.data(), shared_progress->name.size() - 1);
    shared_progress->name.at(std::min(name.size(), shared_progress->name.size() - 1)) = '\0';
    alarm(case_limit_s);
    record record;
    try {
        function(record);
    } catch (const std::exception &error) {
        std::string text = error.what();
        std::ranges::replace(text, ' ', '_');
        record.add("untried", text);
    }
    alarm(0);
    std::printf("%s%s\n", name.c_str(), record.line().c_str());
    std::fflush(stdout);
    next_ = index + 1;
}

// Each group runs in a child. After a case that kills the child, another child goes on behind it.
int run_groups(const settings &options, const std::vector<group> &groups) {
    void *const memory =
        mmap(nullptr, sizeof(progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(memory == MAP_FAILED ? -1 : 0, "map memory");
    shared_progress = static_cast<progress *>(memory);
    for (const group &group : groups) {
        shared_progress->next = 0;
        for (;;) {
            std::fflush(stdout);
            const pid_t child = fork();
            check(child < 0 ? -1 : 0, "fork");
            if (child == 0)
                run_child(options, group);
            int status = 0;
            check(waitpid(child, &status, 0) == child ? 0 : -1, "wait for the child");
            if (status == 0)
                break;
            if (!WIFSIGNALED(status))
                return 1;
            std::printf("%s crash=%s\n", shared_progress->name.data(),
                        WTERMSIG(status) == SIGALRM ? "hang" : sigabbrev_np(WTERMSIG(status)));
            ++shared_progress->next;
        }
    }
    return 0;
}

std::uint64_t hash_of(std::span<const std::byte> data) {
    std::uint64_t hash = 14695981039346656037U; // FNV-1a
    for (const std::byte byte : data)
        hash = (hash ^ static_cast<std::uint64_t>(byte)) * 1099511628211U;
    return hash;
}

std::string error_name(int error) {
    const char *const name = error > 0 ? strerrorname_np(error) : nullptr;
    return name != nullptr ? name : std::to_string(error);
}

} // namespace differential
