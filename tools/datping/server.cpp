// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/server.hpp"
#include "dat/words.hpp"
#include "datping/choose.hpp"
#include "datping/stop.hpp"

#include <fmt/format.h>

namespace tools::datping {
namespace {

constexpr std::size_t CLIENTS = 16;
constexpr DAT_COUNT TRANSFERS_OF_ONE = 32, CONNECTIONS_OF_ONE = 4;

std::span<const std::byte> private_data(const DAT_CR_PARAM &about) {
    if (!about.private_data || about.private_data_size <= 0)
        return {};
    return {static_cast<const std::byte *>(about.private_data),
            static_cast<std::size_t>(about.private_data_size)};
}

} // namespace

template <class... Words>
void server::tell(const char *form, const Words &...words) {
    if (!asked.quiet)
        fmt::print(asked.json ? stderr : out, fmt::runtime(form), words...);
}

server::server(const options &given, server_result &result, std::FILE *where)
    : asked(given)
    , all(result)
    , out(where)
    , ia(choose(asked.ia, {}).ia)
    , pz(ia.make_pz())
    , transfers(ia.make_evd(CLIENTS * TRANSFERS_OF_ONE, DAT_EVD_DTO_FLAG))
    , connections(
          ia.make_evd(CLIENTS * CONNECTIONS_OF_ONE,
                      static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG))) {
    all.ia = ia.name();
    all.ia_address = ia.own_address().text();
    all.library = ia.library();
    all.sync_here = ia.sync_required();
}

void server::listen() {
    const DAT_RETURN got = dat_psp_create(ia.get(), asked.qualifier, connections.get(),
                                          DAT_PSP_CONSUMER_FLAG, listening.slot());
    dat::check(got, fmt::format("cannot listen on IA {}, qualifier {}", ia.name(), asked.qualifier),
               DAT_GET_TYPE(got) == DAT_CONN_QUAL_IN_USE
                   ? "does a datping listen there already? -p chooses another"
                   : "");
    tell("datping: IA {} ({}) listens on qualifier {}; lmr_sync_req: {}\n", ia.name(),
         all.ia_address, asked.qualifier, all.sync_here ? "yes" : "no");
}

void server::run() {
    listen();
    while (!stop_wished() && !(asked.once && last_number > 0 && sessions.empty())) {
        look_at_clocks();
        if (!step())
            sleep();
    }
    while (!sessions.empty())
        remove(sessions.begin()->first);
    tell("datping: clients served: {}, refused: {}\n", all.clients.size(), all.refused);
}

/// Everything that is there to be done; false if nothing was.
bool server::step() {
    bool some = false;
    while (const auto event = event_now(transfers.get())) {
        transfer(*event);
        some = true;
    }
    while (const auto event = event_now(connections.get())) {
        connection(*event);
        some = true;
    }
    return some;
}

/// Until something comes where it is most likely to; connections can wait for a slice.
void server::sleep() {
    if (sessions.empty()) {
        if (const auto event = event_within(connections.get(), SLICE, how::WAIT))
            connection(*event);
    } else if (asked.by == how::WAIT) {
        if (const auto event = event_within(transfers.get(), SLICE, how::WAIT))
            transfer(*event);
    }
}

/// What one client causes is the end of that client only.
template <class Step>
void server::guarded(session &one, Step step) {
    try {
        step(one);
    } catch (const std::runtime_error &problem) {
        one.hang_up(problem.what());
    }
}

void server::transfer(const DAT_EVENT &event) {
    const auto &data = event.event_data.dto_completion_event_data;
    const auto found = sessions.find(channel::number_in(data.user_cookie));
    if (found == sessions.end())
        return; // of one who is gone
    guarded(*found->second, [&](session &one) { one.completed(data); });
}

std::uint64_t server::find(DAT_EP_HANDLE endpoint) const {
    for (const auto &[number, one] : sessions)
        if (one->endpoint() == endpoint)
            return number;
    return 0;
}

void server::connection(const DAT_EVENT &event) {
    if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
        return request(event.event_data.cr_arrival_event_data);
    const std::uint64_t number = find(event.event_data.connect_event_data.ep_handle);
    if (number == 0)
        return;
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
        guarded(*sessions.at(number), [](session &one) { one.established(); });
    else
        closed(number, event.event_number);
}

void server::request(const DAT_CR_ARRIVAL_EVENT_DATA &arrived) {
    DAT_CR_PARAM about = {};
    if (const DAT_RETURN got = dat_cr_query(arrived.cr_handle, DAT_CR_FIELD_ALL, &about);
        got != DAT_SUCCESS)
        return refuse(arrived.cr_handle, refusal::RESOURCES, "a client", dat::words(got));
    const std::string address = dat::address(about.remote_ia_address_ptr).text();
    hello wanted;
    const fault wrong = decode(private_data(about), wanted);
    if (wrong == fault::VERSION)
        return refuse(arrived.cr_handle, refusal::VERSION, address,
                      fmt::format("speaks version {} of datping, we version {}", wanted.version,
                                  OUR_VERSION));
    if (wrong != fault::NONE || wanted.is != hello::kind::CLIENT)
        return refuse(arrived.cr_handle, refusal::NONSENSE, address,
                      wrong == fault::ORDER ? "writes numbers in another byte order"
                                            : "is not a datping, by what it says");
    if (wanted.size > asked.size)
        return refuse(
            arrived.cr_handle, refusal::SIZE, address,
            fmt::format("wants {} bytes, more than {}; -S changes that", wanted.size, asked.size));
    if (sessions.size() >= CLIENTS)
        return refuse(arrived.cr_handle, refusal::BUSY, address,
                      fmt::format("there are {} clients already", sessions.size()));
    try {
        accept(arrived.cr_handle, wanted, address);
    } catch (const std::exception &problem) { // of DAT, or std::bad_alloc
        refuse(arrived.cr_handle, refusal::RESOURCES, address, problem.what());
    }
}

void server::accept(DAT_CR_HANDLE request, const hello &wanted, const std::string &address) {
    auto made = std::make_unique<session>(ia, pz.get(), transfers.get(), connections.get(), wanted,
                                          address, last_number + 1, asked.timeout);
    hello us;
    us.is = hello::kind::WELCOME;
    us.size = wanted.size;
    us.verify = wanted.verify;
    us.sync_required = all.sync_here;
    auto bytes = encode(us);
    dat::check(dat_cr_accept(request, made->endpoint(), static_cast<DAT_COUNT>(bytes.size()),
                             bytes.data()),
               "cannot accept the connection");
    sessions.emplace(++last_number, std::move(made));
    tell("{} (client {}): {} bytes a round\n", address, last_number, wanted.size);
}

void server::refuse(DAT_CR_HANDLE request, refusal why, const std::string &address,
                    const std::string &words) {
    hello us;
    us.is = hello::kind::REFUSED;
    us.why = why;
    us.size = asked.size;
    auto bytes = encode(us);
    dat_cr_reject(request, static_cast<DAT_COUNT>(bytes.size()), bytes.data());
    ++all.refused;
    tell("{}: refused, as it {}\n", address, words);
}

void server::closed(std::uint64_t number, DAT_EVENT_NUMBER why) {
    session &one = *sessions.at(number);
    if (one.is() == session::state::ACCEPTED || one.is() == session::state::OPEN)
        one.hang_up(fmt::format("hung up, or died, without a bye ({})", dat::event_words(why)));
    remove(number);
}

void server::remove(std::uint64_t number) {
    all.clients.push_back(sessions.at(number)->about());
    sessions.erase(number);
    const served_client &gone = all.clients.back();
    tell("{} (client {}): rounds: {}, wrong: {}{}\n", gone.address, number, gone.rounds, gone.wrong,
         gone.problem.empty() ? "" : "; " + gone.problem);
}

void server::look_at_clocks() {
    if (clock::now() < next_look)
        return;
    next_look = clock::now() + SLICE;
    for (auto next = sessions.begin(); next != sessions.end();) {
        const auto number = next->first;
        session &one = *next->second;
        ++next;
        if (!one.overdue())
            continue;
        if (one.is() == session::state::HANGING_UP)
            remove(number);
        else
            one.hang_up(one.overdue_words());
    }
}

} // namespace tools::datping
