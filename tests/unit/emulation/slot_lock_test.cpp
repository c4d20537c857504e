// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The lock of a slot, in programs that close descriptors which are not theirs.

#include "cache_fixture.hpp"
#include "core/memory/slot_lock.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace emulation_test;

namespace {

int make_file(const char *name) {
    const int fd = memfd_create(name, MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

void slot_of_a_closed_file_is_taken(void **) {
    const int fd = make_file("slots");
    assert_false(is_slot_locked(fd, 0));
    close(fd);
    assert_true(is_slot_locked(fd, 0));
}

void child_keeps_file_that_has_the_number_of_a_closed_one(void **) {
    const int fd = make_file("slots");
    close_at_fork(fd);
    close(fd); // as closefrom() in a program does
    assert_int_equal(make_file("program"), fd);
    const pid_t child = fork();
    if (child == 0)
        _exit(fcntl(fd, F_GETFD) < 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_slot_file(fd);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}

void child_has_no_file_of_slots(void **) {
    const int fd = make_file("slots");
    close_at_fork(fd);
    const pid_t child = fork();
    if (child == 0)
        _exit(fcntl(fd, F_GETFD) >= 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_slot_file(fd);
    assert_true(fcntl(fd, F_GETFD) < 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(slot_of_a_closed_file_is_taken),
        cmocka_unit_test(child_keeps_file_that_has_the_number_of_a_closed_one),
        cmocka_unit_test(child_has_no_file_of_slots),
    };
    return cmocka_run_group_tests_name("slot_lock", tests, nullptr, nullptr);
}
