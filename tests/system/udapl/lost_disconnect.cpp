// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two processes that connect and disconnect over uDAPL, so that a test can change the network in
// between:
//
//   lost_disconnect server IA        waits for one client, and for the disconnect event
//   lost_disconnect client IA HOST   disconnects and closes its IA once it can read a line

#include "dat_common/adapter.hpp"
#include "dat_common/to_string.hpp"

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>

namespace {

using namespace tools::dat;

constexpr DAT_CONN_QUAL QUALIFIER = 7190;
constexpr DAT_TIMEOUT TIMEOUT = 120'000'000;

void print_line(const char *line) {
    std::puts(line);
    std::fflush(stdout);
}

DAT_EVENT wait_event(const evd_handle &evd, DAT_EVENT_NUMBER expected) {
    DAT_EVENT event = {};
    DAT_COUNT num_pending = 0;
    check(dat_evd_wait(evd.get(), TIMEOUT, 1, &event, &num_pending), "no event");
    if (event.event_number != expected)
        throw std::runtime_error(event_to_string(event.event_number));
    return event;
}

/// The IA and EP of this process, the server or the client.
struct endpoint_side {
    adapter ia;
    evd_handle conn_evd = ia.create_evd(8, DAT_EVD_CONNECTION_FLAG);
    evd_handle dto_evd = ia.create_evd(8, DAT_EVD_DTO_FLAG);
    pz_handle pz = ia.create_pz();
    ep_handle ep;

    explicit endpoint_side(const char *name)
        : ia(name) {
        check(dat_ep_create(ia.get(), pz.get(), dto_evd.get(), dto_evd.get(), conn_evd.get(),
                            nullptr, ep.out_handle()),
              "no endpoint");
    }
    void wait_connected() const {
        wait_event(conn_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
        print_line("connected");
    }
    void wait_disconnected() const {
        wait_event(conn_evd, DAT_CONNECTION_EVENT_DISCONNECTED);
        print_line("disconnected");
    }
};

/// The server process: accepts one client, and waits until the connection ends. name: of its IA.
void accept_client_and_wait_for_end(const char *name) {
    const endpoint_side side(name);
    const evd_handle requests = side.ia.create_evd(8, DAT_EVD_CR_FLAG);
    psp_handle psp;
    check(dat_psp_create(side.ia.get(), QUALIFIER, requests.get(), DAT_PSP_CONSUMER_FLAG,
                         psp.out_handle()),
          "no listener");
    print_line("listens");
    const DAT_EVENT request = wait_event(requests, DAT_CONNECTION_REQUEST_EVENT);
    check(dat_cr_accept(request.event_data.cr_arrival_event_data.cr_handle, side.ep.get(), 0,
                        nullptr),
          "not accepted");
    side.wait_connected();
    side.wait_disconnected();
}

/// The client process: connects, and disconnects when the test writes a line to its stdin. "closed"
/// is printed once its IA is closed.
void connect_and_disconnect_on_line(const char *name, const char *host) {
    {
        const endpoint_side side(name);
        const address server = resolve(host).at(0);
        check(dat_ep_connect(side.ep.get(), const_cast<sockaddr *>(server.get()), QUALIFIER,
                             TIMEOUT, 0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
              "not connected");
        side.wait_connected();
        std::string line;
        std::getline(std::cin, line);
        check(dat_ep_disconnect(side.ep.get(), DAT_CLOSE_ABRUPT_FLAG), "cannot disconnect");
        side.wait_disconnected();
    }
    print_line("closed");
}

} // namespace

int main(int argc, char **argv) {
    try {
        if (argc == 3 && argv[1] == std::string("server"))
            accept_client_and_wait_for_end(argv[2]);
        else if (argc == 4 && argv[1] == std::string("client"))
            connect_and_disconnect_on_line(argv[2], argv[3]);
        else
            throw std::runtime_error("usage: lost_disconnect server IA | client IA HOST");
    } catch (const std::exception &e) {
        std::fprintf(stderr, "lost_disconnect: %s\n", e.what());
        return 1;
    }
    return 0;
}
