// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether memory can be read, by either way of asking. This program has a syscall() of its own, to
// play kernels that do not do what is expected of them.

#include <array>
#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "readable.hpp"

extern "C" {
#include <cmocka.h>
}

using coherdma::registry::readable;

namespace {

enum class kernel { as_it_is, without_futex, blind } played;
int asked;

} // namespace

// It takes six arguments however many were given, as the C library's does.
extern "C" [[gnu::no_sanitize_address]] long syscall(long number, ...) noexcept {
    using function = long(long, long, long, long, long, long, long);
    static auto *const real = reinterpret_cast<function *>(dlsym(RTLD_NEXT, "syscall"));
    std::array<long, 6> given;
    std::va_list rest;
    va_start(rest, number);
    for (long &each : given)
        each = va_arg(rest, long);
    va_end(rest);
    asked += number == SYS_futex ? 1 : 0;
    if (number == SYS_futex && played != kernel::as_it_is) {
        errno = played == kernel::blind ? EAGAIN : ENOSYS;
        return -1;
    }
    return real(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

namespace {

constexpr std::size_t PAGE = 4096;

char *mapped(int protection) {
    void *memory = mmap(nullptr, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        _exit(102);
    return static_cast<char *>(memory);
}

const void *at(std::uintptr_t address) {
    return reinterpret_cast<const void *>(address);
}

int number_of_files() {
    const int next = dup(0); // the lowest that is free
    close(next);
    return next;
}

/// The number of the first answer that is wrong; 0 if none is.
int wrong_answer() {
    const int files = number_of_files();
    char *const good = mapped(PROT_READ), *const hidden = mapped(PROT_NONE),
                *const gone = mapped(PROT_READ | PROT_WRITE);
    munmap(gone, PAGE);
    const long words[3] = {0, 1, -1};
    // What a futex has that somebody waits for, and the value that is asked for.
    const std::uint32_t unlikely[2] = {0x9E3779B9, 0};
    const void *const this_code =
        at(reinterpret_cast<std::uintptr_t>(&wrong_answer) & ~std::uintptr_t{7});
    const void *const can[] = {good,      good + PAGE - 8, words,    words + 1,
                               words + 2, unlikely,        this_code};
    const void *const cannot[] = {nullptr,
                                  at(8),
                                  at(4096),
                                  hidden,
                                  hidden + PAGE - 8,
                                  gone,
                                  at(std::uintptr_t{1} << 63),
                                  at(~std::uintptr_t{7}),
                                  at(0xffffffff81000000)};
    int number = 0;
    for (int round = 0; round < 2; ++round) {
        for (const void *each : can) {
            errno = EDOM;
            ++number;
            if (!readable(each) || errno != EDOM)
                return number;
        }
        for (const void *each : cannot) {
            errno = EDOM;
            ++number;
            if (readable(each) || errno != EDOM)
                return number;
        }
    }
    munmap(hidden, PAGE);
    munmap(good, PAGE);
    return files == number_of_files() ? 0 : 100;
}

/// The way is chosen once in a process.
void in_a_process(kernel which, bool by_futex) {
    const pid_t child = fork();
    if (child == 0) {
        played = which;
        const int wrong = wrong_answer();
        _exit(wrong != 0 ? wrong : (asked > 2) == by_futex ? 0 : 101);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

void by_futex(void **) {
    in_a_process(kernel::as_it_is, true);
}

void by_pipe(void **) {
    in_a_process(kernel::without_futex, false);
    in_a_process(kernel::blind, false);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {cmocka_unit_test(by_futex), cmocka_unit_test(by_pipe)};
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
