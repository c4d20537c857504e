// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "scenarios.hpp"

namespace omissions {
namespace {

using enum call;
using enum expected;

bytes word_of(const stage &t) {
    return t.part(128, 8);
}
constexpr std::uint64_t NUMBER = 0x0101010101010101; // if each byte of it is 1

const scenario SCENARIOS[] = {
    // -- which a peer writes: the sync before

    {"write-before", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync_unless_omitted(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-before-stored-before-registration", POSSIBLE, CERTAIN,
     [](stage &t) {
         stage::store(data_of(t), 1);
         t.register_memory();
         t.sync_unless_omitted(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-before-stored-beside", CERTAIN, CERTAIN, // other bytes of the line
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(100, 20), 1);
         t.sync_unless_omitted(BEFORE_WRITE, t.part(120, 8));
         t.peer_writes(t.part(120, 8), 2);
         t.sync(AFTER_WRITE, t.part(120, 8));
         t.expect(t.part(120, 8), 2);
     }},
    {"write-before-stored-after-sync", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         if (t.omits())
             t.sync(BEFORE_WRITE, data_of(t));
         stage::store(data_of(t), 1);
         t.sync_unless_omitted(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-before-stored-beside-after-sync", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.sync(BEFORE_WRITE, data_of(t));
         if (t.omits())
             stage::store(t.part(90, 10), 1);
         t.expect_finding(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         if (!t.omits())
             stage::store(t.part(90, 10), 1);
     }},
    {"write-before-stored-after-last-sync", CERTAIN, CERTAIN, // a slot that is cleared
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         stage::store(data_of(t), 0);
         t.sync_unless_omitted(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 3);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 3);
     }},
    {"write-before-range-too-short", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(both_halves_of(t), 1);
         t.sync_wrongly(BEFORE_WRITE, both_halves_of(t), BEFORE_WRITE, first_half_of(t),
                        second_half_of(t));
         t.peer_writes(both_halves_of(t), 2);
         t.sync(AFTER_WRITE, both_halves_of(t));
         t.expect(both_halves_of(t), 2);
     }},
    {"write-before-line-of-other-memory", CERTAIN, CERTAIN, // which is not registered
     [](stage &t) {
         const bytes target = t.part(0, 1000), other = t.part(1000, 24);
         t.register_memory(target);
         stage::store(other, 1);
         t.sync_unless_omitted(BEFORE_WRITE, other);
         t.peer_writes(target, 2);
         t.sync(AFTER_WRITE, target);
         t.expect(target, 2);
         t.expect(other, 1);
     }},
    // Both calls write lines back.
    {"write-before-before_read-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(t.omits() ? BEFORE_READ : BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-before-line-of-two-mrs", CERTAIN, CERTAIN, // a store to the neighbor's part
     [](stage &t) {
         const bytes neighbor = t.part(1000, 1000), target = t.part(0, 1000);
         t.register_memory(neighbor);
         t.register_memory(target);
         stage::store(neighbor, 1);
         t.sync_wrongly(BEFORE_WRITE, neighbor, BEFORE_WRITE, neighbor.subspan(24),
                        neighbor.subspan(0, 24)); // which the line of 960 to 1023 has
         t.peer_writes(target, 2);
         t.sync(AFTER_WRITE, target);
         t.expect(target, 2);
     }},
    {"write-before-not-stored", NONE, NONE,
     [](stage &t) {
         t.register_memory();
         if (!t.omits())
             t.sync(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         if (!t.omits()) // nothing was stored since the last sync
             t.sync(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 3);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 3);
     }},

    // -- and the sync after

    {"write-after", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-second", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         t.peer_writes(data_of(t), 3);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 3);
     }},
    {"write-after-second-part-of-line", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(t.part(128, 20), 2);
         t.sync(AFTER_WRITE, t.part(128, 20));
         t.expect(t.part(128, 20), 2);
         t.peer_writes(t.part(148, 20), 3);
         t.sync_unless_omitted(AFTER_WRITE, t.part(148, 20));
         t.expect(t.part(148, 20), 3);
     }},
    {"write-after-same-bytes", POSSIBLE, POSSIBLE,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 2);
         t.sync(BEFORE_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     },
     scenario::STRICT},
    {"write-after-unread", ANY, ANY, // no message: the program knows of no Write
     [](stage &t) {
         t.register_memory();
         t.peer_writes_silently(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
     }},
    {"write-after-immediate", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes_with_immediate(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     },
     scenario::ROCE},
    {"write-after-first-of-two", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes_silently(first_half_of(t), 2);
         t.peer_writes(second_half_of(t), 3);
         t.sync_wrongly(AFTER_WRITE, both_halves_of(t), AFTER_WRITE, first_half_of(t),
                        second_half_of(t));
         t.expect(first_half_of(t), 2);
         t.expect(second_half_of(t), 3);
     }},
    {"write-after-range-too-short", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(both_halves_of(t), 2);
         t.sync_wrongly(AFTER_WRITE, both_halves_of(t), AFTER_WRITE, first_half_of(t),
                        second_half_of(t));
         t.expect(both_halves_of(t), 2);
     }},
    {"write-after-range-too-late", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(both_halves_of(t), 2);
         t.sync_wrongly(AFTER_WRITE, both_halves_of(t), AFTER_WRITE, second_half_of(t),
                        first_half_of(t));
         t.expect(both_halves_of(t), 2);
     }},
    {"write-after-synced-before-completion", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         if (t.omits())
             t.sync(AFTER_WRITE, data_of(t));
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-before_write-instead", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_wrongly(AFTER_WRITE, data_of(t), BEFORE_WRITE, data_of(t), data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-for_device-instead", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_wrongly(AFTER_WRITE, data_of(t), DEVICE_READS, data_of(t), data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-polled-memory", ANY, ANY, // each look needs a sync
     [](stage &t) {
         t.register_memory();
         t.expect(data_of(t), 0);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 0);
         t.peer_writes_silently(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-batch_add-of-other-phase", CERTAIN, CERTAIN,
     [](stage &t) {
         const coherdma_range range = range_of(data_of(t));
         coherdma_batch batch;
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         coherdma_batch_begin(&batch, t.owner().device());
         coherdma_batch_add(&batch, &range, 1,
                            t.omits() ? COHERDMA_BEFORE_READ : COHERDMA_AFTER_WRITE);
         check(coherdma_batch_end(&batch), "the batch");
         t.expect_finding(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    // Loads are not seen: these are the calls of a program that does not look at the first data.
    {"write-after-first-of-two-looks", UNKNOWN, UNKNOWN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         if (!t.omits())
             t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         t.peer_writes(data_of(t), 3);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 3);
     }},
    // Both calls write lines back and invalidate them.
    {"write-after-for_cpu-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync(t.omits() ? DEVICE_WROTE : AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-stored-beside-before-sync", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         if (t.omits())
             stage::store(t.part(90, 10), 1);
         t.expect_finding(SEPARATE_LINES, data_of(t));
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         if (!t.omits())
             stage::store(t.part(90, 10), 1);
     }},
    // Beside the data is a message, which is stored and sent before the sync: its line is written
    // back.
    {"write-after-sent-beside", CERTAIN, CERTAIN,
     [](stage &t) {
         const bytes data = t.part(0, 32);
         const bytes message = t.omits() ? t.part(32, 32) : t.part(512, 32);
         t.register_memory();
         t.peer_writes(data, 2);
         stage::store(message, 1);
         t.sync(DEVICE_READS, message);
         t.send_to_peer(message, 1);
         t.expect_finding(SEPARATE_LINES, data);
         t.sync(AFTER_WRITE, data);
         t.expect(data, 2);
     }},
    {"write-after-changed-and-read", CERTAIN, CERTAIN, // the answer is written over the data
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
         stage::store(t.part(100, 4), 3);
         t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(t.part(200, 600), 2);
     }},
    {"write-after-two-mrs", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     }},
    {"write-after-iova", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_with_iova();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     },
     scenario::ROCE},
    {"write-after-window", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.bind_window();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     },
     scenario::ROCE},
    {"write-after-shared-memory", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     },
     scenario::SHARED},
    {"write-after-registered-again", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync(AFTER_WRITE, data_of(t));
         t.deregister_memory();
         t.register_memory();
         t.peer_writes(data_of(t), 3);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 3);
     }},
    {"write-after-still-registered-at-exit", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         t.sync_unless_omitted(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 2);
     },
     scenario::KEPT},
    {"write-after-at-exit", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
     },
     scenario::AT_EXIT},
    {"write-after-once-for-two", NONE, NONE, // the program looks at the last data only
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 2);
         if (!t.omits())
             t.sync(AFTER_WRITE, data_of(t));
         t.peer_writes(data_of(t), 3);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 3);
     }},

    // -- and atomic operations

    {"add-before", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(word_of(t), 1);
         t.sync_unless_omitted(BEFORE_WRITE, word_of(t));
         t.peer_adds(word_of(t), 7);
         t.sync(AFTER_WRITE, word_of(t));
         t.expect_number(word_of(t), NUMBER + 7);
     },
     scenario::ROCE},
    {"add-before-stored-beside", CERTAIN, CERTAIN, // other data in the counter's line
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(144, 8), 1);
         t.sync_unless_omitted(BEFORE_WRITE, word_of(t));
         t.peer_adds(word_of(t), 7);
         t.sync(AFTER_WRITE, word_of(t));
         t.expect_number(word_of(t), 7);
     },
     scenario::ROCE},
    {"add-after", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_adds(word_of(t), 7);
         t.sync_unless_omitted(AFTER_WRITE, word_of(t));
         t.expect_number(word_of(t), 7);
     },
     scenario::ROCE},
    {"swap-before", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(word_of(t), 1);
         t.sync_unless_omitted(BEFORE_WRITE, word_of(t));
         t.peer_swaps(word_of(t), NUMBER, 7);
         t.sync(AFTER_WRITE, word_of(t));
         t.expect_number(word_of(t), 7);
     },
     scenario::ROCE},
    {"swap-after", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_swaps(word_of(t), 0, 7);
         t.sync_unless_omitted(AFTER_WRITE, word_of(t));
         t.expect_number(word_of(t), 7);
     },
     scenario::ROCE},
    {"swap-after-not-equal", POSSIBLE, POSSIBLE, // nothing has changed
     [](stage &t) {
         t.register_memory();
         t.peer_swaps(word_of(t), 1, 7);
         t.sync_unless_omitted(AFTER_WRITE, word_of(t));
         t.expect_number(word_of(t), 0);
     },
     scenario::ROCE | scenario::STRICT},

    // -- Receives, if the provider syncs them

    {"receive-stored-beside", CERTAIN, CERTAIN,
     [](stage &t) {
         const bytes message = t.part(100, side::MESSAGE_LENGTH);
         t.register_memory();
         t.post_receive(message);
         if (t.omits())
             stage::store(t.part(90, 10), 1);
         t.expect_finding(SEPARATE_LINES, message);
         t.peer_sends_to_receive();
         t.expect(message, side::MESSAGE_VALUE);
     },
     scenario::STRICT},
};

} // namespace

constinit const std::span<const scenario> WRITE_SCENARIOS = SCENARIOS;

void finish_at_exit(stage &t) {
    t.sync_unless_omitted(AFTER_WRITE, data_of(t));
    t.expect(data_of(t), 2);
}

} // namespace omissions
