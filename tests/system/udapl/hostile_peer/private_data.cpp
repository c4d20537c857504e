// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Private data of every length that rdma_cm lets a peer send, also longer than uDAPL's own limit:
// the consumer gets what was sent, followed by zeros at most. On rxe the kernel pads to the largest
// size, which is the last length here.

#include "fixture.hpp"

#include <algorithm>
#include <cstring>

namespace hostile_peer {

namespace {

constexpr std::size_t max_request_rxe = 56, max_reply_rxe = 196, max_reject_rxe = 148;
constexpr std::size_t max_siw = 252;   ///< and four bytes of MPA's read limits, 256 in all
constexpr std::size_t max_event = 255; ///< in an event of rdma_cm

/// The first word of the private data with which our provider rejects (udapl/dapl/cm).
const bytes consumer_mark = {std::byte{2}, std::byte{0}, std::byte{2}, std::byte{0}};
const bytes provider_mark = {std::byte{2}, std::byte{0}, std::byte{2}, std::byte{1}};

bytes operator+(bytes first, const bytes &second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

/// Random bytes of each length.
std::vector<bytes> all_lengths(std::size_t max) {
    std::vector<bytes> result;
    for (std::size_t length = 0; length <= max; ++length)
        result.push_back(random_bytes(length));
    return result;
}
/// The same, and data that begins like that of a reject by our provider: a request or reply with it
/// reaches the consumer unchanged.
std::vector<bytes> all_lengths_and_marks(std::size_t max) {
    std::vector<bytes> result = all_lengths(max);
    for (const bytes &mark : {consumer_mark, provider_mark}) {
        result.push_back(mark);
        result.push_back(mark + random_bytes(max - mark.size()));
    }
    return result;
}

/// The private data that came is `sent`, which on rxe zeros may follow.
void expect_data(const void *data, DAT_COUNT size, byte_view sent, const hostile_fixture &fixture,
                 source_location loc = current_location()) {
    const auto *const received = static_cast<const std::byte *>(data);
    const std::size_t received_size = static_cast<std::size_t>(size);
    require(size >= 0 && received_size >= sent.size() && (size == 0 || received != nullptr),
            concat(size, " bytes are received, ", sent.size(), " were sent"), loc);
    if (fixture.is_iwarp())
        expect_eq(received_size, sent.size(), "the size of the private data", loc);
    if (received_size == 0)
        return;
    expect_true(std::equal(sent.begin(), sent.end(), received), "the data is not what was sent",
                loc);
    expect_true(std::all_of(received + sent.size(), received + received_size,
                            [](std::byte byte) { return byte == std::byte{0}; }),
                "the data is not padded with zeros", loc);
}
void expect_event_data(const DAT_EVENT &event, byte_view sent, const hostile_fixture &fixture,
                       source_location loc = current_location()) {
    const auto &data = event.event_data.connect_event_data;
    expect_data(data.private_data, data.private_data_size, sent, fixture, loc);
}

/// Checks the private data of the next request, and rejects it.
void expect_request_and_reject(hostile_fixture &fixture, byte_view sent) {
    const DAT_CR_HANDLE cr = fixture.eps.next_cr();
    DAT_CR_PARAM param{};
    require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
    expect_data(param.private_data, param.private_data_size, sent, fixture);
    require_success(dat_cr_reject(cr, 0, nullptr));
}

/// The peer's requests have private data of each length.
void test_request() {
    hostile_fixture fixture;
    const std::size_t max = fixture.is_iwarp() ? max_siw : max_request_rxe;
    const std::vector<bytes> sent = all_lengths_and_marks(max);
    action_list actions;
    for (const bytes &data : sent)
        actions += {"resolve", "qp", action_with_bytes("request", data), "end"};
    peer_process peer = fixture.start_connecting_peer(actions);
    for (const bytes &data : sent) {
        const scoped_trace trace(concat(data.size(), " bytes"));
        expect_request_and_reject(fixture, data);
        peer.wait_action_done("end");
    }
    peer.kill();
    fixture.expect_service_unharmed();
}

/// The peer accepts with private data of each length, which comes with ESTABLISHED.
void test_reply() {
    hostile_fixture fixture;
    const std::size_t max = fixture.is_iwarp() ? max_siw : max_reply_rxe;
    const std::vector<bytes> sent = all_lengths_and_marks(max);
    action_list actions;
    for (const bytes &data : sent)
        actions += {"get_request", "qp", action_with_bytes("accept", data), "end"};
    peer_process peer = fixture.start_listening_peer(actions);
    peer.wait_action_done("listen");
    const test_ep &ep = fixture.eps.active;
    for (const bytes &data : sent) {
        const scoped_trace trace(concat(data.size(), " bytes"));
        fixture.connect_to_listening_peer();
        expect_event_data(fixture.expect_event(ep, {DAT_CONNECTION_EVENT_ESTABLISHED}), data,
                          fixture);
        require_success(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG));
        fixture.expect_event(ep, {DAT_CONNECTION_EVENT_DISCONNECTED});
        require_success(dat_ep_reset(ep));
        peer.wait_action_done("end");
    }
    peer.kill();
    fixture.expect_service_unharmed();
}

/// What a peer sends with its reject, and what must come of it.
struct reject {
    bytes sent;
    DAT_EVENT_NUMBER event; ///< that eps.active gets
    bytes expected;         ///< the private data of PEER_REJECTED; other events have none
};

/// eps.active connects once for each row, and the peer rejects.
void expect_rejects(hostile_fixture &fixture, const std::vector<reject> &rejects) {
    action_list actions;
    for (const reject &row : rejects)
        actions += {"get_request", action_with_bytes("reject", row.sent)};
    peer_process peer = fixture.start_listening_peer(actions);
    peer.wait_action_done("listen");
    const test_ep &ep = fixture.eps.active;
    for (const reject &row : rejects) {
        const scoped_trace trace(concat(row.sent.size(), " bytes"));
        fixture.connect_to_listening_peer();
        const DAT_EVENT event = fixture.expect_event(ep, {row.event});
        if (row.event == DAT_CONNECTION_EVENT_PEER_REJECTED)
            expect_event_data(event, row.expected, fixture);
        else
            expect_eq(event.event_data.connect_event_data.private_data_size, 0,
                      "the size of the private data");
        ep.expect_state(DAT_EP_STATE_DISCONNECTED);
        require_success(dat_ep_reset(ep));
        peer.wait_action_done("reject");
    }
    peer.kill();
    fixture.expect_service_unharmed();
}

std::size_t max_reject(const hostile_fixture &fixture) {
    return fixture.is_iwarp() ? max_siw : max_reject_rxe;
}

/// The peer rejects with private data of each length, which comes with PEER_REJECTED.
void test_reject() {
    hostile_fixture fixture;
    std::vector<reject> rejects;
    for (const bytes &data : all_lengths(max_reject(fixture)))
        rejects.push_back({data, DAT_CONNECTION_EVENT_PEER_REJECTED, data});
    expect_rejects(fixture, rejects);
}

/// A reject by our provider's dat_cr_reject begins with consumer_mark, which is not part of the
/// consumer's private data; one by the provider itself with provider_mark: NON_PEER_REJECTED. The
/// peer sends both, alone, before other bytes, and cut off.
void test_reject_with_our_marks() {
    hostile_fixture fixture;
    const bytes filling = random_bytes(max_reject(fixture) - 4);
    const bytes cut(provider_mark.begin(), provider_mark.end() - 1);
    expect_rejects(
        fixture,
        {
            {consumer_mark, DAT_CONNECTION_EVENT_PEER_REJECTED, {}},
            {consumer_mark + filling, DAT_CONNECTION_EVENT_PEER_REJECTED, filling},
            {consumer_mark + consumer_mark, DAT_CONNECTION_EVENT_PEER_REJECTED, consumer_mark},
            {provider_mark, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, {}},
            {provider_mark + filling, DAT_CONNECTION_EVENT_NON_PEER_REJECTED, {}},
            // rxe pads it with a zero: consumer_mark.
            {cut, DAT_CONNECTION_EVENT_PEER_REJECTED, fixture.is_iwarp() ? cut : bytes{}},
        });
}

/// The header of a request with so much private data, which is not appended.
bytes mpa_request(std::size_t length) {
    bytes request;
    for (const char character : std::string("MPA ID Req Frame"))
        request.push_back(static_cast<std::byte>(character));
    for (const std::size_t value : {std::size_t{0}, std::size_t{1}, length >> 8, length & 0xff})
        request.push_back(static_cast<std::byte>(value)); // no flags, revision 1
    return request;
}

/// MPA requests by TCP with more private data than rdma_cm sends. What is longer than an event of
/// rdma_cm holds, the kernel refuses, or cuts off.
void test_mpa_request() {
    hostile_fixture fixture;
    fixture.require_siw();
    for (const std::size_t length : {0U, 1U, 255U, 256U, 257U, 300U, 508U, 509U, 512U, 513U}) {
        const scoped_trace trace(concat(length, " bytes"));
        const bytes data = random_bytes(length);
        peer_process peer = fixture.start_connecting_peer(
            {"tcp", action_with_bytes("tcp_send", mpa_request(length) + data), "tcp_receive"});
        if (length <= max_event) {
            expect_request_and_reject(fixture, data);
            continue;
        }
        peer.wait_action_done("tcp_send");
        for (const DAT_CR_HANDLE cr : fixture.take_arrived_requests()) {
            DAT_CR_PARAM param{};
            require_success(dat_cr_query(cr, DAT_CR_FIELD_ALL, &param));
            const auto received = static_cast<std::size_t>(param.private_data_size);
            require(received <= max_event, "it is too long");
            expect_data(param.private_data, param.private_data_size,
                        byte_view(data).first(received), fixture);
            require_success(dat_cr_reject(cr, 0, nullptr));
        }
    }
    fixture.expect_service_unharmed();
}

} // namespace

void add_private_data(case_list &cases) {
    add_case(cases, "private_data.request", test_request);
    add_case(cases, "private_data.reply", test_reply);
    add_case(cases, "private_data.reject", test_reject);
    add_case(cases, "private_data.reject_with_our_marks", test_reject_with_our_marks);
    add_case(cases, "private_data.mpa_request", test_mpa_request);
}

} // namespace hostile_peer
