// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a cookie means among processes: agreed on by those who live, and by nobody else's leave.

#include "dapl/shared.hpp"

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <dirent.h>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::dapl;

namespace {

constexpr DAT_RETURN other_memory = wrong_state(DAT_NO_SUBTYPE);

struct id {
    explicit id(const char *words) {
        // Of this run alone, so that tests beside each other do not meet.
        std::snprintf(bytes, sizeof bytes, "%s %d", words, test_run);
    }
    static const int test_run;
    shared_meaning::cookie bytes = {};
};
const int id::test_run = getpid();

shared_range range(std::uint64_t inode) {
    return {1, inode, 0, 4096};
}

DAT_RETURN ask(const id &which, const shared_range &what) {
    DAT_RETURN result = DAT_SUCCESS;
    const auto held = shared_meaning::hold(which.bytes, what, result);
    assert_int_equal(held != nullptr, result == DAT_SUCCESS);
    return result;
}

/// Files of meanings of this run.
unsigned files() {
    const std::string prefix = "coherdma-lmr-" + std::to_string(geteuid());
    unsigned found = 0;
    std::string mark;
    for (const char each : std::to_string(id::test_run)) {
        char hex[3];
        std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(each));
        mark += hex;
    }
    DIR *const folder = opendir("/dev/shm");
    assert_non_null(folder);
    while (const dirent *each = readdir(folder)) {
        const std::string name = each->d_name;
        found += name.starts_with(prefix) && name.find(mark) != std::string::npos;
    }
    closedir(folder);
    return found;
}

/// A process that holds a meaning until it is told to end, or is killed.
class holder {
  public:
    holder(const id &which, const shared_range &what) {
        int said[2], go[2];
        assert_int_equal(pipe(said), 0);
        assert_int_equal(pipe(go), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(go[1]);
            auto held = shared_meaning::hold(which.bytes, what, result);
            if (write(said[1], &result, sizeof result) != sizeof result)
                _exit(1);
            char end;
            _exit(read(go[0], &end, 1) == 1 && (held.reset(), true) ? 0 : 1);
        }
        close(said[1]);
        close(go[0]);
        assert_int_equal(read(said[0], &result, sizeof result), sizeof result);
        close(said[0]);
        tell = go[1];
    }
    void ends() {
        assert_int_equal(write(tell, "", 1), 1);
        wait_for();
    }
    void is_killed() {
        kill(child, SIGKILL);
        wait_for();
    }
    DAT_RETURN result = DAT_SUCCESS;

  private:
    void wait_for() {
        int status;
        waitpid(child, &status, 0);
        close(tell);
    }
    pid_t child = -1;
    int tell = -1;
};

void processes_agree(void **) {
    const id one("agree");
    holder other(one, range(7));
    assert_int_equal(other.result, DAT_SUCCESS);
    assert_int_equal(ask(one, range(7)), DAT_SUCCESS);
    assert_int_equal(ask(one, range(8)), other_memory);
    assert_int_equal(ask(id("disagree"), range(8)), DAT_SUCCESS);
    other.ends();
    assert_int_equal(ask(one, range(8)), DAT_SUCCESS);
    assert_int_equal(files(), 0);
}

void the_last_that_means_it_takes_it_away(void **) {
    const id one("last");
    DAT_RETURN result = DAT_SUCCESS;
    auto held = shared_meaning::hold(one.bytes, range(7), result);
    assert_int_equal(result, DAT_SUCCESS);
    holder other(one, range(7));
    assert_int_equal(other.result, DAT_SUCCESS);
    held.reset();
    assert_int_equal(files(), 1);
    assert_int_equal(ask(one, range(8)), other_memory);
    other.ends();
    assert_int_equal(files(), 0);
}

void the_dead_mean_nothing(void **) {
    const id one("dead");
    holder other(one, range(7));
    other.is_killed();
    assert_int_equal(ask(one, range(8)), DAT_SUCCESS);
    assert_int_equal(files(), 0);
}

void a_child_does_not_hold_on(void **) {
    const id one("child"), another("of the child");
    DAT_RETURN result = DAT_SUCCESS;
    auto held = shared_meaning::hold(one.bytes, range(7), result);
    assert_int_equal(result, DAT_SUCCESS);
    holder child(another, range(9)); // it was forked while the parent held its own
    assert_int_equal(child.result, DAT_SUCCESS);
    held.reset();
    assert_int_equal(ask(one, range(8)), DAT_SUCCESS);
    child.ends();
    assert_int_equal(files(), 0);
}

/// Many processes come and go, and each second one means something else: never do two that mean
/// different things hold it at a time.
void nobody_slips_through(void **) {
    const id one("rush");
    auto *const inside = static_cast<std::atomic<int> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    assert_true(inside != MAP_FAILED);
    constexpr unsigned processes = 6, rounds = 400;
    for (unsigned each = 0; each != processes; ++each) {
        if (fork() != 0)
            continue;
        const unsigned mine = each % 2, others = 1 - mine;
        unsigned bad = 0;
        // Until both have had it once: on a busy machine those of one kind can always be late.
        for (unsigned round = 0; round < rounds || inside[2] == 0 || inside[3] == 0; ++round) {
            DAT_RETURN result = DAT_SUCCESS;
            const auto held = shared_meaning::hold(one.bytes, range(mine), result);
            if (held == nullptr) {
                bad += result != other_memory;
                continue;
            }
            ++inside[mine];
            ++inside[2 + mine];
            bad += inside[others] != 0;
            --inside[mine];
        }
        _exit(bad == 0 ? 0 : 1);
    }
    for (unsigned each = 0; each != processes; ++each) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_true(inside[2] > 0 && inside[3] > 0);
    assert_int_equal(files(), 0);
    munmap(inside, 4096);
}

void the_kernel_tells_what_is_shared(void **) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const int file = memfd_create("shared", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, static_cast<off_t>(4 * size)), 0);
    auto *const at =
        static_cast<char *>(mmap(nullptr, 4 * size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    assert_true(at != MAP_FAILED);
    shared_range whole, part;
    assert_true(find_shared(at, 4 * size, whole));
    assert_int_equal(whole.length, 4 * size);
    assert_true(find_shared(at + size + 5, 100, part));
    assert_int_equal(part.inode, whole.inode);
    assert_int_equal(part.offset, size + 5);
    // In two mappings, though one piece of the object; then with one in between that is not.
    assert_int_equal(mprotect(at + size, size, PROT_READ), 0);
    assert_true(find_shared(at, 4 * size, part) && part == whole);
    assert_ptr_not_equal(mmap(at + size, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0),
                         MAP_FAILED);
    assert_false(find_shared(at, 4 * size, part));
    assert_true(find_shared(at + 2 * size, 2 * size, part));
    munmap(at, 4 * size);
    assert_false(find_shared(at, size, part));
    assert_false(find_shared(&whole, sizeof whole, part)); // the stack
    close(file);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(processes_agree),
        cmocka_unit_test(the_last_that_means_it_takes_it_away),
        cmocka_unit_test(the_dead_mean_nothing),
        cmocka_unit_test(a_child_does_not_hold_on),
        cmocka_unit_test(nobody_slips_through),
        cmocka_unit_test(the_kernel_tells_what_is_shared),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
