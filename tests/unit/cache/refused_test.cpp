// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A CPU without cache instructions for user programs, simulated by COHERDMA_CACHE: a device that
// needs sync is refused with a message, a coherent device works.

#include "../cmocka.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <initializer_list>

namespace {

coherdma_device *open_assumed(std::uint32_t coherency, std::uint32_t flags) {
    coherdma_open_attr attr = {};
    attr.flags = COHERDMA_OPEN_ASSUME | flags;
    attr.assume = coherency;
    return coherdma_open_device_ex(&attr, sizeof attr);
}

void open_of_non_coherent_device_fails(void **) {
    for (const std::uint32_t coherency : {COHERDMA_NON_COHERENT, COHERDMA_UNKNOWN}) {
        errno = 0;
        assert_null(open_assumed(coherency, 0));
        assert_int_equal(errno, EOPNOTSUPP);
        assert_non_null(std::strstr(coherdma_error(), "sync is required for (no device)"));
        assert_non_null(std::strstr(coherdma_error(), "COHERDMA_CACHE"));
    }
}

void sync_of_non_coherent_device_fails(void **) {
    coherdma_device *device = open_assumed(COHERDMA_NON_COHERENT, COHERDMA_OPEN_QUERY_ONLY);
    assert_non_null(device);
    char byte = 1;
    const coherdma_range list = {.addr = &byte, .length = 1};
    const std::uint32_t phase = COHERDMA_BEFORE_READ;
    assert_int_equal(coherdma_sync_before_read(device, &list, 1), EOPNOTSUPP);
    assert_int_equal(coherdma_sync_before_write(device, &list, 1), EOPNOTSUPP);
    assert_int_equal(coherdma_sync_after_write(device, &list, 1), EOPNOTSUPP);
    assert_int_equal(coherdma_sync_for_device(device, &list, 1, COHERDMA_TO_DEVICE), EOPNOTSUPP);
    assert_int_equal(coherdma_sync_for_cpu(device, &list, 1, COHERDMA_TO_DEVICE), EOPNOTSUPP);
    coherdma_batch batch;
    coherdma_batch_begin(&batch, device);
    assert_int_equal(coherdma_batch_add(&batch, &list, 1, phase), EOPNOTSUPP);
    assert_int_equal(coherdma_batch_end(&batch), EOPNOTSUPP);
    coherdma_device_attr attr;
    assert_int_equal(coherdma_query_device(device, &attr, sizeof attr), 0);
    assert_int_equal(attr.sync_required, 1);
    assert_string_equal(attr.instructions, "");
    coherdma_close_device(device);
}

void sync_of_coherent_device_succeeds(void **) {
    coherdma_device *device = open_assumed(COHERDMA_COHERENT, 0);
    assert_non_null(device);
    char byte = 1;
    const coherdma_range list = {.addr = &byte, .length = 1};
    assert_int_equal(coherdma_sync_before_read(device, &list, 1), 0);
    assert_int_equal(coherdma_sync_before_write(device, &list, 1), 0);
    assert_int_equal(coherdma_sync_after_write(device, &list, 1), 0);
    coherdma_close_device(device);
}

void query_cpu_reports_problem(void **) {
    coherdma_cpu_attr cpu;
    assert_int_equal(coherdma_query_cpu(&cpu, sizeof cpu), 0);
    assert_string_equal(cpu.instructions, "");
    assert_non_null(std::strstr(cpu.problem, "COHERDMA_CACHE"));
}

} // namespace

int main() {
    setenv("COHERDMA_CACHE", "prayer", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(open_of_non_coherent_device_fails),
        cmocka_unit_test(sync_of_non_coherent_device_fails),
        cmocka_unit_test(sync_of_coherent_device_succeeds),
        cmocka_unit_test(query_cpu_reports_problem),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
