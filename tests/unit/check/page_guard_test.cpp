// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Pages that the program must not use: each access calls the handler, and is made then.

#include "../cmocka.hpp"
#include "check/page_guard.hpp"

#include <csignal>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace coherdma::check;

constexpr std::size_t NUM_PAGES = 8;

page_guard guard;
int num_accesses = 0;
refused_access last_access;

bool handle(const refused_access &access) noexcept {
    if (!guard.is_protected(access.addr))
        return false;
    ++num_accesses;
    last_access = access;
    page_guard::open(access.addr, access.addr + 1);
    return true;
}

struct pages {
    std::size_t size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    volatile char *memory = static_cast<char *>(
        mmap(nullptr, NUM_PAGES *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    pages() {
        guard.start(handle);
        num_accesses = 0;
    }
    pages(const pages &) = delete;
    pages &operator=(const pages &) = delete;
    ~pages() {
        guard.forget(addr(0), addr(NUM_PAGES));
        munmap(const_cast<char *>(memory), NUM_PAGES * size);
    }
    [[nodiscard]] std::uintptr_t addr(std::size_t page, std::size_t offset = 0) const {
        return reinterpret_cast<std::uintptr_t>(memory) + page * size + offset;
    }
    char read(std::size_t page, std::size_t offset = 0) const {
        return memory[page * size + offset];
    }
    void write(std::size_t page, std::size_t offset = 0) const { memory[page * size + offset] = 1; }
};

void target_cannot_be_read_nor_written(void **) {
    const pages p;
    guard.protect(p.addr(1), p.addr(3), memory_use::TARGET);
    p.read(1, 5);
    assert_int_equal(num_accesses, 1);
    assert_int_equal(last_access.addr, p.addr(1, 5));
    assert_false(last_access.is_write);
    p.write(2, 7);
    assert_int_equal(num_accesses, 2);
    assert_int_equal(p.read(2, 7), 1);
#ifdef __x86_64__
    assert_true(last_access.is_write);
#endif
    p.write(2, 8); // it is open now
    p.write(0);
    p.write(3);
    assert_int_equal(num_accesses, 2);
}

void source_can_be_read(void **) {
    const pages p;
    guard.protect(p.addr(0), p.addr(1), memory_use::SOURCE);
    p.read(0);
    assert_int_equal(num_accesses, 0);
    p.write(0);
    assert_int_equal(num_accesses, 1);
}

void parts_of_pages_are_not_protected(void **) {
    const pages p;
    guard.protect(p.addr(0, 1), p.addr(2, 8), memory_use::TARGET);
    p.write(0, 1);
    p.write(2, 7);
    assert_int_equal(num_accesses, 0);
    p.write(1);
    assert_int_equal(num_accesses, 1);
    guard.protect(p.addr(4, 1), p.addr(4, 9), memory_use::TARGET);
    p.write(4, 1);
    assert_int_equal(num_accesses, 1);
}

void pages_are_protected_until_the_last_release(void **) {
    const pages p;
    guard.protect(p.addr(0), p.addr(4), memory_use::SOURCE);
    guard.protect(p.addr(2), p.addr(6), memory_use::TARGET);
    guard.protect(p.addr(3), p.addr(5), memory_use::TARGET);
    guard.release(p.addr(2), p.addr(6), memory_use::TARGET);
    p.write(5);
    p.read(2); // a source now
    assert_int_equal(num_accesses, 0);
    p.read(3); // still a target
    p.write(2);
    assert_int_equal(num_accesses, 2);
    guard.release(p.addr(3), p.addr(5), memory_use::TARGET);
    guard.release(p.addr(0), p.addr(4), memory_use::SOURCE);
    for (std::size_t i = 0; i < NUM_PAGES; ++i)
        p.write(i);
    assert_int_equal(num_accesses, 2);
    assert_false(guard.is_protected(p.addr(3)));
}

void lent_pages_are_protected_again(void **) {
    const pages p;
    guard.protect(p.addr(0), p.addr(2), memory_use::SOURCE);
    guard.protect(p.addr(2), p.addr(4), memory_use::TARGET);
    guard.lend(p.addr(0, 10), p.addr(5, 10), [&] {
        for (std::size_t page = 0; page < 6; ++page)
            p.write(page);
    });
    p.write(4);
    p.read(1);
    assert_int_equal(num_accesses, 0);
    p.write(0);
    p.read(3);
    assert_int_equal(num_accesses, 2);
}

void forgotten_pages_are_open(void **) {
    const pages p;
    guard.protect(p.addr(0), p.addr(4), memory_use::TARGET);
    guard.forget(p.addr(1, 3), p.addr(1, 4)); // all of page 1
    p.write(1);
    assert_int_equal(num_accesses, 0);
    guard.release(p.addr(0), p.addr(4), memory_use::TARGET);
    p.write(0);
    p.write(3);
    assert_int_equal(num_accesses, 0);
}

/// How a child ends that runs the function.
template <class function>
int status_of_child(function run) {
    const pid_t child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
}

void fault_of_the_program_ends_it(void **) {
    const pages p;
    const int status = status_of_child([&] {
        std::signal(SIGSEGV, SIG_DFL);
        static page_guard second;
        second.start(handle);
        mprotect(const_cast<char *>(p.memory), p.size, PROT_READ);
        p.write(0);
    });
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

/// In a child, since handlers cannot be removed: the first one was there before the guard's.
void fault_of_the_program_reaches_its_handler(void **) {
    constexpr int STATUS = 3;
    const int status = status_of_child([] {
        std::signal(SIGSEGV, [](int) { _exit(STATUS); });
        static page_guard second;
        second.start(handle);
        const pages p;
        mprotect(const_cast<char *>(p.memory), p.size, PROT_NONE);
        p.write(0);
    });
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), STATUS);
}

/// A handler that the program installs later would get the accesses.
void nothing_is_protected_without_the_handler(void **) {
    const int status = status_of_child([] {
        const pages p;
        std::signal(SIGSEGV, SIG_DFL);
        guard.protect(p.addr(0), p.addr(1), memory_use::TARGET);
        p.write(0);
    });
    assert_int_equal(status, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(target_cannot_be_read_nor_written),
        cmocka_unit_test(source_can_be_read),
        cmocka_unit_test(parts_of_pages_are_not_protected),
        cmocka_unit_test(pages_are_protected_until_the_last_release),
        cmocka_unit_test(lent_pages_are_protected_again),
        cmocka_unit_test(forgotten_pages_are_open),
        cmocka_unit_test(fault_of_the_program_ends_it),
        cmocka_unit_test(fault_of_the_program_reaches_its_handler),
        cmocka_unit_test(nothing_is_protected_without_the_handler),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
