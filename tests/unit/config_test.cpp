// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the administrator may say, and that nonsense is refused with a place and a reason.

#include "coherency/config.hpp"

#include <cerrno>
#include <csetjmp>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::coherency;

namespace {

settings parsed(const char *text) {
    settings all;
    parse_file(text, "conf", all);
    return all;
}

void last_statement_wins(void **) {
    const settings all = parsed("# about all\n[*]\ncoherent = no\n\n[mlx5_*] # but\n"
                                "coherent=yes\n[driver:hns]\ncoherent = auto");
    assert_string_equal(all.problem.c_str(), "");
    assert_int_equal(all.said.size(), 3);
    const statement *found = about(all, "mlx5_3", "mlx5");
    assert_non_null(found);
    assert_true(found->coherent == word::yes);
    assert_string_equal(found->source.c_str(), "conf:6");
    assert_true(about(all, "rxe0", "rxe")->coherent == word::no);
    assert_true(about(all, "hns_0", "hns")->coherent == word::automatic);
    assert_null(about(parsed("[driver:*5]\ncoherent = no"), "mlx5_0", "mlx4"));
}

void each_key_has_its_last_statement(void **) {
    const settings all = parsed("[*]\nemulate = poison\ncoherent = no\n[rxe0]\nemulate=evict:7\n"
                                "[driver:rxe]\ncoherent = yes\n[rxe1]\nemulate = evict\n"
                                "[rxe2]\nemulate = off\n");
    assert_string_equal(all.problem.c_str(), "");
    const statement *const emulate = about(all, "rxe0", "rxe", key::emulate);
    assert_non_null(emulate);
    assert_string_equal(emulate->emulate.name.c_str(), "evict");
    assert_int_equal(emulate->emulate.seed, 7);
    assert_string_equal(emulate->source.c_str(), "conf:5");
    assert_true(about(all, "rxe0", "rxe")->coherent == word::yes);
    assert_int_equal(about(all, "rxe1", "rxe", key::emulate)->emulate.seed, 1);
    assert_string_equal(about(all, "rxe2", "rxe", key::emulate)->emulate.name.c_str(), "off");
    assert_string_equal(about(all, "iw0", "siw", key::emulate)->emulate.name.c_str(), "poison");
    assert_true(about(all, "iw0", "siw")->coherent == word::no);
    assert_null(about(parsed("[*]\ncoherent = no"), "rxe0", "rxe", key::emulate));
}

void what_is_played(void **) {
    play one;
    assert_true(understand("evict:18446744073709551615", one));
    assert_true(one.seed == UINT64_MAX);
    assert_true(understand("through", one));
    assert_string_equal(one.name.c_str(), "through");
    assert_int_equal(one.seed, 0);
    for (const char *const each : {"", "Stale", "stale ", "evict:", "evict:-1", "evict:0x1",
                                   "evict: 1", "evict:1 ", "evict:18446744073709551616", "none"})
        if (understand(each, one))
            fail_msg("'%s' was understood", each);
    assert_string_equal(one.name.c_str(), "through");
}

void nonsense_is_refused(void **) {
    const struct {
        const char *text, *problem;
    } cases[] = {
        {"coherent = yes\n", "conf:1: it is not said of which device"},
        {"[*]\ncoherent = maybe", "conf:2: 'maybe' is not yes, no or auto"},
        {"[*]\ncoherent = YES", "conf:2: 'YES' is not yes, no or auto"},
        {"emulate = stale\n", "conf:1: it is not said of which device"},
        {"[*]\nemulate = yes", "conf:2: 'yes' is not stale, poison, evict:SEED, through or off"},
        {"[*]\nemulate =", "conf:2: '' is not stale"},
        {"[*]\n\nincoherent = yes", "conf:3: 'incoherent = yes' should be"},
        {"[*\ncoherent = yes", "conf:1: '[*' should be a pattern"},
        {"[]", "conf:1: '[]' should be a pattern"},
        {"[", "conf:1: '[' should be a pattern"},
        {"[a b]", "conf:1: '[a b]' should be a pattern"},
        {"[../x]", "conf:1: '[../x]' should be a pattern"},
        {"[driver:]", "conf:1: '[driver:]' should be a pattern"},
        {"\x1b[2Jx", "conf:1: '?[2Jx' should be"},
        {"[*]\ncoherent", "conf:2: 'coherent' should be"},
    };
    for (const auto &each : cases) {
        const settings all = parsed(each.text);
        assert_int_equal(all.error, EINVAL);
        if (!std::strstr(all.problem.c_str(), each.problem))
            fail_msg("%s: %s", each.text, all.problem.c_str());
    }
}

void first_problem_is_the_one_told(void **) {
    const settings all = parsed("[*]\na\nb\n");
    assert_non_null(std::strstr(all.problem.c_str(), "conf:2: 'a'"));
    const std::string pages(100000, 'x');
    assert_true(parsed(pages.c_str()).problem.size() < 200);
}

void a_variable(void **) {
    settings all;
    parse_variable(" mlx5_0 = no , driver:siw=yes, *_1=auto", all);
    assert_string_equal(all.problem.c_str(), "");
    assert_int_equal(all.said.size(), 3);
    assert_true(about(all, "mlx5_0", "mlx5")->coherent == word::no);
    assert_true(about(all, "iw0", "siw")->coherent == word::yes);
    parse_variable("a=no,,b=no", all);
    assert_string_equal(all.problem.c_str(), "COHERDMA_COHERENT: '' is not yes, no or auto");
}

void a_variable_of_one_word(void **) {
    settings all;
    parse_variable("no", all);
    assert_true(about(all, "anything", "")->coherent == word::no);
    assert_string_equal(about(all, "anything", "")->source.c_str(), "COHERDMA_COHERENT");
    parse_variable("perhaps", all);
    assert_string_equal(all.problem.c_str(), "COHERDMA_COHERENT: 'perhaps' is not yes, no or auto");
}

void environment_after_file(void **) {
    char name[] = "/tmp/coherdma-conf.XXXXXX";
    const int file = mkstemp(name);
    assert_true(file >= 0);
    FILE *stream = fdopen(file, "w");
    std::fputs("[*]\ncoherent = yes\n", stream);
    std::fclose(stream);
    setenv("COHERDMA_CONFIG", name, 1);
    assert_true(about(read_settings(), "x", "")->coherent == word::yes);
    setenv("COHERDMA_COHERENT", "x=no", 1);
    assert_true(about(read_settings(), "x", "")->coherent == word::no);
    unsetenv("COHERDMA_COHERENT");
    std::remove(name);
    const settings none = read_settings();
    assert_int_equal(none.error, ENOENT);
    assert_non_null(std::strstr(none.problem.c_str(), "cannot read /tmp/coherdma-conf."));
    setenv("COHERDMA_CONFIG", "/tmp", 1);
    assert_int_equal(read_settings().error, EISDIR);
    setenv("COHERDMA_CONFIG", "/dev/zero", 1); // endless
    assert_non_null(std::strstr(read_settings().problem.c_str(), "larger"));
    unsetenv("COHERDMA_CONFIG");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(last_statement_wins),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(each_key_has_its_last_statement),
        cmocka_unit_test(what_is_played),
        cmocka_unit_test(first_problem_is_the_one_told),
        cmocka_unit_test(a_variable),
        cmocka_unit_test(a_variable_of_one_word),
        cmocka_unit_test(environment_after_file),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
