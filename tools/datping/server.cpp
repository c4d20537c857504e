// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/server.hpp"
#include "dat_common/to_string.hpp"
#include "datping/interrupt.hpp"
#include "datping/limits.hpp"
#include "datping/select_ia.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <functional>

namespace tools::datping {
namespace {

constexpr DAT_COUNT DTO_EVENTS_PER_CLIENT = 32, CONN_EVENTS_PER_CLIENT = 4;
constexpr DAT_COUNT MAX_SESSIONS = MAX_CLIENTS + 1; // one of them gives way
constexpr DAT_COUNT MAX_DTO_EVENTS = MAX_SESSIONS * DTO_EVENTS_PER_CLIENT,
                    MAX_CONN_EVENTS = MAX_SESSIONS * CONN_EVENTS_PER_CLIENT;

std::span<const std::byte> private_data(const DAT_CR_PARAM &cr_param) {
    if (!cr_param.private_data || cr_param.private_data_size <= 0)
        return {};
    return {static_cast<const std::byte *>(cr_param.private_data),
            static_cast<std::size_t>(cr_param.private_data_size)};
}

} // namespace

template <class... Args>
void server::log(const char *format, const Args &...args) {
    if (!opts_.quiet)
        fmt::print(opts_.json ? stderr : out_, fmt::runtime(format), args...);
}

server::server(const options &opts, server_result &result, std::FILE *out)
    : opts_(opts)
    , result_(result)
    , out_(out)
    , ia_(select_ia(opts_.ia, {}).ia)
    , pz_(ia_.create_pz())
    , dto_evd_(ia_.create_evd(MAX_DTO_EVENTS, DAT_EVD_DTO_FLAG))
    , conn_evd_(ia_.create_evd(
          MAX_CONN_EVENTS, static_cast<DAT_EVD_FLAGS>(DAT_EVD_CR_FLAG | DAT_EVD_CONNECTION_FLAG))) {
    result_.ia = ia_.name();
    result_.ia_address = ia_.ia_address().to_string();
    result_.library = ia_.provider_library();
    result_.local_needs_sync = ia_.needs_sync();
}

void server::listen() {
    const DAT_RETURN ret = dat_psp_create(ia_.get(), opts_.qualifier, conn_evd_.get(),
                                          DAT_PSP_CONSUMER_FLAG, psp_.out_handle());
    dat::check(ret,
               fmt::format("cannot listen on IA {}, qualifier {}", ia_.name(), opts_.qualifier),
               DAT_GET_TYPE(ret) == DAT_CONN_QUAL_IN_USE
                   ? "another datping may be listening; -p chooses another"
                   : "");
    log("datping: IA {} ({}) listens on qualifier {}; lmr_sync_req: {}\n", ia_.name(),
        result_.ia_address, opts_.qualifier, result_.local_needs_sync ? "yes" : "no");
}

/// Serves clients until interrupted; with --once until the first has gone.
void server::run() {
    listen();
    while (!is_interrupted() && !(opts_.once && num_clients_ > 0 && sessions_.empty())) {
        pass_begin_ = clock::now();
        const bool has_events = handle_pending_events();
        check_deadlines();
        if (!has_events)
            wait_for_events();
    }
    while (!sessions_.empty())
        remove_session(sessions_.begin());
    log("datping: clients served: {}, rejected: {}\n", result_.served, result_.rejected);
}

/// Handles at least the events that are pending; false if there were none. Clients that are never
/// silent cannot keep it here: it handles no more events than the EVDs hold at once.
bool server::handle_pending_events() {
    const bool has_dto_events = handle_pending_dto_events();
    bool has_conn_events = false;
    for (DAT_COUNT i = 0; i < MAX_CONN_EVENTS; ++i) {
        const auto event = poll_event(conn_evd_.get());
        if (!event)
            break;
        handle_conn_event(*event);
        has_conn_events = true;
    }
    return has_dto_events || has_conn_events;
}

bool server::handle_pending_dto_events() {
    for (DAT_COUNT i = 0; i < MAX_DTO_EVENTS; ++i) {
        const auto event = poll_event(dto_evd_.get());
        if (!event)
            return i > 0;
        handle_dto_event(*event);
    }
    return true;
}

/// Waits on the EVD that is likely to have the next event; the other one is polled after
/// CHECK_INTERVAL. With --poll and clients it does not wait: run() polls both EVDs.
void server::wait_for_events() {
    if (sessions_.empty()) {
        if (const auto event = wait_event_for(conn_evd_.get(), CHECK_INTERVAL, wait_mode::WAIT))
            handle_conn_event(*event);
    } else if (opts_.event_wait == wait_mode::WAIT) {
        if (const auto event = wait_event_for(dto_evd_.get(), CHECK_INTERVAL, wait_mode::WAIT))
            handle_dto_event(*event);
    }
}

/// Calls function(client). Disconnects the client if it throws; other clients are not affected.
template <class Function>
void server::call_session(session &client, Function function) {
    try {
        function(client);
    } catch (const std::runtime_error &e) {
        client.disconnect(e.what());
    }
}

void server::handle_dto_event(const DAT_EVENT &event) {
    const auto &data = event.event_data.dto_completion_event_data;
    const auto it = sessions_.find(channel::channel_number(data.user_cookie));
    if (it == sessions_.end())
        return; // the session has ended
    call_session(*it->second, [&](session &client) { client.handle_completion(data); });
}

void server::handle_conn_event(const DAT_EVENT &event) {
    if (event.event_number == DAT_CONNECTION_REQUEST_EVENT)
        return handle_conn_request(event.event_data.cr_arrival_event_data);
    const DAT_EP_HANDLE ep = event.event_data.connect_event_data.ep_handle;
    const auto it = std::find_if(sessions_.begin(), sessions_.end(),
                                 [ep](const auto &entry) { return entry.second->ep() == ep; });
    if (it == sessions_.end())
        return; // the session has ended
    if (event.event_number == DAT_CONNECTION_EVENT_ESTABLISHED)
        call_session(*it->second, std::mem_fn(&session::handle_established));
    else
        handle_disconnect(it, event.event_number);
}

/// Accepts a client that sends a valid request, or rejects it with the reason.
void server::handle_conn_request(const DAT_CR_ARRIVAL_EVENT_DATA &arrival) {
    DAT_CR_PARAM cr_param = {};
    if (const DAT_RETURN ret = dat_cr_query(arrival.cr_handle, DAT_CR_FIELD_ALL, &cr_param);
        ret != DAT_SUCCESS)
        return reject(arrival.cr_handle, reject_reason::RESOURCES, "a client", dat::to_string(ret));
    const std::string address = dat::address(cr_param.remote_ia_address_ptr).to_string();
    hello request;
    const decode_error error = decode(private_data(cr_param), request);
    if (error == decode_error::VERSION)
        return reject(
            arrival.cr_handle, reject_reason::VERSION, address,
            fmt::format("it uses version {} of datping's protocol, this server version {}",
                        request.version, PROTOCOL_VERSION));
    if (error != decode_error::NONE || request.type != hello::kind::REQUEST)
        return reject(arrival.cr_handle, reject_reason::MALFORMED, address,
                      error == decode_error::WRONG_BYTE_ORDER ? "it uses another byte order"
                                                              : "it is not a datping");
    if (const auto rejected = check_limits(request))
        return reject(arrival.cr_handle, rejected->reason, address, rejected->description);
    try {
        accept(arrival.cr_handle, request, address);
    } catch (const std::exception &e) { // dat::error or std::bad_alloc
        reject(arrival.cr_handle, reject_reason::RESOURCES, address, e.what());
    }
}

/// Why the client is rejected; nothing: it is accepted. For that, a client that pauses may have to
/// give way. Its session does not count any more, and ends with its disconnect event; until then no
/// other client gives way.
std::optional<rejection> server::check_limits(const hello &request) {
    std::vector<std::uint64_t> numbers;
    std::vector<client_usage> usages;
    for (const auto &[number, client] : sessions_) {
        if (number == leaving_client_)
            continue;
        numbers.push_back(number);
        usages.push_back({.size = client->result().size, .pause = client->pause(pass_begin_)});
    }
    const auto rejected = check_request(request, opts_, usages);
    if (!rejected || sessions_.contains(leaving_client_))
        return rejected;
    const auto index = find_client_to_end(request, opts_, usages);
    if (!index)
        return rejected;
    leaving_client_ = numbers[*index];
    sessions_.at(leaving_client_)
        ->disconnect(fmt::format("paused for {:.10g} s, and another client needed its slot",
                                 std::chrono::duration<double>(usages[*index].pause).count()));
    return {};
}

/// Accepts the connection with a new session for the client. Throws if that fails.
void server::accept(DAT_CR_HANDLE cr, const hello &request, const std::string &address) {
    auto client = std::make_unique<session>(ia_, pz_.get(), dto_evd_.get(), conn_evd_.get(),
                                            request, address, num_clients_ + 1, opts_.timeout);
    hello reply;
    reply.type = hello::kind::ACCEPT;
    reply.size = request.size;
    reply.verify = request.verify;
    reply.needs_sync = result_.local_needs_sync;
    auto bytes = encode(reply);
    dat::check(dat_cr_accept(cr, client->ep(), static_cast<DAT_COUNT>(bytes.size()), bytes.data()),
               "cannot accept the connection");
    sessions_.emplace(++num_clients_, std::move(client));
    log("{} (client {}): {} bytes a round\n", address, num_clients_, request.size);
}

void server::reject(DAT_CR_HANDLE cr, reject_reason reason, const std::string &address,
                    const std::string &description) {
    hello reply;
    reply.type = hello::kind::REJECT;
    reply.reason = reason;
    reply.size = opts_.size;
    reply.max_silence_ms = static_cast<std::uint32_t>(opts_.interval.count());
    auto bytes = encode(reply);
    dat_cr_reject(cr, static_cast<DAT_COUNT>(bytes.size()), bytes.data());
    ++result_.rejected;
    log("{}: rejected: {}\n", address, description);
}

/// A connection has ended, in whatever way. Its BYE may have arrived after dto_evd_ was polled.
void server::handle_disconnect(session_map::iterator it, DAT_EVENT_NUMBER event) {
    handle_pending_dto_events();
    session &client = *it->second;
    if (client.current_state() == session::state::ACCEPTED ||
        client.current_state() == session::state::CONNECTED)
        client.disconnect(
            fmt::format("disconnected or exited without a BYE ({})", dat::event_to_string(event)));
    remove_session(it);
}

server::session_map::iterator server::remove_session(session_map::iterator it) {
    const served_client &client = it->second->result();
    result_.add(client);
    log("{} (client {}): rounds: {}, wrong: {}{}\n", client.address, it->first, client.rounds,
        client.wrong_rounds, client.problem.empty() ? "" : "; " + client.problem);
    return sessions_.erase(it);
}

/// Disconnects clients that were overdue at the beginning of the pass, and ends the sessions whose
/// disconnect event was. All events from before are handled: a client is not overdue because its
/// message waited in the EVD while the server was busy with others.
void server::check_deadlines() {
    if (pass_begin_ < next_deadline_check_)
        return;
    next_deadline_check_ = pass_begin_ + CHECK_INTERVAL;
    for (auto it = sessions_.begin(); it != sessions_.end();) {
        session &client = *it->second;
        const bool is_overdue = client.is_overdue(pass_begin_);
        if (is_overdue && client.current_state() == session::state::DISCONNECTING) {
            it = remove_session(it);
            continue;
        }
        if (is_overdue)
            client.disconnect(client.overdue_reason());
        ++it;
    }
}

} // namespace tools::datping
