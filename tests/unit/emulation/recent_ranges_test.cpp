// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "../cmocka.hpp"
#include "core/memory/recent_ranges.hpp"

#include <list>
#include <random>

namespace {

using namespace coherdma::emulation;

struct named_range {
    addr_range range;
    int name;
};
using named_ranges = recent_ranges<named_range>;

/// Against a list with the latest first.
void random_records_match_list(void **) {
    constexpr std::uintptr_t END = 200;
    std::mt19937 rng(1);
    named_ranges records;
    std::list<named_range> list;
    const auto random_range = [&](std::uintptr_t max_size) {
        const std::uintptr_t begin = rng() % END;
        return addr_range{begin, begin + 1 + rng() % max_size};
    };
    for (int step = 0; step < 5000; ++step) {
        if (rng() % 3 != 0) {
            const named_range added = {random_range(20), step};
            const auto same = std::find_if(list.begin(), list.end(), [&](const named_range &each) {
                return each.range == added.range;
            });
            if (same != list.end())
                list.erase(same);
            list.push_front(added);
            records.add(added, false);
        } else {
            const addr_range removed = random_range(30);
            for (auto it = list.begin(); it != list.end();) {
                const addr_range range = it->range;
                if (intersection(range, removed).empty()) {
                    ++it;
                    continue;
                }
                if (range.begin < removed.begin)
                    list.insert(it, {{range.begin, removed.begin}, it->name});
                if (range.end > removed.end)
                    list.insert(it, {{removed.end, range.end}, it->name});
                it = list.erase(it);
            }
            records.remove(removed);
        }
        assert_int_equal(records.size(), list.size());
        const addr_range range = random_range(3);
        const auto last = std::find_if(list.begin(), list.end(), [&](const named_range &each) {
            return !intersection(each.range, range).empty();
        });
        const named_range *const match = records.find_last(range);
        assert_true((match == nullptr) == (last == list.end()));
        if (match != nullptr)
            assert_int_equal(match->name, last->name);
    }
}

void oldest_record_is_forgotten(void **) {
    named_ranges records;
    const int count = named_ranges::CAPACITY;
    for (int i = 0; i < count + 1; ++i) {
        const auto begin = static_cast<std::uintptr_t>(i) * 8;
        records.add({{begin, begin + 8}, i}, true);
    }
    assert_int_equal(records.size(), count);
    assert_null(records.find_last({0, 8}));
    assert_int_equal(records.find_last({8, 16})->name, 1);
}

/// Each pending range is visited, however often those before it are not done.
void pending_records_are_visited_in_turn(void **) {
    constexpr std::size_t SIZE = named_ranges::MIN_BYTES;
    named_ranges records;
    for (std::uintptr_t i = 0; i < 10; ++i)
        records.add({{i * SIZE, (i + 1) * SIZE}, 0}, i != 5);
    std::array<int, 10> visits{};
    const auto visit = [&](std::size_t count) {
        records.visit_pending(count * SIZE, [&](addr_range part) {
            ++visits[part.begin / SIZE];
            return part.begin == 2 * SIZE; // the others are never done
        });
    };
    for (int i = 0; i < 3; ++i)
        visit(3);
    assert_true(visits == (std::array<int, 10>{1, 1, 1, 1, 1, 0, 1, 1, 1, 1}));
    visit(100); // each once, without the one that is done
    assert_true(visits == (std::array<int, 10>{2, 2, 1, 2, 2, 0, 2, 2, 2, 2}));
    records.remove({0, 100 * SIZE});
    assert_false(records.has_pending());
}

/// A large one is visited in parts, and is pending until all of them are done.
void large_pending_record_is_visited_in_parts(void **) {
    constexpr std::size_t SIZE = named_ranges::MIN_BYTES, END = 10 * SIZE;
    named_ranges records;
    records.add({{0, END}, 0}, true);
    std::uintptr_t end = 0;
    bool is_last_done = false;
    const auto visit = [&] {
        std::size_t visited = 0;
        records.visit_pending(3 * SIZE, [&](addr_range part) {
            assert_int_equal(part.begin, end % END);
            end = part.end;
            visited += part.size();
            return part.end != END || is_last_done;
        });
        assert_true(visited <= 3 * SIZE);
    };
    for (int i = 0; i < 4; ++i)
        visit();
    assert_true(end == END && records.has_pending());
    is_last_done = true;
    for (int i = 0; i < 4; ++i)
        visit();
    assert_true(end == END && !records.has_pending());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(random_records_match_list),
        cmocka_unit_test(oldest_record_is_forgotten),
        cmocka_unit_test(pending_records_are_visited_in_turn),
        cmocka_unit_test(large_pending_record_is_visited_in_parts),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
