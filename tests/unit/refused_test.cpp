// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A CPU that lets no user program maintain its cache, played by COHERDMA_CACHE: where sync is
// needed it is refused in words, and where it is not, nobody notices.

#include <cerrno>
#include <coherdma/coherdma.h>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <initializer_list>

extern "C" {
#include <cmocka.h>
}

namespace {

coherdma_device *open_assumed(std::uint32_t verdict, std::uint64_t flags) {
    coherdma_open_attr wanted = {};
    wanted.flags = COHERDMA_OPEN_ASSUME | flags;
    wanted.assume = verdict;
    return coherdma_open(&wanted, sizeof wanted);
}

void refused_at_open(void **) {
    for (const std::uint32_t verdict : {COHERDMA_NON_COHERENT, COHERDMA_UNKNOWN}) {
        errno = 0;
        assert_null(open_assumed(verdict, 0));
        assert_int_equal(errno, EOPNOTSUPP);
        assert_non_null(std::strstr(coherdma_error(), "sync is needed for (no device)"));
        assert_non_null(std::strstr(coherdma_error(), "COHERDMA_CACHE"));
    }
}

void refused_at_sync(void **) {
    coherdma_device *device = open_assumed(COHERDMA_NON_COHERENT, COHERDMA_OPEN_QUERY_ONLY);
    assert_non_null(device);
    char byte = 1;
    const ibv_sge list = {reinterpret_cast<std::uintptr_t>(&byte), 1, 0};
    const std::uint32_t phase = COHERDMA_BEFORE_READ;
    assert_int_equal(coherdma_sync_rdma_read(device, &list, 1), EOPNOTSUPP);
    assert_int_equal(coherdma_sync_rdma_write(device, &list, 1), EOPNOTSUPP);
    assert_int_equal(coherdma_sync(device, &list, &phase, 1), EOPNOTSUPP);
    coherdma_batch batch;
    coherdma_batch_begin(&batch, device);
    assert_int_equal(coherdma_batch_add(&batch, &list, 1, phase), EOPNOTSUPP);
    coherdma_batch_end(&batch);
    coherdma_device_attr about;
    assert_int_equal(coherdma_query_device(device, &about, sizeof about), 0);
    assert_int_equal(about.sync_required, 1);
    assert_string_equal(about.instructions, "");
    coherdma_close(device);
}

void not_noticed_on_a_coherent_device(void **) {
    coherdma_device *device = open_assumed(COHERDMA_COHERENT, 0);
    assert_non_null(device);
    char byte = 1;
    const ibv_sge list = {reinterpret_cast<std::uintptr_t>(&byte), 1, 0};
    assert_int_equal(coherdma_sync_rdma_read(device, &list, 1), 0);
    assert_int_equal(coherdma_sync_rdma_write(device, &list, 1), 0);
    coherdma_close(device);
}

void the_cpu_says_why(void **) {
    coherdma_cpu_attr cpu;
    assert_int_equal(coherdma_query_cpu(&cpu, sizeof cpu), 0);
    assert_string_equal(cpu.instructions, "");
    assert_non_null(std::strstr(cpu.problem, "COHERDMA_CACHE"));
}

} // namespace

int main() {
    setenv("COHERDMA_CACHE", "prayer", 1);
    const CMUnitTest tests[] = {
        cmocka_unit_test(refused_at_open),
        cmocka_unit_test(refused_at_sync),
        cmocka_unit_test(not_noticed_on_a_coherent_device),
        cmocka_unit_test(the_cpu_says_why),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
