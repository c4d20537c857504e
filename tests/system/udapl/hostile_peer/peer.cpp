// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A peer on rdma_cm and libibverbs that misbehaves as its command line says: it does the actions in
// their order, and prints a line for each that is done. README.md lists the actions.
//
//   peer ADDRESS PORT ACTION[=ARGUMENT,...]...
//
// After a failure it prints "failed WHAT" and exits with 1. It is killed when its parent ends.

#include "actions.hpp"
#include "rdma_side.hpp"
#include "socket_side.hpp"

#include <csignal>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <sys/prctl.h>

namespace {

using namespace hostile_peer;

/// The action `wait`: until the consumer, which has started this process, writes a line to its
/// stdin.
void wait_for_consumer() {
    for (int byte; (byte = std::getchar()) != '\n';)
        if (byte == EOF)
            throw std::runtime_error("stdin ended");
}

/// By name: a function that does the action and returns its result.
using action_table = std::map<std::string, std::string (*)(rdma_side &, socket_side &, arguments)>;

/// A function of the table for an action that has no result. `call` uses rdma, sock and args.
#define ACTION(call)                                                                               \
    [](rdma_side &rdma, socket_side &sock, arguments args) -> std::string {                        \
        static_cast<void>(rdma), static_cast<void>(sock), static_cast<void>(args);                 \
        call;                                                                                      \
        return {};                                                                                 \
    }
/// The same for an action whose result, the value of `call`, is printed after its name.
#define QUERY(call)                                                                                \
    [](rdma_side &rdma, socket_side &sock, arguments args) -> std::string {                        \
        static_cast<void>(rdma), static_cast<void>(sock), static_cast<void>(args);                 \
        return call;                                                                               \
    }

const action_table actions = {
    {"wait", ACTION(wait_for_consumer())},
    // rdma_cm
    {"resolve", ACTION(rdma.resolve())},
    {"qp", ACTION(rdma.create_qp())},
    {"qp_unknown_to_cma", ACTION(rdma.create_qp_unknown_to_cma())},
    {"request", ACTION(rdma.request(args.bytes()))},
    {"reply", ACTION(rdma.wait_event(RDMA_CM_EVENT_CONNECT_RESPONSE))},
    {"ready", ACTION(rdma.move_to_rts(args.number(0)))},
    {"establish", ACTION(rdma.establish())},
    {"established", ACTION(rdma.wait_event(RDMA_CM_EVENT_ESTABLISHED))},
    {"disconnect", ACTION(rdma.disconnect())},
    {"end", QUERY(rdma.wait_end())},
    {"listen", ACTION(rdma.listen())},
    {"get_request", ACTION(rdma.get_request())},
    {"accept", ACTION(rdma.accept(args.bytes()))},
    {"reject", ACTION(rdma.reject(args.bytes()))},
    {"flood", ACTION(rdma.flood(args.number(0)))},
    {"flood_end", QUERY(rdma.wait_flood_end())},
    // verbs
    {"memory", QUERY(rdma.memory())},
    {"recv", ACTION(rdma.post_recvs(args.number(0), args.number(1)))},
    {"send", ACTION(rdma.post_sends(IBV_WR_SEND, args))},
    {"write", ACTION(rdma.post_sends(IBV_WR_RDMA_WRITE, args))},
    {"read", ACTION(rdma.post_sends(IBV_WR_RDMA_READ, args))},
    {"completions", QUERY(rdma.wait_completions(args.number(0)))},
    // sockets
    {"tcp", ACTION(sock.connect_tcp())},
    {"tcp_listen", ACTION(sock.listen_tcp())},
    {"tcp_accept", ACTION(sock.accept_tcp())},
    {"tcp_send", ACTION(sock.send_tcp(args.bytes()))},
    {"tcp_receive", QUERY(sock.receive_tcp())},
    {"tcp_close", ACTION(sock.close_tcp())},
    {"tcp_reset", ACTION(sock.reset_tcp())},
    {"udp", ACTION(sock.send_udp(args.number(0)))},
};

void run(int argc, char **argv) {
    if (argc < 3)
        throw std::runtime_error("usage: peer ADDRESS PORT ACTION...");
    const sockaddr_in address = make_address(argv[1], argv[2]);
    rdma_side rdma(address);
    socket_side sock(address);
    for (int i = 3; i < argc; ++i) {
        const action action(argv[i]);
        const auto it = actions.find(action.name);
        if (it == actions.end())
            throw std::runtime_error("no such action: " + action.name);
        std::string result;
        try {
            result = it->second(rdma, sock, action.args);
        } catch (const std::exception &error) {
            throw std::runtime_error(action.name + ": " + error.what());
        }
        std::printf("%s %s\n", action.name.c_str(), result.c_str());
        std::fflush(stdout);
    }
}

} // namespace

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // when the consumer ends
    try {
        run(argc, argv);
        return 0;
    } catch (const std::exception &error) {
        std::printf("failed %s\n", error.what());
        return 1;
    }
}
