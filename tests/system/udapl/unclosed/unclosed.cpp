// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A process ends with an open IA and objects of each kind, or with an EP in each state, by exit(),
// _exit() or SIGKILL: the kernel keeps nothing of it, its peer gets an event, and another process
// can use the same connection qualifiers and the same cookie of shared memory.

#include "lib/all_objects.hpp"
#include "lib/cases.hpp"
#include "lib/optional.hpp"
#include "lib/process_end.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace conform;

namespace {

struct end_name {
    end kind;
    const char *name;
};
constexpr end_name all_ends[] = {
    {end::EXIT, "exit"}, {end::IMMEDIATE_EXIT, "_exit"}, {end::KILL, "sigkill"}};

/// One end of a connection between a process and its parent.
class process_link {
  public:
    explicit process_link(int fd)
        : fd_(fd) {}
    void send(DAT_CONN_QUAL value = 0) const {
        require(write(fd_, &value, sizeof value) == sizeof value, "write");
    }
    DAT_CONN_QUAL receive() const {
        DAT_CONN_QUAL value = 0;
        require(read(fd_, &value, sizeof value) == sizeof value, "read");
        return value;
    }

  private:
    int fd_;
};

/// A child that calls work with its link, and _exit() if that returns.
class child_process {
  public:
    explicit child_process(const std::function<void(process_link)> &work) {
        int fds[2];
        require(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
        std::fflush(nullptr); // a child that calls exit() must not write it, too
        pid_ = fork();
        require(pid_ >= 0, "fork");
        if (pid_ == 0) {
            alarm(settings().timeout_s);
            close(fds[1]);
            try {
                work(process_link(fds[0]));
            } catch (const case_aborted &) {
            }
            for (const std::string &failure : failures())
                std::fprintf(stderr, "child: %s\n", failure.c_str());
            _exit(failures().empty() ? status_of_exit : 99);
        }
        close(fds[0]);
        fd_ = fds[1];
    }
    ~child_process() {
        close(fd_);
        if (pid_ > 0)
            kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
    }
    child_process(const child_process &) = delete;
    child_process &operator=(const child_process &) = delete;

    process_link link() const { return process_link(fd_); }
    /// All its threads are stopped when it returns.
    void stop() const {
        int status = 0;
        require(kill(pid_, SIGSTOP) == 0 && waitpid(pid_, &status, WUNTRACED) == pid_ &&
                    WIFSTOPPED(status),
                "SIGSTOP");
    }
    void resume() const { require(kill(pid_, SIGCONT) == 0, "SIGCONT"); }
    void expect_end(end kind) {
        int status = 0;
        require(waitpid(std::exchange(pid_, -1), &status, 0) > 0, "waitpid");
        expect_true(has_ended(status, kind), concat("the child's status is ", status));
    }
    void expect_return() { expect_end(end::IMMEDIATE_EXIT); } ///< of work

  private:
    pid_t pid_ = -1;
    int fd_ = -1;
};

void expect_counts(const kernel_counts &expected) {
    expect_kernel_counts(settings().device, expected);
}

/// An LMR of shared memory under the cookie of this number.
unique_lmr create_shared_lmr(const ep_pair &eps, const mapping &memory, int number) {
    std::array<char, DAT_LMR_COOKIE_SIZE> cookie{"unclosed "};
    cookie.at(9) = static_cast<char>('0' + number);
    DAT_REGION_DESCRIPTION desc{};
    desc.for_shared_memory.virtual_address = memory.data();
    desc.for_shared_memory.shared_memory_id = reinterpret_cast<DAT_LMR_COOKIE>(cookie.data());
    DAT_LMR_HANDLE handle = nullptr;
    DAT_LMR_CONTEXT lmr_context = 0;
    DAT_RMR_CONTEXT rmr_context = 0;
    DAT_VLEN length = 0;
    DAT_VADDR address = 0;
    require_success(dat_lmr_create(eps.ia, DAT_MEM_TYPE_SHARED_VIRTUAL, desc, memory.size(), eps.pz,
                                   DAT_MEM_PRIV_ALL_FLAG, DAT_VA_TYPE_VA, &handle, &lmr_context,
                                   &rmr_context, &length, &address));
    return unique_lmr(handle);
}

/// For processes that have an ep_pair at the same time: unused_port() counts in each of them.
void skip_ports(int process_number) {
    for (int i = 0; i != 100 * process_number; ++i)
        unused_port();
}

/// Children that end at the same time, each in one way: siw's kernel keeps a process with an
/// unanswered request for ten seconds.
class children_of_each_end {
  public:
    /// work(kind, number, link) ends the process so.
    template <class Work>
    explicit children_of_each_end(const Work &work) {
        for (const auto &[kind, name] : all_ends)
            children_.emplace_back(
                [&work, kind = kind, number = static_cast<int>(children_.size())](
                    process_link parent) { work(kind, number, parent); });
    }
    void let_end() const {
        for (const child_process &child : children_)
            child.link().send();
    }
    void expect_ends() {
        for (std::size_t i = 0; i != children_.size(); ++i)
            children_[i].expect_end(all_ends[i].kind);
    }

  private:
    std::deque<child_process> children_;
};

/// A request is pending, and the CR of one is neither accepted nor rejected.
struct all_objects_and_memory {
    all_objects objects;
    mapping memory{page_size, MAP_SHARED};
    unique_lmr lmr;

    explicit all_objects_and_memory(int number)
        : lmr(create_shared_lmr(objects.eps, memory, number)) {}
};

void test_all_objects() {
    const kernel_counts before = count_kernel_objects(settings().device);
    children_of_each_end children([](end kind, int number, process_link) {
        skip_ports(number);
        new all_objects_and_memory(number); // never freed, as the IA is never closed
        end_process(kind);
    });
    children.expect_ends();
    expect_counts(before);
    for (int number = 0; number != std::ssize(all_ends); ++number) {
        child_process successor([number](process_link) {
            skip_ports(number);
            const all_objects_and_memory same(number);
        });
        successor.expect_return();
    }
}

/// The child is connected to this process, and has posted receives.
void test_connected(end kind) {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process child([kind](process_link parent) {
        auto *const eps = new ep_pair;
        const DAT_CONN_QUAL port = parent.receive();
        require_success(post_recv(eps->active, eps->lmr.make_lmr_triplet(0, 64), 1));
        require_success(connect_ep(eps->active, ia_address(eps->ia.ipv4_address()), port));
        next_event(eps->active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        require_success(post_send(eps->active, eps->lmr.make_lmr_triplet(64, 64), 2));
        expect_completion(eps->active.recv_evd, eps->active, 1, 64);
        end_process(kind);
    });
    {
        skip_ports(1);
        ep_pair eps;
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(0, 64), 1));
        require_success(post_recv(eps.passive, eps.lmr.make_lmr_triplet(64, 64), 2));
        child.link().send(eps.port);
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
    ++after["ctx"]; // which librdmacm keeps in this process
    expect_counts(after);
}

/// What the child wrote to shared memory of an LMR is there when exit() has deregistered it.
void test_exit_keeps_data() {
    const mapping memory(4 * page_size, MAP_SHARED);
    const auto data = make_pattern(memory.size());
    child_process child([&](process_link) {
        const auto *const eps = new ep_pair;
        const unique_lmr lmr = create_shared_lmr(*eps, memory, 0);
        std::memcpy(memory.data(), data.data(), data.size());
        end_process(end::EXIT);
    });
    child.expect_end(end::EXIT);
    expect_true(std::memcmp(memory.data(), data.data(), data.size()) == 0,
                "the memory has not what was written");
}

// The cases below have a child that ends with an EP in some state, and its peer, another child.
// This process opens an IA at last.

void require_state(DAT_EP_HANDLE ep, std::initializer_list<DAT_EP_STATE> expected) {
    DAT_EP_PARAM param{};
    require_success(dat_ep_query(ep, DAT_EP_FIELD_EP_STATE, &param));
    require(std::ranges::find(expected, param.ep_state) != expected.end(),
            "the EP's state is " + to_string(param.ep_state));
}

/// Nothing is left of the children, and the connection qualifiers of the first can be used.
void expect_nothing_left(const kernel_counts &before) {
    expect_counts(before);
    ep_pair eps;
    eps.connect();
    eps.disconnect();
}

bool is_soft_iwarp() {
    return settings().device.starts_with("siw");
}

void test_active_pending() {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process peer([](process_link parent) {
        skip_ports(std::size(all_ends));
        ep_pair eps;
        parent.send(eps.port);
        std::vector<DAT_CR_HANDLE> crs;
        for (std::size_t i = 0; i != std::size(all_ends); ++i)
            crs.push_back(eps.next_cr());
        parent.send();
        parent.receive();
        for (const DAT_CR_HANDLE cr : crs)
            require_success(dat_cr_reject(cr, 0, nullptr));
    });
    const DAT_CONN_QUAL port = peer.link().receive();
    children_of_each_end children([port](end kind, int number, process_link parent) {
        skip_ports(number);
        auto *const eps = new ep_pair;
        require_success(connect_ep(eps->active, ia_address(eps->ia.ipv4_address()), port, {},
                                   DAT_TIMEOUT_INFINITE));
        parent.receive();
        require_state(eps->active, {DAT_EP_STATE_ACTIVE_CONNECTION_PENDING});
        end_process(kind);
    });
    peer.link().receive(); // it has the requests
    children.let_end();
    children.expect_ends();
    peer.link().send();
    peer.expect_return();
    expect_nothing_left(before);
}

/// A peer that requests a connection, which is never established.
void request_without_answer(DAT_CONN_QUAL port) {
    skip_ports(1);
    const ep_pair eps;
    require_success(
        connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), port, {}, DAT_TIMEOUT_INFINITE));
    const DAT_EVENT_NUMBER number = next_event(eps.active.connect_evd).event_number;
    expect_true(number == DAT_CONNECTION_EVENT_NON_PEER_REJECTED ||
                    number == DAT_CONNECTION_EVENT_PEER_REJECTED ||
                    number == DAT_CONNECTION_EVENT_UNREACHABLE,
                "the event is " + to_string(number));
}

/// An RSP has got a request.
void test_passive_pending(end kind) {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process child([kind](process_link parent) {
        auto *const eps = new ep_pair;
        const DAT_CONN_QUAL port = unused_port();
        DAT_RSP_HANDLE rsp = nullptr;
        require_success(dat_rsp_create(eps->ia, port, eps->passive, eps->cr_evd, &rsp));
        parent.send(port);
        eps->next_cr();
        require_state(eps->passive, {DAT_EP_STATE_PASSIVE_CONNECTION_PENDING});
        end_process(kind);
    });
    child_process peer(
        [port = child.link().receive()](process_link) { request_without_answer(port); });
    child.expect_end(kind);
    peer.expect_return();
    expect_nothing_left(before);
}

/// A request has come with an EP of the Provider, which the child has configured.
void test_tentative(end kind) {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process child([kind](process_link parent) {
        auto *const eps = new ep_pair;
        const DAT_CONN_QUAL port = unused_port();
        DAT_PSP_HANDLE psp = nullptr;
        require_success(dat_psp_create(eps->ia, port, eps->cr_evd, DAT_PSP_PROVIDER_FLAG, &psp));
        parent.send(port);
        DAT_CR_PARAM param{};
        require_success(dat_cr_query(eps->next_cr(), DAT_CR_FIELD_ALL, &param));
        require_state(param.local_ep_handle, {DAT_EP_STATE_UNCONFIGURED_TENTATIVE});
        DAT_EP_PARAM ep_param{};
        ep_param.pz_handle = eps->pz;
        ep_param.recv_evd_handle = eps->passive.recv_evd;
        ep_param.request_evd_handle = eps->passive.request_evd;
        ep_param.connect_evd_handle = eps->passive.connect_evd;
        require_success(dat_ep_modify(param.local_ep_handle,
                                      DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_RECV_EVD_HANDLE |
                                          DAT_EP_FIELD_REQUEST_EVD_HANDLE |
                                          DAT_EP_FIELD_CONNECT_EVD_HANDLE,
                                      &ep_param));
        require_state(param.local_ep_handle, {DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING});
        end_process(kind);
    });
    child_process peer(
        [port = child.link().receive()](process_link) { request_without_answer(port); });
    child.expect_end(kind);
    peer.expect_return();
    expect_nothing_left(before);
}

/// The child has accepted, and its peer, which is stopped, has not sent the RTU.
void test_completion_pending(end kind) {
    if (is_soft_iwarp())
        throw case_skipped{"iWARP has no RTU: the kernel establishes an accepted connection"};
    const kernel_counts before = count_kernel_objects(settings().device);
    {
        child_process child([kind](process_link parent) {
            auto *const eps = new ep_pair;
            parent.send(eps->port);
            const DAT_CR_HANDLE cr = eps->next_cr();
            parent.send();
            parent.receive();
            require_success(dat_cr_accept(cr, eps->passive, 0, nullptr));
            require_state(eps->passive, {DAT_EP_STATE_COMPLETION_PENDING});
            end_process(kind);
        });
        child_process peer([port = child.link().receive()](process_link parent) {
            skip_ports(1);
            const ep_pair eps;
            require_success(connect_ep(eps.active, ia_address(eps.ia.ipv4_address()), port));
            parent.receive(); // until it is killed
        });
        child.link().receive(); // it has the request
        peer.stop();
        child.link().send();
        child.expect_end(kind);
    }
    expect_nothing_left(before);
}

/// A peer that is connected until the other side ends.
void accept_until_end(process_link parent) {
    skip_ports(1);
    ep_pair eps;
    parent.send(eps.port);
    require_success(dat_cr_accept(eps.next_cr(), eps.passive, 0, nullptr));
    next_event(eps.passive.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    parent.send();
    const DAT_EVENT_NUMBER number = next_event(eps.passive.connect_evd).event_number;
    expect_true(number == DAT_CONNECTION_EVENT_DISCONNECTED ||
                    number == DAT_CONNECTION_EVENT_BROKEN,
                "the event is " + to_string(number));
}

/// Connects to accept_until_end(), calls bring_to_state, and ends.
void test_connected_before(end kind, void (*bring_to_state)(ep_pair &), bool peer_stops = false) {
    const kernel_counts before = count_kernel_objects(settings().device);
    child_process peer(accept_until_end);
    const DAT_CONN_QUAL port = peer.link().receive();
    child_process child([=](process_link parent) {
        auto *const eps = new ep_pair;
        require_success(connect_ep(eps->active, ia_address(eps->ia.ipv4_address()), port));
        next_event(eps->active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        parent.receive();
        bring_to_state(*eps);
        end_process(kind);
    });
    peer.link().receive(); // it is connected
    if (peer_stops)
        peer.stop();
    child.link().send();
    child.expect_end(kind);
    peer.resume();
    peer.expect_return();
    expect_nothing_left(before);
}

/// The peer, which is stopped, does not answer the DREQ; iWARP has none.
void begin_disconnect(ep_pair &eps) {
    require_success(dat_ep_disconnect(eps.active, DAT_CLOSE_GRACEFUL_FLAG));
    if (is_soft_iwarp())
        require_state(eps.active, {DAT_EP_STATE_DISCONNECT_PENDING, DAT_EP_STATE_DISCONNECTED});
    else
        require_state(eps.active, {DAT_EP_STATE_DISCONNECT_PENDING});
}

void disconnect(ep_pair &eps) {
    require_success(dat_ep_disconnect(eps.active, DAT_CLOSE_ABRUPT_FLAG));
    next_event(eps.active.connect_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    require_state(eps.active, {DAT_EP_STATE_DISCONNECTED});
}

void bind_rmr(const ep_pair &eps, DAT_RMR_HANDLE rmr) {
    DAT_LMR_TRIPLET range = eps.lmr.make_lmr_triplet(0, page_size);
    DAT_RMR_CONTEXT context = 0;
    require_success(dat_rmr_bind(rmr, eps.lmr, &range, DAT_MEM_PRIV_REMOTE_READ_FLAG,
                                 DAT_VA_TYPE_VA, eps.active, {.as_64 = 1},
                                 DAT_COMPLETION_DEFAULT_FLAG, &context));
    const DAT_EVENT event = next_event(eps.active.request_evd, DAT_RMR_BIND_COMPLETION_EVENT);
    require(event.event_data.rmr_completion_event_data.status == DAT_RMR_BIND_SUCCESS, "the bind");
}
/// An MW of type 1.
void bind_rmr_of_pz(ep_pair &eps) {
    DAT_RMR_HANDLE rmr = nullptr;
    require_success(dat_rmr_create(eps.pz, &rmr));
    bind_rmr(eps, rmr);
}
/// An MW of type 2.
void bind_rmr_of_ep(ep_pair &eps) {
    DAT_RMR_HANDLE rmr = nullptr;
    require_success(EXPORTED(dat_rmr_create_for_ep)(eps.pz, &rmr));
    bind_rmr(eps, rmr);
}
void test_bound_rmr(end kind, void (*bind)(ep_pair &)) {
    if (is_soft_iwarp())
        throw case_skipped{"siw has no memory windows"};
    test_connected_before(kind, bind);
}

void add_cases(case_list &cases, end kind, const char *name) {
    add_case(cases, concat("unclosed.connected.", name), [kind] { test_connected(kind); });
    add_case(cases, concat("unclosed.passive_pending.", name),
             [kind] { test_passive_pending(kind); });
    add_case(cases, concat("unclosed.tentative.", name), [kind] { test_tentative(kind); });
    add_case(cases, concat("unclosed.completion_pending.", name),
             [kind] { test_completion_pending(kind); });
    add_case(cases, concat("unclosed.disconnect_pending.", name),
             [kind] { test_connected_before(kind, begin_disconnect, true); });
    add_case(cases, concat("unclosed.disconnected.", name),
             [kind] { test_connected_before(kind, disconnect); });
    add_case(cases, concat("unclosed.bound_rmr_of_pz.", name),
             [kind] { test_bound_rmr(kind, bind_rmr_of_pz); });
    add_case(cases, concat("unclosed.bound_rmr_of_ep.", name),
             [kind] { test_bound_rmr(kind, bind_rmr_of_ep); });
}

} // namespace

int main(int argc, char **argv) {
    case_list cases;
    add_case(cases, "unclosed.all_objects", test_all_objects);
    add_case(cases, "unclosed.active_pending", test_active_pending);
    add_case(cases, "unclosed.exit_keeps_data", test_exit_keeps_data);
    for (const auto &[kind, name] : all_ends)
        add_cases(cases, kind, name);
    return run_program(argc, argv, cases);
}
