// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One thread forks while others open IAs, connect, transfer, disconnect and close. Each child opens
// an IA of its own, connects, transfers and ends. With the registry, the Provider, the verbs
// provider and the kernel, FORKS times.

#include "lib/cases.hpp"
#include "lib/process_end.hpp"
#include "lib/test_ep.hpp"
#include "lib/thread.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <sys/wait.h>
#include <unistd.h>

using namespace conform;

namespace {

constexpr int default_forks = 1000;
constexpr int num_workers = 3;
constexpr std::size_t max_children = 3; ///< at the same time
constexpr unsigned child_timeout_s = 90;

int num_forks() {
    const char *const value = std::getenv("FORKS");
    return value != nullptr ? std::atoi(value) : default_forks;
}

/// An IA with two EPs, which a port of the kernel's choice connects: other processes listen, too.
struct loopback {
    test_ia ia;
    unique_pz pz = ia.create_pz();
    test_lmr lmr{ia, pz, 2 * message_size};
    unique_evd cr_evd = ia.create_evd(DAT_EVD_CR_FLAG);
    test_ep active{ia, pz}, passive{ia, pz};
    DAT_CONN_QUAL port = 0;
    unique_psp psp = listen();

    static constexpr std::size_t message_size = 4096;

    unique_psp listen() {
        DAT_PSP_HANDLE handle = nullptr;
        require_success(dat_psp_create_any(ia, &port, cr_evd, DAT_PSP_CONSUMER_FLAG, &handle));
        return unique_psp(handle);
    }
    void connect() const {
        require_success(post_recv(passive, lmr.make_lmr_triplet(0, message_size), 1));
        require_success(connect_ep(active, ia_address(ia.ipv4_address()), port));
        const DAT_EVENT request = next_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        require_success(
            dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, passive, 0, nullptr));
        next_event(active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        next_event(passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    }
    /// A Send, whose Receive connect() has posted.
    void transfer(unsigned seed) const {
        const std::vector<std::byte> message = make_pattern(message_size, seed);
        std::memcpy(lmr.data() + message_size, message.data(), message_size);
        require_success(post_send(active, lmr.make_lmr_triplet(message_size, message_size), 2));
        expect_completion(passive.recv_evd, passive, 1, message_size);
        expect_completion(active.request_evd, active, 2, message_size);
        expect_true(std::memcmp(lmr.data(), message.data(), message_size) == 0,
                    "the message is not what was sent");
    }
    void disconnect() const {
        require_success(dat_ep_disconnect(active, DAT_CLOSE_GRACEFUL_FLAG));
        next_event(active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        next_event(passive.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
};

/// How a child ends: with its IA open, or closed (nullopt).
using child_end = std::optional<end>;
constexpr std::array<child_end, 4> all_ends = {std::nullopt, end::EXIT, end::IMMEDIATE_EXIT,
                                               end::KILL};

/// The child of a process that has this IA open.
void run_child(DAT_IA_HANDLE parent_ia, unsigned number, child_end kind) {
    DAT_IA_ATTR attr = {};
    expect_return(dat_ia_query(parent_ia, nullptr, DAT_IA_FIELD_ALL, &attr, 0, nullptr),
                  invalid_handle(DAT_INVALID_HANDLE_IA));
    std::optional<loopback> eps(std::in_place);
    expect_true(eps->ia != parent_ia, "the child's IA has the handle of its parent's");
    eps->connect();
    eps->transfer(number);
    if (kind)
        return;
    eps->disconnect();
    eps.reset();
}

[[noreturn]] void end_child(child_end kind) {
    for (const std::string &failure : failures())
        std::fprintf(stderr, "child: %s\n", failure.c_str());
    if (!failures().empty())
        _exit(1);
    end_process(kind.value_or(end::IMMEDIATE_EXIT));
}

/// A child that is not waited for yet.
struct child_process {
    pid_t pid;
    unsigned number;
    child_end kind;
};

child_process fork_child(DAT_IA_HANDLE parent_ia, unsigned number) {
    const child_end kind = all_ends.at(number % all_ends.size());
    std::fflush(nullptr); // a child that calls exit() must not write it, too
    const pid_t pid = fork();
    require(pid >= 0, "fork");
    if (pid == 0) {
        alarm(child_timeout_s);
        try {
            run_child(parent_ia, number, kind);
        } catch (const case_aborted &) {
        }
        end_child(kind);
    }
    return {.pid = pid, .number = number, .kind = kind};
}

void wait_for_child(const child_process &child) {
    int status = 0;
    require(waitpid(child.pid, &status, 0) == child.pid, "waitpid");
    const char *const mishap =
        WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? " hangs" : " has failed";
    expect_true(has_ended(status, child.kind.value_or(end::IMMEDIATE_EXIT)),
                concat("child ", child.number, mishap, ", status ", status));
}

void fork_beside_workers() {
    const loopback parent;
    parent.connect();
    const kernel_counts before = count_kernel_objects(settings().ia);
    std::atomic<bool> stopped = false;
    {
        const auto work = [&stopped] {
            for (unsigned seed = 0; !stopped && failures().empty(); ++seed) {
                const loopback eps;
                eps.connect();
                eps.transfer(seed);
                eps.disconnect();
            }
        };
        std::vector<std::unique_ptr<joined_thread>> workers;
        for (int i = 0; i != num_workers; ++i)
            workers.push_back(std::make_unique<joined_thread>(work));
        std::deque<child_process> children;
        for (int i = 0; i != num_forks() && failures().empty(); ++i) {
            children.push_back(fork_child(parent.ia, static_cast<unsigned>(i)));
            if (children.size() == max_children) {
                wait_for_child(children.front());
                children.pop_front();
            }
        }
        stopped = true;
        for (const child_process &child : children)
            wait_for_child(child);
    }
    parent.transfer(0);
    expect_kernel_counts(settings().ia, before);
}

} // namespace

int main(int argc, char **argv) {
    case_list cases;
    add_case(cases, "fork.beside_open_connect_close", fork_beside_workers);
    return run_program(argc, argv, cases);
}
