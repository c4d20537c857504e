// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program that syncs as coherdma(7) describes, or skips some sync calls.
//
//     synced [--without N,...] [--rounds N] [--only PHASE] [--local] [--without-local KIND]
//            DEVICE ADDRESS                    runs both sides, as two processes
//     synced --list [rxe|siw]                  prints N, phase, side, kind and region of each call
//
// With --local it also syncs the local memory of its own requests, which otherwise is left to the
// provider; KIND is that of sync_calls.hpp's local_kind, for example recv-after.
//
// Exit status: 0 all data were right, 1 some were wrong, 2 error. Prints "region NAME BEGIN LENGTH
// SIDE" for each side, and "without N BEGIN LENGTH SIDE" for a skipped call.

#include "phases.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <optional>
#include <sstream>
#include <string_view>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace synced;

constexpr unsigned TIMEOUT = 240; // seconds
constexpr int OTHER_SIDE_FD = 3;  // a socket to the other process
constexpr std::size_t NUM_THREADS = 4;

// The connections, in the order of their creation.
constexpr connection_style STYLES[] = {connection_style::PLAIN,  connection_style::SRQ,
                                       connection_style::WR_API, connection_style::CQ_EX,
                                       connection_style::SRQ,    connection_style::WR_API,
                                       connection_style::CQ_EX};
static_assert(std::size(STYLES) - NUM_THREADS == 3, "a thread also uses the first connection");

struct options {
    std::string device, address;
    std::vector<unsigned> skipped;
    int rounds = 3;
    std::string only;         // a phase; "" for all
    bool use_extended = true; // ibv_wr_* and ibv_start_poll(), which the stock siw does not have
    bool local = false;
    std::string skipped_local;
};

// Gives the other side this number, and returns that of the other side, when both have called it.
std::uint16_t exchange_number(std::uint16_t local) {
    std::uint16_t remote;
    if (write(OTHER_SIDE_FD, &local, sizeof local) != sizeof local ||
        read(OTHER_SIDE_FD, &remote, sizeof remote) != sizeof remote)
        throw failure("the other side is gone");
    return remote;
}

unique_handle<addrinfo, freeaddrinfo> resolve(const std::string &address) {
    addrinfo hints{}, *info = nullptr;
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = getaddrinfo(address.c_str(), nullptr, &hints, &info))
        throw failure(concat(address, ": ", gai_strerror(error)));
    return unique_handle<addrinfo, freeaddrinfo>(info);
}

unique_handle<rdma_cm_id, rdma_destroy_id> create_id() {
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
    return unique_handle<rdma_cm_id, rdma_destroy_id>(id);
}

bool is_iwarp(const ibv_context &context) noexcept {
    return context.device->transport_type == IBV_TRANSPORT_IWARP;
}

// The connections of one side, created one after another.
class connections {
  public:
    connections(side self, const options &opts)
        : self_(self)
        , opts_(opts) {
        const auto info = resolve(opts.address);
        if (self == side::SERVER) {
            listener_ = create_id();
            check(rdma_bind_addr(listener_.get(), info->ai_addr), "bind to that address");
            check(rdma_listen(listener_.get(), 8), "listen");
        }
        std::uint16_t port = self == side::SERVER ? rdma_get_src_port(listener_.get()) : 0;
        if (const std::uint16_t peer_port = exchange_number(port); self == side::CLIENT)
            port = peer_port;
        reinterpret_cast<sockaddr_in *>(info->ai_addr)->sin_port = port;
        for (const connection_style style : STYLES)
            add(opts.use_extended || style == connection_style::SRQ ? style
                                                                    : connection_style::PLAIN,
                info->ai_addr);
    }
    [[nodiscard]] connection &get(std::size_t index) const { return *connections_.at(index); }
    [[nodiscard]] ibv_pd *pd() const noexcept { return pd_.get(); }
    [[nodiscard]] const coherdma_device *device() const noexcept { return device_.get(); }

  private:
    void add(connection_style style, sockaddr *address) {
        constexpr int MILLISECONDS = 60000;
        rdma_conn_param param{};
        param.responder_resources = param.initiator_depth = 4;
        param.retry_count = param.rnr_retry_count = 7;
        rdma_cm_id *id = nullptr;
        if (self_ == side::SERVER) {
            check(rdma_get_request(listener_.get(), &id), "rdma_get_request");
        } else {
            id = create_id().release();
            check(rdma_resolve_addr(id, nullptr, address, MILLISECONDS), "resolve the address");
            check(rdma_resolve_route(id, MILLISECONDS), "resolve the route");
        }
        if (opts_.device != ibv_get_device_name(id->verbs->device))
            throw failure(concat("the address is not that of ", opts_.device));
        if (!device_)
            open_device(id->verbs);
        if (!pd_)
            pd_ = check(decltype(pd_)(ibv_alloc_pd(id->verbs)), "protection domain");
        if (!message_memory_) // an iWARP Read response needs remote write access to its sink
            message_memory_.emplace(pd_.get(), connection::MEMORY_SIZE * std::size(STYLES),
                                    IBV_ACCESS_LOCAL_WRITE |
                                        (is_iwarp(*id->verbs) ? IBV_ACCESS_REMOTE_WRITE : 0));
        connection &conn = *connections_.emplace_back(std::make_unique<connection>(
            id, pd_.get(), style, *message_memory_, connection::MEMORY_SIZE * connections_.size(),
            *sync_local_));
        check(self_ == side::SERVER ? rdma_accept(id, &param) : rdma_connect(id, &param),
              "connect");
        // On iWARP the client sends first, but only after the server has accepted: siw may leave
        // data that arrive during siw_accept() in the socket until more arrive (KNOWN_FAULTS.md).
        exchange_number(0); // only waits
        if (self_ == side::CLIENT)
            conn.send_message({});
        conn.receive_message();
        if (self_ == side::SERVER)
            conn.send_message({});
    }

    void open_device(ibv_context *context) {
        device_.reset(coherdma_open_device(context));
        if (!device_)
            throw failure(coherdma_error());
        sync_local_.emplace(opts_.local ? device_.get() : nullptr, self_, opts_.skipped_local);
    }

    side self_;
    const options &opts_;
    unique_handle<coherdma_device, coherdma_close_device> device_;
    std::optional<local_syncer> sync_local_;
    unique_handle<rdma_cm_id, rdma_destroy_id> listener_;
    unique_handle<ibv_pd, ibv_dealloc_pd> pd_;
    std::optional<registered_memory> message_memory_;
    std::vector<std::unique_ptr<connection>> connections_;
};

// The first connection of the style that the phase is about; by STYLES.
connection &connection_for(const phase &p, const connections &conns) {
    const std::string_view name = p.name;
    return conns.get(name == "srq" ? 1 : name == "parts" ? 2 : name == "cq-ex" ? 3 : 0);
}

// A phase in NUM_THREADS threads, each with a connection and memory of its own. The runs, whose
// memory the emulation's findings name, stay in `runs`.
void run_threads(std::deque<phase_run> &runs, process_state &process, const phase &p,
                 const connections &conns) {
    const std::size_t first = runs.size();
    for (std::size_t i = 0; i < NUM_THREADS; ++i)
        runs.emplace_back(process, p, conns.get(i == 0 ? 0 : std::size(STYLES) - i),
                          concat(p.name, '.', i));
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < NUM_THREADS; ++i)
        threads.emplace_back([&, first, i] {
            try {
                runs[first + i].run_rounds();
            } catch (const std::exception &e) {
                print_line(
                    concat("error: ", name_of(process.self), ", thread ", i, ": ", e.what()));
                std::_Exit(2);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

// One side: all phases, in its own process. Returns the exit status.
int run_side(side self, const options &opts) try {
    alarm(TIMEOUT);
    const connections conns(self, opts);
    ibv_context *const context = conns.get(0).id()->verbs;
    coherdma_device_attr attr{};
    check(coherdma_query_device(conns.device(), &attr, sizeof attr), "query the device");
    if (attr.line_size > LINE)
        throw failure(concat("unsupported line size ", attr.line_size));
    const bool iwarp = is_iwarp(*context);
    const bool is_emulated = (attr.flags & COHERDMA_DEVICE_EMULATED) != 0;
    print_line(concat("coherency ", coherdma_coherency_str(attr.coherency),
                      is_emulated ? " emulated " : " ", attr.line_size));
    const syncer sync(conns.device(), self, opts.skipped);
    process_state process{self, iwarp, opts.rounds, conns.pd(), sync};
    std::deque<phase_run> runs;
    for (const phase &p : PHASES) {
        if ((iwarp && !p.iwarp) || (!opts.only.empty() && opts.only != p.name))
            continue;
        if (p.multithreaded)
            run_threads(runs, process, p, conns);
        else
            runs.emplace_back(process, p, connection_for(p, conns), p.name).run_rounds();
        if (opts.skipped.empty() &&
            opts.skipped_local.empty()) // findings are matched to phases by their memory
            runs.clear();
    }
    exchange_number(0); // exiting earlier would disconnect the other side
    return process.has_wrong_data ? 1 : 0;
} catch (const std::exception &e) {
    print_line(concat("error: ", name_of(self), ": ", e.what()));
    return 2;
}

// Runs this program again for each side, as two ordinary processes. Prints how each ended; returns
// the higher exit status.
int run_both(char **argv, int argc) {
    int sockets[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), "socket pair");
    pid_t pids[2];
    for (const int i : {0, 1}) {
        pids[i] = fork();
        check(pids[i] < 0 ? -1 : 0, "fork");
        if (pids[i] != 0)
            continue;
        const int fd = fcntl(sockets[i], F_DUPFD, 10);
        dup2(fd, OTHER_SIDE_FD);
        for (const int fd_to_close : {sockets[0], sockets[1], fd})
            if (fd_to_close != OTHER_SIDE_FD)
                close(fd_to_close);
        std::vector<char *> args = {argv[0], const_cast<char *>(i == 0 ? "--server" : "--client")};
        args.insert(args.end(), argv + 1, argv + argc);
        args.push_back(nullptr);
        execv("/proc/self/exe", args.data());
        std::_Exit(2);
    }
    close(sockets[0]);
    close(sockets[1]);
    int max_status = 0;
    for (int remaining = 2; remaining > 0; --remaining) {
        int status = 0;
        const pid_t pid = wait(&status);
        const bool exited = WIFEXITED(status);
        print_line(concat(pid == pids[0] ? "server " : "client ", pid,
                          exited ? " exit " : " signal ",
                          exited ? WEXITSTATUS(status) : WTERMSIG(status)));
        max_status = std::max(max_status, exited ? WEXITSTATUS(status) : 2);
        // After an error the other process would wait without end.
        if (max_status > 1 && remaining == 2)
            kill(pid == pids[0] ? pids[1] : pids[0], SIGKILL);
    }
    return max_status;
}

} // namespace

int main(int argc, char **argv) try {
    options opts;
    side self = side::SERVER;
    bool both_sides = true;
    std::vector<std::string> positional;
    for (int i = 1; i < argc; ++i) {
        const std::string_view arg = argv[i];
        const bool has_value = i + 1 < argc;
        if (arg == "--list") {
            print_calls(has_value && std::string_view(argv[i + 1]) == "siw");
            return 0;
        }
        if (arg == "--server" || arg == "--client") {
            self = arg == "--server" ? side::SERVER : side::CLIENT;
            both_sides = false;
        } else if (arg == "--without" && has_value) {
            std::istringstream numbers(argv[++i]);
            for (std::string number; std::getline(numbers, number, ',');)
                opts.skipped.push_back(static_cast<unsigned>(std::stoul(number)));
        } else if (arg == "--rounds" && has_value) {
            opts.rounds = std::stoi(argv[++i]);
        } else if (arg == "--local") {
            opts.local = true;
        } else if (arg == "--without-local" && has_value) {
            opts.skipped_local = argv[++i];
        } else if (arg == "--only" && has_value) {
            opts.only = argv[++i];
        } else if (arg == "--no-extended") {
            opts.use_extended = false;
        } else {
            positional.emplace_back(arg);
        }
    }
    const auto is_unknown = [](unsigned number) {
        return number > sync_calls().size();
    };
    if (positional.size() != 2 || std::ranges::any_of(opts.skipped, is_unknown) ||
        opts.rounds < 1) {
        std::fputs("usage: synced [--without N,...] [--rounds N] [--only PHASE] [--local]\n"
                   "              [--without-local KIND] [--no-extended] DEVICE ADDRESS\n"
                   "       synced --list [rxe|siw]\n",
                   stderr);
        return 2;
    }
    opts.device = positional[0];
    opts.address = positional[1];
    return both_sides ? run_both(argv, argc) : run_side(self, opts);
} catch (const std::exception &e) {
    std::fprintf(stderr, "synced: %s\n", e.what());
    return 2;
}
