// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The API of libcoherdma: bad input is refused with a message and without effect, and structs of
// other versions of the header are accepted.

#include "../cmocka.hpp"

#include <array>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace {

coherdma_device *open_assumed(std::uint32_t coherency, std::uint32_t flags = 0) {
    coherdma_open_attr attr = {};
    attr.flags = COHERDMA_OPEN_ASSUME | flags;
    attr.assume = coherency;
    return coherdma_open_device_ex(&attr, sizeof attr);
}

void assert_error_contains(const char *text) {
    if (!std::strstr(coherdma_error(), text))
        fail_msg("coherdma_error() does not say '%s' but '%s'", text, coherdma_error());
}

/// The last `distance` bytes of the address space begin there.
const void *address_before_end(std::uintptr_t distance) {
    return reinterpret_cast<const void *>(std::uintptr_t{0} - distance);
}

// A coherent device, and a non-coherent one if the CPU has cache instructions.
std::vector<coherdma_device *> open_devices() {
    std::vector<coherdma_device *> opened = {open_assumed(COHERDMA_COHERENT)};
    if (coherdma_device *non_coherent = open_assumed(COHERDMA_NON_COHERENT))
        opened.push_back(non_coherent);
    return opened;
}

void sync_rejects_invalid_ranges(void **) {
    char good[200] = "data is kept";
    std::array<coherdma_range, 2> list = {{{.addr = good, .length = sizeof good}, {}}};
    for (coherdma_device *device : open_devices()) {
        for (const auto call :
             {coherdma_sync_before_read, coherdma_sync_before_write, coherdma_sync_after_write}) {
            assert_int_equal(call(nullptr, list.data(), 1), EINVAL);
            assert_error_contains("device is NULL");
            assert_int_equal(call(device, nullptr, 3), EINVAL);
            assert_error_contains("list of 3 ranges is NULL");
            assert_int_equal(call(device, nullptr, 0), 0);
            list[1] = {.addr = address_before_end(100), .length = 101};
            assert_int_equal(call(device, list.data(), 2), EINVAL);
            assert_error_contains("range 1 (101 bytes at 0xffffffffffffff9c)");
            list[1] = {.addr = good, .length = ~std::size_t{0}};
            assert_int_equal(call(device, list.data(), 2), EINVAL);
            list[1] = {.addr = address_before_end(1),
                       .length = 0}; // an empty range at any address is valid
            assert_int_equal(call(device, list.data(), 2), 0);
            list[1] = {.addr = good + 3, .length = 1}; // unaligned
            assert_int_equal(call(device, list.data(), 2), 0);
        }
        assert_string_equal(good, "data is kept");
        coherdma_close_device(device);
    }
}

// A coherent device needs no access to memory, so the last address is usable.
void sync_accepts_last_address(void **) {
    coherdma_device *device = open_assumed(COHERDMA_COHERENT);
    std::array<coherdma_range, 3> list = {};
    for (coherdma_range &range : list) {
        range = {.addr = address_before_end(100), .length = 100};
        assert_int_equal(coherdma_sync_before_read(device, list.data(), list.size()), 0);
        range.length = 101;
        assert_int_equal(coherdma_sync_before_read(device, list.data(), list.size()), EINVAL);
        range = {};
    }
    coherdma_close_device(device);
}

void batch_rejects_invalid_phases(void **) {
    char good[200] = {};
    const std::array<coherdma_range, 2> list = {
        {{.addr = good, .length = 100}, {.addr = good + 100, .length = 100}}};
    for (coherdma_device *device : open_devices()) {
        coherdma_batch batch;
        for (const std::uint32_t phase : {0U, 8U, 9U, unsigned{COHERDMA_FROM_DEVICE}}) {
            coherdma_batch_begin(&batch, device);
            assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, COHERDMA_BEFORE_WRITE), 0);
            assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, COHERDMA_AFTER_WRITE), 0);
            assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, phase), EINVAL);
            assert_error_contains("not in enum coherdma_phase");
            assert_int_equal(coherdma_batch_end(&batch), EINVAL);
        }
        assert_int_equal(coherdma_batch_add(nullptr, list.data(), 2, 1), EINVAL);
        coherdma_close_device(device);
    }
}

void batch_end_returns_first_error(void **) {
    char good[200] = {};
    const coherdma_range range = {.addr = good, .length = sizeof good};
    for (coherdma_device *device : open_devices()) {
        coherdma_batch batch;
        std::memset(&batch, 0xFF, sizeof batch);
        coherdma_batch_begin(&batch, device);
        assert_int_equal(coherdma_batch_end(&batch), 0); // empty
        coherdma_batch_begin(&batch, device);
        assert_int_equal(coherdma_batch_add(&batch, &range, 1, COHERDMA_BEFORE_READ), 0);
        assert_int_equal(coherdma_batch_add(&batch, nullptr, 1, COHERDMA_BEFORE_READ), EINVAL);
        assert_int_equal(coherdma_batch_add(&batch, &range, 1, COHERDMA_AFTER_WRITE), 0);
        assert_int_equal(coherdma_batch_end(&batch), EINVAL);
        assert_error_contains("list of 1 ranges is NULL");
        coherdma_batch_begin(&batch, device);
        assert_int_equal(coherdma_batch_add(&batch, &range, 1, COHERDMA_BEFORE_READ), 0);
        assert_int_equal(coherdma_batch_end(&batch), 0); // no error of the batch before
        coherdma_close_device(device);
    }
}

void batch_end_returns_first_of_different_errors(void **) {
    coherdma_device *device = open_assumed(COHERDMA_COHERENT, COHERDMA_OPEN_CHECK_MEMORY);
    const coherdma_range unmapped = {.addr = reinterpret_cast<const void *>(4096), .length = 1};
    coherdma_batch batch;
    coherdma_batch_begin(&batch, device);
    assert_int_equal(coherdma_batch_add(&batch, &unmapped, 1, COHERDMA_BEFORE_READ), EFAULT);
    assert_int_equal(coherdma_batch_add(&batch, &unmapped, 1, 0), EFAULT);
    assert_int_equal(coherdma_batch_add(&batch, nullptr, 1, COHERDMA_BEFORE_READ), EINVAL);
    assert_int_equal(coherdma_batch_end(&batch), EFAULT);
    coherdma_close_device(device);
}

void batch_of_null_device_fails(void **) {
    const coherdma_range empty = {};
    coherdma_batch batch;
    coherdma_batch_begin(&batch, nullptr);
    assert_error_contains("device is NULL");
    assert_int_equal(coherdma_batch_end(&batch), EINVAL); // even if nothing was added
    coherdma_batch_begin(&batch, nullptr);
    assert_int_equal(coherdma_batch_add(&batch, &empty, 1, COHERDMA_BEFORE_READ), EINVAL);
    assert_int_equal(coherdma_batch_end(&batch), EINVAL);
    coherdma_batch_begin(nullptr, nullptr);
    assert_int_equal(coherdma_batch_end(nullptr), EINVAL);
}

// A sync of a device that was opened with COHERDMA_OPEN_CHECK_MEMORY returns EFAULT for a range
// with an unreadable page, and names the first such address.
void check_memory_reports_unmapped_pages(void **) {
    constexpr std::size_t PAGE = 4096, PAGES = 600;
    constexpr std::size_t UNMAPPED = 500 * PAGE, UNREADABLE = 510 * PAGE, READ_ONLY = 520 * PAGE;
    auto *memory = static_cast<char *>(
        mmap(nullptr, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    assert_ptr_not_equal(memory, MAP_FAILED);
    munmap(memory + UNMAPPED, PAGE);
    mprotect(memory + UNREADABLE, PAGE, PROT_NONE);
    mprotect(memory + READ_ONLY, PAGE, PROT_READ);
    for (const std::uint32_t coherency : {COHERDMA_COHERENT, COHERDMA_NON_COHERENT}) {
        coherdma_device *device = open_assumed(coherency, COHERDMA_OPEN_CHECK_MEMORY);
        if (!device) // the CPU has no cache instructions
            continue;
        const auto sync = [device](const void *begin, std::size_t length) {
            const coherdma_range range = {.addr = begin, .length = length};
            return coherdma_sync_after_write(device, &range, 1);
        };
        assert_int_equal(sync(memory, UNMAPPED), 0);
        assert_int_equal(sync(memory, PAGES * PAGE), EFAULT);
        char addr[32];
        std::snprintf(addr, sizeof addr, "%p", static_cast<void *>(memory + UNMAPPED));
        assert_error_contains(addr);
        assert_int_equal(sync(memory + UNREADABLE + 5, 1), EFAULT);
        assert_int_equal(sync(memory + READ_ONLY, PAGE), 0);
        assert_int_equal(sync(memory + UNMAPPED + PAGE - 1, 2), EFAULT);
        assert_int_equal(sync(memory + UNMAPPED + PAGE, 0), 0);
        const coherdma_range empty = {};
        assert_int_equal(coherdma_sync_before_read(device, &empty, 1), 0);
        coherdma_close_device(device);
    }
    munmap(memory, PAGES * PAGE);
}

void open_rejects_invalid_attributes(void **) {
    coherdma_open_attr attr = {};
    const auto assert_refused = [&attr](int error, const char *text, std::size_t size) {
        errno = 0;
        assert_null(coherdma_open_device_ex(&attr, size));
        assert_int_equal(errno, error);
        assert_error_contains(text);
    };
    const std::size_t size = sizeof attr;
    assert_refused(EINVAL, "neither a context nor a name", size);
    assert_refused(EINVAL, "their size 31 is less than 32", size - 1);
    attr.name = "../../etc";
    assert_refused(ENODEV, "no RDMA device '../../etc'", size);
    attr.name = "";
    assert_refused(ENODEV, "no RDMA device ''", size);
    attr.name = nullptr;
    attr.flags = 1 << 20;
    assert_refused(EINVAL, "flags 0x100000 are unknown", size);
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = 3;
    assert_refused(EINVAL, "assume is 3, not", size);
    attr.assume = COHERDMA_NON_COHERENT;
    attr.instructions = "prayer";
    assert_refused(EINVAL, "instructions 'prayer' are not usable", size);
    assert_null(coherdma_open_device_ex(nullptr, size));
    assert_null(coherdma_open_device(nullptr));
    coherdma_close_device(nullptr);
}

// A program compiled with a newer header passes a longer struct: as output, what the library does
// not know is zeroed; as input, it must be zero. A struct shorter than the first version's is
// refused.
void device_attr_of_other_versions_is_accepted(void **) {
    struct newer {
        coherdma_device_attr known;
        std::uint64_t added[4];
    } big;
    std::memset(&big, 0xFF, sizeof big);
    coherdma_device *device = open_assumed(COHERDMA_COHERENT);
    assert_int_equal(coherdma_query_device(device, &big.known, sizeof big), 0);
    assert_int_equal(big.known.coherency, COHERDMA_COHERENT);
    assert_int_equal(big.known.sync_required, 0);
    assert_true(big.added[0] == 0 && big.added[3] == 0);
    coherdma_device_attr small;
    std::memset(&small, 0xFF, sizeof small);
    assert_int_equal(coherdma_query_device(device, &small, sizeof small - 1), EINVAL);
    assert_int_equal(small.line_size, 0xFFFFFFFF);
    assert_int_equal(coherdma_query_device(device, nullptr, sizeof small), EINVAL);
    assert_int_equal(coherdma_query_device(nullptr, &small, sizeof small), EINVAL);
    coherdma_close_device(device);
    struct newer_open {
        coherdma_open_attr known;
        std::uint64_t added;
    } attr = {};
    attr.known.flags = COHERDMA_OPEN_ASSUME;
    attr.known.assume = COHERDMA_COHERENT;
    device = coherdma_open_device_ex(&attr.known, sizeof attr);
    assert_non_null(device);
    coherdma_close_device(device);
    attr.added = 1;
    assert_null(coherdma_open_device_ex(&attr.known, sizeof attr));
    assert_int_equal(errno, E2BIG);
    assert_error_contains("unknown to this version");
}

void assumed_coherency_is_in_evidence(void **) {
    coherdma_device *device = open_assumed(COHERDMA_UNKNOWN, COHERDMA_OPEN_QUERY_ONLY);
    coherdma_evidence evidence;
    assert_int_equal(coherdma_query_evidence(device, 0, &evidence, sizeof evidence), 0);
    assert_string_equal(evidence.rule, "assumed");
    assert_int_equal(evidence.decided, 1);
    assert_int_equal(coherdma_query_evidence(device, 1, &evidence, sizeof evidence), ENOENT);
    coherdma_device_attr attr;
    assert_int_equal(coherdma_query_device(device, &attr, sizeof attr), 0);
    assert_int_equal(attr.sync_required, 1); // unknown counts as non-coherent
    assert_non_null(std::strstr(attr.explanation, "unknown coherency"));
    coherdma_close_device(device);
}

void texts_are_those_of_the_manual(void **) {
    assert_string_equal(coherdma_version(), COHERDMA_VERSION);
    constexpr const char *coherencies[] = {"unknown", "coherent", "non-coherent", "bounced"};
    for (std::uint32_t i = 0; i < std::size(coherencies); ++i)
        assert_string_equal(coherdma_coherency_str(i), coherencies[i]);
    assert_string_equal(coherdma_coherency_str(COHERDMA_BOUNCED + 1), "unknown");
    constexpr const char *strengths[] = {"none", "assumed", "firmware", "kernel", "measured"};
    for (std::uint32_t i = 0; i < std::size(strengths); ++i)
        assert_string_equal(coherdma_strength_str(i), strengths[i]);
    assert_string_equal(coherdma_strength_str(COHERDMA_STRENGTH_MEASURED + 1), "none");
}

void open_rejects_invalid_environment(void **) {
    setenv("COHERDMA_COHERENT", "perhaps", 1);
    coherdma_open_attr attr = {};
    coherdma_port *ports = coherdma_get_port_list(nullptr, sizeof *ports);
    assert_non_null(ports);
    if (ports[0].device) {
        attr.name = ports[0].device;
        assert_null(coherdma_open_device_ex(&attr, sizeof attr));
        assert_int_equal(errno, EINVAL);
        assert_error_contains("'perhaps' is not yes, no or auto");
    }
    coherdma_free_port_list(ports);
    unsetenv("COHERDMA_COHERENT");
}

void port_list_of_other_versions_is_accepted(void **) {
    struct newer {
        coherdma_port known;
        std::uint64_t added[4];
    };
    std::size_t count = 77, big_count = 77;
    coherdma_port *ports = coherdma_get_port_list(&count, sizeof *ports);
    auto *big = reinterpret_cast<newer *>(coherdma_get_port_list(&big_count, sizeof(newer)));
    assert_non_null(ports);
    assert_non_null(big);
    assert_int_equal(count, big_count);
    for (std::size_t i = 0; i < count; ++i) {
        assert_true(*ports[i].device && ports[i].netdev && ports[i].transport);
        assert_string_equal(big[i].known.device, ports[i].device);
        assert_string_equal(big[i].known.netdev, ports[i].netdev);
        assert_true(big[i].known.port_num == ports[i].port_num && ports[i].port_num > 0);
        assert_true(big[i].added[0] == 0 && big[i].added[3] == 0);
    }
    assert_null(ports[count].device);
    assert_null(big[count].known.device);
    coherdma_free_port_list(&big->known);
    coherdma_free_port_list(ports);
    coherdma_free_port_list(nullptr);
    for (const std::size_t size : {std::size_t{0}, sizeof *ports - 8, sizeof *ports + 1}) {
        errno = 0;
        assert_null(coherdma_get_port_list(&count, size));
        assert_int_equal(errno, EINVAL);
        assert_error_contains("is invalid");
    }
}

// The list ends with a null element, so that a program need not pass count.
void port_list_is_walked_without_count(void **) {
    coherdma_port *ports = coherdma_get_port_list(nullptr, sizeof *ports);
    assert_non_null(ports);
    std::size_t num_ports = 0, count = 0;
    while (ports[num_ports].device)
        ++num_ports;
    coherdma_free_port_list(ports);
    coherdma_free_port_list(coherdma_get_port_list(&count, sizeof *ports));
    assert_int_equal(num_ports, count);
}

void query_cpu_is_consistent(void **) {
    coherdma_cpu_attr cpu;
    assert_int_equal(coherdma_query_cpu(&cpu, sizeof cpu), 0);
    assert_true((*cpu.instructions == '\0') == (*cpu.problem != '\0'));
    assert_true(cpu.buffer_alignment >= cpu.line_size && cpu.buffer_alignment % 128 == 0);
    if (*cpu.instructions)
        assert_int_equal(std::strncmp(cpu.choices, cpu.instructions, strlen(cpu.instructions)), 0);
    assert_int_equal(coherdma_query_cpu(nullptr, sizeof cpu), EINVAL);
}

void error_string_is_thread_local(void **) {
    assert_int_equal(coherdma_sync_before_read(nullptr, nullptr, 0), EINVAL);
    std::string thread_error = "?";
    std::thread([&thread_error] { thread_error = coherdma_error(); }).join();
    assert_string_equal(thread_error.c_str(), "");
    assert_error_contains("device is NULL");
}

// For TSan: sync calls only read the device.
void concurrent_syncs_share_device(void **) {
    for (coherdma_device *device : open_devices()) {
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([device] {
                std::vector<char> buffer(5000);
                const coherdma_range range = {.addr = buffer.data(), .length = 5000};
                for (int round = 0; round < 200; ++round) {
                    assert_int_equal(coherdma_sync_before_read(device, &range, 1), 0);
                    assert_int_equal(coherdma_sync_after_write(device, &range, 1), 0);
                }
            });
        }
        for (std::thread &thread : threads)
            thread.join();
        coherdma_close_device(device);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(sync_rejects_invalid_ranges),
        cmocka_unit_test(sync_accepts_last_address),
        cmocka_unit_test(batch_rejects_invalid_phases),
        cmocka_unit_test(batch_end_returns_first_error),
        cmocka_unit_test(batch_end_returns_first_of_different_errors),
        cmocka_unit_test(batch_of_null_device_fails),
        cmocka_unit_test(check_memory_reports_unmapped_pages),
        cmocka_unit_test(open_rejects_invalid_attributes),
        cmocka_unit_test(device_attr_of_other_versions_is_accepted),
        cmocka_unit_test(assumed_coherency_is_in_evidence),
        cmocka_unit_test(texts_are_those_of_the_manual),
        cmocka_unit_test(open_rejects_invalid_environment),
        cmocka_unit_test(port_list_of_other_versions_is_accepted),
        cmocka_unit_test(port_list_is_walked_without_count),
        cmocka_unit_test(query_cpu_is_consistent),
        cmocka_unit_test(error_string_is_thread_local),
        cmocka_unit_test(concurrent_syncs_share_device),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
