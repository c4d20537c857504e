// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "scenarios.hpp"

namespace omissions {
namespace {

using enum call;
using enum expected;

// A message: it begins and ends within a line.
bytes message_of(const stage &t) {
    return t.part(100, side::MESSAGE_LENGTH);
}

const scenario SCENARIOS[] = {
    {"send", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(message_of(t), 1);
         t.sync_unless_omitted(DEVICE_READS, message_of(t));
         t.send_to_peer(message_of(t), 1);
     }},
    {"send-stored-before-registration", POSSIBLE, CERTAIN,
     [](stage &t) {
         stage::store(message_of(t), 1);
         t.register_memory();
         t.sync_unless_omitted(DEVICE_READS, message_of(t));
         t.send_to_peer(message_of(t), 1);
     }},
    {"send-stored-after-sync", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         if (!t.omits())
             stage::store(message_of(t), 1);
         t.sync(DEVICE_READS, message_of(t));
         if (t.omits())
             stage::store(message_of(t), 1);
         t.expect_finding(DEVICE_READS, message_of(t));
         t.send_to_peer(message_of(t), 1);
     }},
    // User programs cannot invalidate a line without writing it back, so this call writes it back.
    {"send-for_cpu-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         stage::store(message_of(t), 1);
         t.sync(t.omits() ? DEVICE_WROTE : DEVICE_READS, message_of(t));
         t.send_to_peer(message_of(t), 1);
     }},
    {"send-for_cpu-to-device-instead", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(message_of(t), 1);
         t.sync_wrongly(DEVICE_READS, message_of(t), DEVICE_READ, message_of(t), message_of(t));
         t.send_to_peer(message_of(t), 1);
     }},
    {"send-inline", NONE, NONE,
     [](stage &t) {
         t.register_memory();
         stage::store(message_of(t), 1);
         t.send_to_peer(message_of(t), 1, IBV_SEND_INLINE);
     }},
    {"send-of-two-sges", CERTAIN, CERTAIN,
     [](stage &t) {
         const bytes first = t.part(100, 10), second = t.part(1000, 20);
         t.register_memory();
         stage::store(first, 1);
         stage::store(second, 1);
         t.sync(DEVICE_READS, first);
         t.sync_unless_omitted(DEVICE_READS, second);
         t.send_both_to_peer(first, second, 1);
     }},
    {"write-source", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(100, 700), 1);
         t.sync_unless_omitted(DEVICE_READS, t.part(100, 700));
         t.write_to_peer(t.part(100, 700), 1);
     }},
    {"receive-before", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(message_of(t), 1);
         t.sync_unless_omitted(DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         t.peer_sends_to_receive();
         t.sync(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
     }},
    {"receive-after", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         t.peer_sends_to_receive();
         t.sync_unless_omitted(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
     }},
    {"receive-synced-before-completion", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         if (t.omits())
             t.sync(DEVICE_WROTE, message_of(t));
         t.peer_sends_to_receive();
         t.sync_unless_omitted(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
     }},
    {"receive-for_cpu-to-device-instead", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         t.peer_sends_to_receive();
         t.sync_wrongly(DEVICE_WROTE, message_of(t), DEVICE_READ, message_of(t), message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
     }},
    // A line that is clean, but not invalidated, is as good.
    {"receive-for_device-to-device-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         stage::store(message_of(t), 1);
         t.sync(t.omits() ? DEVICE_READS : DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         t.peer_sends_to_receive();
         t.sync(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
     }},
    {"receive-store-beside", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         if (t.omits())
             stage::store(t.part(90, 10), 2);
         t.expect_finding(SEPARATE_LINES, message_of(t));
         t.peer_sends_to_receive();
         t.sync(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
         if (!t.omits())
             stage::store(t.part(90, 10), 2);
     }},
    {"receive-of-less", NONE, NONE, // byte_len bytes suffice
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.post_receive(t.part(100, 700));
         t.peer_sends_to_receive();
         t.sync(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), side::MESSAGE_VALUE);
     }},
    // A Write's data go to its target: the memory of the Receive is as it was.
    {"receive-of-immediate", NONE, NONE,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, message_of(t));
         t.post_receive(message_of(t));
         t.peer_writes_silently(t.part(1024, 64), 2, IBV_WR_RDMA_WRITE_WITH_IMM);
         t.owner().poll_receive();
         if (!t.omits())
             t.sync(DEVICE_WROTE, message_of(t));
         t.expect(message_of(t), 0);
         t.sync(AFTER_WRITE, t.part(1024, 64));
         t.expect(t.part(1024, 64), 2);
     },
     scenario::ROCE},
    // A Send's buffer, and a Receive that arrives: the sync for the Send writes the line back.
    {"line-of-send-and-receive", CERTAIN, CERTAIN,
     [](stage &t) {
         const bytes received = t.part(0, stage::LINE / 2), far = t.part(512, stage::LINE / 2);
         const bytes sent = t.omits() ? t.part(stage::LINE / 2, stage::LINE / 2) : far;
         t.register_memory();
         stage::store(sent, 1);
         t.sync(DEVICE_READS, sent);
         t.sync(DEVICE_WRITES, received);
         t.post_receive(received);
         t.expect_finding(SEPARATE_LINES, received);
         t.peer_sends_to_receive();
         stage::store(sent, 2);
         t.sync(DEVICE_READS, sent);
         t.send_to_peer(sent, 2);
         t.sync(DEVICE_WROTE, received);
         t.expect(received, side::MESSAGE_VALUE);
     }},
    {"read-sink-before", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(100, 700), 1);
         t.sync_unless_omitted(DEVICE_WRITES, t.part(100, 700));
         t.read_from_peer(t.part(100, 700), 2);
         t.sync(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 2);
     }},
    {"read-sink-after", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.read_from_peer(t.part(100, 700), 2);
         t.sync_unless_omitted(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 2);
     }},
    {"read-sink-after-unsignaled", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.read_from_peer_unsignaled(t.part(100, 700), 2);
         t.sync_unless_omitted(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 2);
     }},
    {"read-sink-used-again", CERTAIN, CERTAIN, // given to the device before the sync
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.read_from_peer(t.part(100, 700), 2);
         t.sync_unless_omitted(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 2);
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.read_from_peer(t.part(100, 700), 3);
         t.sync(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 3);
     }},
    {"read-sink-same-bytes", POSSIBLE, POSSIBLE,
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(100, 700), 2);
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.read_from_peer(t.part(100, 700), 2);
         t.sync_unless_omitted(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 2);
     },
     scenario::STRICT},
    {"read-sink-too-short", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(128, 1024));
         t.read_from_peer(t.part(128, 1024), 2);
         t.sync_wrongly(DEVICE_WROTE, t.part(128, 1024), DEVICE_WROTE, t.part(128, 512),
                        t.part(640, 512));
         t.expect(t.part(128, 1024), 2);
     }},
    // The device may have written a part; here it has not, as the bytes show.
    {"read-sink-after-error", UNKNOWN, UNKNOWN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(100, 700));
         t.read_without_permission(t.part(100, 700));
         t.sync_unless_omitted(DEVICE_WROTE, t.part(100, 700));
         t.expect(t.part(100, 700), 0);
     },
     scenario::ENDS_CONNECTION},
    {"atomic-sink-before", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(128, 8), 2);
         t.sync_unless_omitted(DEVICE_WRITES, t.part(128, 8));
         t.add_at_peer(t.part(128, 8), 7);
         t.sync(DEVICE_WROTE, t.part(128, 8));
         t.expect(t.part(128, 8), 1);
     },
     scenario::ROCE},
    {"atomic-sink-after", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(DEVICE_WRITES, t.part(128, 8));
         t.add_at_peer(t.part(128, 8), 7);
         t.sync_unless_omitted(DEVICE_WROTE, t.part(128, 8));
         t.expect(t.part(128, 8), 1);
     },
     scenario::ROCE},
};

} // namespace

constinit const std::span<const scenario> LOCAL_SCENARIOS = SCENARIOS;

} // namespace omissions
