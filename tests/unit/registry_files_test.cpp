// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where dat.conf is looked for, and what is said of it. The registry reads it once, so each
// question is put in a process of its own.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "records.hpp"
#include "registry_version.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}

namespace {

namespace fs = std::filesystem;
using coherdma::registry::records;

std::string folder;

std::string with(const char *name, const std::string &text) {
    const std::string path = folder + "/" + name;
    std::ofstream(path) << text;
    return path;
}

std::string record(const std::string &name) {
    return name + " u2.0 threadsafe default l.so s.1.0 x y\n";
}

struct answer {
    int records = -1;
    std::string said, out;
};

std::string all_of(int file) {
    std::string all;
    char some[4096];
    for (ssize_t got = 1; (got = read(file, some, sizeof some)) > 0;)
        all.append(some, static_cast<std::size_t>(got));
    close(file);
    return all;
}

/// How many records another process finds, and what it writes.
answer ask(const std::function<std::size_t()> &question) {
    int said[2], out[2];
    assert_int_equal(pipe2(said, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(said[1], STDERR_FILENO);
        dup2(out[1], STDOUT_FILENO);
        const std::size_t found = question();
        std::fflush(nullptr);
        _exit(static_cast<int>(found));
    }
    close(said[1]);
    close(out[1]);
    answer all;
    all.said = all_of(said[0]);
    all.out = all_of(out[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    all.records = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return all;
}

answer first_of(std::initializer_list<const char *> paths) {
    return ask([paths] {
        records found;
        read_first(paths, found);
        return found.all.size();
    });
}

answer named(const std::string &path) {
    setenv("DAT_OVERRIDE", path.c_str(), 1);
    const answer found = ask([] { return coherdma::registry::of_dat_conf().all.size(); });
    unsetenv("DAT_OVERRIDE");
    return found;
}

void says(const answer &found, int count, const std::string &words) {
    assert_int_equal(found.records, count);
    if (words.empty() ? !found.said.empty() : found.said.find(words) == std::string::npos)
        fail_msg("'%s' and not '%s'", found.said.c_str(), words.c_str());
    assert_string_equal(found.out.c_str(), ""); // it belongs to the program
}

void the_first_that_is_there(void **) {
    const std::string one = with("one", record("a")), two = with("two", record("b") + record("c")),
                      none = folder + "/none", below = one + "/below";
    says(first_of({one.c_str(), two.c_str()}), 1, "");
    says(first_of({none.c_str(), two.c_str(), one.c_str()}), 2, "");
    says(first_of({below.c_str(), two.c_str()}), 2, "");
    says(first_of({none.c_str()}), 0, "");
    // One that cannot be read is the one that counts.
    says(first_of({folder.c_str(), two.c_str()}), 0, folder + ": cannot be read: Is a directory\n");
}

void the_environment_names_another(void **) {
    says(named(with("named", record("a") + record("b") + record("c"))), 3, "");
    says(named(folder + "/none"), 0,
         std::string(registry_test::LIBRARY) + ": " + folder +
             "/none, named by DAT_OVERRIDE: there is no such file\n");
    says(named("/dev/null"), 0, "");
    says(named(folder), 0, "Is a directory");
    says(named("/dev/zero"), 0, "/dev/zero: cannot be read: File too large");
    const std::string pipe = folder + "/pipe";
    assert_int_equal(mkfifo(pipe.c_str(), 0600), 0);
    says(named(pipe), 0, ""); // nobody waits for a writer
}

void large_files(void **) {
    std::string text = record("a");
    text.append((std::size_t{1} << 20) - text.size(), '#');
    says(named(with("largest", text)), 1, "");
    says(named(with("larger", text + "#")), 0, "File too large");
}

void mistakes_are_told(void **) {
    const std::string path =
        with("bad", record("a") + "\nb 2.0 threadsafe default l s.1.0 x y\n" + record("c") + "d");
    const answer found = named(path);
    says(found, 2,
         std::string(registry_test::LIBRARY) + ": " + path +
             ":3: '2.0' where the version of the API, as in u2.0, should be; "
             "the line is left out\n");
    says(found, 2, path + ":5: nothing where the version");
    says(named(with("torn", "a u2.0 \"thr")), 0, "torn:1: half a quote where threadsafe or");
    says(named(with("odd", "a \x1b[2J\xff")), 0, ":1: '?[2J?' where");
    const answer lengthy = named(with("long", "a " + std::string(5000, 'x')));
    assert_true(lengthy.said.size() < 400);
}

/// Solaris' own lists have no IAs, so there is nothing to mend in them.
void lists_of_drivers(void **) {
    const std::string words = " u1.2 nonthreadsafe default udapl_tavor.so.1 SUNW.1.0 \" \"";
    const std::string path = with("drivers", "driver_name=tavor" + words + "\n" + record("a") +
                                                 "ibd0" + words + " \"driver_name=tavor\"\n");
    says(named(path), 2, "");
    setenv("DAT_DBG_TYPE", "4", 1);
    says(named(path), 2,
         path + ":1: is for datadm of Solaris, of the driver 'tavor' and no IA; "
                "the line is left out\n");
    unsetenv("DAT_DBG_TYPE");
}

void as_much_as_is_wanted(void **) {
    const std::string path = with("bad", "a\n");
    const struct {
        const char *kinds, *where;
        bool words, more;
    } cases[] = {
        {"0", nullptr, false, false}, {"1", nullptr, true, false}, {"0x4", nullptr, false, true},
        {"0xff", "1", true, true},    {"", "", true, false},       {"0xff", "0", false, false},
        {"0xff", "2", false, false}, // syslog
    };
    for (const auto &each : cases) {
        setenv("DAT_DBG_TYPE", each.kinds, 1);
        if (each.where)
            setenv("DAT_DBG_DEST", each.where, 1);
        const answer found = named(path);
        unsetenv("DAT_DBG_TYPE");
        unsetenv("DAT_DBG_DEST");
        assert_int_equal(found.said.find(":1: nothing where") != std::string::npos, each.words);
        assert_int_equal(found.said.find(": 0 records") != std::string::npos, each.more);
        assert_string_equal(found.out.c_str(), "");
    }
}

int set_up(void **) {
    char name[] = "/tmp/registry.XXXXXX";
    assert_non_null(mkdtemp(name));
    folder = name;
    return 0;
}

int tear_down(void **) {
    fs::remove_all(folder);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_is_there),
        cmocka_unit_test(the_environment_names_another),
        cmocka_unit_test(large_files),
        cmocka_unit_test(mistakes_are_told),
        cmocka_unit_test(lists_of_drivers),
        cmocka_unit_test(as_much_as_is_wanted),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
