// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Cache maintenance of this CPU: the lines touched, unchanged data, and running instructions that
// may fault.

#include "../cmocka.hpp"
#include "cache/cache.hpp"
#include "cache/cpu_common.hpp"
#include "cache/fault_guard.hpp"
#include "faults.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <initializer_list>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace coherdma::cache;

namespace {

std::vector<std::uintptr_t> visited_lines(std::vector<range> ranges, std::size_t line_size) {
    std::vector<std::uintptr_t> lines;
    for_each_line(ranges.data(), ranges.size(), line_size,
                  [&](std::uintptr_t line, const range &) { lines.push_back(line); });
    return lines;
}

void assert_lines(const std::vector<std::uintptr_t> &actual,
                  std::initializer_list<std::uintptr_t> expected) {
    assert_true(actual == std::vector<std::uintptr_t>(expected));
}

void for_each_line_visits_all_lines_of_range(void **) {
    assert_lines(visited_lines({{0x1000, 64}}, 64), {0x1000});
    assert_lines(visited_lines({{0x103F, 2}}, 64), {0x1000, 0x1040});
    assert_lines(visited_lines({{0x1001, 128}}, 64), {0x1000, 0x1040, 0x1080});
    assert_lines(visited_lines({{0x1001, 63}}, 32), {0x1000, 0x1020});
    assert_lines(visited_lines({{0x1000, 0}, {0x2000, 1}}, 128), {0x2000});
}

void for_each_line_visits_shared_line_once(void **) {
    assert_lines(visited_lines({{0x1000, 8}, {0x1008, 8}, {0x1010, 80}}, 64), {0x1000, 0x1040});
    assert_lines(visited_lines({{0x1000, 65}, {0x1041, 64}}, 64), {0x1000, 0x1040, 0x1080});
    assert_lines(visited_lines({{0x1000, 8}, {0x1008, 0}, {0x1010, 8}}, 64), {0x1000});
}

void for_each_line_reaches_last_address(void **) {
    const std::uintptr_t top = ~std::uintptr_t{0};
    assert_lines(visited_lines({{top - 64, 65}}, 64), {top - 127, top - 63});
    assert_lines(visited_lines({{top, 1}}, 64), {top - 63});
}

struct access {
    std::uintptr_t addr;
    bool is_load;
    bool operator==(const access &) const = default;
};
std::vector<access> accesses;
void record_load(std::uintptr_t addr) noexcept {
    accesses.push_back({addr, true});
}
void record_line(std::uintptr_t addr) noexcept {
    accesses.push_back({addr, false});
}

// A load of the page comes just before its lines, and from the ranges only.
void per_line_loaded_loads_a_byte_of_the_ranges_on_each_page(void **) {
    constexpr bool LOAD = true, LINE = false;
    const std::array<range, 5> ranges = {
        {{0x1F90, 0x8}, {0x1FA0, 0x61}, {0x2001, 0x10}, {0x2F00, 0}, {0x4FFF, 0x1002}}};
    accesses.clear();
    per_line_loaded<record_line, record_load>(ranges.data(), ranges.size(), 0x400);
    assert_true(accesses == (std::vector<access>{{0x1F90, LOAD},
                                                 {0x1C00, LINE},
                                                 {0x2000, LOAD},
                                                 {0x2000, LINE},
                                                 {0x4FFF, LOAD},
                                                 {0x4C00, LINE},
                                                 {0x5000, LOAD},
                                                 {0x5000, LINE},
                                                 {0x5400, LINE},
                                                 {0x5800, LINE},
                                                 {0x5C00, LINE},
                                                 {0x6000, LOAD},
                                                 {0x6000, LINE}}));
}

void writeback_and_invalidate_keep_data(void **) {
    const std::size_t size = line_size();
    for (const cache_ops &ops : arch_ops()) {
        if (!is_usable(ops))
            continue;
        std::vector<unsigned char> bytes(10000), copy;
        for (std::size_t i = 0; i < bytes.size(); ++i)
            bytes[i] = static_cast<unsigned char>(i * 7);
        copy = bytes;
        for (std::uint32_t offset = 0; offset < 130; offset += 13) {
            const auto addr = reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
            const std::array<range, 2> ranges{
                {{.addr = addr, .length = 5000}, {.addr = addr + 6000, .length = offset}}};
            ops.fence_before_writeback();
            ops.writeback(ranges.data(), ranges.size(), size);
            ops.fence_after_writeback();
            ops.fence_before_invalidate();
            ops.writeback_invalidate(ranges.data(), ranges.size(), size);
            ops.fence_after_invalidate();
            assert_true(bytes == copy);
        }
    }
}

void read_only_memory_is_accepted(void **) {
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    const range range = {.addr = reinterpret_cast<std::uintptr_t>(page), .length = 4096};
    for (const cache_ops &ops : arch_ops()) {
        if (!is_usable(ops))
            continue;
        ops.writeback(&range, 1, line_size());
        ops.writeback_invalidate(&range, 1, line_size());
    }
    munmap(page, 4096);
}

void choose_ops_returns_first_usable(void **) {
    const char *problem = nullptr;
    const cache_ops *chosen = choose_ops(nullptr, &problem);
    const cache_ops *first = nullptr;
    for (const cache_ops &ops : arch_ops()) {
        if (!first && is_usable(ops))
            first = &ops;
    }
    assert_ptr_equal(chosen, first);
    assert_true((chosen == nullptr) == (problem != nullptr));
    for (const cache_ops &ops : arch_ops()) {
        if (is_usable(ops))
            assert_ptr_equal(choose_ops(ops.name, &problem), &ops);
    }
}

void choose_ops_rejects_unknown_name(void **) {
    const char *problem = nullptr;
    assert_null(choose_ops("mfence", &problem));
    assert_non_null(problem);
    assert_non_null(std::strstr(problem, "COHERDMA_CACHE"));
    assert_null(choose_ops("mfence", nullptr));
}

// runs_without_fault() tries an instruction with its own signal handling, and restores the
// caller's.
void fault_does_not_call_handlers_of_caller(void **) {
    for (const int signal : {SIGILL, SIGSEGV, SIGCHLD})
        std::signal(signal, count_signal);
    void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_false(runs_without_fault(execute_illegal, nullptr));
    assert_false(runs_without_fault(read_byte, page));
    char byte = 1;
    assert_true(runs_without_fault(read_byte, &byte));
    assert_int_equal(handled_signals, 0);
    raise(SIGILL); // the handlers of the caller are still installed
    assert_int_equal(handled_signals, 1);
    munmap(page, 4096);
    for (const int signal : {SIGILL, SIGSEGV, SIGCHLD})
        std::signal(signal, SIG_DFL);
}

void concurrent_faults_do_not_interfere(void **) {
    std::atomic<int> errors{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&errors] {
            char byte = 1;
            for (int round = 0; round < 100; ++round) {
                if (runs_without_fault(execute_illegal, nullptr) ||
                    !runs_without_fault(read_byte, &byte))
                    ++errors;
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
    assert_int_equal(errors, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(for_each_line_visits_all_lines_of_range),
        cmocka_unit_test(for_each_line_visits_shared_line_once),
        cmocka_unit_test(for_each_line_reaches_last_address),
        cmocka_unit_test(per_line_loaded_loads_a_byte_of_the_ranges_on_each_page),
        cmocka_unit_test(writeback_and_invalidate_keep_data),
        cmocka_unit_test(read_only_memory_is_accepted),
        cmocka_unit_test(choose_ops_returns_first_usable),
        cmocka_unit_test(choose_ops_rejects_unknown_name),
        cmocka_unit_test(fault_does_not_call_handlers_of_caller),
        cmocka_unit_test(concurrent_faults_do_not_interfere),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
