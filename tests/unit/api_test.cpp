// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libcoherdma as programs see it: bad input is refused with words and nothing done, and structs of
// other versions of the header are understood.

#include <array>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

extern "C" {
#include <cmocka.h>
}

namespace {

coherdma_device *open_assumed(std::uint32_t verdict, std::uint64_t flags = 0) {
    coherdma_open_attr wanted = {};
    wanted.flags = COHERDMA_OPEN_ASSUME | flags;
    wanted.assume = verdict;
    return coherdma_open(&wanted, sizeof wanted);
}

void says(const char *words) {
    if (!std::strstr(coherdma_error(), words))
        fail_msg("coherdma_error() does not say '%s' but '%s'", words, coherdma_error());
}

ibv_sge piece(const void *begin, std::uint32_t length) {
    return {reinterpret_cast<std::uintptr_t>(begin), length, 0};
}

// Runs what needs a CPU with instructions for both kinds of device, or one only.
std::vector<coherdma_device *> devices() {
    std::vector<coherdma_device *> all = {open_assumed(COHERDMA_COHERENT)};
    if (coherdma_device *other = open_assumed(COHERDMA_NON_COHERENT))
        all.push_back(other);
    return all;
}

void bad_ranges(void **) {
    char good[200] = "nothing is lost";
    std::array<ibv_sge, 2> list = {piece(good, sizeof good), {}};
    const std::uint64_t top = ~std::uint64_t{0};
    for (coherdma_device *each : devices()) {
        for (const auto call : {coherdma_sync_rdma_read, coherdma_sync_rdma_write}) {
            assert_int_equal(call(nullptr, list.data(), 1), EINVAL);
            says("no device");
            assert_int_equal(call(each, nullptr, 3), EINVAL);
            says("list of 3 ranges is NULL");
            assert_int_equal(call(each, nullptr, 0), 0);
            list[1] = {top - 99, 101, 0};
            assert_int_equal(call(each, list.data(), 2), EINVAL);
            says("range 1, of 101 bytes at 0xffffffffffffff9c");
            list[1] = {top, 0, 0}; // nothing, wherever it is
            assert_int_equal(call(each, list.data(), 2), 0);
            list[1] = piece(good + 3, 1); // not aligned to anything
            assert_int_equal(call(each, list.data(), 2), 0);
        }
        assert_string_equal(good, "nothing is lost");
        coherdma_close(each);
    }
}

// On a coherent device nothing is touched, so the last of all addresses can be given.
void up_to_the_last_address(void **) {
    coherdma_device *device = open_assumed(COHERDMA_COHERENT);
    const std::uint64_t top = ~std::uint64_t{0};
    std::array<ibv_sge, 3> list = {};
    for (ibv_sge &each : list) {
        each = {top - 99, 100, 0};
        assert_int_equal(coherdma_sync_rdma_read(device, list.data(), list.size()), 0);
        each.length = 101;
        assert_int_equal(coherdma_sync_rdma_read(device, list.data(), list.size()), EINVAL);
        each = {};
    }
    coherdma_close(device);
}

void bad_phases(void **) {
    char good[200] = {};
    const std::array<ibv_sge, 2> list = {piece(good, 100), piece(good + 100, 100)};
    std::array<std::uint32_t, 2> phases = {COHERDMA_BEFORE_READ, COHERDMA_AFTER_WRITE};
    for (coherdma_device *each : devices()) {
        assert_int_equal(coherdma_sync(each, list.data(), phases.data(), 2), 0);
        assert_int_equal(coherdma_sync(each, list.data(), nullptr, 2), EINVAL);
        says("2 phases is NULL");
        for (const std::uint32_t wrong : {0U, 8U, 9U}) {
            phases[1] = wrong;
            assert_int_equal(coherdma_sync(each, list.data(), phases.data(), 2), EINVAL);
            says("none of enum coherdma_phase");
        }
        phases[1] = COHERDMA_AFTER_WRITE;
        coherdma_batch batch;
        coherdma_batch_begin(&batch, each);
        assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, COHERDMA_BEFORE_WRITE), 0);
        assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, COHERDMA_AFTER_WRITE), 0);
        assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, 0), EINVAL);
        assert_int_equal(coherdma_batch_add(nullptr, list.data(), 2, 1), EINVAL);
        coherdma_batch_end(&batch);
        coherdma_batch_end(nullptr);
        coherdma_batch_begin(nullptr, each);
        coherdma_batch_begin(&batch, nullptr);
        assert_int_equal(coherdma_batch_add(&batch, list.data(), 2, 1), EINVAL);
        coherdma_batch_end(&batch);
        coherdma_close(each);
    }
}

void memory_that_is_not_there(void **) {
    constexpr std::size_t PAGE = 4096, PAGES = 600;
    auto *memory = static_cast<char *>(
        mmap(nullptr, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    assert_ptr_not_equal(memory, MAP_FAILED);
    munmap(memory + 500 * PAGE, PAGE);
    mprotect(memory + 510 * PAGE, PAGE, PROT_NONE);
    mprotect(memory + 520 * PAGE, PAGE, PROT_READ);
    for (const std::uint32_t verdict : {COHERDMA_COHERENT, COHERDMA_NON_COHERENT}) {
        coherdma_device *device = open_assumed(verdict, COHERDMA_OPEN_CHECK_MEMORY);
        if (!device)
            continue;
        const auto sync = [device](const void *begin, std::size_t length) {
            const ibv_sge all = piece(begin, static_cast<std::uint32_t>(length));
            return coherdma_sync_rdma_write(device, &all, 1);
        };
        assert_int_equal(sync(memory, 500 * PAGE), 0);
        assert_int_equal(sync(memory, PAGES * PAGE), EFAULT);
        char where[32];
        std::snprintf(where, sizeof where, "%p", static_cast<void *>(memory + 500 * PAGE));
        says(where);
        assert_int_equal(sync(memory + 510 * PAGE + 5, 1), EFAULT);
        assert_int_equal(sync(memory + 520 * PAGE, PAGE), 0);
        assert_int_equal(sync(memory + 501 * PAGE - 1, 2), EFAULT);
        assert_int_equal(sync(memory + 501 * PAGE, 0), 0);
        const ibv_sge none = {};
        assert_int_equal(coherdma_sync_rdma_read(device, &none, 1), 0);
        coherdma_close(device);
    }
    munmap(memory, PAGES * PAGE);
}

void bad_opens(void **) {
    coherdma_open_attr wanted = {};
    const auto refused = [&wanted](int error, const char *words, std::size_t size) {
        errno = 0;
        assert_null(coherdma_open(&wanted, size));
        assert_int_equal(errno, error);
        says(words);
    };
    const std::size_t size = sizeof wanted;
    refused(EINVAL, "neither a context nor a name", size);
    refused(EINVAL, "its size is wrong", 4);
    wanted.name = "../../etc";
    refused(ENODEV, "no RDMA device '../../etc'", size);
    wanted.name = "";
    refused(ENODEV, "no RDMA device ''", size);
    wanted.name = nullptr;
    wanted.flags = 1 << 20;
    refused(EINVAL, "flags 0x100000 are not known", size);
    wanted.flags = COHERDMA_OPEN_ASSUME;
    wanted.assume = 3;
    refused(EINVAL, "is no verdict", size);
    wanted.assume = COHERDMA_NON_COHERENT;
    wanted.instructions = "prayer";
    refused(EINVAL, "'prayer' are no instructions that work here", size);
    wanted = {};
    wanted.comp_mask = 1;
    refused(EINVAL, "comp_mask", size);
    assert_null(coherdma_open(nullptr, size));
    assert_null(coherdma_open_device(nullptr));
    coherdma_close(nullptr);
}

void structs_of_other_versions(void **) {
    struct newer {
        coherdma_device_attr known;
        std::uint64_t added[4];
    } big;
    std::memset(&big, 0xFF, sizeof big);
    coherdma_device *device = open_assumed(COHERDMA_COHERENT);
    assert_int_equal(coherdma_query_device(device, &big.known, sizeof big), 0);
    assert_int_equal(big.known.verdict, COHERDMA_COHERENT);
    assert_int_equal(big.known.sync_required, 0);
    assert_true(big.added[0] == 0 && big.added[3] == 0);
    coherdma_device_attr small;
    std::memset(&small, 0xFF, sizeof small);
    assert_int_equal(coherdma_query_device(device, &small, 16), 0);
    assert_int_equal(small.verdict, COHERDMA_COHERENT);
    assert_int_equal(small.line_size, 0xFFFFFFFF); // beyond what the caller has room for
    assert_int_equal(coherdma_query_device(device, nullptr, 16), EINVAL);
    assert_int_equal(coherdma_query_device(nullptr, &small, sizeof small), EINVAL);
    coherdma_close(device);
    struct newer_open {
        coherdma_open_attr known;
        std::uint64_t added;
    } wanted = {};
    wanted.known.flags = COHERDMA_OPEN_ASSUME;
    wanted.known.assume = COHERDMA_COHERENT;
    device = coherdma_open(&wanted.known, sizeof wanted);
    assert_non_null(device);
    coherdma_close(device);
    wanted.added = 1;
    assert_null(coherdma_open(&wanted.known, sizeof wanted));
    says("too old to know");
}

void evidence_of_an_assumption(void **) {
    coherdma_device *device = open_assumed(COHERDMA_UNKNOWN, COHERDMA_OPEN_QUERY_ONLY);
    coherdma_evidence evidence;
    assert_int_equal(coherdma_query_evidence(device, 0, &evidence, sizeof evidence), 0);
    assert_string_equal(evidence.rule, "assumed");
    assert_int_equal(evidence.decided, 1);
    assert_int_equal(coherdma_query_evidence(device, 1, &evidence, sizeof evidence), ENOENT);
    coherdma_device_attr about;
    assert_int_equal(coherdma_query_device(device, &about, sizeof about), 0);
    assert_int_equal(about.sync_required, 1); // unknown is treated as non-coherent
    assert_non_null(std::strstr(about.explanation, "unknown coherency"));
    coherdma_close(device);
}

void nonsense_in_the_configuration(void **) {
    setenv("COHERDMA_COHERENT", "perhaps", 1);
    coherdma_open_attr wanted = {};
    std::size_t count = 0;
    char **list = coherdma_list_devices(&count);
    assert_non_null(list);
    assert_null(list[count]);
    if (count != 0) {
        wanted.name = list[0];
        assert_null(coherdma_open(&wanted, sizeof wanted));
        assert_int_equal(errno, EINVAL);
        says("'perhaps' is not yes, no or auto");
    }
    coherdma_free_list(list);
    unsetenv("COHERDMA_COHERENT");
}

void ports_in_structs_of_other_versions(void **) {
    struct newer {
        coherdma_port known;
        std::uint64_t added[4];
    };
    std::size_t count = 77, again = 77;
    coherdma_port *ports = coherdma_list_ports(&count, sizeof *ports);
    auto *big = reinterpret_cast<newer *>(coherdma_list_ports(&again, sizeof(newer)));
    assert_non_null(ports);
    assert_non_null(big);
    assert_int_equal(count, again);
    for (std::size_t place = 0; place < count; ++place) {
        assert_true(*ports[place].device && ports[place].interface && ports[place].transport);
        assert_string_equal(big[place].known.device, ports[place].device);
        assert_string_equal(big[place].known.interface, ports[place].interface);
        assert_true(big[place].known.port == ports[place].port && ports[place].port > 0);
        assert_true(big[place].added[0] == 0 && big[place].added[3] == 0);
    }
    coherdma_free_ports(&big->known);
    coherdma_free_ports(ports);
    coherdma_free_ports(nullptr);
    for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof *ports + 1}) {
        errno = 0;
        assert_null(coherdma_list_ports(&count, size));
        assert_int_equal(errno, EINVAL);
        says("the size is wrong");
    }
    assert_null(coherdma_list_ports(nullptr, sizeof *ports));
}

void the_cpu(void **) {
    coherdma_cpu_attr cpu;
    assert_int_equal(coherdma_query_cpu(&cpu, sizeof cpu), 0);
    assert_true((*cpu.instructions == '\0') == (*cpu.problem != '\0'));
    assert_true(cpu.alignment >= cpu.line_size && cpu.alignment % 128 == 0);
    if (*cpu.instructions)
        assert_int_equal(std::strncmp(cpu.choices, cpu.instructions, strlen(cpu.instructions)), 0);
    assert_int_equal(coherdma_query_cpu(nullptr, sizeof cpu), EINVAL);
}

void words_belong_to_a_thread(void **) {
    coherdma_sync_rdma_read(nullptr, nullptr, 0);
    std::string other = "?";
    std::thread([&other] { other = coherdma_error(); }).join();
    assert_string_equal(other.c_str(), "");
    says("no device");
}

// With TSan: a device is only read by the sync calls, whoever makes them.
void many_threads_one_device(void **) {
    for (coherdma_device *each : devices()) {
        std::vector<std::thread> threads;
        for (int number = 0; number < 4; ++number) {
            threads.emplace_back([each] {
                std::vector<char> own(5000);
                const ibv_sge all = piece(own.data(), 5000);
                for (int round = 0; round < 200; ++round) {
                    coherdma_sync_rdma_read(each, &all, 1);
                    coherdma_sync_rdma_write(each, &all, 1);
                }
            });
        }
        for (std::thread &one : threads)
            one.join();
        coherdma_close(each);
    }
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(bad_ranges),
        cmocka_unit_test(up_to_the_last_address),
        cmocka_unit_test(bad_phases),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(bad_opens),
        cmocka_unit_test(structs_of_other_versions),
        cmocka_unit_test(evidence_of_an_assumption),
        cmocka_unit_test(nonsense_in_the_configuration),
        cmocka_unit_test(ports_in_structs_of_other_versions),
        cmocka_unit_test(the_cpu),
        cmocka_unit_test(words_belong_to_a_thread),
        cmocka_unit_test(many_threads_one_device),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
