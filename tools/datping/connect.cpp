// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How a client gets its connection, and what it says if it gets none.

#include "dat/words.hpp"
#include "datping/client.hpp"
#include "datping/stop.hpp"

#include <fmt/format.h>

namespace tools::datping {
namespace {

/// Beyond the time that DAT was given.
constexpr std::chrono::seconds GRACE{2};

std::span<const std::byte> private_data(const DAT_CONNECTION_EVENT_DATA &came) {
    if (!came.private_data || came.private_data_size <= 0)
        return {};
    return {static_cast<const std::byte *>(came.private_data),
            static_cast<std::size_t>(came.private_data_size)};
}

std::string other_version(const std::string &peer, unsigned version) {
    return fmt::format("{} speaks version {} of datping, this one version {}: "
                       "install the same coherdma on both",
                       peer, version, OUR_VERSION);
}

} // namespace

hello client::connect() {
    hello us;
    us.size = asked.size;
    us.verify = asked.verify;
    us.sync_required = chosen.ia.sync_required();
    us.silence_ms = static_cast<std::uint32_t>(asked.interval.count());
    auto bytes = encode(us);
    const auto time = std::chrono::microseconds(asked.timeout);
    const DAT_RETURN got =
        dat_ep_connect(link.endpoint(), const_cast<sockaddr *>(chosen.there.get()), asked.qualifier,
                       static_cast<DAT_TIMEOUT>(time.count()), static_cast<DAT_COUNT>(bytes.size()),
                       bytes.data(), DAT_QOS_BEST_EFFORT, DAT_CONNECT_DEFAULT_FLAG);
    dat::check(got,
               fmt::format("cannot connect IA {} to {}", chosen.ia.name(), chosen.there.text()),
               "-I chooses another IA; see datinfo");
    const auto until = clock::now() + asked.timeout + GRACE;
    for (;;) {
        if (const auto event = event_within(connections.get(), SLICE, how::WAIT)) {
            if (event->event_number != DAT_CONNECTION_EVENT_ESTABLISHED)
                throw std::runtime_error(not_connected(*event));
            return welcome(event->event_data.connect_event_data);
        }
        if (stop_wished())
            throw stopped();
        if (clock::now() > until)
            throw std::runtime_error(fmt::format("no answer from {}, and DAT did not end the "
                                                 "attempt as it was told to",
                                                 chosen.there.text()));
    }
}

hello client::welcome(const DAT_CONNECTION_EVENT_DATA &came) const {
    const std::string peer = chosen.there.text();
    hello said;
    switch (decode(private_data(came), said)) {
    case fault::NONE:
        break;
    case fault::VERSION:
        throw std::runtime_error(other_version(peer, said.version));
    default:
        throw std::runtime_error(
            fmt::format("who answers at {}, qualifier {}, is not a datping; is -p right?", peer,
                        asked.qualifier));
    }
    if (said.is != hello::kind::WELCOME || said.size != asked.size)
        throw std::runtime_error(fmt::format("{} took the connection, but not on our terms", peer));
    return said;
}

std::string client::rejected(const DAT_EVENT &event) const {
    const std::string peer = chosen.there.text();
    hello said;
    const fault wrong = decode(private_data(event.event_data.connect_event_data), said);
    if (wrong == fault::VERSION)
        return other_version(peer, said.version);
    if (wrong != fault::NONE || said.is != hello::kind::REFUSED)
        return fmt::format(
            "{} refused the connection ({}), and not as a datping does; is -p right?", peer,
            dat::event_words(event.event_number));
    if (said.why == refusal::SIZE)
        return fmt::format("{} refused: {}; it takes {} bytes, its -S changes that", peer,
                           words(said.why), said.size);
    return fmt::format("{} refused: {}", peer, words(said.why));
}

std::string client::not_connected(const DAT_EVENT &event) const {
    const std::string got = dat::event_words(event.event_number),
                      none = fmt::format("no connection to {} ({})", chosen.there.text(), got),
                      here = chosen.ia.own_address().text();
    if (chosen.there.is_loopback())
        return fmt::format("{}: the loopback has no RDMA; the address of IA {} is {}", none,
                           chosen.ia.name(), here);
    switch (event.event_number) {
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return rejected(event);
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
    case DAT_CONNECTION_EVENT_BROKEN: // so OFED calls a refusal of soft iWARP
        return fmt::format("{}: is `datping -s` running there, with -p {}? If so, it says why",
                           none, asked.qualifier);
    case DAT_CONNECTION_EVENT_UNREACHABLE:
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return fmt::format("{}: has an RDMA device that address, and is it in one network with "
                           "IA {} ({})?",
                           none, chosen.ia.name(), here);
    default:
        return none;
    }
}

} // namespace tools::datping
