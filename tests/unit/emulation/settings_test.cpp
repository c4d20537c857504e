// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The settings of the emulation: variables, the configuration file, their order, and errors.

#include "cache_fixture.hpp"
#include "core/settings.hpp"

#include <cerrno>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace emulation_test;

namespace {

constexpr const char *VARIABLES[] = {
    "COHERDMA_EMULATE",         "COHERDMA_EMULATE_LINE", "COHERDMA_EMULATE_LOG",
    "COHERDMA_EMULATE_LIMIT",   "COHERDMA_EMULATE_EXIT", "COHERDMA_EMULATE_SUPPRESS",
    "COHERDMA_EMULATE_OPTIONS", "COHERDMA_COHERENT",     "COHERDMA_EMULATE_LOCAL_BUFFERS"};

int reset_environment(void **) {
    for (const char *const each : VARIABLES)
        unsetenv(each);
    setenv("COHERDMA_CONFIG", "/dev/null", 1);
    return 0;
}

void modes_are_parsed(void **) {
    settings parsed;
    assert_true(parse_mode("stale", parsed) && parsed.mode == cache_mode::STALE);
    assert_true(parse_mode("poison", parsed) && parsed.mode == cache_mode::POISON);
    assert_true(parse_mode("passthrough", parsed) && parsed.mode == cache_mode::PASSTHROUGH);
    assert_true(parse_mode("evict", parsed) && parsed.mode == cache_mode::EVICT &&
                parsed.seed == 1);
    assert_true(parse_mode("evict:18446744073709551615", parsed) && parsed.seed == UINT64_MAX);
    assert_true(parse_mode("off", parsed) && parsed.mode == cache_mode::OFF);
    for (const char *const each : {"", "STALE", "evict:", "evict:x", "evict:1x", "stale:1",
                                   "evict:18446744073709551616", "none"})
        if (parse_mode(each, parsed))
            fail_msg("'%s' was accepted", each);
}

void mode_names_parse_back(void **) {
    for (const cache_mode each : {cache_mode::OFF, cache_mode::STALE, cache_mode::POISON,
                                  cache_mode::EVICT, cache_mode::PASSTHROUGH}) {
        settings parsed;
        assert_true(parse_mode(mode_name(each), parsed) && parsed.mode == each);
    }
    for (const char *const text : {"stale", "evict:18446744073709551615", "passthrough"}) {
        settings parsed;
        assert_true(parse_mode(text, parsed));
        assert_string_equal(mode_text(parsed).c_str(), text);
    }
}

void emulation_is_off_by_default(void **) {
    setenv("COHERDMA_EMULATE_LINE", "invalid", 1); // not read while the emulation is off
    const settings parsed = read_settings("rxe0", "rxe");
    assert_true(parsed.mode == cache_mode::OFF);
    assert_string_equal(parsed.problem.c_str(), "");
}

void all_variables_are_read(void **) {
    setenv("COHERDMA_EMULATE", "evict:7", 1);
    setenv("COHERDMA_EMULATE_LINE", "128", 1);
    setenv("COHERDMA_EMULATE_LOG", "/tmp/%p.json", 1);
    setenv("COHERDMA_EMULATE_LIMIT", "3", 1);
    setenv("COHERDMA_EMULATE_EXIT", "99", 1);
    setenv("COHERDMA_EMULATE_SUPPRESS", "/tmp/known", 1);
    setenv("COHERDMA_EMULATE_OPTIONS",
           "redundant,strict,certain,nostacks,nomarks,linux-pre-7.0-dereg", 1);
    setenv("COHERDMA_EMULATE_LOCAL_BUFFERS", "program", 1);
    const settings parsed = read_settings("rxe0", "rxe");
    assert_string_equal(parsed.problem.c_str(), "");
    assert_true(parsed.mode == cache_mode::EVICT && parsed.seed == 7 && parsed.line_size == 128);
    assert_true(parsed.max_reports == 3 && parsed.exit_status == 99);
    assert_string_equal(parsed.log_file.c_str(), "/tmp/%p.json");
    assert_string_equal(parsed.suppressions_file.c_str(), "/tmp/known");
    assert_true(parsed.report_redundant && parsed.strict && parsed.dereg_discards &&
                parsed.only_certain && !parsed.stack_traces && !parsed.checker_marks &&
                parsed.program_syncs_local);
    setenv("COHERDMA_EMULATE_LOCAL_BUFFERS", "provider", 1);
    assert_false(read_settings("rxe0", "rxe").program_syncs_local);
}

void unset_variables_have_defaults(void **) {
    setenv("COHERDMA_EMULATE", "stale", 1);
    setenv("COHERDMA_EMULATE_LINE", "", 1);
    const settings parsed = read_settings("rxe0", "rxe");
    assert_string_equal(parsed.problem.c_str(), "");
    assert_true(parsed.mode == cache_mode::STALE && parsed.line_size == 64 &&
                parsed.max_reports == 10 && parsed.exit_status == 0);
    assert_true(parsed.stack_traces && parsed.checker_marks && !parsed.report_redundant &&
                !parsed.strict && !parsed.dereg_discards && !parsed.only_certain &&
                !parsed.program_syncs_local);
    assert_true(parsed.log_file.empty() && parsed.suppressions_file.empty());
}

void invalid_variable_is_reported(void **state) {
    const struct {
        const char *variable, *value, *problem;
    } cases[] = {
        {"COHERDMA_EMULATE", "yes",
         "COHERDMA_EMULATE: 'yes' is not stale, poison, evict:SEED, passthrough or off"},
        {"COHERDMA_EMULATE", "\x1b[2J", "COHERDMA_EMULATE: '?[2J' is not"},
        {"COHERDMA_EMULATE_LINE", "48", "COHERDMA_EMULATE_LINE: '48' is not 32, 64, 128 or 256"},
        {"COHERDMA_EMULATE_LINE", "64 ", "'64 ' is not 32"},
        {"COHERDMA_EMULATE_LIMIT", "-1", "'-1' is not a number of findings"},
        {"COHERDMA_EMULATE_EXIT", "0", "'0' is not a status from 1 to 255"},
        {"COHERDMA_EMULATE_EXIT", "256", "'256' is not a status"},
        {"COHERDMA_EMULATE_LOCAL_BUFFERS", "kernel",
         "COHERDMA_EMULATE_LOCAL_BUFFERS: 'kernel' is not provider or program"},
        {"COHERDMA_EMULATE_OPTIONS", "strict,lenient",
         "COHERDMA_EMULATE_OPTIONS: 'lenient' is not redundant, strict, certain, nostacks, nomarks "
         "or linux-pre-7.0-dereg"},
        {"COHERDMA_EMULATE_OPTIONS", "strict,,redundant", "'' is not redundant"},
    };
    for (const auto &each : cases) {
        reset_environment(state);
        setenv("COHERDMA_EMULATE", "stale", 1);
        setenv(each.variable, each.value, 1);
        const settings parsed = read_settings("rxe0", "rxe");
        if (parsed.problem.find(each.problem) == std::string::npos)
            fail_msg("%s=%s: '%s'", each.variable, each.value, parsed.problem.c_str());
    }
}

void config_file_selects_mode_of_device(void **) {
    const temp_file conf("[driver:rxe]\nemulate = poison\n[rxe1]\nemulate = evict:5\n[rxe2]\n"
                         "emulate = off\n");
    setenv("COHERDMA_CONFIG", conf.name().c_str(), 1);
    setenv("COHERDMA_EMULATE_LINE", "256", 1);
    const settings rxe0 = read_settings("rxe0", "rxe");
    assert_true(rxe0.mode == cache_mode::POISON && rxe0.line_size == 256);
    const settings parsed = read_settings("rxe1", "rxe");
    assert_true(parsed.mode == cache_mode::EVICT && parsed.seed == 5);
    assert_true(read_settings("rxe2", "rxe").mode == cache_mode::OFF);
    assert_true(read_settings("iw0", "siw").mode == cache_mode::OFF);
    setenv("COHERDMA_EMULATE", "off", 1);
    assert_true(read_settings("rxe0", "rxe").mode == cache_mode::OFF);
    setenv("COHERDMA_EMULATE", "stale", 1);
    assert_true(read_settings("rxe1", "rxe").mode == cache_mode::STALE);
}

void emulation_may_be_requested_for_some_device(void **) {
    assert_false(may_be_requested());
    const temp_file without("[rxe0]\ncoherent = no\n"), off("[rxe0]\nemulate = off\n"),
        invalid("[rxe0]\nemulate = maybe\n");
    const auto is_requested_by = [](const temp_file &conf) {
        setenv("COHERDMA_CONFIG", conf.name().c_str(), 1);
        return may_be_requested();
    };
    assert_false(is_requested_by(without));
    assert_true(is_requested_by(off));
    assert_true(is_requested_by(invalid)); // the device is refused, with the reason
    setenv("COHERDMA_EMULATE", "off", 1);
    assert_false(may_be_requested());
    setenv("COHERDMA_EMULATE", "maybe", 1);
    assert_true(may_be_requested());
}

void invalid_config_file_is_reported(void **) {
    const temp_file conf("[rxe0]\nemulate = maybe\n");
    setenv("COHERDMA_CONFIG", conf.name().c_str(), 1);
    const std::string problem = read_settings("rxe0", "rxe").problem;
    assert_string_equal(
        problem.c_str(),
        (conf.name() + ":2: 'maybe' is not stale, poison, evict:SEED, passthrough or off").c_str());
    setenv("COHERDMA_EMULATE", "off", 1); // the file is not needed
    assert_string_equal(read_settings("rxe0", "rxe").problem.c_str(), "");
}

/// Runs a copy of this program with the setuid bit.
void setuid_program_ignores_environment(void **) {
    if (geteuid() != 0) {
        print_message("# skipped: needs root to make a setuid program\n");
        skip();
    }
    const temp_file copy(read_file("/proc/self/exe"));
    setenv("COHERDMA_EMULATE", "stale", 1);
    for (const mode_t rights : {0755U, 04755U}) {
        assert_int_equal(chown(copy.name().c_str(), 65534, 65534), 0);
        assert_int_equal(chmod(copy.name().c_str(), rights), 0);
        const pid_t child = fork();
        if (child == 0) {
            execl(copy.name().c_str(), copy.name().c_str(), "--print-mode", nullptr);
            _exit(120);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status),
                         static_cast<int>(rights == 0755U ? cache_mode::STALE : cache_mode::OFF));
    }
}

} // namespace

int main(int count, char **) {
    if (count > 1) // without LSan, which cannot inspect a setuid program
        _exit(static_cast<int>(read_settings("rxe0", "rxe").mode));
    const CMUnitTest tests[] = {
        cmocka_unit_test(modes_are_parsed),
        cmocka_unit_test(mode_names_parse_back),
        cmocka_unit_test_setup(emulation_is_off_by_default, reset_environment),
        cmocka_unit_test_setup(all_variables_are_read, reset_environment),
        cmocka_unit_test_setup(unset_variables_have_defaults, reset_environment),
        cmocka_unit_test_setup(invalid_variable_is_reported, reset_environment),
        cmocka_unit_test_setup(config_file_selects_mode_of_device, reset_environment),
        cmocka_unit_test_setup(emulation_may_be_requested_for_some_device, reset_environment),
        cmocka_unit_test_setup(invalid_config_file_is_reported, reset_environment),
        cmocka_unit_test_setup(setuid_program_ignores_environment, reset_environment),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
