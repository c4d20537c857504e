// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The search for dat.conf and the messages about it. The registry reads it once per process, so
// each file is read by a child process.

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cmocka.hpp"
#include "entries/dat_entries.hpp"
#include "version.hpp"

namespace {

namespace fs = std::filesystem;
using coherdma::registry::dat_entries;

std::string folder;

std::string write_file(const char *name, const std::string &text) {
    const std::string path = folder + "/" + name;
    std::ofstream(path) << text;
    return path;
}

std::string conf_line(const std::string &name) {
    return name + " u2.0 threadsafe default l.so s.1.0 x y\n";
}

struct child_result {
    int num_entries = -1;
    std::string err, out;
};

std::string read_fd(int fd) {
    std::string text;
    char buffer[4096];
    for (ssize_t size = 1; (size = read(fd, buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(size));
    close(fd);
    return text;
}

/// Runs the function in a child process; its return value is the number of entries.
child_result run_child(const std::function<std::size_t()> &function) {
    int err[2], out[2];
    assert_int_equal(pipe2(err, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    const pid_t child = fork();
    if (child == 0) {
        dup2(err[1], STDERR_FILENO);
        dup2(out[1], STDOUT_FILENO);
        const std::size_t num_entries = function();
        std::fflush(nullptr);
        _exit(static_cast<int>(num_entries));
    }
    close(err[1]);
    close(out[1]);
    child_result result;
    result.err = read_fd(err[0]);
    result.out = read_fd(out[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    result.num_entries = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
}

child_result read_first(std::initializer_list<const char *> paths) {
    return run_child([paths] {
        dat_entries conf;
        read_first_conf(paths, conf);
        return conf.entries.size();
    });
}

child_result read_override(const std::string &path) {
    setenv("DAT_OVERRIDE", path.c_str(), 1);
    const child_result result =
        run_child([] { return coherdma::registry::get_dat_conf().entries.size(); });
    unsetenv("DAT_OVERRIDE");
    return result;
}

void assert_result(const child_result &result, int num_entries, const std::string &message) {
    assert_int_equal(result.num_entries, num_entries);
    if (message.empty() ? !result.err.empty() : result.err.find(message) == std::string::npos)
        fail_msg("'%s', not '%s'", result.err.c_str(), message.c_str());
    assert_string_equal(result.out.c_str(), ""); // stdout belongs to the program
}

void first_existing_file_used(void **) {
    const std::string first = write_file("first", conf_line("a")),
                      second = write_file("second", conf_line("b") + conf_line("c")),
                      missing = folder + "/missing", below_file = first + "/below";
    assert_result(read_first({first.c_str(), second.c_str()}), 1, "");
    assert_result(read_first({missing.c_str(), second.c_str(), first.c_str()}), 2, "");
    assert_result(read_first({below_file.c_str(), second.c_str()}), 2, "");
    assert_result(read_first({missing.c_str()}), 0, "");
    // A file that cannot be read is not skipped.
    assert_result(read_first({folder.c_str(), second.c_str()}), 0,
                  folder + ": cannot be read: Is a directory\n");
}

void dat_override_replaces_search(void **) {
    assert_result(
        read_override(write_file("override", conf_line("a") + conf_line("b") + conf_line("c"))), 3,
        "");
    assert_result(read_override(folder + "/missing"), 0,
                  std::string(registry_test::LIBRARY) + ": " + folder +
                      "/missing (DAT_OVERRIDE): no such file\n");
    assert_result(read_override("/dev/null"), 0, "");
    assert_result(read_override(folder), 0, "Is a directory");
    assert_result(read_override("/dev/zero"), 0, "/dev/zero: cannot be read: File too large");
    const std::string pipe = folder + "/pipe";
    assert_int_equal(mkfifo(pipe.c_str(), 0600), 0);
    assert_result(read_override(pipe), 0, ""); // does not wait for a writer
}

void file_larger_than_1_mib_rejected(void **) {
    std::string text = conf_line("a");
    text.append((std::size_t{1} << 20) - text.size(), '#');
    assert_result(read_override(write_file("largest", text)), 1, "");
    assert_result(read_override(write_file("larger", text + "#")), 0, "File too large");
}

void invalid_lines_reported(void **) {
    const std::string path = write_file(
        "bad", conf_line("a") + "\nb 2.0 threadsafe default l s.1.0 x y\n" + conf_line("c") + "d");
    const child_result result = read_override(path);
    assert_result(result, 2,
                  std::string(registry_test::LIBRARY) + ": " + path +
                      ":3: expected the API version, such as u2.0, found '2.0'; line ignored\n");
    assert_result(result, 2,
                  path + ":5: expected the API version, such as u2.0, found the end of the line;");
    assert_result(read_override(write_file("quote", "a u2.0 \"thr")), 0,
                  "quote:1: expected threadsafe or nonthreadsafe, found an unterminated quote;");
    assert_result(read_override(write_file("odd", "a \x1b[2J\xff")), 0, "found '?[2J?';");
    const child_result long_line = read_override(write_file("long", "a " + std::string(5000, 'x')));
    assert_true(long_line.err.size() < 400);
}

void many_invalid_lines_reported_in_few(void **) {
    std::string text;
    for (int n = 0; n != 5000; ++n)
        text += "bad\n";
    const child_result result = read_override(write_file("many", text + conf_line("a")));
    assert_result(result, 1, "many:10: expected the API version");
    assert_result(result, 1, "many: 4990 more lines ignored\n");
    assert_int_equal(result.err.find("many:11:"), std::string::npos);
    const child_result ten = read_override(write_file("ten", text.substr(0, 40)));
    assert_result(ten, 0, "ten:10: ");
    assert_int_equal(ten.err.find("more lines"), std::string::npos);
}

/// Lines of Solaris' driver lists are not reported as errors.
void solaris_driver_lists_skipped(void **) {
    const std::string fields = " u1.2 nonthreadsafe default udapl_tavor.so.1 SUNW.1.0 \" \"";
    const std::string path =
        write_file("drivers", "driver_name=tavor" + fields + "\n" + conf_line("a") + "ibd0" +
                                  fields + " \"driver_name=tavor\"\n");
    assert_result(read_override(path), 2, "");
    setenv("DAT_DBG_TYPE", "4", 1);
    assert_result(
        read_override(path), 2,
        path + ":1: describes the driver 'tavor' for Solaris' datadm, not an IA; line ignored\n");
    unsetenv("DAT_DBG_TYPE");
}

/// DAT_DBG_TYPE is a mask of message types, DAT_DBG_DEST a mask of destinations (1: stderr).
void dat_dbg_type_selects_messages(void **) {
    const std::string path = write_file("bad", "a\n");
    const struct {
        const char *types, *dest;
        bool problems, entries;
    } cases[] = {
        {"0", nullptr, false, false}, {"1", nullptr, true, false}, {"0x4", nullptr, false, true},
        {"0xff", "1", true, true},    {"", "", true, false},       {"0xff", "0", false, false},
        {"0xff", "2", false, false}, // syslog
    };
    for (const auto &test : cases) {
        setenv("DAT_DBG_TYPE", test.types, 1);
        if (test.dest)
            setenv("DAT_DBG_DEST", test.dest, 1);
        const child_result result = read_override(path);
        unsetenv("DAT_DBG_TYPE");
        unsetenv("DAT_DBG_DEST");
        assert_int_equal(result.err.find(":1: expected the API version") != std::string::npos,
                         test.problems);
        assert_int_equal(result.err.find(": 0 entries") != std::string::npos, test.entries);
        assert_string_equal(result.out.c_str(), "");
    }
}

int setup(void **) {
    char name[] = "/tmp/registry.XXXXXX";
    assert_non_null(mkdtemp(name));
    folder = name;
    return 0;
}

int teardown(void **) {
    fs::remove_all(folder);
    return 0;
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(first_existing_file_used),
        cmocka_unit_test(dat_override_replaces_search),
        cmocka_unit_test(file_larger_than_1_mib_rejected),
        cmocka_unit_test(invalid_lines_reported),
        cmocka_unit_test(many_invalid_lines_reported_in_few),
        cmocka_unit_test(solaris_driver_lists_skipped),
        cmocka_unit_test(dat_dbg_type_selects_messages),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
