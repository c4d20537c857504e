// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A program that syncs as coherdma(7) wants it, or leaves out one call.
//
//     synced [--without N] [--rounds N] [--only PHASE] DEVICE ADDRESS
//                                          both sides, as two processes
//     synced --list [rxe|siw]                  N, phase, side, kind, region of each call
//
// Exit status: 0 all data was right, 1 some was not, 2 it could not be tried. Of each side it
// prints "region NAME BEGIN LENGTH SIDE", and "without N BEGIN LENGTH SIDE" for what was left out.

#include "phases.hpp"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <optional>
#include <string_view>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using namespace synced;

constexpr unsigned LIMIT = 30;   // seconds
constexpr int TO_OTHER_SIDE = 3; // a socket, in each side
constexpr std::size_t THREADS = 4;

// What connections there are, in the order in which they are made.
constexpr style TALKS[] = {style::PLAIN,  style::SHARED, style::PARTS, style::POLLED,
                           style::SHARED, style::PARTS,  style::POLLED};
static_assert(std::size(TALKS) - THREADS == 3, "the first is a thread's, too");

struct options {
    std::string device, address;
    unsigned without = 0;
    int rounds = 3;
    std::string only; // a phase; "": all
};

std::uint16_t exchange(std::uint16_t mine) {
    std::uint16_t theirs;
    if (write(TO_OTHER_SIDE, &mine, sizeof mine) != sizeof mine ||
        read(TO_OTHER_SIDE, &theirs, sizeof theirs) != sizeof theirs)
        throw failure("the other side is gone");
    return theirs;
}

owned<addrinfo, freeaddrinfo> resolve(const std::string &address) {
    addrinfo hints{}, *info = nullptr;
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    if (const int error = getaddrinfo(address.c_str(), nullptr, &hints, &info))
        throw failure(text(address, ": ", gai_strerror(error)));
    return owned<addrinfo, freeaddrinfo>(info);
}

owned<rdma_cm_id, rdma_destroy_id> new_id() {
    rdma_cm_id *made = nullptr;
    check(rdma_create_id(nullptr, &made, nullptr, RDMA_PS_TCP), "CM id");
    return owned<rdma_cm_id, rdma_destroy_id>(made);
}

bool is_iwarp(const ibv_context &of) noexcept {
    return of.device->transport_type == IBV_TRANSPORT_IWARP;
}

// All connections of a side, one after another.
class connections {
  public:
    connections(side me, const options &wanted)
        : me_(me)
        , device_(wanted.device) {
        const auto info = resolve(wanted.address);
        if (me == side::SERVER) {
            listener_ = new_id();
            check(rdma_bind_addr(listener_.get(), info->ai_addr), "bind to that address");
            check(rdma_listen(listener_.get(), 8), "listen");
        }
        std::uint16_t port = me == side::SERVER ? rdma_get_src_port(listener_.get()) : 0;
        if (const std::uint16_t told = exchange(port); me == side::CLIENT)
            port = told;
        reinterpret_cast<sockaddr_in *>(info->ai_addr)->sin_port = port;
        for (const style each : TALKS)
            add(each, info->ai_addr);
    }
    [[nodiscard]] talk &at(std::size_t which) const { return *all_.at(which); }
    [[nodiscard]] ibv_pd *domain() const noexcept { return domain_.get(); }

  private:
    void add(style how, sockaddr *address) {
        constexpr int MILLISECONDS = 5000;
        rdma_conn_param wanted{};
        wanted.responder_resources = wanted.initiator_depth = 4;
        wanted.retry_count = wanted.rnr_retry_count = 7;
        rdma_cm_id *id = nullptr;
        if (me_ == side::SERVER) {
            check(rdma_get_request(listener_.get(), &id), "a client");
        } else {
            id = new_id().release();
            check(rdma_resolve_addr(id, nullptr, address, MILLISECONDS), "resolve the address");
            check(rdma_resolve_route(id, MILLISECONDS), "resolve the route");
        }
        if (device_ != ibv_get_device_name(id->verbs->device))
            throw failure(text("the address is not of ", device_));
        if (!domain_)
            domain_ = check(decltype(domain_)(ibv_alloc_pd(id->verbs)), "protection domain");
        if (!notes_) // an iWARP Read writes its sink as a peer would
            notes_.emplace(domain_.get(), talk::ROOM * std::size(TALKS),
                           IBV_ACCESS_LOCAL_WRITE |
                               (is_iwarp(*id->verbs) ? IBV_ACCESS_REMOTE_WRITE : 0));
        talk &made = *all_.emplace_back(
            std::make_unique<talk>(id, domain_.get(), how, *notes_, talk::ROOM * all_.size()));
        check(me_ == side::SERVER ? rdma_accept(id, &wanted) : rdma_connect(id, &wanted),
              "connect");
        // With iWARP the client has the first word, but not before the server has accepted: what
        // comes while siw does that may lie in the socket until more comes.
        exchange(0);
        if (me_ == side::CLIENT)
            made.tell({});
        made.hear();
        if (me_ == side::SERVER)
            made.tell({});
    }

    side me_;
    std::string device_;
    owned<rdma_cm_id, rdma_destroy_id> listener_;
    owned<ibv_pd, ibv_dealloc_pd> domain_;
    std::optional<memory> notes_;
    std::vector<std::unique_ptr<talk>> all_;
};

talk &talk_for(const phase &which, const connections &to) {
    const std::string_view name = which.name;
    return to.at(name == "srq" ? 1 : name == "parts" ? 2 : name == "cq-ex" ? 3 : 0);
}

void on_threads(process &in, const phase &which, const connections &to) {
    std::vector<std::thread> all;
    for (std::size_t each = 0; each < THREADS; ++each)
        all.emplace_back([&, each] {
            try {
                talk &over = to.at(each == 0 ? 0 : std::size(TALKS) - each);
                run_of(in, which, over, text(which.name, '.', each)).all_rounds();
            } catch (const std::exception &problem) {
                say(text("error: ", name_of(in.me), ", thread ", each, ": ", problem.what()));
                std::_Exit(2);
            }
        });
    for (std::thread &each : all)
        each.join();
}

int run(side me, const options &wanted) try {
    alarm(LIMIT);
    const connections to(me, wanted);
    ibv_context *const context = to.at(0).id()->verbs;
    const owned<coherdma_device, coherdma_close> device(coherdma_open_device(context));
    if (!device)
        throw failure(coherdma_error());
    coherdma_device_attr about{};
    check(coherdma_query_device(device.get(), &about, sizeof about), "query the device");
    if (about.line_size > LINE || about.alignment > LINE)
        throw failure(text("lines of ", about.line_size, " bytes are longer than planned"));
    const bool iwarp = is_iwarp(*context);
    say(text("verdict ", coherdma_verdict_name(about.verdict), ' ', about.line_size));
    const syncing sync(device.get(), me, wanted.without);
    process in{me, iwarp, wanted.rounds, to.domain(), sync};
    for (const phase &each : PHASES) {
        if ((iwarp && !each.iwarp) || (!wanted.only.empty() && wanted.only != each.name))
            continue;
        if (each.on_threads)
            on_threads(in, each, to);
        else
            run_of(in, each, talk_for(each, to), each.name).all_rounds();
    }
    exchange(0); // so that nobody's end is seen as a failure
    return in.wrong ? 1 : 0;
} catch (const std::exception &problem) {
    say(text("error: ", name_of(me), ": ", problem.what()));
    return 2;
}

// Before anything of verbs, so that each side is a process like any other.
int start_both(char **arguments, int count) {
    int pair[2];
    check(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), "socket pair");
    pid_t started[2];
    for (const int each : {0, 1}) {
        started[each] = fork();
        check(started[each] < 0 ? -1 : 0, "fork");
        if (started[each] != 0)
            continue;
        const int mine = fcntl(pair[each], F_DUPFD, 10);
        dup2(mine, TO_OTHER_SIDE);
        for (const int other : {pair[0], pair[1], mine})
            if (other != TO_OTHER_SIDE)
                close(other);
        std::vector<char *> given = {arguments[0],
                                     const_cast<char *>(each == 0 ? "--server" : "--client")};
        given.insert(given.end(), arguments + 1, arguments + count);
        given.push_back(nullptr);
        execv("/proc/self/exe", given.data());
        std::_Exit(2);
    }
    close(pair[0]);
    close(pair[1]);
    int worst = 0;
    for (int left = 2; left > 0; --left) {
        int status = 0;
        const pid_t which = wait(&status);
        const bool exited = WIFEXITED(status);
        say(text(which == started[0] ? "server " : "client ", which, exited ? " exit " : " signal ",
                 exited ? WEXITSTATUS(status) : WTERMSIG(status)));
        worst = std::max(worst, exited ? WEXITSTATUS(status) : 2);
        // One that cannot go on leaves the other waiting.
        if (worst > 1 && left == 2)
            kill(which == started[0] ? started[1] : started[0], SIGKILL);
    }
    return worst;
}

} // namespace

int main(int count, char **arguments) try {
    options wanted;
    side me = side::SERVER;
    bool alone = true;
    std::vector<std::string> rest;
    for (int each = 1; each < count; ++each) {
        const std::string_view word = arguments[each];
        const bool has_value = each + 1 < count;
        if (word == "--list") {
            list(has_value && std::string_view(arguments[each + 1]) == "siw");
            return 0;
        }
        if (word == "--server" || word == "--client") {
            me = word == "--server" ? side::SERVER : side::CLIENT;
            alone = false;
        } else if (word == "--without" && has_value) {
            wanted.without = static_cast<unsigned>(std::stoul(arguments[++each]));
        } else if (word == "--rounds" && has_value) {
            wanted.rounds = std::stoi(arguments[++each]);
        } else if (word == "--only" && has_value) {
            wanted.only = arguments[++each];
        } else {
            rest.emplace_back(word);
        }
    }
    if (rest.size() != 2 || wanted.without > sites().size() || wanted.rounds < 1) {
        std::fputs("usage: synced [--without N] [--rounds N] [--only PHASE] DEVICE ADDRESS\n"
                   "       synced --list [rxe|siw]\n",
                   stderr);
        return 2;
    }
    wanted.device = rest[0];
    wanted.address = rest[1];
    return alone ? start_both(arguments, count) : run(me, wanted);
} catch (const std::exception &problem) {
    std::fprintf(stderr, "synced: %s\n", problem.what());
    return 2;
}
