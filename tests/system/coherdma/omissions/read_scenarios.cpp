// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "scenarios.hpp"

namespace omissions {
namespace {

using enum call;
using enum expected;

const scenario SCENARIOS[] = {
    {"read-stored-before-registration", POSSIBLE, CERTAIN,
     [](stage &t) {
         stage::store(data_of(t), 1);
         t.register_memory();
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-stored-before-registration-of-two-pages", POSSIBLE, CERTAIN,
     [](stage &t) {
         stage::store(t.two_pages(), 1);
         t.register_memory(t.two_pages());
         t.sync_unless_omitted(BEFORE_READ, t.two_pages());
         t.expect_peer_reads(t.two_pages(), 1);
     }},
    {"read-stored-after-registration", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-stored-while-deregistered", POSSIBLE, CERTAIN, // at an address that was registered
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
         t.deregister_memory();
         stage::store(data_of(t), 2);
         t.register_memory();
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 2);
     }},
    {"read-stored-part-of-line", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(150, 3), 1);
         t.sync_unless_omitted(BEFORE_READ, t.part(150, 3));
         t.expect_peer_reads(t.part(150, 3), 1);
     }},
    {"read-stored-after-sync", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         if (t.omits())
             t.sync(BEFORE_READ, data_of(t));
         stage::store(data_of(t), 1);
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-stored-again", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
         stage::store(data_of(t), 2);
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 2);
     }},
    {"read-stored-over-written", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 1);
         t.sync(AFTER_WRITE, data_of(t));
         stage::store(data_of(t), 2);
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 2);
     }},
    {"read-stored-by-other-process", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::do_in_child([&t] { stage::store(data_of(t), 1); });
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     },
     scenario::SHARED},
    {"read-stored-same-bytes", HARMLESS, HARMLESS, // which the device has already
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         stage::store(data_of(t), 1);
         if (!t.omits())
             t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-range-too-short", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(both_halves_of(t), 1);
         t.sync_wrongly(BEFORE_READ, both_halves_of(t), BEFORE_READ, first_half_of(t),
                        second_half_of(t));
         t.expect_peer_reads(both_halves_of(t), 1);
     }},
    {"read-range-too-late", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(both_halves_of(t), 1);
         t.sync_wrongly(BEFORE_READ, both_halves_of(t), BEFORE_READ, second_half_of(t),
                        first_half_of(t));
         t.expect_peer_reads(both_halves_of(t), 1);
     }},
    {"read-range-empty", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync_wrongly(BEFORE_READ, data_of(t), BEFORE_READ, data_of(t).subspan(0, 0), data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-range-of-other-region", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync_wrongly(BEFORE_READ, data_of(t), BEFORE_READ, t.owner().exposed_memory(),
                        data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    // User programs cannot invalidate a line without writing it back, so this call writes it back.
    {"read-for_cpu-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(t.omits() ? DEVICE_WROTE : BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    // Both calls write lines back.
    {"read-for_device-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(t.omits() ? DEVICE_READS : BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-for_cpu-to-device-instead", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync_wrongly(BEFORE_READ, data_of(t), DEVICE_READ, data_of(t), data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-stored-after-batch_add", CERTAIN, CERTAIN,
     [](stage &t) {
         const coherdma_range range = range_of(data_of(t));
         coherdma_batch batch;
         t.register_memory();
         stage::store(data_of(t), 1);
         coherdma_batch_begin(&batch, t.owner().device());
         coherdma_batch_add(&batch, &range, 1, COHERDMA_BEFORE_READ);
         stage::store(data_of(t), 2);
         if (!t.omits())
             coherdma_batch_add(&batch, &range, 1, COHERDMA_BEFORE_READ);
         check(coherdma_batch_end(&batch), "the batch");
         t.expect_finding(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 2);
     }},
    {"read-batch_end-late", POSSIBLE, POSSIBLE,
     [](stage &t) {
         const coherdma_range range = range_of(data_of(t));
         coherdma_batch batch;
         t.register_memory();
         stage::store(data_of(t), 1);
         coherdma_batch_begin(&batch, t.owner().device());
         coherdma_batch_add(&batch, &range, 1, COHERDMA_BEFORE_READ);
         t.expect_finding(BEFORE_READ, data_of(t));
         if (!t.omits())
             check(coherdma_batch_end(&batch), "the batch");
         t.expect_peer_reads(data_of(t), 1);
         if (t.omits())
             check(coherdma_batch_end(&batch), "the batch");
     }},
    {"read-call-failed", CERTAIN, CERTAIN, // it has no effect, and its result is not looked at
     [](stage &t) {
         const coherdma_range list[] = {range_of(data_of(t)),
                                        {.addr = data_of(t).data(), .length = SIZE_MAX}};
         t.register_memory();
         stage::store(data_of(t), 1);
         const int error = coherdma_sync_before_read(t.owner().device(), list, t.omits() ? 2 : 1);
         if ((error != 0) != t.omits())
             throw failure(concat("a sync returned ", error));
         t.expect_finding(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-of-two-mrs", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.register_memory();
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-iova", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_with_iova();
         stage::store(data_of(t), 1);
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     },
     scenario::ROCE},
    {"read-iova-synced", CERTAIN, CERTAIN, // not the program's address
     [](stage &t) {
         t.register_with_iova();
         stage::store(data_of(t), 1);
         t.sync_wrongly(BEFORE_READ, data_of(t), BEFORE_READ, t.at_iova(data_of(t)), data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     },
     scenario::ROCE},
    {"read-window", CERTAIN, CERTAIN,
     [](stage &t) {
         t.register_memory();
         t.bind_window();
         stage::store(data_of(t), 1);
         t.sync_unless_omitted(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     },
     scenario::ROCE},
    {"read-written-by-peer", NONE, NONE, // the CPU has no part in it
     [](stage &t) {
         t.register_memory();
         t.peer_writes(data_of(t), 1);
         if (!t.omits())
             t.sync(AFTER_WRITE, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
         t.sync(AFTER_WRITE, data_of(t));
         t.expect(data_of(t), 1);
     }},
    {"read-after_write-instead", HARMLESS, HARMLESS,
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(t.omits() ? AFTER_WRITE : BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-not-stored", NONE, NONE,
     [](stage &t) {
         t.register_memory();
         if (!t.omits())
             t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 0);
     }},
    {"read-synced-before-registration", NONE, NONE, // the sync needs no registration
     [](stage &t) {
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         t.register_memory();
         if (!t.omits())
             t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-registered-again", NONE, NONE, // nothing was stored since the last sync
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         t.deregister_memory();
         t.register_memory();
         if (!t.omits())
             t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-registered-twice", NONE, NONE, // the store was synced by then
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         t.register_memory();
         if (!t.omits())
             t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-received", NONE, NONE, // the CPU has no part in it
     [](stage &t) {
         const bytes message = t.part(100, side::MESSAGE_LENGTH);
         t.register_memory();
         t.post_receive(message);
         t.peer_sends_to_receive();
         if (!t.omits())
             t.sync(BEFORE_READ, message);
         t.expect_peer_reads(message, side::MESSAGE_VALUE);
     }},
    {"read-twice", NONE, NONE, // one sync suffices
     [](stage &t) {
         t.register_memory();
         stage::store(data_of(t), 1);
         t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
         if (!t.omits())
             t.sync(BEFORE_READ, data_of(t));
         t.expect_peer_reads(data_of(t), 1);
     }},
    {"read-stored-beside", NONE, NONE, // in the line, not in the bytes that are read
     [](stage &t) {
         t.register_memory();
         stage::store(t.part(100, 20), 1);
         t.sync(BEFORE_READ, t.part(100, 20));
         stage::store(t.part(120, 8), 2);
         if (!t.omits())
             t.sync(BEFORE_READ, t.part(120, 8));
         t.expect_peer_reads(t.part(100, 20), 1);
     }},
};

} // namespace

constinit const std::span<const scenario> READ_SCENARIOS = SCENARIOS;

} // namespace omissions
