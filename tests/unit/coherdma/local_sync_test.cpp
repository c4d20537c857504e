// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// coherdma_sync_for_device() and coherdma_sync_for_cpu(), which sync local memory, a batch, and
// phases of both kinds: the cache operations and fences that each executes, recorded by a fake set
// of instructions.

#include "../cmocka.hpp"
#include "api/device.hpp"

#include <array>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstring>
#include <infiniband/verbs.h>
#include <string>

namespace {

using coherdma::cache::range;

std::string executed; ///< one word for each operation, "writeback 2" for two ranges

void record_fence_before_writeback() noexcept {
    executed += "begin-writeback ";
}
void record_writeback(const range *, std::size_t count, std::size_t) noexcept {
    executed += "writeback-" + std::to_string(count) + " ";
}
void record_fence_after_writeback() noexcept {
    executed += "end-writeback ";
}
void record_fence_before_invalidate() noexcept {
    executed += "begin-invalidate ";
}
void record_writeback_invalidate(const range *, std::size_t count, std::size_t) noexcept {
    executed += "invalidate-" + std::to_string(count) + " ";
}
void record_fence_after_invalidate() noexcept {
    executed += "end-invalidate ";
}
bool is_reported() noexcept {
    return true;
}

constexpr coherdma::cache::cache_ops FAKE_OPS = {
    .name = "fake",
    .fence_before_writeback = record_fence_before_writeback,
    .writeback = record_writeback,
    .fence_after_writeback = record_fence_after_writeback,
    .fence_before_invalidate = record_fence_before_invalidate,
    .writeback_invalidate = record_writeback_invalidate,
    .fence_after_invalidate = record_fence_after_invalidate,
    .is_reported = is_reported,
};
constexpr const char *WRITEBACK = "begin-writeback writeback-2 end-writeback ";
constexpr const char *INVALIDATE = "begin-invalidate invalidate-2 end-invalidate ";

struct fixture {
    coherdma_device device;
    std::array<char, 200> bytes = {};
    std::array<coherdma_range, 2> list = {};

    fixture() {
        device.ops = &FAKE_OPS;
        device.line_size = 64;
        device.sync_required = true;
        list[0] = {.addr = bytes.data(), .length = 10};
        list[1] = {.addr = bytes.data() + 100, .length = 0};
        executed.clear();
    }
};

using sync_function = decltype(coherdma_sync_for_device);

/// The operations of a call with both ranges.
std::string operations_of(sync_function *call, std::uint32_t direction) {
    fixture test;
    assert_int_equal(call(&test.device, test.list.data(), test.list.size(), direction), 0);
    return executed;
}

void for_device_writes_back_what_the_device_reads(void **) {
    assert_string_equal(operations_of(coherdma_sync_for_device, COHERDMA_TO_DEVICE).c_str(),
                        WRITEBACK);
}

void for_device_also_invalidates_what_the_device_writes(void **) {
    for (const std::uint32_t direction : {COHERDMA_FROM_DEVICE, COHERDMA_BIDIRECTIONAL})
        assert_string_equal(operations_of(coherdma_sync_for_device, direction).c_str(), INVALIDATE);
}

void for_cpu_invalidates_what_the_device_wrote(void **) {
    for (const std::uint32_t direction : {COHERDMA_FROM_DEVICE, COHERDMA_BIDIRECTIONAL})
        assert_string_equal(operations_of(coherdma_sync_for_cpu, direction).c_str(), INVALIDATE);
}

void for_cpu_does_nothing_for_what_the_device_read(void **) {
    assert_string_equal(operations_of(coherdma_sync_for_cpu, COHERDMA_TO_DEVICE).c_str(), "");
}

// The calls around a peer's accesses.
void for_peer_invalidates_only_after_a_write(void **) {
    const auto operations_of_call = [](decltype(coherdma_sync_before_read) *call) {
        fixture test;
        assert_int_equal(call(&test.device, test.list.data(), test.list.size()), 0);
        return executed;
    };
    assert_string_equal(operations_of_call(coherdma_sync_before_read).c_str(), WRITEBACK);
    assert_string_equal(operations_of_call(coherdma_sync_before_write).c_str(), WRITEBACK);
    assert_string_equal(operations_of_call(coherdma_sync_after_write).c_str(), INVALIDATE);
}

void invalid_arguments_touch_no_line(void **) {
    for (sync_function *const call : {coherdma_sync_for_device, coherdma_sync_for_cpu}) {
        fixture test;
        const auto assert_refused = [&](const coherdma_device *device, const coherdma_range *list,
                                        std::uint32_t direction, const char *reason) {
            assert_int_equal(call(device, list, 2, direction), EINVAL);
            if (std::strstr(coherdma_error(), reason) == nullptr)
                fail_msg("coherdma_error() does not say '%s' but '%s'", reason, coherdma_error());
            assert_string_equal(executed.c_str(), "");
        };
        for (const std::uint32_t direction :
             {0U, unsigned{COHERDMA_BEFORE_READ}, unsigned{COHERDMA_AFTER_WRITE}, 0x70U})
            assert_refused(&test.device, test.list.data(), direction,
                           "not in enum coherdma_direction");
        for (const std::uint32_t direction : {COHERDMA_TO_DEVICE, COHERDMA_FROM_DEVICE}) {
            assert_refused(nullptr, test.list.data(), direction, "device is NULL");
            assert_refused(&test.device, nullptr, direction, "list of 2 ranges is NULL");
        }
        test.list[1] = {.addr = reinterpret_cast<const void *>(~std::uintptr_t{0} - 99),
                        .length = 101}; // the first range is valid
        for (const std::uint32_t direction : {COHERDMA_TO_DEVICE, COHERDMA_FROM_DEVICE})
            assert_refused(&test.device, test.list.data(), direction, "range 1 (101 bytes at");
    }
}

void device_without_instructions_is_refused(void **) {
    fixture test;
    test.device.ops = nullptr;
    test.device.sync_problem = "there are none";
    for (sync_function *const call : {coherdma_sync_for_device, coherdma_sync_for_cpu})
        assert_int_equal(call(&test.device, test.list.data(), 2, COHERDMA_TO_DEVICE), EOPNOTSUPP);
}

void empty_list_is_valid(void **) {
    fixture test;
    for (sync_function *const call : {coherdma_sync_for_device, coherdma_sync_for_cpu})
        assert_int_equal(call(&test.device, nullptr, 0, COHERDMA_BIDIRECTIONAL), 0);
}

// Between two additions the thread may store to the second range, or learn that another thread has.
// The fence before a write-back suffices then, and waits for nothing.
void each_addition_to_a_batch_has_a_fence_before(void **) {
    fixture test;
    coherdma_batch batch;
    coherdma_batch_begin(&batch, &test.device);
    for (const std::uint32_t phase :
         {COHERDMA_BEFORE_READ, COHERDMA_AFTER_WRITE, COHERDMA_BEFORE_WRITE, COHERDMA_AFTER_WRITE})
        assert_int_equal(coherdma_batch_add(&batch, test.list.data(), 2, phase), 0);
    assert_string_equal(executed.c_str(), "begin-writeback writeback-2 "
                                          "begin-invalidate invalidate-2 "
                                          "begin-writeback writeback-2 "
                                          "begin-writeback invalidate-2 ");
    executed.clear();
    assert_int_equal(coherdma_batch_end(&batch), 0);
    assert_string_equal(executed.c_str(), "end-invalidate ");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(for_device_writes_back_what_the_device_reads),
        cmocka_unit_test(each_addition_to_a_batch_has_a_fence_before),
        cmocka_unit_test(for_device_also_invalidates_what_the_device_writes),
        cmocka_unit_test(for_cpu_invalidates_what_the_device_wrote),
        cmocka_unit_test(for_cpu_does_nothing_for_what_the_device_read),
        cmocka_unit_test(for_peer_invalidates_only_after_a_write),
        cmocka_unit_test(invalid_arguments_touch_no_line),
        cmocka_unit_test(device_without_instructions_is_refused),
        cmocka_unit_test(empty_list_is_valid),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
