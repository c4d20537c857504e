// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The configuration file and variables: which statement applies, and the error for invalid input.

#include "../cmocka.hpp"
#include "coherency/config.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

using namespace coherdma::coherency;

namespace {

settings parse(const char *text) {
    settings settings;
    parse_file(text, "conf", settings);
    return settings;
}

void last_matching_statement_wins(void **) {
    const settings settings = parse("# all devices\n[*]\ncoherent = no\n\n[mlx5_*] # except\n"
                                    "coherent=yes\n[driver:hns]\ncoherent = auto");
    assert_string_equal(settings.problem.c_str(), "");
    assert_int_equal(settings.statements.size(), 3);
    const statement *statement = find_statement(settings, "mlx5_3", "mlx5");
    assert_non_null(statement);
    assert_true(statement->coherent == coherent_setting::yes);
    assert_string_equal(statement->source.c_str(), "conf:6");
    assert_true(find_statement(settings, "rxe0", "rxe")->coherent == coherent_setting::no);
    assert_true(find_statement(settings, "hns_0", "hns")->coherent == coherent_setting::automatic);
    assert_null(find_statement(parse("[driver:*5]\ncoherent = no"), "mlx5_0", "mlx4"));
}

void keys_are_overridden_independently(void **) {
    const settings settings =
        parse("[*]\nemulate = poison\ncoherent = no\n[rxe0]\nemulate=evict:7\n"
              "[driver:rxe]\ncoherent = yes\n[rxe1]\nemulate = evict\n"
              "[rxe2]\nemulate = off\n");
    assert_string_equal(settings.problem.c_str(), "");
    const statement *const emulate = find_statement(settings, "rxe0", "rxe", key::emulate);
    assert_non_null(emulate);
    assert_string_equal(emulate->emulate.name.c_str(), "evict");
    assert_int_equal(emulate->emulate.seed, 7);
    assert_string_equal(emulate->source.c_str(), "conf:5");
    assert_true(find_statement(settings, "rxe0", "rxe")->coherent == coherent_setting::yes);
    assert_int_equal(find_statement(settings, "rxe1", "rxe", key::emulate)->emulate.seed, 1);
    assert_string_equal(find_statement(settings, "rxe2", "rxe", key::emulate)->emulate.name.c_str(),
                        "off");
    assert_string_equal(find_statement(settings, "iw0", "siw", key::emulate)->emulate.name.c_str(),
                        "poison");
    assert_true(find_statement(settings, "iw0", "siw")->coherent == coherent_setting::no);
    assert_null(find_statement(parse("[*]\ncoherent = no"), "rxe0", "rxe", key::emulate));
}

void emulate_mode_is_parsed(void **) {
    emulation_mode mode;
    assert_true(parse_emulation_mode("evict:18446744073709551615", mode));
    assert_true(mode.seed == UINT64_MAX);
    assert_true(parse_emulation_mode("passthrough", mode));
    assert_string_equal(mode.name.c_str(), "passthrough");
    assert_int_equal(mode.seed, 0);
    for (const char *const text : {"", "Stale", "stale ", "evict:", "evict:-1", "evict:0x1",
                                   "evict: 1", "evict:1 ", "evict:18446744073709551616", "none"})
        if (parse_emulation_mode(text, mode))
            fail_msg("'%s' was accepted", text);
    assert_string_equal(mode.name.c_str(), "passthrough");
}

void invalid_statement_reports_line_and_reason(void **) {
    const struct {
        const char *text, *problem;
    } cases[] = {
        {"coherent = yes\n", "conf:1: no device pattern"},
        {"[*]\ncoherent = maybe", "conf:2: 'maybe' is not yes, no or auto"},
        {"[*]\ncoherent = YES", "conf:2: 'YES' is not yes, no or auto"},
        {"emulate = stale\n", "conf:1: no device pattern"},
        {"[*]\nemulate = yes",
         "conf:2: 'yes' is not stale, poison, evict:SEED, passthrough or off"},
        {"[*]\nemulate =", "conf:2: '' is not stale"},
        {"[*]\n\nincoherent = yes", "conf:3: 'incoherent = yes' should be"},
        {"[*\ncoherent = yes", "conf:1: '[*' should be a device name pattern"},
        {"[]", "conf:1: '[]' should be a device name pattern"},
        {"[", "conf:1: '[' should be a device name pattern"},
        {"[a b]", "conf:1: '[a b]' should be a device name pattern"},
        {"[../x]", "conf:1: '[../x]' should be a device name pattern"},
        {"[driver:]", "conf:1: '[driver:]' should be a device name pattern"},
        {"\x1b[2Jx", "conf:1: '?[2Jx' should be"},
        {"[*]\ncoherent", "conf:2: 'coherent' should be"},
    };
    for (const auto &test_case : cases) {
        const settings settings = parse(test_case.text);
        assert_int_equal(settings.error, EINVAL);
        if (!std::strstr(settings.problem.c_str(), test_case.problem))
            fail_msg("%s: %s", test_case.text, settings.problem.c_str());
    }
}

void first_problem_is_reported(void **) {
    const settings settings = parse("[*]\na\nb\n");
    assert_non_null(std::strstr(settings.problem.c_str(), "conf:2: 'a'"));
    const std::string pages(100000, 'x');
    assert_true(parse(pages.c_str()).problem.size() < 200);
}

void variable_list_is_parsed(void **) {
    settings settings;
    parse_variable(" mlx5_0 = no , driver:siw=yes, *_1=auto", settings);
    assert_string_equal(settings.problem.c_str(), "");
    assert_int_equal(settings.statements.size(), 3);
    assert_true(find_statement(settings, "mlx5_0", "mlx5")->coherent == coherent_setting::no);
    assert_true(find_statement(settings, "iw0", "siw")->coherent == coherent_setting::yes);
    parse_variable("a=no,,b=no", settings);
    assert_string_equal(settings.problem.c_str(), "COHERDMA_COHERENT: '' is not yes, no or auto");
}

void variable_without_pattern_applies_to_all_devices(void **) {
    settings settings;
    parse_variable("no", settings);
    assert_true(find_statement(settings, "anything", "")->coherent == coherent_setting::no);
    assert_string_equal(find_statement(settings, "anything", "")->source.c_str(),
                        "COHERDMA_COHERENT");
    parse_variable("perhaps", settings);
    assert_string_equal(settings.problem.c_str(),
                        "COHERDMA_COHERENT: 'perhaps' is not yes, no or auto");
}

void environment_overrides_file(void **) {
    char name[] = "/tmp/coherdma-conf.XXXXXX";
    const int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *stream = fdopen(fd, "w");
    std::fputs("[*]\ncoherent = yes\n", stream);
    std::fclose(stream);
    setenv("COHERDMA_CONFIG", name, 1);
    assert_true(find_statement(read_settings(), "x", "")->coherent == coherent_setting::yes);
    setenv("COHERDMA_COHERENT", "x=no", 1);
    assert_true(find_statement(read_settings(), "x", "")->coherent == coherent_setting::no);
    unsetenv("COHERDMA_COHERENT");
    std::remove(name);
    const settings settings = read_settings();
    assert_int_equal(settings.error, ENOENT);
    assert_non_null(std::strstr(settings.problem.c_str(), "cannot read /tmp/coherdma-conf."));
    setenv("COHERDMA_CONFIG", "/tmp", 1);
    assert_int_equal(read_settings().error, EISDIR);
    setenv("COHERDMA_CONFIG", "/dev/zero", 1); // without end
    assert_non_null(std::strstr(read_settings().problem.c_str(), "larger"));
    unsetenv("COHERDMA_CONFIG");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(last_matching_statement_wins),
        cmocka_unit_test(invalid_statement_reports_line_and_reason),
        cmocka_unit_test(keys_are_overridden_independently),
        cmocka_unit_test(emulate_mode_is_parsed),
        cmocka_unit_test(first_problem_is_reported),
        cmocka_unit_test(variable_list_is_parsed),
        cmocka_unit_test(variable_without_pattern_applies_to_all_devices),
        cmocka_unit_test(environment_overrides_file),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
