// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Cookies of shared-memory LMRs: all processes agree on the memory of a cookie.

#include "dapl/memory/shm_lmr.hpp"

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

constexpr DAT_RETURN other_memory = invalid_state(DAT_NO_SUBTYPE);

struct cookie_id {
    explicit cookie_id(const char *name) {
        // Unique per test run, as tests run in parallel.
        std::snprintf(bytes, sizeof bytes, "%s %d", name, test_run);
    }
    static const int test_run;
    shm_cookie_lock::cookie bytes = {};
};
const int cookie_id::test_run = getpid();

shared_range range(std::uint64_t inode) {
    return {1, inode, 0, 4096};
}

DAT_RETURN try_lock_cookie(const cookie_id &cookie, const shared_range &memory) {
    DAT_RETURN result = DAT_SUCCESS;
    const auto lock = shm_cookie_lock::acquire(cookie.bytes, memory, result);
    assert_int_equal(lock != nullptr, result == DAT_SUCCESS);
    return result;
}

/// The number of cookie files of this test run.
unsigned count_cookie_files() {
    const std::string prefix = "coherdma-lmr-" + std::to_string(geteuid());
    unsigned count = 0;
    std::string run_id;
    for (const char i : std::to_string(cookie_id::test_run)) {
        char hex[3];
        std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(i));
        run_id += hex;
    }
    DIR *const folder = opendir("/dev/shm");
    assert_non_null(folder);
    while (const dirent *i = readdir(folder)) {
        const std::string name = i->d_name;
        count += name.starts_with(prefix) && name.find(run_id) != std::string::npos;
    }
    closedir(folder);
    return count;
}

/// A process that holds a cookie until end() or kill_process().
class holder_process {
  public:
    holder_process(const cookie_id &cookie, const shared_range &memory) {
        int result_pipe[2], end_pipe[2];
        assert_int_equal(pipe(result_pipe), 0);
        assert_int_equal(pipe(end_pipe), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            close(end_pipe[1]);
            auto lock = shm_cookie_lock::acquire(cookie.bytes, memory, result);
            if (write(result_pipe[1], &result, sizeof result) != sizeof result)
                _exit(1);
            char end;
            _exit(read(end_pipe[0], &end, 1) == 1 && (lock.reset(), true) ? 0 : 1);
        }
        close(result_pipe[1]);
        close(end_pipe[0]);
        assert_int_equal(read(result_pipe[0], &result, sizeof result), sizeof result);
        close(result_pipe[0]);
        end_fd = end_pipe[1];
    }
    void end() {
        assert_int_equal(write(end_fd, "", 1), 1);
        reap();
    }
    void kill_process() {
        kill(child, SIGKILL);
        reap();
    }
    DAT_RETURN result = DAT_SUCCESS;

  private:
    void reap() {
        int status;
        waitpid(child, &status, 0);
        close(end_fd);
    }
    pid_t child = -1;
    int end_fd = -1;
};

/// While a process holds a cookie for a range, another process gets it for the same range only.
void cookie_means_same_memory_in_all_processes(void **) {
    const cookie_id cookie("agree");
    holder_process holder(cookie, range(7));
    assert_int_equal(holder.result, DAT_SUCCESS);
    assert_int_equal(try_lock_cookie(cookie, range(7)), DAT_SUCCESS);
    assert_int_equal(try_lock_cookie(cookie, range(8)), other_memory);
    assert_int_equal(try_lock_cookie(cookie_id("disagree"), range(8)), DAT_SUCCESS);
    holder.end();
    assert_int_equal(try_lock_cookie(cookie, range(8)), DAT_SUCCESS);
    assert_int_equal(count_cookie_files(), 0);
}

/// The file of a cookie exists while a process holds it.
void last_holder_removes_cookie(void **) {
    const cookie_id cookie("last");
    DAT_RETURN result = DAT_SUCCESS;
    auto lock = shm_cookie_lock::acquire(cookie.bytes, range(7), result);
    assert_int_equal(result, DAT_SUCCESS);
    holder_process holder(cookie, range(7));
    assert_int_equal(holder.result, DAT_SUCCESS);
    lock.reset();
    assert_int_equal(count_cookie_files(), 1);
    assert_int_equal(try_lock_cookie(cookie, range(8)), other_memory);
    holder.end();
    assert_int_equal(count_cookie_files(), 0);
}

void cookie_of_killed_process_freed(void **) {
    const cookie_id cookie("dead");
    holder_process holder(cookie, range(7));
    holder.kill_process();
    assert_int_equal(try_lock_cookie(cookie, range(8)), DAT_SUCCESS);
    assert_int_equal(count_cookie_files(), 0);
}

void forked_child_holds_no_parent_cookie(void **) {
    const cookie_id cookie("child"), child_cookie("of the child");
    DAT_RETURN result = DAT_SUCCESS;
    auto lock = shm_cookie_lock::acquire(cookie.bytes, range(7), result);
    assert_int_equal(result, DAT_SUCCESS);
    holder_process child(child_cookie, range(9)); // forked while the parent holds its cookie
    assert_int_equal(child.result, DAT_SUCCESS);
    lock.reset();
    assert_int_equal(try_lock_cookie(cookie, range(8)), DAT_SUCCESS);
    child.end();
    assert_int_equal(count_cookie_files(), 0);
}

/// Processes with two different ranges compete for a cookie: never do both kinds hold it at a time.
void concurrent_holders_never_disagree(void **) {
    const cookie_id cookie("rush");
    auto *const shared_counts = static_cast<std::atomic<int> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    assert_true(shared_counts != MAP_FAILED);
    constexpr unsigned num_processes = 6, num_rounds = 400;
    for (unsigned i = 0; i != num_processes; ++i) {
        if (fork() != 0)
            continue;
        const unsigned kind = i % 2, other_kind = 1 - kind;
        unsigned num_errors = 0;
        // Continues until both kinds have held it: on a busy machine one kind can always be late.
        for (unsigned round = 0;
             round < num_rounds || shared_counts[2] == 0 || shared_counts[3] == 0; ++round) {
            DAT_RETURN result = DAT_SUCCESS;
            const auto lock = shm_cookie_lock::acquire(cookie.bytes, range(kind), result);
            if (lock == nullptr) {
                num_errors += result != other_memory;
                continue;
            }
            ++shared_counts[kind];
            ++shared_counts[2 + kind];
            num_errors += shared_counts[other_kind] != 0;
            --shared_counts[kind];
        }
        _exit(num_errors == 0 ? 0 : 1);
    }
    for (unsigned i = 0; i != num_processes; ++i) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_true(shared_counts[2] > 0 && shared_counts[3] > 0);
    assert_int_equal(count_cookie_files(), 0);
    munmap(shared_counts, 4096);
}

/// find_shared_range() finds the file and offset of a range that is one shared mapping, or several
/// adjacent ones.
void shared_ranges_found_in_kernel_maps(void **) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const int file = memfd_create("shared", MFD_CLOEXEC);
    assert_int_equal(ftruncate(file, static_cast<off_t>(4 * size)), 0);
    auto *const addr =
        static_cast<char *>(mmap(nullptr, 4 * size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    assert_true(addr != MAP_FAILED);
    shared_range whole, part;
    assert_true(find_shared_range(addr, 4 * size, whole));
    assert_int_equal(whole.length, 4 * size);
    assert_true(find_shared_range(addr + size + 5, 100, part));
    assert_int_equal(part.inode, whole.inode);
    assert_int_equal(part.offset, size + 5);
    // Two mappings of one contiguous range; then one in between that is not contiguous.
    assert_int_equal(mprotect(addr + size, size, PROT_READ), 0);
    assert_true(find_shared_range(addr, 4 * size, part) && part == whole);
    assert_ptr_not_equal(mmap(addr + size, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0),
                         MAP_FAILED);
    assert_false(find_shared_range(addr, 4 * size, part));
    assert_true(find_shared_range(addr + 2 * size, 2 * size, part));
    munmap(addr, 4 * size);
    assert_false(find_shared_range(addr, size, part));
    assert_false(find_shared_range(&whole, sizeof whole, part)); // the stack
    close(file);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(cookie_means_same_memory_in_all_processes),
        cmocka_unit_test(last_holder_removes_cookie),
        cmocka_unit_test(cookie_of_killed_process_freed),
        cmocka_unit_test(forked_child_holds_no_parent_cookie),
        cmocka_unit_test(concurrent_holders_never_disagree),
        cmocka_unit_test(shared_ranges_found_in_kernel_maps),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
