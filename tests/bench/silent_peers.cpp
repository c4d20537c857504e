// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What peers cost that accept a TCP connection and never answer, on iWARP: the duration of the
// calls that end an attempt, with nothing beside them and beside other connections; and the time to
// set up other connections of the process, without such peers and with them in turn.
//
//   silent_peers IA [PEERS [HOST]]   default: 10 peers, on this host
//
// The calls' longest durations are those of the machine if other programs use its CPUs: compare the
// row of the loop without system calls, or run it by `chrt -f 10`.
//
// HOST: one that has an entry in the neighbor table and loses all packets, so that TCP does not
// connect either.

#include "dat_common/adapter.hpp"
#include "dat_common/to_string.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

using namespace tools::dat;
using clock_type = std::chrono::steady_clock;

constexpr DAT_CONN_QUAL qualifier = 7191;
constexpr DAT_TIMEOUT timeout_us = 60'000'000;
constexpr std::size_t num_connections = 200; // of each round
constexpr int num_rounds = 3;

double ms_since(clock_type::time_point start) {
    return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}

/// The next event; another one than expected is an error.
DAT_EVENT wait_event(const evd_handle &evd, DAT_EVENT_NUMBER expected) {
    DAT_EVENT event = {};
    DAT_COUNT num_pending = 0;
    check(dat_evd_wait(evd.get(), timeout_us, 1, &event, &num_pending), "no event");
    if (event.event_number != expected)
        throw std::runtime_error(event_to_string(event.event_number));
    return event;
}

struct endpoint {
    explicit endpoint(const adapter &ia)
        : pz(ia.create_pz())
        , conn_evd(ia.create_evd(8, DAT_EVD_CONNECTION_FLAG))
        , dto_evd(ia.create_evd(8, DAT_EVD_DTO_FLAG)) {
        check(dat_ep_create(ia.get(), pz.get(), dto_evd.get(), dto_evd.get(), conn_evd.get(),
                            nullptr, ep.out_handle()),
              "no endpoint");
    }
    void connect(const address &peer, DAT_CONN_QUAL port, DAT_TIMEOUT timeout) const {
        address remote = peer;
        check(dat_ep_connect(ep.get(), const_cast<sockaddr *>(remote.get()), port, timeout, 0,
                             nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
              "cannot connect");
    }

    pz_handle pz;
    evd_handle conn_evd, dto_evd;
    ep_handle ep;
};

/// A TCP socket that listens. The kernel accepts connections; nothing answers.
class silent_socket {
  public:
    explicit silent_socket(const address &local)
        : fd_(socket(local.family(), SOCK_STREAM, 0)) {
        sockaddr_storage addr = {};
        socklen_t length = local.length();
        std::memcpy(&addr, local.get(), length);
        reinterpret_cast<sockaddr_in *>(&addr)->sin_port = 0; // the same place in sockaddr_in6
        if (bind(fd_, reinterpret_cast<sockaddr *>(&addr), length) != 0 || listen(fd_, 4096) != 0 ||
            getsockname(fd_, reinterpret_cast<sockaddr *>(&addr), &length) != 0)
            throw std::runtime_error(std::string("no socket: ") + std::strerror(errno));
        port_ = ntohs(reinterpret_cast<sockaddr_in *>(&addr)->sin_port);
    }
    ~silent_socket() { close(fd_); }
    silent_socket(const silent_socket &) = delete;
    silent_socket &operator=(const silent_socket &) = delete;
    std::uint16_t port() const { return port_; }

  private:
    int fd_;
    std::uint16_t port_ = 0;
};

/// Connects and disconnects endpoints of the IA one after another. Returns, sorted, the
/// milliseconds from dat_ep_connect() to the active side's event.
std::vector<double> measure_connections(const adapter &ia) {
    const evd_handle cr_evd = ia.create_evd(/*min_qlen=*/8, DAT_EVD_CR_FLAG);
    psp_handle psp;
    check(
        dat_psp_create(ia.get(), qualifier, cr_evd.get(), DAT_PSP_CONSUMER_FLAG, psp.out_handle()),
        "cannot listen");
    std::vector<double> durations;
    while (durations.size() != num_connections) {
        const endpoint active(ia), passive(ia);
        const auto start = clock_type::now();
        active.connect(ia.ia_address(), qualifier, timeout_us);
        const DAT_EVENT request = wait_event(cr_evd, DAT_CONNECTION_REQUEST_EVENT);
        check(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, passive.ep.get(), 0,
                            nullptr),
              "cannot accept");
        wait_event(active.conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        durations.push_back(ms_since(start));
        wait_event(passive.conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        check(dat_ep_disconnect(active.ep.get(), DAT_CLOSE_ABRUPT_FLAG), "cannot disconnect");
        wait_event(active.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        wait_event(passive.conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
    }
    std::sort(durations.begin(), durations.end());
    return durations;
}

/// Connects to silent sockets, and ends the attempts: by timeout, disconnecting, freeing, or
/// closing the IA.
class silent_attempts {
  public:
    silent_attempts(const std::string &ia_name, std::size_t count, const char *host)
        : name_(ia_name)
        , ia_(ia_name)
        , peer_(host != nullptr ? resolve(host).at(0) : ia_.ia_address()) {
        for (std::size_t i = 0; i != count; ++i)
            sockets_.push_back(std::make_unique<silent_socket>(ia_.ia_address()));
    }
    /// One attempt for each socket. The last closes its IA.
    void run_once() {
        std::vector<std::unique_ptr<endpoint>> endpoints;
        for (const auto &socket : sockets_) {
            endpoints.push_back(std::make_unique<endpoint>(ia_));
            endpoints.back()->connect(peer_, socket->port(), 500'000);
        }
        auto closed_ia = std::make_unique<adapter>(name_);
        const endpoint closed(*closed_ia);
        closed.connect(peer_, sockets_.front()->port(), timeout_us);
        std::this_thread::sleep_for(std::chrono::milliseconds(200)); // the requests are sent
        for (std::size_t i = 0; i < endpoints.size(); i += 4)
            time("dat_ep_disconnect abrupt",
                 [&] { dat_ep_disconnect(endpoints[i]->ep.get(), DAT_CLOSE_ABRUPT_FLAG); });
        for (std::size_t i = 1; i < endpoints.size(); i += 4)
            time("dat_ep_disconnect graceful",
                 [&] { dat_ep_disconnect(endpoints[i]->ep.get(), DAT_CLOSE_GRACEFUL_FLAG); });
        for (std::size_t i = 2; i < endpoints.size(); i += 4)
            time("dat_ep_free", [&] { endpoints[i]->ep = {}; });
        for (std::size_t i = 0; i < endpoints.size(); i += 4)
            time("a loop without system calls", [] {
                for (unsigned k = 0; k != 200'000; ++k)
                    asm volatile("");
            });
        time("dat_ia_close abrupt", [&] { closed_ia.reset(); });
        for (std::size_t i = 3; i < endpoints.size(); i += 4)
            wait_event(endpoints[i]->conn_evd, DAT_CONNECTION_EVENT_TIMED_OUT);
        for (const auto &ep : endpoints)
            time("dat_ep_free after the end", [&] { ep->ep = {}; });
    }
    /// The durations of each call since the last time.
    void print_durations(const char *title) {
        std::printf("%s\n", title);
        for (auto &[call, durations] : std::exchange(durations_ms_, {})) {
            std::sort(durations.begin(), durations.end());
            std::printf("    %-28s median %8.2f   longest %8.2f ms\n", call.c_str(),
                        durations[durations.size() / 2], durations.back());
        }
        std::fflush(stdout);
    }

  private:
    template <class function>
    void time(const char *call, function &&fn) {
        const auto start = clock_type::now();
        fn();
        durations_ms_[call].push_back(ms_since(start));
    }

    std::string name_;
    adapter ia_;
    address peer_;
    std::vector<std::unique_ptr<silent_socket>> sockets_;
    std::map<std::string, std::vector<double>> durations_ms_;
};

/// sorted: durations in milliseconds.
void print_row(const char *label, const std::vector<double> &sorted) {
    const auto percentile = [&](std::size_t percent) {
        return sorted[(sorted.size() - 1) * percent / 100];
    };
    std::printf("%-22s median %8.2f   99 %% %8.2f   longest %8.2f ms\n", label, percentile(50),
                percentile(99), sorted.back());
    std::fflush(stdout);
}

/// Measures the calls that end attempts alone, then, in each round, connections without and with
/// such attempts in another thread.
void run(const char *ia_name, std::size_t num_peers, const char *host) {
    const adapter ia(ia_name);
    silent_attempts attempts(ia_name, num_peers, host);
    for (int round = 0; round != num_rounds; ++round)
        attempts.run_once();
    attempts.print_durations("the calls with nothing beside them");
    for (int round = 0; round != num_rounds; ++round) {
        print_row("without silent peers", measure_connections(ia));
        std::atomic<bool> done = false;
        std::exception_ptr failure;
        std::thread thread([&] {
            try {
                do
                    attempts.run_once();
                while (!done);
            } catch (...) {
                failure = std::current_exception();
            }
        });
        const auto durations = measure_connections(ia);
        done = true;
        thread.join();
        if (failure)
            std::rethrow_exception(failure);
        print_row("with silent peers", durations);
    }
    attempts.print_durations("the calls beside other connections");
}

} // namespace

int main(int argc, char **argv) {
    const int num_peers = argc >= 3 ? std::atoi(argv[2]) : 10;
    if (argc < 2 || argc > 4 || num_peers < 4) {
        std::fputs("usage: silent_peers IA [PEERS, at least 4, [HOST]]\n", stderr);
        return 2;
    }
    try {
        run(argv[1], static_cast<std::size_t>(num_peers), argc == 4 ? argv[3] : nullptr);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "silent_peers: %s\n", error.what());
        return 1;
    }
    return 0;
}
