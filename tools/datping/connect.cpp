// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The client's connection setup, and its error messages.

#include "dat_common/to_string.hpp"
#include "datping/client.hpp"
#include "datping/interrupt.hpp"

#include <fmt/core.h>

namespace tools::datping {
namespace {

/// Added to the timeout that is passed to dat_ep_connect.
constexpr std::chrono::seconds CONNECT_GRACE{2};

std::span<const std::byte> private_data(const DAT_CONNECTION_EVENT_DATA &event) {
    if (!event.private_data || event.private_data_size <= 0)
        return {};
    return {static_cast<const std::byte *>(event.private_data),
            static_cast<std::size_t>(event.private_data_size)};
}

std::string describe_version_mismatch(const std::string &peer, unsigned peer_version) {
    return fmt::format("{} uses version {} of datping's protocol, this one version {}: install the "
                       "same coherdma on both",
                       peer, peer_version, PROTOCOL_VERSION);
}

} // namespace

/// Sends the request as private data and waits for the connection. Returns the server's reply.
/// Throws if it is rejected or times out.
hello client::connect() {
    hello request;
    request.size = opts_.size;
    request.verify = opts_.verify;
    request.needs_sync = selected_.ia.needs_sync();
    request.max_silence_ms = static_cast<std::uint32_t>(opts_.interval.count());
    auto bytes = encode(request);
    const auto timeout = std::chrono::microseconds(opts_.timeout);
    const DAT_RETURN ret = dat_ep_connect(
        channel_.ep(), const_cast<sockaddr *>(selected_.destination.get()), opts_.qualifier,
        static_cast<DAT_TIMEOUT>(timeout.count()), static_cast<DAT_COUNT>(bytes.size()),
        bytes.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    dat::check(ret,
               fmt::format("cannot connect IA {} to {}", selected_.ia.name(),
                           selected_.destination.to_string()),
               "-I chooses another IA; see datinfo");
    const auto deadline = clock::now() + opts_.timeout + CONNECT_GRACE;
    for (;;) {
        if (const auto event = wait_event_for(conn_evd_.get(), CHECK_INTERVAL, wait_mode::WAIT)) {
            if (event->event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
                throw std::runtime_error(describe_connect_failure(*event));
            return check_accept(event->event_data.connect_event_data);
        }
        if (is_interrupted())
            throw interrupted();
        if (clock::now() > deadline)
            throw std::runtime_error(
                fmt::format("no answer from {}, and dat_ep_connect did not time out",
                            selected_.destination.to_string()));
    }
}

/// Decodes the hello in the private data of the ESTABLISHED event; throws if it is not what was
/// requested.
hello client::check_accept(const DAT_CONNECTION_EVENT_DATA &event) const {
    const std::string peer = selected_.destination.to_string();
    hello reply;
    switch (decode(private_data(event), reply)) {
    case decode_error::NONE:
        break;
    case decode_error::VERSION:
        throw std::runtime_error(describe_version_mismatch(peer, reply.version));
    default:
        throw std::runtime_error(fmt::format(
            "the server at {}, qualifier {}, is not a datping; check -p", peer, opts_.qualifier));
    }
    if (reply.type != hello::kind::ACCEPT || reply.size != opts_.size)
        throw std::runtime_error(
            fmt::format("{} accepted with other parameters than requested", peer));
    return reply;
}

std::string client::describe_reject(const DAT_EVENT &event) const {
    const std::string peer = selected_.destination.to_string();
    hello reply;
    const decode_error error = decode(private_data(event.event_data.connect_event_data), reply);
    if (error == decode_error::VERSION)
        return describe_version_mismatch(peer, reply.version);
    if (error != decode_error::NONE || reply.type != hello::kind::REJECT)
        return fmt::format("{} rejected the connection ({}), but is not a datping; check -p", peer,
                           dat::event_to_string(event.event_number));
    if (reply.reason == reject_reason::SIZE)
        return fmt::format(
            "{} rejected the connection: {} of {} bytes; see option -S of its server", peer,
            to_string(reply.reason), reply.size);
    if (reply.reason == reject_reason::INTERVAL)
        return fmt::format(
            "{} rejected the connection: {} of {:.10g} s; see option -i of its server", peer,
            to_string(reply.reason), static_cast<double>(reply.max_silence_ms) / 1000);
    return fmt::format("{} rejected the connection: {}", peer, to_string(reply.reason));
}

std::string client::describe_connect_failure(const DAT_EVENT &event) const {
    const std::string event_name = dat::event_to_string(event.event_number),
                      no_connection = fmt::format("no connection to {} ({})",
                                                  selected_.destination.to_string(), event_name),
                      ia_addr = selected_.ia.ia_address().to_string();
    if (selected_.destination.is_loopback())
        return fmt::format("{}: the loopback has no RDMA; the address of IA {} is {}",
                           no_connection, selected_.ia.name(), ia_addr);
    switch (event.event_number) {
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return describe_reject(event);
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
    case DAT_CONNECTION_EVENT_BROKEN: // OFED's event for a reject on soft iWARP
        return fmt::format(
            "{}: is `datping -s` running there, with -p {}? If so, it prints the reason",
            no_connection, opts_.qualifier);
    case DAT_CONNECTION_EVENT_UNREACHABLE:
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return fmt::format(
            "{}: does an RDMA device have this address, in the same network as IA {} ({})?",
            no_connection, selected_.ia.name(), ia_addr);
    default:
        return no_connection;
    }
}

} // namespace tools::datping
