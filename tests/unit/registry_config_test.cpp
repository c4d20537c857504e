// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The grammar of dat.conf, row by row as OFED's registry was found to read it.

#include "config.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::registry;

namespace {

struct parsed {
    explicit parsed(const std::string &from)
        : text(from + '!') { // the room that parse is promised
        assert_true(parse(text.data(), from.size(), records, mistakes));
    }
    std::string text;
    list<record> records;
    list<mistake> mistakes;
};

void equal(const char *got, const char *expected, const std::string &of) {
    if (std::strcmp(got, expected) != 0)
        fail_msg("%s: '%s', not '%s'", of.c_str(), got, expected);
}

/// The whole of a record, with its instance data at stake.
std::string with_instance(const std::string &data) {
    return "a u2.0 nonthreadsafe default l.so s.2.0 " + data;
}

void a_record(void **) {
    const parsed of(
        "ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"ib0 0\" \"\"\n"
        "b u1.2 threadsafe default /lib/b.so b.1.3 x y\n");
    assert_int_equal(of.mistakes.size(), 0);
    assert_int_equal(of.records.size(), 2);
    const record &one = of.records[0], &other = of.records[1];
    assert_string_equal(one.name, "ofa-v2-ib0");
    assert_true(one.major == 2 && one.minor == 0 && !one.thread_safe);
    assert_string_equal(one.library, "libdaplofa.so.2");
    assert_string_equal(one.instance, "ib0 0");
    assert_string_equal(other.name, "b");
    assert_true(other.major == 1 && other.minor == 2 && other.thread_safe);
    assert_string_equal(other.library, "/lib/b.so");
    assert_string_equal(other.instance, "x");
}

void instance_data(void **) {
    const struct {
        const char *text, *instance;
    } rows[] = {
        {R"("x y" "")", "x y"},  {R"("x\"y\\z" "")", R"(x"y\z)"},
        {R"("a\nb" "")", "anb"}, // the n means itself
        {R"("" "")", ""},        {"x p", "x"},
        {"x\tp", "x"},           {"x p # comment", "x"},
        {"x p#p", "x"},          {R"(x ""#comment)", "x"},
        {R"("a#b" p)", "a#b"},   {"x#y p", "x#y"},
        {R"(a\b p)", R"(a\b)"}, // only in quotes does it hide anything
        {R"(\#b p)", R"(\#b)"},  {R"(a"b p)", R"(a"b)"},
        {R"("ab"cd)", "ab"}, // two words, though nothing is between
        {R"("a""b")", "a"},      {"\"a\tb\" p", "a\tb"},
        {"x p\r", "x"},          {"x \"\" \r", "x"},
        {"x\ry p", "x\ry"},
    };
    for (const auto &each : rows) {
        for (const char *end : {"\n", "", "\n\n# more\n"}) {
            const parsed of(with_instance(each.text) + end);
            if (of.records.size() != 1 || of.mistakes.size() != 0)
                fail_msg("%s: %zu records, %zu mistakes", each.text, of.records.size(),
                         of.mistakes.size());
            equal(of.records[0].instance, each.instance, each.text);
        }
    }
}

void leniency(void **) {
    const struct {
        const char *text;
        std::uint32_t major, minor;
        bool thread_safe;
    } rows[] = {
        {"\ta  u2.0 nonthreadsafe default l s.2.0 x y", 2, 0, false},
        {"a u2.0 nonthreadsafeXYZ defaultXYZ l s.2.0 x y", 2, 0, false},
        {"a u2.0 threadsafety default l s.2.0 x y", 2, 0, true},
        {"a u02.00 threadsafe default l s.2.0 x y", 2, 0, true},
        {"a u2 threadsafe default l s.2.0 x y", 2, 0, true},
        {"a u2. threadsafe default l s.2.0 x y", 2, 0, true},
        {"a u.3 threadsafe default l s.2.0 x y", 0, 3, true},
        {"\"a\" \"u2.0\" \"threadsafe\" \"default\" \"l\" \"s s.2.0\" x y", 2, 0, true},
    };
    for (const auto &each : rows) {
        const parsed of(each.text);
        if (of.records.size() != 1 || of.records[0].major != each.major ||
            of.records[0].minor != each.minor || of.records[0].thread_safe != each.thread_safe)
            fail_msg("%s", each.text);
        equal(of.records[0].name, "a", each.text);
    }
}

void what_is_silently_left_out(void **) {
    for (const char *each :
         {"", "\n \t\n", "# a", "  # a\n#b", "\r\n", "a u2.0 threadsafe nondefault l s.2.0 x y",
          "a k2.0 threadsafe default l s.2.0 x y"}) {
        const parsed of(each);
        if (of.records.size() != 0 || of.mistakes.size() != 0)
            fail_msg("%s", each);
    }
}

const std::string LONG(256, 'n');

/// What stands where, and what should; "" is the line's end, "(" half a quote.
const struct {
    std::string text;
    const char *found, *expected;
} MISTAKES[] = {
    {"a 2.0 nonthreadsafe default l s.2.0 x y", "2.0", "version of the API"},
    {"a U2.0 nonthreadsafe default l s.2.0 x y", "U2.0", "version of the API"},
    {"a uu2.0 nonthreadsafe default l s.2.0 x y", "uu2.0", "version of the API"},
    {"a u2.0x nonthreadsafe default l s.2.0 x y", "u2.0x", "version of the API"},
    {"a u2.0.1 nonthreadsafe default l s.2.0 x y", "u2.0.1", "version of the API"},
    {"a u-2.0 nonthreadsafe default l s.2.0 x y", "u-2.0", "version of the API"},
    {"a u4294967296.0 nonthreadsafe default l s.2.0 x y", "u4294967296.0", "version of the API"},
    {"a u2.0 Nonthreadsafe default l s.2.0 x y", "Nonthreadsafe", "threadsafe or"},
    {"a u2.0 thread default l s.2.0 x y", "thread", "threadsafe or"},
    {"a u2.0 threadsafe defa l s.2.0 x y", "defa", "default or"},
    {"a u2.0 threadsafe default l dapl2.0 x y", "dapl2.0", "version of the provider"},
    {"a u2.0 threadsafe default l .2.0 x y", ".2.0", "version of the provider"},
    {"a u2.0 threadsafe default l s.2 x y", "s.2", "version of the provider"},
    {"a u2.0 threadsafe default l s.2. x y", "s.2.", "version of the provider"},
    {"a u2.0 threadsafe default l s..0 x y", "s..0", "version of the provider"},
    {"a u2.0 threadsafe default l s.x.y x y", "s.x.y", "version of the provider"},
    {"a u2.0 threadsafe default l s.a.2.0 x y", "s.a.2.0", "version of the provider"},
    {"a u2.0 threadsafe default l s.2.0y x y", "s.2.0y", "version of the provider"},
    {"a u2.0 threadsafe default l s.2.0.1 x y", "s.2.0.1", "version of the provider"},
    {"a u2.0 threadsafe nondefault l bad x y", "bad", "version of the provider"},
    {"a u2.0 threadsafe default l s.2.0 x", "", "data of the platform"},
    {"a u2.0 threadsafe default l s.2.0 x #y", "", "data of the platform"},
    {"a u2.0 threadsafe default l s.2.0", "", "instance data"},
    {"a u2.0 threadsafe default", "", "name of a library"},
    {"a u2.0 threadsafe", "", "default or"},
    {"a", "", "version of the API"},
    {"a u2.0 threadsafe default l s.2.0 x y z", "z", "end of the line"},
    {"a u2.0 threadsafe default l s.2.0 'x y' z", "z", "end of the line"},
    {R"(a u2.0 threadsafe default l s.2.0 a\ b p)", "p", "end of the line"},
    {R"(a u2.0 threadsafe default l s.2.0 ab"c d" p)", "p", "end of the line"},
    {R"(a u2.0 threadsafe default l s.2.0 "x)", "(", "instance data"},
    {R"(a u2.0 threadsafe default l s.2.0 "x\)", "(", "instance data"},
    {R"(a u2.0 threadsafe default l s.2.0 x "y)", "(", "data of the platform"},
    {R"(a u2.0 threadsafe default l s.2.0 x y ")", "(", "end of the line"},
    {R"("a)", "(", "a name"},
    {LONG + " u2.0 threadsafe default l s.2.0 x y", LONG.c_str(), "a name of at most 255"},
};

void mistakes(void **) {
    const std::string good = with_instance("good y");
    for (const auto &each : MISTAKES) {
        const parsed of(good + "\n" + each.text + "\n" + good);
        if (of.records.size() != 2 || of.mistakes.size() != 1)
            fail_msg("%s: %zu records, %zu mistakes", each.text.c_str(), of.records.size(),
                     of.mistakes.size());
        const mistake &one = of.mistakes[0];
        assert_int_equal(one.line, 2);
        assert_int_equal(one.torn, *each.found == '(');
        if (*each.found == '(' || !*each.found)
            assert_null(one.found);
        else
            equal(one.found, each.found, each.text);
        if (!std::strstr(one.expected, each.expected))
            fail_msg("%s: expected %s", each.text.c_str(), one.expected);
        assert_string_equal(of.records[1].instance, "good");
    }
}

void a_name_may_have_255_characters(void **) {
    const parsed of(LONG.substr(1) + " u2.0 threadsafe default l s.2.0 x y");
    assert_int_equal(of.records.size(), 1);
    assert_string_equal(of.records[0].name, LONG.substr(1).c_str());
}

void a_line_end_ends_every_quote(void **) {
    const parsed of(with_instance("\"x\ny\" \"\"\n") + with_instance("q p"));
    assert_int_equal(of.records.size(), 1);
    assert_string_equal(of.records[0].instance, "q");
    assert_int_equal(of.mistakes.size(), 2); // the two halves
    assert_int_equal(of.mistakes[1].line, 2);
    const parsed hidden(with_instance("\"x\\\ny\" \"\"\n"));
    assert_int_equal(hidden.records.size(), 0);
    assert_int_equal(hidden.mistakes.size(), 2);
}

void a_zero_ends_a_word(void **) {
    const std::string text = with_instance("x") + '\0' + "y p\n" + with_instance("q p");
    const parsed of(text);
    assert_int_equal(of.records.size(), 2);
    assert_string_equal(of.records[0].instance, "x");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(a_record),
        cmocka_unit_test(instance_data),
        cmocka_unit_test(leniency),
        cmocka_unit_test(what_is_silently_left_out),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(a_name_may_have_255_characters),
        cmocka_unit_test(a_line_end_ends_every_quote),
        cmocka_unit_test(a_zero_ends_a_word),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
