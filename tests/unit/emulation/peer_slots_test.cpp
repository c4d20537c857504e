// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests between processes, some of which are stopped, slow or killed.

#include "../cmocka.hpp"
#include "core/peers/peer_slots.hpp"

#include <atomic>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <new>
#include <random>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace coherdma::emulation;

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using answer = peer_slots::answer;

constexpr std::uint32_t DRIVER = 7, RKEY = 0x1234;
constexpr std::uint64_t IOVA = 0x10000, LENGTH = 4096;
constexpr peer_slots::timeouts NEVER = {.begin = hours(1), .end = hours(1)};
constexpr peer_slots::timeouts SHORT = {.begin = milliseconds(200), .end = milliseconds(400)};

/// What processes of a test share.
struct shared_counts {
    std::atomic<int> checked, posted, refused;
    std::atomic<bool> leaves_something, has_findings;
    std::atomic<bool> blocks_checks; ///< while it is set, a check does not end
    std::atomic<bool> is_in_check;
};

std::string file_name() {
    return "coherdma-test-" + std::to_string(getpid());
}

/// The file and the counts of one test.
class test_file {
  public:
    test_file()
        : name(file_name())
        , counts(*new (mmap(nullptr, sizeof(shared_counts), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0)) shared_counts) {}
    ~test_file() {
        shm_unlink(name.c_str());
        munmap(&counts, sizeof counts);
    }
    test_file(const test_file &) = delete;
    test_file &operator=(const test_file &) = delete;

    [[nodiscard]] std::unique_ptr<peer_slots> open(peer_slots::timeouts limits = NEVER) const {
        std::string reason;
        auto slots = peer_slots::open(name, limits, reason);
        if (slots == nullptr)
            print_message("# %s\n", reason.c_str());
        return slots;
    }

    const std::string name;
    shared_counts &counts;
};

void wait_until(const std::function<bool()> &is_true) {
    while (!is_true())
        usleep(1000);
}

class left_in_test final : public unposted_request {
  public:
    explicit left_in_test(shared_counts &counts)
        : counts_(counts)
        , has_findings_(counts.has_findings) {}
    [[nodiscard]] bool has_findings() const noexcept override { return has_findings_; }
    void on_post() override { ++counts_.posted; }
    void on_refuse() override { ++counts_.refused; }

  private:
    shared_counts &counts_;
    const bool has_findings_;
};

std::unique_ptr<unposted_request> check(shared_counts &counts, const check_request &request) {
    counts.is_in_check = true;
    wait_until([&] { return !counts.blocks_checks; });
    counts.is_in_check = false;
    assert_int_equal(strnlen(request.text, MAX_PEER_TEXT), 5);
    ++counts.checked;
    return counts.leaves_something ? std::make_unique<left_in_test>(counts) : nullptr;
}

/// A child process that runs the function, which gets a descriptor to write to when it is ready.
class child_process {
  public:
    explicit child_process(const std::function<int(int ready_fd)> &function) {
        int ready[2];
        assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
        pid_ = fork();
        if (pid_ == 0) {
            close(ready[0]);
            _exit(function(ready[1]));
        }
        close(ready[1]);
        char byte;
        is_ready = read(ready[0], &byte, 1) == 1;
        close(ready[0]);
    }
    ~child_process() {
        if (pid_ != 0)
            end(SIGKILL);
    }
    child_process(const child_process &) = delete;
    child_process &operator=(const child_process &) = delete;

    void send(int signal) const { kill(pid_, signal); }
    void stop() const {
        send(SIGSTOP);
        int status;
        assert_int_equal(waitpid(pid_, &status, WUNTRACED), pid_);
        assert_true(WIFSTOPPED(status));
    }
    /// Returns the exit status, or 128 and the signal.
    int wait() {
        int status = 0;
        assert_int_equal(waitpid(std::exchange(pid_, 0), &status, 0) > 0, true);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    int end(int signal) {
        send(signal);
        return wait();
    }

    bool is_ready = false;

  private:
    pid_t pid_ = 0;
};

/// Publishes an rkey and answers; ends when its standard way out, SIGTERM, comes.
int run_owner(const test_file &file, int ready_fd, std::uint32_t rkey = RKEY) {
    sigset_t terminate;
    sigemptyset(&terminate);
    sigaddset(&terminate, SIGTERM);
    sigprocmask(SIG_BLOCK, &terminate, nullptr);
    const auto slots = file.open();
    if (slots == nullptr || slots->rkeys().add({.rkey = rkey,
                                                .driver_number = DRIVER,
                                                .iova = IOVA,
                                                .length = LENGTH,
                                                .publisher = 1}) != 0)
        return 1;
    std::thread([&] {
        slots->answer_requests(
            [&](const check_request &request) { return check(file.counts, request); });
    }).detach();
    if (write(ready_fd, "", 1) != 1)
        return 1;
    int signal;
    sigwait(&terminate, &signal);
    slots->close();
    return 0;
}

check_request request_of(std::uint64_t offset, std::uint32_t rkey = RKEY) {
    check_request request = {};
    request.memory = {.driver_number = DRIVER, .rkey = rkey, .addr = IOVA + offset, .length = 8};
    std::strcpy(request.text, "words");
    return request;
}

void owner_checks_its_memory_only(void **) {
    const test_file file;
    child_process owner([&](int ready) { return run_owner(file, ready); });
    assert_true(owner.is_ready);
    const auto slots = file.open();
    peer_slots::ticket left;
    for (const std::uint64_t offset : {std::uint64_t{0}, LENGTH - 8})
        assert_true(slots->request_check(request_of(offset), left) == answer::CHECKED);
    assert_int_equal(left.number, 0);
    for (const std::uint64_t offset : {std::uint64_t{0} - 8, LENGTH - 7, LENGTH})
        assert_true(slots->request_check(request_of(offset), left) == answer::NO_OWNER);
    assert_true(slots->request_check(request_of(0, RKEY + 1), left) == answer::NO_OWNER);
    assert_int_equal(file.counts.checked, 2);
    assert_int_equal(owner.end(SIGTERM), 0);
    assert_true(slots->request_check(request_of(0), left) == answer::NO_OWNER);
}

void two_owners_are_ambiguous(void **) {
    const test_file file;
    const child_process first([&](int ready) { return run_owner(file, ready); });
    child_process second([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open();
    peer_slots::ticket left;
    assert_true(slots->request_check(request_of(0), left) == answer::NO_OWNER);
    second.end(SIGKILL);
    assert_true(slots->request_check(request_of(0), left) == answer::CHECKED);
}

/// With findings the owner acts at once, else with the next request.
void what_a_check_left_counts_if_the_request_is_posted(void **) {
    const test_file file;
    file.counts.leaves_something = true;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open();
    int posted = 0, refused = 0;
    for (const bool has_findings : {true, false})
        for (int i = 0; i < 2000; ++i) { // more than there are tickets
            file.counts.has_findings = has_findings;
            peer_slots::ticket left;
            assert_true(slots->request_check(request_of(0), left) == answer::CHECKED);
            assert_int_not_equal(left.number, 0);
            assert_int_equal(left.has_findings, has_findings);
            const bool is_posted = i % 3 != 0;
            ++(is_posted ? posted : refused);
            slots->end_request(left, is_posted);
            slots->end_request(left, !is_posted); // without effect
        }
    peer_slots::ticket last;
    file.counts.leaves_something = false;
    slots->request_check(request_of(0), last);
    slots->request_check(request_of(0), last);
    wait_until([&] { return file.counts.posted >= posted && file.counts.refused >= refused; });
    assert_int_equal(file.counts.posted, posted);
    assert_int_equal(file.counts.refused, refused);
}

/// A program may begin any number of requests before it posts them.
void more_open_requests_than_tickets_count_as_posted(void **) {
    constexpr int NUM_REQUESTS = 1000;
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open();
    std::vector<peer_slots::ticket> left(NUM_REQUESTS);
    for (peer_slots::ticket &ticket : left)
        assert_true(slots->request_check(request_of(0), ticket) == answer::CHECKED);
    for (const peer_slots::ticket &ticket : left)
        slots->end_request(ticket, true);
    assert_int_equal(owner.end(SIGTERM), 0);
    assert_int_equal(file.counts.posted, NUM_REQUESTS);
}

void requester_that_dies_has_probably_posted(void **) {
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    child_process requester([&](int) {
        const auto slots = file.open();
        peer_slots::ticket left;
        return slots->request_check(request_of(0), left) == answer::CHECKED ? 0 : 1;
    });
    assert_int_equal(requester.wait(), 0);
    wait_until([&] { return file.counts.posted == 1; });
}

/// Its child of fork() is another process.
void requester_that_forks_and_dies_has_probably_posted(void **) {
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    int end[2];
    assert_int_equal(pipe2(end, O_CLOEXEC), 0);
    child_process requester([&](int ready) {
        close(ready); // the child would keep it
        const auto slots = file.open();
        peer_slots::ticket left;
        const bool is_checked = slots->request_check(request_of(0), left) == answer::CHECKED;
        if (fork() == 0) {
            char byte;
            close(end[1]);
            _exit(read(end[0], &byte, 1) == 0 ? 0 : 1);
        }
        return is_checked ? 0 : 1;
    });
    assert_int_equal(requester.wait(), 0);
    wait_until([&] { return file.counts.posted == 1; });
    close(end[0]);
    close(end[1]); // the child of the requester ends
}

void owner_that_executes_another_program_has_no_memory(void **) {
    const test_file file;
    child_process owner([&](int ready) {
        const auto slots = file.open();
        slots->rkeys().add({.rkey = RKEY, .driver_number = DRIVER, .iova = IOVA, .length = LENGTH});
        static_cast<void>(dup2(ready, STDOUT_FILENO)); // `yes` writes when it is executed
        execlp("yes", "yes", nullptr);
        return 1;
    });
    assert_true(owner.is_ready);
    const auto slots = file.open();
    peer_slots::ticket left;
    assert_true(slots->request_check(request_of(0), left) == answer::NO_OWNER);
    assert_int_equal(slots->own_index(), 0); // its slot is free
}

void owner_that_ends_reports_what_checks_left(void **) {
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open();
    peer_slots::ticket refused, open;
    assert_true(slots->request_check(request_of(0), refused) == answer::CHECKED);
    assert_true(slots->request_check(request_of(0), open) == answer::CHECKED);
    slots->end_request(refused, false);
    assert_int_equal(owner.end(SIGTERM), 0);
    assert_int_equal(file.counts.posted, 1);
    assert_int_equal(file.counts.refused, 1);
}

/// Requests on memory of a process whose slot another one takes at that moment are not lost: they
/// would be awaited for hours.
void slot_may_get_another_process_at_any_moment(void **) {
#ifdef COHERDMA_TSAN
    skip(); // TSan does not support threads in a child that is forked beside another thread
#endif
    constexpr int NUM_OWNERS = 200;
    const test_file file;
    const auto slots = file.open();
    std::atomic<bool> ends = false;
    std::atomic<int> num_unchecked = 0;
    std::thread requester([&] {
        for (peer_slots::ticket left; !ends;)
            if (slots->request_check(request_of(0), left) == answer::UNCHECKED)
                ++num_unchecked;
    });
    for (int i = 0; i < NUM_OWNERS; ++i) {
        child_process owner([&](int ready) { return run_owner(file, ready); });
        assert_true(owner.is_ready);
        owner.end(SIGKILL);
    }
    ends = true;
    requester.join();
    assert_int_equal(num_unchecked, 0);
}

/// Else this test would take hours.
void killed_owner_is_not_waited_for(void **) {
    const test_file file;
    file.counts.blocks_checks = true;
    child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open();
    std::thread killer([&] {
        wait_until([&] { return file.counts.is_in_check.load(); });
        owner.end(SIGKILL);
    });
    peer_slots::ticket left;
    assert_true(slots->request_check(request_of(0), left) == answer::NO_OWNER);
    killer.join();
    assert_true(slots->request_check(request_of(0), left) == answer::NO_OWNER);
}

/// Else this test would take hours.
void stopped_owner_is_waited_for_once(void **) {
    const test_file file;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open({.begin = milliseconds(300), .end = milliseconds(300)});
    peer_slots::ticket left;
    assert_true(slots->request_check(request_of(0), left) == answer::CHECKED);
    owner.stop();
    for (int i = 0; i < 10000; ++i)
        assert_true(slots->request_check(request_of(0), left) == answer::UNCHECKED);
    owner.send(SIGCONT);
    wait_until([&] { return slots->request_check(request_of(0), left) == answer::CHECKED; });
}

/// While one check takes longer than the time to begin one, those behind it are awaited.
void requests_behind_a_long_check_are_checked(void **) {
    constexpr int NUM_THREADS = 8; // more than a process has mailboxes
    constexpr peer_slots::timeouts LIMITS = {.begin = milliseconds(1000), .end = hours(1)};
    const test_file file;
    file.counts.blocks_checks = true;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto first = file.open(), others = file.open(LIMITS);
    std::vector<std::thread> threads;
    std::atomic<int> checked = 0;
    for (int i = 0; i < NUM_THREADS; ++i) {
        threads.emplace_back([&, i] {
            peer_slots::ticket left;
            if ((i == 0 ? first : others)->request_check(request_of(0), left) == answer::CHECKED)
                ++checked;
        });
        wait_until([&] { return file.counts.is_in_check.load(); });
    }
    std::this_thread::sleep_for(LIMITS.begin * 3 / 2);
    file.counts.blocks_checks = false;
    for (std::thread &thread : threads)
        thread.join();
    assert_int_equal(checked, NUM_THREADS);
}

/// Its requester posts unchecked; it may not be the same request that is posted later.
void check_that_ends_too_late_is_dropped(void **) {
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    file.counts.blocks_checks = true;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    const auto slots = file.open(SHORT);
    peer_slots::ticket left;
    assert_true(slots->request_check(request_of(0), left) == answer::UNCHECKED);
    assert_int_equal(left.number, 0);
    file.counts.blocks_checks = false;
    wait_until([&] { return file.counts.refused == 1; });
    assert_int_equal(file.counts.posted, 0);
    file.counts.leaves_something = false;
    wait_until([&] { return slots->request_check(request_of(0), left) == answer::CHECKED; });
}

/// A process with a slot is killed at any moment, as owner or requester: others are checked.
void processes_are_killed_at_any_moment(void **) {
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    const child_process owner([&](int ready) { return run_owner(file, ready); });
    std::mt19937 random(1);
    const auto slots = file.open();
    peer_slots::ticket left;
    for (int i = 0; i < 100; ++i) {
        child_process requester([&](int ready) {
            const auto slots_of_child = file.open();
            if (slots_of_child == nullptr || write(ready, "", 1) != 1)
                return 1;
            for (bool is_posted = true;; is_posted = !is_posted) {
                peer_slots::ticket ticket;
                slots_of_child->request_check(request_of(0), ticket);
                slots_of_child->end_request(ticket, is_posted);
            }
        });
        child_process other_owner([&](int ready) {
            const auto slots_of_child = file.open();
            if (slots_of_child == nullptr || write(ready, "", 1) != 1)
                return 1;
            for (std::uint32_t rkey = RKEY + 1;; ++rkey) {
                slots_of_child->rkeys().add(
                    {.rkey = rkey, .driver_number = DRIVER, .iova = 0, .length = 8});
                if (rkey % 16 != 0)
                    slots_of_child->rkeys().remove(DRIVER, rkey, 0);
            }
        });
        assert_true(requester.is_ready && other_owner.is_ready);
        usleep(static_cast<useconds_t>(random() % 3000));
        requester.end(SIGKILL);
        other_owner.end(SIGKILL);
        assert_true(slots->request_check(request_of(0), left) == answer::CHECKED);
        slots->end_request(left, true);
    }
}

/// A process of the same user that writes anything there: others neither crash nor hang.
void any_bytes_in_the_file_are_survived(void **) {
    const test_file file;
    file.counts.leaves_something = file.counts.has_findings = true;
    child_process owner([&](int ready) {
        const auto slots = file.open();
        if (slots == nullptr || write(ready, "", 1) != 1)
            return 1;
        std::thread([&] {
            slots->answer_requests(
                [&](const check_request &) { return std::make_unique<left_in_test>(file.counts); });
        }).detach();
        for (std::uint32_t rkey = 0;; ++rkey) {
            slots->rkeys().add({.rkey = rkey, .driver_number = DRIVER, .iova = 0, .length = 8});
            slots->rkeys().remove(DRIVER, rkey - 100, 0);
        }
        return 0;
    });
    child_process requester([&](int ready) {
        const auto slots = file.open({.begin = milliseconds(1), .end = milliseconds(1)});
        if (slots == nullptr || write(ready, "", 1) != 1)
            return 1;
        for (std::uint32_t rkey = 0;; ++rkey) {
            check_request request = request_of(0, rkey);
            request.memory.addr = 0;
            peer_slots::ticket left;
            slots->request_check(request, left);
            slots->end_request(left, true);
            ++file.counts.checked;
        }
    });
    assert_true(owner.is_ready && requester.is_ready);
    const int fd = shm_open(file.name.c_str(), O_RDWR | O_CLOEXEC, 0);
    assert_true(fd >= 0);
    std::mt19937_64 random(1);
    const std::size_t slot_size = peer_slots::mapped_size() / peer_slots::NUM_SLOTS;
    for (int i = 0; i < 200000; ++i) {
        const std::uint64_t word = random() % 4 == 0 ? random() : random() % 8;
        const bool is_table = i % 8 == 0;
        const std::uint64_t offset =
            is_table ? peer_slots::mapped_size() + random() % 16384 : random() % (3 * slot_size);
        assert_int_equal(pwrite(fd, &word, 1 + random() % 8, static_cast<off_t>(offset)) > 0, true);
    }
    const int num_before = file.counts.checked;
    wait_until([&] { return file.counts.checked > num_before + 10; });
    close(fd);
    assert_int_equal(requester.end(SIGKILL), 128 + SIGKILL);
    assert_int_equal(owner.end(SIGKILL), 128 + SIGKILL);
}

void file_of_another_layout_is_kept(void **) {
    const test_file file;
    assert_true(file.open() != nullptr);
    const int fd = shm_open(file.name.c_str(), O_RDWR | O_CLOEXEC, 0);
    std::string reason;
    const std::uint32_t magic = 1;
    assert_int_equal(pwrite(fd, &magic, sizeof magic, 0), sizeof magic);
    assert_true(peer_slots::open(file.name, NEVER, reason) == nullptr);
    assert_non_null(std::strstr(reason.c_str(), "is of another version"));
    assert_int_equal(ftruncate(fd, 65536), 0);
    assert_true(peer_slots::open(file.name, NEVER, reason) == nullptr);
    struct stat status = {};
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_size, 65536);
    close(fd);
}

/// Else the kernel would send SIGXFSZ.
void limited_file_size_is_a_reason(void **) {
    const test_file file;
    child_process limited([&](int) {
        const rlimit limit = {.rlim_cur = 65536, .rlim_max = 65536};
        std::string reason;
        return setrlimit(RLIMIT_FSIZE, &limit) == 0 &&
                       peer_slots::open(file.name, NEVER, reason) == nullptr
                   ? 0
                   : 1;
    });
    assert_int_equal(limited.wait(), 0);
}

void slots_of_ended_processes_are_free(void **) {
    const test_file file;
    std::vector<std::unique_ptr<peer_slots>> all;
    for (unsigned i = 0; i < peer_slots::NUM_SLOTS; ++i) {
        all.push_back(file.open());
        assert_int_equal(all.back()->own_index(), i);
    }
    std::string reason;
    assert_true(peer_slots::open(file.name, NEVER, reason) == nullptr);
    assert_string_equal(reason.c_str(), "more than 64 processes emulate devices");
    all[5] = nullptr;
    assert_int_equal(file.open()->own_index(), 5);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(owner_checks_its_memory_only),
        cmocka_unit_test(two_owners_are_ambiguous),
        cmocka_unit_test(what_a_check_left_counts_if_the_request_is_posted),
        cmocka_unit_test(more_open_requests_than_tickets_count_as_posted),
        cmocka_unit_test(requester_that_dies_has_probably_posted),
        cmocka_unit_test(requester_that_forks_and_dies_has_probably_posted),
        cmocka_unit_test(owner_that_executes_another_program_has_no_memory),
        cmocka_unit_test(owner_that_ends_reports_what_checks_left),
        cmocka_unit_test(slot_may_get_another_process_at_any_moment),
        cmocka_unit_test(killed_owner_is_not_waited_for),
        cmocka_unit_test(stopped_owner_is_waited_for_once),
        cmocka_unit_test(requests_behind_a_long_check_are_checked),
        cmocka_unit_test(check_that_ends_too_late_is_dropped),
        cmocka_unit_test(processes_are_killed_at_any_moment),
        cmocka_unit_test(any_bytes_in_the_file_are_survived),
        cmocka_unit_test(file_of_another_layout_is_kept),
        cmocka_unit_test(limited_file_size_is_a_reason),
        cmocka_unit_test(slots_of_ended_processes_are_free),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
