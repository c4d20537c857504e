// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two that connect and part over uDAPL, so that a test can do something to the wire in between:
//
//   parting server IA        waits for one client, and for its end
//   parting client IA HOST   hangs up and closes its IA once it can read a line

#include "dat/adapter.hpp"
#include "dat/words.hpp"

#include <cstdio>
#include <iostream>
#include <stdexcept>
#include <string>

namespace {

using namespace tools::dat;

constexpr DAT_CONN_QUAL QUALIFIER = 7190;
constexpr DAT_TIMEOUT LIMIT = 30'000'000;

void say(const char *words) {
    std::puts(words);
    std::fflush(stdout);
}

DAT_EVENT next(const evd_handle &from, DAT_EVENT_NUMBER wanted) {
    DAT_EVENT event = {};
    DAT_COUNT more = 0;
    check(dat_evd_wait(from.get(), LIMIT, 1, &event, &more), "no event");
    if (event.event_number != wanted)
        throw std::runtime_error(event_words(event.event_number));
    return event;
}

struct side {
    adapter ia;
    evd_handle connections = ia.make_evd(8, DAT_EVD_CONNECTION_FLAG);
    evd_handle transfers = ia.make_evd(8, DAT_EVD_DTO_FLAG);
    pz_handle pz = ia.make_pz();
    ep_handle ep;

    explicit side(const char *name)
        : ia(name) {
        check(dat_ep_create(ia.get(), pz.get(), transfers.get(), transfers.get(), connections.get(),
                            nullptr, ep.slot()),
              "no endpoint");
    }
    void connected() const {
        next(connections, DAT_CONNECTION_EVENT_ESTABLISHED);
        say("connected");
    }
    void parted() const {
        next(connections, DAT_CONNECTION_EVENT_DISCONNECTED);
        say("told that it is over");
    }
};

void serve(const char *name) {
    const side here(name);
    const evd_handle requests = here.ia.make_evd(8, DAT_EVD_CR_FLAG);
    psp_handle listener;
    check(dat_psp_create(here.ia.get(), QUALIFIER, requests.get(), DAT_PSP_CONSUMER_FLAG,
                         listener.slot()),
          "no listener");
    say("listens");
    const DAT_EVENT asked = next(requests, DAT_CONNECTION_REQUEST_EVENT);
    check(
        dat_cr_accept(asked.event_data.cr_arrival_event_data.cr_handle, here.ep.get(), 0, nullptr),
        "not accepted");
    here.connected();
    here.parted();
}

void call(const char *name, const char *host) {
    {
        const side here(name);
        const address there = resolve(host).at(0);
        check(dat_ep_connect(here.ep.get(), const_cast<sockaddr *>(there.get()), QUALIFIER, LIMIT,
                             0, nullptr, DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
              "not connected");
        here.connected();
        std::string line;
        std::getline(std::cin, line);
        check(dat_ep_disconnect(here.ep.get(), DAT_CLOSE_ABRUPT_FLAG), "not hung up");
        here.parted();
    }
    say("closed");
}

} // namespace

int main(int count, char **words) {
    try {
        if (count == 3 && words[1] == std::string("server"))
            serve(words[2]);
        else if (count == 4 && words[1] == std::string("client"))
            call(words[2], words[3]);
        else
            throw std::runtime_error("see its source");
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "parting: %s\n", problem.what());
        return 1;
    }
    return 0;
}
