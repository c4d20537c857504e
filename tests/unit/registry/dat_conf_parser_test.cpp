// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The grammar of dat.conf, as OFED's registry reads it.

#include "../cmocka.hpp"
#include "entries/dat_conf_parser.hpp"

#include <cstdint>
#include <cstring>
#include <string>

using namespace coherdma::registry;

namespace {

struct parsed {
    explicit parsed(const std::string &file)
        : text(file + '!') { // the parser writes one more byte
        assert_true(parse_dat_conf(text.data(), file.size(), entries, errors));
    }
    std::string text;
    vector<dat_entry> entries;
    vector<parse_error> errors;
};

void assert_equal(const char *actual, const char *expected, const std::string &row) {
    if (std::strcmp(actual, expected) != 0)
        fail_msg("%s: '%s', not '%s'", row.c_str(), actual, expected);
}

/// A line with this instance data.
std::string with_instance(const std::string &data) {
    return "a u2.0 nonthreadsafe default l.so s.2.0 " + data;
}

void entry_fields_parsed(void **) {
    const parsed file(
        "ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 \"ib0 0\" \"\"\n"
        "b u1.2 threadsafe default /lib/b.so b.1.3 x y\n");
    assert_int_equal(file.errors.size(), 0);
    assert_int_equal(file.entries.size(), 2);
    const dat_entry &first = file.entries[0], &second = file.entries[1];
    assert_string_equal(first.name, "ofa-v2-ib0");
    assert_true(first.major == 2 && first.minor == 0 && !first.thread_safe);
    assert_string_equal(first.library, "libdaplofa.so.2");
    assert_string_equal(first.instance, "ib0 0");
    assert_string_equal(second.name, "b");
    assert_true(second.major == 1 && second.minor == 2 && second.thread_safe);
    assert_string_equal(second.library, "/lib/b.so");
    assert_string_equal(second.instance, "x");
}

void quotes_in_instance_data_parsed(void **) {
    const struct {
        const char *text, *instance;
    } rows[] = {
        {R"("x y" "")", "x y"},  {R"("x\"y\\z" "")", R"(x"y\z)"},
        {R"("a\nb" "")", "anb"}, // a plain n
        {R"("" "")", ""},        {"x p", "x"},
        {"x\tp", "x"},           {"x p # comment", "x"},
        {"x p#p", "x"},          {R"(x ""#comment)", "x"},
        {R"("a#b" p)", "a#b"},   {"x#y p", "x#y"},
        {R"(a\b p)", R"(a\b)"}, // a backslash has no effect outside quotes
        {R"(\#b p)", R"(\#b)"},  {R"(a"b p)", R"(a"b)"},
        {R"("ab"cd)", "ab"}, // two fields without a blank between
        {R"("a""b")", "a"},      {"\"a\tb\" p", "a\tb"},
        {"x p\r", "x"},          {"x \"\" \r", "x"},
        {"x\ry p", "x\ry"},
    };
    for (const auto &row : rows) {
        for (const char *end : {"\n", "", "\n\n# more\n"}) {
            const parsed file(with_instance(row.text) + end);
            if (file.entries.size() != 1 || file.errors.size() != 0)
                fail_msg("%s: %zu entries, %zu errors", row.text, file.entries.size(),
                         file.errors.size());
            assert_equal(file.entries[0].instance, row.instance, row.text);
        }
    }
}

void lenient_forms_accepted(void **) {
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
    for (const auto &row : rows) {
        const parsed file(row.text);
        if (file.entries.size() != 1 || file.entries[0].major != row.major ||
            file.entries[0].minor != row.minor || file.entries[0].thread_safe != row.thread_safe)
            fail_msg("%s", row.text);
        assert_equal(file.entries[0].name, "a", row.text);
    }
}

void comments_and_unusable_entries_skipped(void **) {
    for (const char *text :
         {"", "\n \t\n", "# a", "  # a\n#b", "\r\n", "a u2.0 threadsafe nondefault l s.2.0 x y",
          "a k2.0 threadsafe default l s.2.0 x y"}) {
        const parsed file(text);
        if (file.entries.size() != 0 || file.errors.size() != 0)
            fail_msg("%s", text);
    }
}

const std::string LONG(256, 'n');

/// A line, its invalid field and the expected one; "" is the end of the line, "(" an unterminated
/// quote.
const struct {
    std::string text;
    const char *field, *expected;
} ERRORS[] = {
    {"a 2.0 nonthreadsafe default l s.2.0 x y", "2.0", "the API version"},
    {"a U2.0 nonthreadsafe default l s.2.0 x y", "U2.0", "the API version"},
    {"a uu2.0 nonthreadsafe default l s.2.0 x y", "uu2.0", "the API version"},
    {"a u2.0x nonthreadsafe default l s.2.0 x y", "u2.0x", "the API version"},
    {"a u2.0.1 nonthreadsafe default l s.2.0 x y", "u2.0.1", "the API version"},
    {"a u-2.0 nonthreadsafe default l s.2.0 x y", "u-2.0", "the API version"},
    {"a u4294967296.0 nonthreadsafe default l s.2.0 x y", "u4294967296.0", "the API version"},
    {"a u2.0 Nonthreadsafe default l s.2.0 x y", "Nonthreadsafe", "threadsafe or"},
    {"a u2.0 thread default l s.2.0 x y", "thread", "threadsafe or"},
    {"a u2.0 threadsafe defa l s.2.0 x y", "defa", "default or"},
    {"a u2.0 threadsafe default l dapl2.0 x y", "dapl2.0", "the provider version"},
    {"a u2.0 threadsafe default l .2.0 x y", ".2.0", "the provider version"},
    {"a u2.0 threadsafe default l s.2 x y", "s.2", "the provider version"},
    {"a u2.0 threadsafe default l s.2. x y", "s.2.", "the provider version"},
    {"a u2.0 threadsafe default l s..0 x y", "s..0", "the provider version"},
    {"a u2.0 threadsafe default l s.x.y x y", "s.x.y", "the provider version"},
    {"a u2.0 threadsafe default l s.a.2.0 x y", "s.a.2.0", "the provider version"},
    {"a u2.0 threadsafe default l s.2.0y x y", "s.2.0y", "the provider version"},
    {"a u2.0 threadsafe default l s.2.0.1 x y", "s.2.0.1", "the provider version"},
    {"a u2.0 threadsafe nondefault l bad x y", "bad", "the provider version"},
    {"a u2.0 threadsafe default l s.2.0 x", "", "platform data"},
    {"a u2.0 threadsafe default l s.2.0 x #y", "", "platform data"},
    {"a u2.0 threadsafe default l s.2.0", "", "instance data"},
    {"a u2.0 threadsafe default", "", "file name of a library"},
    {"a u2.0 threadsafe", "", "default or"},
    {"a", "", "the API version"},
    {"a u2.0 threadsafe default l s.2.0 x y z", "z", "end of the line"},
    {"a u2.0 threadsafe default l s.2.0 'x y' z", "z", "end of the line"},
    {"a u2.0 threadsafe default l s.2.0 a\\ b p", "p", "end of the line"},
    {"a u2.0 threadsafe default l s.2.0 ab\"c d\" p", "p", "end of the line"},
    {"a u2.0 threadsafe default l s.2.0 \"x", "(", "instance data"},
    {"a u2.0 threadsafe default l s.2.0 \"x\\", "(", "instance data"},
    {"a u2.0 threadsafe default l s.2.0 x \"y", "(", "platform data"},
    {"a u2.0 threadsafe default l s.2.0 x y \"", "(", "end of the line"},
    {"\"a", "(", "a name"},
    {LONG + " u2.0 threadsafe default l s.2.0 x y", LONG.c_str(), "a name of at most 255"},
};

void error_has_line_and_expected_field(void **) {
    const std::string good = with_instance("good y");
    for (const auto &row : ERRORS) {
        const parsed file(good + "\n" + row.text + "\n" + good);
        if (file.entries.size() != 2 || file.errors.size() != 1)
            fail_msg("%s: %zu entries, %zu errors", row.text.c_str(), file.entries.size(),
                     file.errors.size());
        const parse_error &error = file.errors[0];
        assert_int_equal(error.line, 2);
        assert_int_equal(error.unterminated_quote, *row.field == '(');
        if (*row.field == '(' || !*row.field)
            assert_null(error.field);
        else
            assert_equal(error.field, row.field, row.text);
        if (!std::strstr(error.expected, row.expected))
            fail_msg("%s: expected %s", row.text.c_str(), error.expected);
        assert_string_equal(file.entries[1].instance, "good");
    }
}

void name_of_255_characters_accepted(void **) {
    const parsed file(LONG.substr(1) + " u2.0 threadsafe default l s.2.0 x y");
    assert_int_equal(file.entries.size(), 1);
    assert_string_equal(file.entries[0].name, LONG.substr(1).c_str());
}

void line_end_ends_quoted_field(void **) {
    const parsed file(with_instance("\"x\ny\" \"\"\n") + with_instance("q p"));
    assert_int_equal(file.entries.size(), 1);
    assert_string_equal(file.entries[0].instance, "q");
    assert_int_equal(file.errors.size(), 2); // one for each part
    assert_int_equal(file.errors[1].line, 2);
    const parsed escaped(with_instance("\"x\\\ny\" \"\"\n"));
    assert_int_equal(escaped.entries.size(), 0);
    assert_int_equal(escaped.errors.size(), 2);
}

void zero_byte_ends_field(void **) {
    const std::string text = with_instance("x") + '\0' + "y p\n" + with_instance("q p");
    const parsed file(text);
    assert_int_equal(file.entries.size(), 2);
    assert_string_equal(file.entries[0].instance, "x");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(entry_fields_parsed),
        cmocka_unit_test(quotes_in_instance_data_parsed),
        cmocka_unit_test(lenient_forms_accepted),
        cmocka_unit_test(comments_and_unusable_entries_skipped),
        cmocka_unit_test(error_has_line_and_expected_field),
        cmocka_unit_test(name_of_255_characters_accepted),
        cmocka_unit_test(line_end_ends_quoted_field),
        cmocka_unit_test(zero_byte_ends_field),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
