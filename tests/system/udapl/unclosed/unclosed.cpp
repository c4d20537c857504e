// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A process ends with an open IA and objects of each kind, by exit(), _exit() or SIGKILL: the
// kernel keeps nothing of it, its peer gets the disconnect event, and another process can use the
// same connection qualifiers and the same cookie of shared memory.

#include "lib/all_objects.hpp"
#include "lib/cases.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace conform;

namespace {

enum class end { EXIT, IMMEDIATE_EXIT, KILL };

struct end_name {
    end kind;
    const char *name;
};
constexpr end_name all_ends[] = {
    {end::EXIT, "exit"}, {end::IMMEDIATE_EXIT, "_exit"}, {end::KILL, "sigkill"}};

constexpr int status_of_exit = 17;

[[noreturn]] void end_process(end kind) {
    if (kind == end::EXIT)
        std::exit(status_of_exit);
    if (kind == end::KILL)
        raise(SIGKILL);
    _exit(status_of_exit);
}

/// A child that calls work, which never returns. This process must not have opened an IA yet, or
/// the child's objects belong to the contexts that librdmacm keeps open here.
class child_process {
  public:
    explicit child_process(const std::function<void(int)> &work) {
        int fds[2];
        require(pipe(fds) == 0, "pipe");
        std::fflush(nullptr); // a child that calls exit() must not write it, too
        pid_ = fork();
        require(pid_ >= 0, "fork");
        if (pid_ == 0) {
            alarm(settings().timeout_s);
            close(fds[1]);
            try {
                work(fds[0]);
            } catch (const case_aborted &) {
            }
            for (const std::string &failure : failures())
                std::fprintf(stderr, "child: %s\n", failure.c_str());
            _exit(99);
        }
        close(fds[0]);
        to_child_ = fds[1];
    }
    ~child_process() {
        close(to_child_);
        if (pid_ > 0)
            kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    }
    child_process(const child_process &) = delete;
    child_process &operator=(const child_process &) = delete;

    void send(DAT_CONN_QUAL port) const {
        require(write(to_child_, &port, sizeof port) == sizeof port, "write");
    }
    void expect_end(end kind) {
        int status = 0;
        require(waitpid(std::exchange(pid_, -1), &status, 0) > 0, "waitpid");
        if (kind == end::KILL)
            expect_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
                        concat("the child's status is ", status));
        else
            expect_true(WIFEXITED(status) && WEXITSTATUS(status) == status_of_exit,
                        concat("the child's status is ", status));
    }

  private:
    pid_t pid_ = -1;
    int to_child_ = -1;
};

/// The kernel may keep a connection for some seconds, until its peer knows of the end.
void expect_counts(const kernel_counts &before) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    kernel_counts now;
    do {
        now = count_kernel_objects(settings().device);
        if (now == before)
            return;
        std::this_thread::sleep_for(milliseconds(2));
    } while (std::chrono::steady_clock::now() < deadline);
    for (const auto &[kind, count] : now)
        expect_eq(count, before.at(kind), "the kernel's objects of kind " + kind);
}

/// An LMR of shared memory under a cookie that each test uses.
unique_lmr create_shared_lmr(const ep_pair &eps, const mapping &memory) {
    std::array<char, DAT_LMR_COOKIE_SIZE> cookie{"unclosed"};
    DAT_REGION_DESCRIPTION desc{};
    desc.for_shared_memory.virtual_address = memory.data();
    desc.for_shared_memory.shared_memory_id = reinterpret_cast<DAT_LMR_COOKIE>(cookie.data());
    DAT_LMR_HANDLE handle = nullptr;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    require_success(dat_lmr_create(eps.ia, DAT_MEM_TYPE_SHARED_VIRTUAL, desc, page_size, eps.pz,
                                   DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &handle, &lmr_context,
                                   &rmr_context, &length, &address));
    return unique_lmr(handle);
}

/// With a request that is pending, and one whose CR is neither accepted nor rejected.
void test_all_objects(end kind) {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process child([kind](int) {
        auto *const objects = new all_objects; // never freed, as the IA is never closed
        auto *const memory = new mapping(page_size, MAP_SHARED);
        create_shared_lmr(objects->eps, *memory).release();
        end_process(kind);
    });
    child.expect_end(kind);
    expect_counts(before);
    // By this process's count of ports, the same as the child's.
    all_objects objects;
    const mapping memory(page_size, MAP_SHARED);
    const unique_lmr shared = create_shared_lmr(objects.eps, memory);
}

/// The child is connected to this process, and has posted receives.
void test_connected(end kind) {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process child([kind](int from_parent) {
        auto *const eps = new ep_pair;
        DAT_CONN_QUAL port = 0;
        require(read(from_parent, &port, sizeof port) == sizeof port, "read");
        require_success(post_recv(eps->active, eps->lmr.make_lmr_triplet(0, 64), 1));
        require_success(connect_ep(eps->active, ia_address(eps->ia.ipv4_address()), port));
        next_event(eps->active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        require_success(post_send(eps->active, eps->lmr.make_lmr_triplet(64, 64), 2));
        expect_completion(eps->active.recv_evd, eps->active, 1, 64);
        end_process(kind);
    });
    {
        for (int i = 0; i < 100; ++i)
            unused_port(); // the child's listener has the next one
        ep_pair eps;
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(0, 64), 1));
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(64, 64), 2));
        child.send(eps.port);
        require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
        next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        expect_completion(eps.passive.recv_evd, eps.passive, 1, 64);
        require_success(post_send(eps.passive, eps.lmr.make_lmr_triplet(128, 64), 3));
        // On RoCE flushed, if the child ends before it acknowledges it.
        expect_eq(next_completion(eps.passive.request_evd).user_cookie.as_64, 3, "the cookie");
        child.expect_end(kind);
        const DAT_EVENT_NUMBER number = next_event(eps.passive.connect_evd).event_number;
        expect_true(number == DAT_CONNECTION_EVENT_DISCONNECTED ||
                        number == DAT_CONNECTION_EVENT_BROKEN,
                    "the event is " + to_string(number));
        expect_eq(next_completion(eps.passive.recv_evd).status, DAT_DTO_ERR_FLUSHED,
                  "the status of the second receive");
        eps.passive.expect_state(DAT_EP_STATE_DISCONNECTED);
        require_success(dat_ep_reset(eps.passive));
        eps.connect(); // by the same service point
        eps.disconnect();
    }
    kernel_counts after = before;
    for (const char *object : {"ctx", "pd"}) // which librdmacm keeps in this process
        ++after[object];
    expect_counts(after);
}

} // namespace

int main(int argc, char **argv) {
    case_list cases;
    for (const auto &[kind, name] : all_ends) {
        add_case(cases, concat("unclosed.all_objects.", name),
                 [kind = kind] { test_all_objects(kind); });
        add_case(cases, concat("unclosed.connected.", name),
                 [kind = kind] { test_connected(kind); });
    }
    return run_program(argc, argv, cases);
}
