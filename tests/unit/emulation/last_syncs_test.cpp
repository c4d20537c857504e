// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The last sync of each range, in findings of processes that run long.

#include "core/findings/last_syncs.hpp"
#include "sample_finding.hpp"

#include <random>

using namespace emulation_test;
using nlohmann::json;

namespace {

std::uint64_t number_in(const last_syncs &syncs, addr_range range) {
    const last_syncs::sync *const result = syncs.find(range);
    return result != nullptr ? result->number : 0;
}

void later_sync_replaces_what_it_covers(void **) {
    last_syncs syncs;
    assert_null(syncs.find({0, 1000}));
    syncs.add({100, 400}, {event_kind::SYNC_WRITEBACK, 1, {}});
    syncs.add({200, 300}, {event_kind::SYNC_INVALIDATE, 2, {}});
    assert_int_equal(number_in(syncs, {0, 100}), 0);
    assert_int_equal(number_in(syncs, {0, 101}), 1);
    assert_int_equal(number_in(syncs, {199, 201}), 2);
    assert_int_equal(number_in(syncs, {300, 301}), 1);
    assert_int_equal(number_in(syncs, {400, 500}), 0);
    assert_true(syncs.find({200, 201})->kind == event_kind::SYNC_INVALIDATE);
    syncs.add({0, 1000}, {event_kind::SYNC_WRITEBACK, 3, {}});
    assert_int_equal(number_in(syncs, {250, 251}), 3);
    syncs.add({10, 10}, {event_kind::SYNC_WRITEBACK, 4, {}}); // no byte
    assert_int_equal(number_in(syncs, {0, 1000}), 3);
}

/// The same as an array of bytes that is written again and again.
void any_order_of_ranges_is_as_an_array_of_bytes(void **) {
    constexpr std::size_t SIZE = 300;
    last_syncs syncs;
    std::vector<std::uint64_t> expected(SIZE);
    std::mt19937 random(7);
    for (std::uint64_t number = 1; number < 500; ++number) {
        const std::size_t begin = random() % SIZE, end = begin + random() % (SIZE - begin + 1);
        syncs.add({begin, end}, {event_kind::SYNC_WRITEBACK, number, {}});
        std::fill(expected.begin() + static_cast<std::ptrdiff_t>(begin),
                  expected.begin() + static_cast<std::ptrdiff_t>(end), number);
        for (std::size_t i = 0; i < SIZE; ++i)
            assert_int_equal(number_in(syncs, {i, i + 1}), expected[i]);
    }
}

void oldest_ranges_are_forgotten(void **) {
    last_syncs syncs;
    for (std::uintptr_t i = 0; i < last_syncs::CAPACITY + 3; ++i)
        syncs.add({2 * i, 2 * i + 1}, {event_kind::SYNC_WRITEBACK, i + 1, {}});
    assert_int_equal(number_in(syncs, {4, 5}), 0);
    assert_int_equal(number_in(syncs, {6, 7}), 4);
}

/// More events than the history has, elsewhere.
void finding_after_many_events_names_the_last_sync(void **) {
    test_cache cache;
    const program_pages pages(2);
    const auto device = cache.add_mr(pages.part(0, pages.size));
    const addr_range line = pages.part(0, 64), elsewhere = pages.part(PAGE, 64);
    cache->sync_invalidate(&line, 1);
    for (std::size_t i = 0; i < event_history::CAPACITY; ++i) {
        cache->writeback_source(elsewhere);
        cache->writeback_sink(elsewhere);
    }
    pages.bytes[0] ^= 1;
    cache->check_peer_rdma_read(line, {});
    const auto findings = cache.new_findings();
    assert_int_equal(findings.size(), 1);
    assert_false(findings[0]["last_sync"].is_null());
    assert_string_equal(findings[0]["last_sync"]["description"].get<std::string>().c_str(),
                        "sync_invalidate");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(later_sync_replaces_what_it_covers),
        cmocka_unit_test(any_order_of_ranges_is_as_an_array_of_bytes),
        cmocka_unit_test(oldest_ranges_are_forgotten),
        cmocka_unit_test(finding_after_many_events_names_the_last_sync),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
