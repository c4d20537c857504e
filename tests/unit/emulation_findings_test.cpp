// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How findings are told: how often, where, and a summary of them.

#include "emulation_finding.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

using namespace emulation_test;

namespace {

/// What a child of this program writes to its stderr.
template <typename F>
std::string heard(const F &says) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        says();
        _exit(0);
    }
    close(ends[1]);
    std::string all;
    std::array<char, 4096> part;
    for (ssize_t got; (got = read(ends[0], part.data(), part.size())) > 0;)
        all.append(part.data(), static_cast<std::size_t>(got));
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return all;
}

void told_in_full_up_to_a_limit(void **) {
    const file log;
    settings asked;
    asked.limit = 2;
    asked.log = log.name();
    const std::string all = heard([&] {
        findings one(asked);
        finding other = some();
        other.request.there = {"elsewhere (/usr/bin/rping+0x9)"};
        for (int each = 0; each < 5; ++each)
            one.tell(some());
        one.tell(other); // from another site
        one.tell(some(kind::STALE));
        if (one.finish() != 7 || one.finish() != 7)
            _exit(1);
    });
    assert_int_equal(times(all, "coherdma: UNSYNCED WRITE"), 3);
    assert_int_equal(times(all, "coherdma: STALE"), 1);
    const std::string summary = "coherdma: emulation: 7 findings\n"
                                "         6  unsynced-write  sync_rdma_write before the Write\n"
                                "         1  stale           sync_rdma_write after the Write\n"
                                "         3  repeated        only counted, after others of the "
                                "same site\n"
                                "  as JSON: " +
                                log.name() + "\n";
    assert_string_equal(all.substr(all.find("coherdma: emulation")).c_str(), summary.c_str());
    const auto lines = log.lines();
    assert_int_equal(lines.size(), 5);
    assert_int_equal(lines[0]["repeated"].get<int>(), 0);
    assert_int_equal(lines[1]["repeated"].get<int>(), 1);
    assert_int_equal(lines[2]["repeated"].get<int>(), 0);
    assert_string_equal(lines[4]["coherdma"].get<std::string>().c_str(), "summary");
    assert_int_equal(lines[4]["findings"].get<int>(), 7);
    assert_int_equal(lines[4]["kinds"]["unsynced-write"].get<int>(), 6);
    assert_int_equal(lines[4]["repeated"].get<int>(), 3);
}

/// Without a request it is the last sync, and the place of registration, that make a site.
void sites(void **) {
    settings asked;
    asked.limit = 1;
    const std::string all = heard([&] {
        findings one(asked);
        for (const bool mine : {false, true, true}) {
            finding next = some(kind::CONFLICT);
            next.request = {};
            if (mine)
                next.last_sync.words = "sync_rdma_read", next.last_sync.where = trace::here();
            one.tell(next);
            next.in.registered = trace::here();
            one.tell(next);
        }
        one.finish();
    });
    assert_int_equal(times(all, "coherdma: CONFLICT"), 4);
    assert_int_equal(times(all, " 2  repeated"), 1);
}

void nothing_was_found(void **) {
    assert_string_equal(heard([] {
                            findings one(settings{});
                            if (one.finish() != 0)
                                _exit(1);
                        }).c_str(),
                        "coherdma: emulation: nothing was found\n");
}

void notes_are_told_once(void **) {
    assert_string_equal(heard([] {
                            findings one(settings{});
                            one.note("a");
                            one.note("b\x1b");
                            one.note("a");
                        }).c_str(),
                        "coherdma: a\ncoherdma: b?\n");
}

void a_log_of_each_process(void **) {
    const file some_file;
    const std::string name = some_file.name();
    settings asked;
    asked.log = name + ".%p";
    std::string first, second;
    heard([&] {
        findings one(asked);
        if (fork() == 0) {
            one.tell(some());
            _exit(0);
        }
        int status = 0;
        const pid_t child = wait(&status);
        one.tell(some());
        one.tell(some());
        struct stat of;
        const std::string mine = name + "." + std::to_string(getpid());
        const std::string its = name + "." + std::to_string(child);
        const auto count = [](const std::string &of_file) {
            return times(text_of(of_file), "\n");
        };
        const bool right = stat(mine.c_str(), &of) == 0 && (of.st_mode & 0777) == 0600 &&
                           count(mine) == 2 && count(its) == 1;
        unlink(mine.c_str());
        unlink(its.c_str());
        _exit(right ? 0 : 1);
    });
}

void a_log_that_cannot_be_is_told_once(void **) {
    settings asked;
    asked.log = "/tmp/coherdma-no-such-folder/%p";
    const std::string all = heard([&] {
        findings one(asked);
        one.tell(some());
        one.tell(some(kind::STALE));
        one.finish();
    });
    assert_int_equal(times(all, "coherdma: cannot write findings to /tmp/coherdma-no-such"), 1);
    assert_int_equal(times(all, "No such file"), 1);
    assert_int_equal(times(all, "as JSON"), 0);
    assert_int_equal(times(all, "coherdma: STALE"), 1);
}

/// A daemon has closed it: what it opens next is not what text is for.
void a_log_is_not_stderr(void **) {
    const file log;
    settings asked;
    asked.log = log.name();
    heard([&] {
        close(STDERR_FILENO);
        findings one(asked);
        one.tell(some());
        one.finish();
    });
    assert_int_equal(log.lines().size(), 2);
}

void suppressed_ones_are_counted(void **) {
    const file log, known("# of others\nstale\nunsynced-*\nconflict:rxe*:main # seen\n");
    settings asked;
    asked.log = log.name();
    asked.suppressions = known.name();
    const std::string all = heard([&] {
        findings one(asked);
        one.tell(some(kind::STALE));
        one.tell(some(kind::CONFLICT));
        one.tell(some(kind::DISCARDED));
        if (one.finish() != 1)
            _exit(1);
    });
    assert_int_equal(times(all, "coherdma: DISCARDED"), 1);
    assert_int_equal(times(all, "coherdma: STALE") + times(all, "coherdma: CONFLICT"), 0);
    assert_int_equal(times(all, "coherdma: emulation: 1 finding\n"), 1);
    assert_int_equal(times(all, " 2  suppressed"), 1);
    assert_int_equal(times(all, known.name() + ":3: 'unsynced-*' is no kind of finding"), 1);
    const auto lines = log.lines();
    assert_int_equal(lines.size(), 4);
    assert_true(lines[0]["suppressed"].get<bool>() && !lines[2]["suppressed"].get<bool>());
}

void threads_tell_each_a_line(void **) {
    constexpr std::size_t THREADS = 4, EACH = 100;
    const file log;
    settings asked;
    asked.log = log.name();
    asked.limit = 1000000;
    const std::string all = heard([&] {
        findings one(asked);
        std::vector<std::thread> tellers;
        for (std::size_t each = 0; each < THREADS; ++each)
            tellers.emplace_back([&] {
                for (std::size_t round = 0; round < EACH; ++round)
                    one.tell(some());
            });
        for (std::thread &each : tellers)
            each.join();
        if (one.finish() != THREADS * EACH)
            _exit(1);
    });
    assert_int_equal(log.lines().size(), THREADS * EACH + 1);
    assert_int_equal(times(all, "  last sync: none\ncoherdma: "), THREADS * EACH);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(told_in_full_up_to_a_limit),
        cmocka_unit_test(sites),
        cmocka_unit_test(nothing_was_found),
        cmocka_unit_test(notes_are_told_once),
        cmocka_unit_test(a_log_of_each_process),
        cmocka_unit_test(a_log_that_cannot_be_is_told_once),
        cmocka_unit_test(a_log_is_not_stderr),
        cmocka_unit_test(suppressed_ones_are_counted),
        cmocka_unit_test(threads_tell_each_a_line),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
