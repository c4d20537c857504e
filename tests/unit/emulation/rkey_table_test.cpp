// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The rkeys that a process publishes.

#include "../cmocka.hpp"
#include "core/peers/rkey_table.hpp"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace coherdma::emulation;

namespace {

using answer = rkey_table::answer;

class test_table {
  public:
    test_table() {
        assert_true(fd_ >= 0);
        assert_int_equal(ftruncate(fd_, rkey_table::MAX_BYTES), 0);
        table_.emplace(place());
    }
    ~test_table() {
        table_.reset();
        close(fd_);
    }
    test_table(const test_table &) = delete;
    test_table &operator=(const test_table &) = delete;

    rkey_table *operator->() { return &*table_; }
    [[nodiscard]] rkey_table_place place() { return {.fd = fd_, .offset = 0, .state = &state}; }
    [[nodiscard]] answer find(std::uint32_t rkey, std::uint64_t addr = 0,
                              std::uint64_t length = 1) {
        std::uint32_t sequence;
        return rkey_table::find(
            place(), {.driver_number = 1, .rkey = rkey, .addr = addr, .length = length}, sequence);
    }
    [[nodiscard]] std::uint64_t allocated_bytes() const {
        struct stat status = {};
        assert_int_equal(fstat(fd_, &status), 0);
        return static_cast<std::uint64_t>(status.st_blocks) * 512;
    }

    rkey_table_state state{};

  private:
    const int fd_ = memfd_create("rkey_table", MFD_CLOEXEC);
    std::optional<rkey_table> table_;
};

rkey_entry entry_of(std::uint32_t rkey, std::uint64_t publisher = 1) {
    return {.rkey = rkey, .driver_number = 1, .iova = 0, .length = 64, .publisher = publisher};
}

/// The rkeys of rxe and siw: an index, and a byte.
std::uint32_t rkey_of(std::uint32_t index) {
    return index << 8 | (index * 37 & 0xff);
}

void any_number_of_rkeys_is_found(void **) {
    test_table table;
    const std::uint32_t count = rkey_table::MAX_RKEYS;
    for (std::uint32_t i = 1; i <= count; ++i)
        assert_int_equal(table->add(entry_of(rkey_of(i))), 0);
    assert_int_equal(table->add(entry_of(0)), ENOSPC);
    for (std::uint32_t i = 1; i <= count; ++i) {
        assert_true(table.find(rkey_of(i)) == answer::PRESENT);
        assert_true(table.find(rkey_of(i) + 1) == answer::ABSENT);
    }
    assert_true(table.allocated_bytes() <= rkey_table::MAX_BYTES);
    table->clear();
    assert_int_equal(table.allocated_bytes(), 0);
    assert_true(table.find(rkey_of(1)) == answer::ABSENT);
    assert_int_equal(table->add(entry_of(1)), 0);
    assert_true(table.find(1) == answer::PRESENT);
}

void memory_must_be_inside(void **) {
    test_table table;
    rkey_entry entry = entry_of(9);
    entry.iova = 4096;
    assert_int_equal(table->add(entry), 0);
    assert_true(table.find(9, 4096, 64) == answer::PRESENT);
    assert_true(table.find(9, 4095, 1) == answer::ABSENT);
    assert_true(table.find(9, 4096, 65) == answer::ABSENT);
    assert_true(table.find(9, 4097, ~std::uint64_t{0}) == answer::ABSENT);
}

/// As a reference, a set of pairs.
void rkeys_come_and_go(void **) {
    test_table table;
    std::vector<std::uint32_t> present;
    std::mt19937 random(1);
    for (std::uint32_t i = 1; i < 20000; ++i) {
        present.push_back(rkey_of(i));
        assert_int_equal(table->add(entry_of(rkey_of(i))), 0);
        while (present.size() > 1000 || (!present.empty() && random() % 4 == 0)) {
            std::swap(present[random() % present.size()], present.back());
            table->remove(1, present.back(), 2); // another publisher's
            assert_true(table.find(present.back()) == answer::PRESENT);
            table->remove(1, present.back(), 1);
            assert_true(table.find(present.back()) == answer::ABSENT);
            present.pop_back();
        }
        assert_true(std::ranges::all_of(present, [&](std::uint32_t rkey) {
            return i % 100 != 0 || table.find(rkey) == answer::PRESENT;
        }));
    }
    assert_true(table.allocated_bytes() <= 4096 * sizeof(rkey_entry)); // for 1000
}

void equal_rkeys_of_two_devices_are_two(void **) {
    test_table table;
    assert_int_equal(table->add(entry_of(5, 1)), 0);
    assert_int_equal(table->add(entry_of(5, 2)), 0);
    table->remove(1, 5, 1);
    assert_true(table.find(5) == answer::PRESENT);
    table->remove(1, 5, 1);
    assert_true(table.find(5) == answer::PRESENT);
    table->remove(1, 5, 2);
    assert_true(table.find(5) == answer::ABSENT);
}

/// Others find an rkey while the owner publishes more, moves entries and enlarges the table.
void rkey_is_found_while_others_change(void **) {
    test_table table;
    assert_int_equal(table->add(entry_of(rkey_of(77))), 0);
    std::atomic<bool> is_ended = false;
    std::thread owner([&] {
        for (std::uint32_t i = 100; i < 60000; ++i) {
            table->add(entry_of(rkey_of(i)));
            if (i % 2 == 0)
                table->remove(1, rkey_of(i - 1), 1);
        }
        is_ended = true;
    });
    int num_found = 0, num_busy = 0;
    while (!is_ended || num_found == 0)
        switch (table.find(rkey_of(77))) {
        case answer::PRESENT:
            ++num_found;
            break;
        case answer::BUSY:
            ++num_busy;
            break;
        case answer::ABSENT:
            owner.join();
            fail();
        }
    owner.join();
    print_message("# found %d times, busy %d times\n", num_found, num_busy);
}

/// The owner is stopped or killed in the middle.
void table_in_the_middle_of_a_change_is_busy(void **) {
    test_table table;
    assert_int_equal(table->add(entry_of(5)), 0);
    ++table.state.sequence;
    assert_true(table.find(5) == answer::BUSY);
    ++table.state.sequence;
    assert_true(table.find(5) == answer::PRESENT);
    table.state.capacity = 3; // no capacity
    assert_true(table.find(5) == answer::ABSENT);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_rkeys_is_found),
        cmocka_unit_test(memory_must_be_inside),
        cmocka_unit_test(rkeys_come_and_go),
        cmocka_unit_test(equal_rkeys_of_two_devices_are_two),
        cmocka_unit_test(rkey_is_found_while_others_change),
        cmocka_unit_test(table_in_the_middle_of_a_change_is_busy),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
