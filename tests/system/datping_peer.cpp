// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// datping_peer: one who speaks to a datping and does one thing wrong. What datping makes of it is
// looked at by datping.bats.
//
//     datping_peer server WHAT IA QUALIFIER       for one client
//     datping_peer client WHAT IA HOST QUALIFIER  to a server
//
// It ends with 0 when it has done its wrong, and what has to happen to it has happened.

#include "dat/words.hpp"
#include "datping/channel.hpp"
#include "datping/choose.hpp"
#include "datping/events.hpp"
#include "datping/pattern.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <utility>

namespace {

using namespace tools::datping;
namespace dat = tools::dat;

constexpr std::chrono::seconds LIMIT{30};

struct failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void say(const char *what) {
    std::puts(what);
    std::fflush(stdout);
}

class peer {
  public:
    peer(choice with, std::string wrong)
        : chosen(std::move(with))
        , what(std::move(wrong))
        , pz(chosen.ia.make_pz())
        , transfers(chosen.ia.make_evd(64, DAT_EVD_DTO_FLAG))
        , connections(chosen.ia.make_evd(
              16, static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG))) {}

    void serve(DAT_CONN_QUAL qualifier);
    void ask(DAT_CONN_QUAL qualifier);

  private:
    bool is(const char *wrong) const { return what == wrong; }

    /// Whether the transfer went well.
    bool wait(work wanted) {
        const auto until = clock::now() + LIMIT;
        const auto index = [](work which) {
            return static_cast<std::size_t>(which);
        };
        while (clock::now() < until) {
            if (std::exchange(came[index(wanted)], false))
                return true;
            const auto event = event_within(transfers.get(), SLICE, how::WAIT);
            if (!event)
                continue;
            const auto &data = event->event_data.dto_completion_event_data;
            if (data.status != DAT_DTO_SUCCESS)
                return false;
            const work which = channel::work_in(data.user_cookie);
            if (which == work::RECEIVE)
                length = data.transfered_length;
            came[index(which)] = true;
        }
        throw failure("nothing came");
    }

    DAT_EVENT connection_event() {
        const auto event = event_within(connections.get(), LIMIT, how::WAIT);
        if (!event)
            throw failure("no connection event");
        return *event;
    }

    void established() {
        const DAT_EVENT event = connection_event();
        if (event.event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
            throw failure(dat::event_words(event.event_number));
    }

    void make_link(std::size_t bytes) {
        size = bytes;
        link.reset(new channel(chosen.ia, pz.get(), transfers.get(), connections.get(), size, 1));
        link->receive();
    }

    message heard() {
        if (!wait(work::RECEIVE))
            throw failure("the Receive failed");
        const auto said = link->received(length);
        if (!said)
            throw failure("they speak nonsense");
        return *said;
    }

    void send(const message &said) {
        link->send(said);
        wait(work::SEND);
    }

    /// Of the size of a message, and nothing else like it.
    void send_garbage() {
        message none;
        none.is = static_cast<message::kind>(77);
        link->send(none);
        wait(work::SEND);
    }

    hello greeting(hello::kind kind) const {
        hello ours;
        ours.is = kind;
        ours.size = size;
        if (is("version"))
            ours.version = 2;
        return ours;
    }

    void accept(DAT_CR_HANDLE request);
    void play_server();
    void answer(const message &go);
    void play_client();
    void until_hung_up();
    void until_refused();

    choice chosen;
    std::string what;
    dat::pz_handle pz;
    dat::evd_handle transfers, connections;
    std::unique_ptr<channel> link;
    std::size_t size = 64, length = 0;
    bool came[4] = {};
    place there;
};

void peer::accept(DAT_CR_HANDLE request) {
    DAT_CR_PARAM about = {};
    dat::check(dat_cr_query(request, DAT_CR_FIELD_ALL, &about), "dat_cr_query");
    hello theirs;
    if (decode({static_cast<const std::byte *>(about.private_data),
                static_cast<std::size_t>(about.private_data_size)},
               theirs) != fault::NONE)
        throw failure("a hello that is none");
    make_link(theirs.size);
    auto bytes = encode(greeting(hello::kind::WELCOME));
    dat::check(dat_cr_accept(request, link->endpoint(),
                             is("foreign") ? 0 : static_cast<DAT_COUNT>(bytes.size()),
                             is("foreign") ? nullptr : bytes.data()),
               "dat_cr_accept");
    established();
}

void peer::serve(DAT_CONN_QUAL qualifier) {
    dat::psp_handle listening;
    dat::check(dat_psp_create(chosen.ia.get(), qualifier, connections.get(), DAT_PSP_CONSUMER_FLAG,
                              listening.slot()),
               "dat_psp_create");
    say("ready");
    const DAT_EVENT event = connection_event();
    if (event.event_number != DAT_CONNECTION_REQUEST_EVENT)
        throw failure(dat::event_words(event.event_number));
    accept(event.event_data.cr_arrival_event_data.cr_handle);
    play_server();
}

void peer::until_hung_up() {
    const DAT_EVENT event = connection_event();
    if (event.event_number != DAT_CONNECTION_EVENT_DISCONNECTED)
        throw failure(dat::event_words(event.event_number));
}

/// No answer, that is. Whether there is an end of the connection instead depends on the device.
void peer::until_refused() {
    const auto until = clock::now() + std::chrono::seconds{3};
    while (clock::now() < until)
        if (const auto event = event_within(transfers.get(), SLICE, how::WAIT)) {
            const auto &data = event->event_data.dto_completion_event_data;
            if (channel::work_in(data.user_cookie) == work::RECEIVE &&
                data.status == DAT_DTO_SUCCESS)
                throw failure("they could read it");
        }
}

void peer::play_server() {
    if (is("version") || is("foreign") || is("silent"))
        return until_hung_up();
    const message offer = heard();
    there = offer.writable;
    const place readable = offer.readable;
    if (is("garbage")) {
        send_garbage();
        return until_hung_up();
    }
    link->receive();
    message ours;
    ours.readable = ours.writable = link->shown_in();
    send(ours);
    for (message go = heard(); go.is == message::kind::GO; go = heard()) {
        if (is("dies"))
            _exit(0);
        if (is("hangs-up")) {
            dat_ep_disconnect(link->endpoint(), DAT_CLOSE_ABRUPT_FLAG);
            return;
        }
        if (go.mode == mode::READ || go.mode == mode::PINGPONG) {
            link->read(readable);
            wait(work::READ);
        }
        answer(go);
    }
    until_hung_up();
}

/// The echo, with what is wrong in it.
void peer::answer(const message &go) {
    message done = go;
    done.is = message::kind::DONE;
    if (is("flips"))
        link->in()[size / 2] ^= std::byte{0x40};
    if (is("accuses"))
        done.found = {3, 7, 1, 2};
    if (is("round"))
        ++done.round;
    link->receive();
    if (!(is("stale") && go.round > 1) && (go.mode == mode::WRITE || go.mode == mode::PINGPONG)) {
        link->write_in(there);
        wait(work::WRITE);
    }
    if (go.mode == mode::SEND)
        link->send_with_in(done);
    else
        link->send(done);
    wait(work::SEND);
}

void peer::ask(DAT_CONN_QUAL qualifier) {
    make_link(size);
    hello ours = greeting(hello::kind::CLIENT);
    if (is("nothing"))
        ours.size = 0;
    auto bytes = encode(ours);
    if (is("foreign"))
        std::memset(bytes.data(), 'x', bytes.size());
    if (is("order"))
        std::reverse(bytes.begin(), bytes.begin() + 8);
    dat::check(dat_ep_connect(link->endpoint(), const_cast<sockaddr *>(chosen.there.get()),
                              qualifier, 10'000'000, static_cast<DAT_COUNT>(bytes.size()),
                              bytes.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG),
               "dat_ep_connect");
    const DAT_EVENT event = connection_event();
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
        return play_client();
    say(dat::event_words(event.event_number).c_str());
    if (event.event_number != DAT_CONNECTION_EVENT_PEER_REJECTED &&
        event.event_number != DAT_CONNECTION_EVENT_NON_PEER_REJECTED)
        throw failure("that is no rejection");
}

void peer::play_client() {
    if (is("foreign") || is("version") || is("order") || is("nothing"))
        throw failure("they took it");
    if (is("dies"))
        _exit(0);
    if (is("silent"))
        return until_hung_up();
    if (is("garbage")) {
        send_garbage();
        return until_hung_up();
    }
    message said;
    said.readable = link->shown_out();
    said.writable = link->shown_in();
    if (is("small"))
        said.readable.length = size - 1;
    if (is("wild"))
        said.readable.context ^= 0x5a5a5a;
    send(said);
    if (is("small"))
        return until_hung_up();
    heard();
    if (is("stays")) {
        said.is = message::kind::BYE;
        send(said);
        return until_hung_up();
    }
    fill(link->out(), 1);
    if (is("flips"))
        link->out()[5] ^= std::byte{1};
    link->receive();
    said.is = message::kind::GO;
    said.round = 1;
    send(said);
    if (is("wild"))
        return until_refused();
    const message done = heard();
    if (is("flips") && (done.found.count != 1 || done.found.first != 5))
        throw failure("they did not see it");
    said.is = message::kind::BYE;
    send(said);
    dat_ep_disconnect(link->endpoint(), DAT_CLOSE_GRACEFUL_FLAG);
    until_hung_up();
}

int run(const std::vector<std::string> &words) {
    if (words.size() == 5 && words[1] == "server") {
        peer(choose(words[3], {}), words[2]).serve(std::stoull(words[4]));
        return 0;
    }
    if (words.size() == 6 && words[1] == "client") {
        peer(choose(words[3], dat::resolve(words[4])), words[2]).ask(std::stoull(words[5]));
        return 0;
    }
    std::fprintf(stderr, "datping_peer: see its source\n");
    return 2;
}

} // namespace

int main(int count, char **words) {
    try {
        return run({words, words + count});
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "datping_peer: %s\n", problem.what());
        std::fflush(nullptr);
        _exit(1); // a library may wait for what is still connected
    }
}
