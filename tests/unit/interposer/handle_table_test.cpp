// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Finding objects by their addresses, while other threads create and destroy others.

#include "../cmocka.hpp"
#include "interposer/handle_table.hpp"

#include <thread>

using namespace coherdma::interposer;

namespace {

using table = handle_table<int>;

const void *address(std::uintptr_t number) {
    constexpr std::uintptr_t ALIGNMENT = 16;
    return reinterpret_cast<const void *>(number * ALIGNMENT);
}

void object_is_found_until_it_is_removed(void **) {
    static table *const objects = new table; // as in the interposer, it is never destroyed
    int first = 1, second = 2;
    assert_null(objects->find(address(1)));
    assert_true(objects->insert(address(1), &first));
    assert_ptr_equal(objects->find(address(1)), &first);
    assert_true(objects->insert(address(1), &second)); // another object at the same address
    assert_ptr_equal(objects->find(address(1)), &second);
    objects->remove(address(1), &first); // it is not in the table any more
    assert_ptr_equal(objects->find(address(1)), &second);
    objects->remove(address(1), &second);
    assert_null(objects->find(address(1)));
}

void many_objects_share_buckets(void **) {
    static table *const objects = new table; // as in the interposer, it is never destroyed
    constexpr std::uintptr_t num_objects = 50000;
    std::vector<int> values(num_objects);
    for (std::uintptr_t i = 0; i < num_objects; ++i)
        assert_true(objects->insert(address(i + 1), &values[i]));
    for (std::uintptr_t i = 0; i < num_objects; i += 2)
        objects->remove(address(i + 1), &values[i]);
    for (std::uintptr_t i = 0; i < num_objects; ++i)
        assert_ptr_equal(objects->find(address(i + 1)), i % 2 == 0 ? nullptr : &values[i]);
}

/// Each thread finds its object at each moment, while all insert and remove others in its bucket.
void objects_are_found_while_others_come_and_go(void **) {
    static table *const objects = new table; // as in the interposer, it is never destroyed
    constexpr std::uintptr_t num_threads = 4, num_rounds = 20000, bucket_distance = 4096 * 4096;
    std::atomic<unsigned> num_lost = 0;
    const auto use = [&](std::uintptr_t thread) {
        int kept = 0, passing = 0;
        const void *const kept_address = address(1 + thread * bucket_distance);
        objects->insert(kept_address, &kept);
        for (std::uintptr_t i = 0; i < num_rounds; ++i) {
            const void *const passing_address =
                address(1 + (num_threads * (i % 16 + 1) + thread) * bucket_distance);
            objects->insert(passing_address, &passing);
            num_lost += objects->find(kept_address) != &kept;
            num_lost += objects->find(passing_address) != &passing;
            objects->remove(passing_address, &passing);
        }
        objects->remove(kept_address, &kept);
    };
    std::vector<std::thread> threads;
    for (std::uintptr_t thread = 0; thread < num_threads; ++thread)
        threads.emplace_back(use, thread);
    for (std::thread &thread : threads)
        thread.join();
    assert_int_equal(num_lost.load(), 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(object_is_found_until_it_is_removed),
        cmocka_unit_test(many_objects_share_buckets),
        cmocka_unit_test(objects_are_found_while_others_come_and_go),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
