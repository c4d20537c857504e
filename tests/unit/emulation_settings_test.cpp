// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What may be asked of the emulation, that nonsense is refused in words, and who wins.

#include "core/settings.hpp"
#include "emulation.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <sys/wait.h>

using namespace emulation_test;

namespace {

constexpr const char *ALL[] = {"COHERDMA_EMULATE",         "COHERDMA_EMULATE_LINE",
                               "COHERDMA_EMULATE_LOG",     "COHERDMA_EMULATE_LIMIT",
                               "COHERDMA_EMULATE_EXIT",    "COHERDMA_EMULATE_SUPPRESS",
                               "COHERDMA_EMULATE_OPTIONS", "COHERDMA_COHERENT"};

int without(void **) {
    for (const char *const each : ALL)
        unsetenv(each);
    setenv("COHERDMA_CONFIG", "/dev/null", 1);
    return 0;
}

void modes(void **) {
    settings one;
    assert_true(parse_mode("stale", one) && one.plays == mode::STALE);
    assert_true(parse_mode("poison", one) && one.plays == mode::POISON);
    assert_true(parse_mode("through", one) && one.plays == mode::THROUGH);
    assert_true(parse_mode("evict", one) && one.plays == mode::EVICT && one.seed == 1);
    assert_true(parse_mode("evict:18446744073709551615", one) && one.seed == UINT64_MAX);
    assert_true(parse_mode("off", one) && one.plays == mode::NONE);
    for (const char *const each : {"", "STALE", "evict:", "evict:x", "evict:1x", "stale:1",
                                   "evict:18446744073709551616", "none"})
        if (parse_mode(each, one))
            fail_msg("'%s' was understood", each);
}

void names_are_those_that_are_parsed(void **) {
    for (const mode each : {mode::NONE, mode::STALE, mode::POISON, mode::EVICT, mode::THROUGH}) {
        settings one;
        assert_true(parse_mode(name_of(each), one) && one.plays == each);
    }
}

void nothing_is_asked(void **) {
    setenv("COHERDMA_EMULATE_LINE", "nonsense", 1); // of what is not played
    const settings one = read_settings("rxe0", "rxe");
    assert_true(one.plays == mode::NONE);
    assert_string_equal(one.problem.c_str(), "");
}

void all_is_asked(void **) {
    setenv("COHERDMA_EMULATE", "evict:7", 1);
    setenv("COHERDMA_EMULATE_LINE", "128", 1);
    setenv("COHERDMA_EMULATE_LOG", "/tmp/%p.json", 1);
    setenv("COHERDMA_EMULATE_LIMIT", "3", 1);
    setenv("COHERDMA_EMULATE_EXIT", "99", 1);
    setenv("COHERDMA_EMULATE_SUPPRESS", "/tmp/known", 1);
    setenv("COHERDMA_EMULATE_OPTIONS", "redundant,strict,nostacks,nomarks,linux-pre-7.0-dereg", 1);
    const settings one = read_settings("rxe0", "rxe");
    assert_string_equal(one.problem.c_str(), "");
    assert_true(one.plays == mode::EVICT && one.seed == 7 && one.line == 128);
    assert_true(one.limit == 3 && one.status == 99);
    assert_string_equal(one.log.c_str(), "/tmp/%p.json");
    assert_string_equal(one.suppressions.c_str(), "/tmp/known");
    assert_true(one.redundant && one.strict && one.discards && !one.stacks && !one.marks);
}

void little_is_asked(void **) {
    setenv("COHERDMA_EMULATE", "stale", 1);
    setenv("COHERDMA_EMULATE_LINE", "", 1);
    const settings one = read_settings("rxe0", "rxe");
    assert_string_equal(one.problem.c_str(), "");
    assert_true(one.plays == mode::STALE && one.line == 64 && one.limit == 10 && one.status == 0);
    assert_true(one.stacks && one.marks && !one.redundant && !one.strict && !one.discards);
    assert_true(one.log.empty() && one.suppressions.empty());
}

void nonsense_is_refused(void **state) {
    const struct {
        const char *variable, *value, *problem;
    } cases[] = {
        {"COHERDMA_EMULATE", "yes",
         "COHERDMA_EMULATE: 'yes' is not stale, poison, evict:SEED, through or off"},
        {"COHERDMA_EMULATE", "\x1b[2J", "COHERDMA_EMULATE: '?[2J' is not"},
        {"COHERDMA_EMULATE_LINE", "48", "COHERDMA_EMULATE_LINE: '48' is not 32, 64, 128 or 256"},
        {"COHERDMA_EMULATE_LINE", "64 ", "'64 ' is not 32"},
        {"COHERDMA_EMULATE_LIMIT", "-1", "'-1' is not a number of findings"},
        {"COHERDMA_EMULATE_EXIT", "0", "'0' is not a status from 1 to 255"},
        {"COHERDMA_EMULATE_EXIT", "256", "'256' is not a status"},
        {"COHERDMA_EMULATE_OPTIONS", "strict,lenient",
         "COHERDMA_EMULATE_OPTIONS: 'lenient' is not redundant, strict, nostacks, nomarks "
         "or linux-pre-7.0-dereg"},
        {"COHERDMA_EMULATE_OPTIONS", "strict,,redundant", "'' is not redundant"},
    };
    for (const auto &each : cases) {
        without(state);
        setenv("COHERDMA_EMULATE", "stale", 1);
        setenv(each.variable, each.value, 1);
        const settings one = read_settings("rxe0", "rxe");
        if (one.problem.find(each.problem) == std::string::npos)
            fail_msg("%s=%s: '%s'", each.variable, each.value, one.problem.c_str());
    }
}

void the_file_says_it_of_a_device(void **) {
    const file conf("[driver:rxe]\nemulate = poison\n[rxe1]\nemulate = evict:5\n[rxe2]\n"
                    "emulate = off\n");
    setenv("COHERDMA_CONFIG", conf.name().c_str(), 1);
    setenv("COHERDMA_EMULATE_LINE", "256", 1);
    const settings zero = read_settings("rxe0", "rxe");
    assert_true(zero.plays == mode::POISON && zero.line == 256);
    const settings one = read_settings("rxe1", "rxe");
    assert_true(one.plays == mode::EVICT && one.seed == 5);
    assert_true(read_settings("rxe2", "rxe").plays == mode::NONE);
    assert_true(read_settings("iw0", "siw").plays == mode::NONE);
    setenv("COHERDMA_EMULATE", "off", 1);
    assert_true(read_settings("rxe0", "rxe").plays == mode::NONE);
    setenv("COHERDMA_EMULATE", "stale", 1);
    assert_true(read_settings("rxe1", "rxe").plays == mode::STALE);
}

void a_bad_file_is_a_problem(void **) {
    const file conf("[rxe0]\nemulate = maybe\n");
    setenv("COHERDMA_CONFIG", conf.name().c_str(), 1);
    const std::string problem = read_settings("rxe0", "rxe").problem;
    assert_string_equal(
        problem.c_str(),
        (conf.name() + ":2: 'maybe' is not stale, poison, evict:SEED, through or off").c_str());
    setenv("COHERDMA_EMULATE", "off", 1); // nobody needs the file then
    assert_string_equal(read_settings("rxe0", "rxe").problem.c_str(), "");
}

/// This very program as a setuid one, which only root can make.
void a_setuid_program_is_told_nothing(void **) {
    if (geteuid() != 0) {
        print_message("# skipped: only root can make one\n");
        skip();
    }
    const file copy(text_of("/proc/self/exe"));
    setenv("COHERDMA_EMULATE", "stale", 1);
    for (const mode_t rights : {0755U, 04755U}) {
        assert_int_equal(chown(copy.name().c_str(), 65534, 65534), 0);
        assert_int_equal(chmod(copy.name().c_str(), rights), 0);
        const pid_t child = fork();
        if (child == 0) {
            execl(copy.name().c_str(), copy.name().c_str(), "--what", nullptr);
            _exit(120);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status),
                         static_cast<int>(rights == 0755U ? mode::STALE : mode::NONE));
    }
}

} // namespace

int main(int count, char **) {
    if (count > 1) // a leak sanitizer may not look at a setuid program
        _exit(static_cast<int>(read_settings("rxe0", "rxe").plays));
    const CMUnitTest tests[] = {
        cmocka_unit_test(modes),
        cmocka_unit_test(names_are_those_that_are_parsed),
        cmocka_unit_test_setup(nothing_is_asked, without),
        cmocka_unit_test_setup(all_is_asked, without),
        cmocka_unit_test_setup(little_is_asked, without),
        cmocka_unit_test_setup(nonsense_is_refused, without),
        cmocka_unit_test_setup(the_file_says_it_of_a_device, without),
        cmocka_unit_test_setup(a_bad_file_is_a_problem, without),
        cmocka_unit_test_setup(a_setuid_program_is_told_nothing, without),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
