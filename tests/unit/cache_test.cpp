// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cache room: which lines are touched, that nothing is lost, and that trying an instruction
// disturbs nobody.

#include "cache/cache.hpp"
#include "cache/guard.hpp"

#include <array>
#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <initializer_list>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::cache;

namespace {

std::vector<std::uintptr_t> lines(std::vector<range> ranges, std::size_t line) {
    std::vector<std::uintptr_t> seen;
    each_line(ranges.data(), ranges.size(), line, [&](std::uintptr_t at) { seen.push_back(at); });
    return seen;
}

void is(const std::vector<std::uintptr_t> &got, std::initializer_list<std::uintptr_t> wanted) {
    assert_true(got == std::vector<std::uintptr_t>(wanted));
}

void every_line_of_a_range(void **) {
    is(lines({{0x1000, 64}}, 64), {0x1000});
    is(lines({{0x103F, 2}}, 64), {0x1000, 0x1040});
    is(lines({{0x1001, 128}}, 64), {0x1000, 0x1040, 0x1080});
    is(lines({{0x1001, 63}}, 32), {0x1000, 0x1020});
    is(lines({{0x1000, 0}, {0x2000, 1}}, 128), {0x2000});
}

void a_shared_line_once(void **) {
    is(lines({{0x1000, 8}, {0x1008, 8}, {0x1010, 80}}, 64), {0x1000, 0x1040});
    is(lines({{0x1000, 65}, {0x1041, 64}}, 64), {0x1000, 0x1040, 0x1080});
    is(lines({{0x1000, 8}, {0x1008, 0}, {0x1010, 8}}, 64), {0x1000});
}

void up_to_the_last_address(void **) {
    const std::uintptr_t top = ~std::uintptr_t{0};
    is(lines({{top - 64, 65}}, 64), {top - 127, top - 63});
    is(lines({{top, 1}}, 64), {top - 63});
}

void nothing_is_lost(void **) {
    const std::size_t line = line_size();
    for (const path &each : paths()) {
        if (!works(each))
            continue;
        std::vector<unsigned char> bytes(10000), copy;
        for (std::size_t place = 0; place < bytes.size(); ++place) {
            bytes[place] = static_cast<unsigned char>(place * 7);
        }
        copy = bytes;
        for (std::uint32_t offset = 0; offset < 130; offset += 13) {
            const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
            const std::array<range, 2> ranges{{{begin, 5000, 0}, {begin + 6000, offset, 0}}};
            each.before_clean();
            each.clean(ranges.data(), ranges.size(), line);
            each.after_clean();
            each.before_flush();
            each.flush(ranges.data(), ranges.size(), line);
            each.after_flush();
            assert_true(bytes == copy);
        }
    }
}

void read_only_memory_will_do(void **) {
    void *page = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(page, MAP_FAILED);
    const range all{reinterpret_cast<std::uintptr_t>(page), 4096, 0};
    for (const path &each : paths()) {
        if (!works(each))
            continue;
        each.clean(&all, 1, line_size());
        each.flush(&all, 1, line_size());
    }
    munmap(page, 4096);
}

void the_first_that_works_is_chosen(void **) {
    const char *why = nullptr;
    const path *chosen = choose(nullptr, &why);
    const path *first = nullptr;
    for (const path &each : paths()) {
        if (!first && works(each))
            first = &each;
    }
    assert_ptr_equal(chosen, first);
    assert_true((chosen == nullptr) == (why != nullptr));
    for (const path &each : paths()) {
        if (works(each))
            assert_ptr_equal(choose(each.name, &why), &each);
    }
}

void a_name_that_is_wrong(void **) {
    const char *why = nullptr;
    assert_null(choose("mfence", &why));
    assert_non_null(why);
    assert_non_null(std::strstr(why, "COHERDMA_CACHE"));
    assert_null(choose("mfence", nullptr));
}

void illegal(void *) {
#if defined(__x86_64__)
    asm volatile("ud2");
#else
    raise(SIGILL);
#endif
}
void reads(void *from) {
    static_cast<void>(*static_cast<const volatile char *>(from));
}

std::atomic<int> handled{0};
void count(int) noexcept {
    ++handled;
}

void a_fault_is_nobodys_business(void **) {
    for (const int signal : {SIGILL, SIGSEGV, SIGCHLD})
        std::signal(signal, count);
    void *page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_false(survives(illegal, nullptr));
    assert_false(survives(reads, page));
    char good = 1;
    assert_true(survives(reads, &good));
    assert_int_equal(handled, 0);
    raise(SIGILL); // the caller's handlers are still the caller's
    assert_int_equal(handled, 1);
    munmap(page, 4096);
    for (const int signal : {SIGILL, SIGSEGV, SIGCHLD})
        std::signal(signal, SIG_DFL);
}

void tried_by_many_threads_at_once(void **) {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int number = 0; number < 4; ++number) {
        threads.emplace_back([&wrong] {
            char good = 1;
            for (int round = 0; round < 100; ++round) {
                if (survives(illegal, nullptr) || !survives(reads, &good))
                    ++wrong;
            }
        });
    }
    for (std::thread &each : threads)
        each.join();
    assert_int_equal(wrong, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(every_line_of_a_range),
        cmocka_unit_test(a_shared_line_once),
        cmocka_unit_test(up_to_the_last_address),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(read_only_memory_will_do),
        cmocka_unit_test(the_first_that_works_is_chosen),
        cmocka_unit_test(a_name_that_is_wrong),
        cmocka_unit_test(a_fault_is_nobodys_business),
        cmocka_unit_test(tried_by_many_threads_at_once),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
