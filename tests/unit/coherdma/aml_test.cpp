// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Finds the objects _CCA of ACPI tables that are built here from terms of AML. Each has its source
// (ASL) beside it.

#include "../cmocka.hpp"
#include "coherency/acpi/aml.hpp"

#include <string>

using namespace coherdma::coherency;
using namespace std::string_literals;

namespace {

// A table's header of 36 bytes with length and checksum, and the code.
std::string make_table(const std::string &code) {
    std::string table = "DSDT" + std::string(32, '\0') + code;
    for (std::size_t i = 0; i < 4; ++i)
        table[4 + i] = static_cast<char>(table.size() >> 8 * i);
    unsigned sum = 0;
    for (const char c : table)
        sum += static_cast<unsigned char>(c);
    table[9] = static_cast<char>(-sum);
    return table;
}

// An opcode and a package: its length, in one byte if it fits, and its contents.
std::string package(const std::string &opcode, const std::string &contents) {
    const std::size_t length = contents.size() + 1;
    if (length <= 0x3F)
        return opcode + static_cast<char>(length) + contents;
    return opcode + static_cast<char>(0x40 | ((length + 1) & 0xF)) +
           static_cast<char>((length + 1) >> 4) + contents;
}

std::string scope(const std::string &name, const std::string &terms) {
    return package("\x10", name + terms);
}

std::string device(const std::string &name, const std::string &terms) {
    return package("\x5B\x82", name + terms);
}

std::string method(const std::string &name, const std::string &body) {
    return package("\x14", name + '\0' + body);
}

const std::string CCA_0 = "\x08_CCA\0"s;   // Name (_CCA, 0)
const std::string CCA_1 = "\x08_CCA\x01"s; // Name (_CCA, 1)

// "PATH=VALUE ..." of the objects found for a device; "?" for a value that is not known; "failed".
std::string find(const std::string &code, const char *device = "\\_SB_.MOD0.PCI0") {
    const auto objects = find_cca_objects(make_table(code), parse_acpi_path(device).value());
    if (!objects)
        return "failed";
    std::string text;
    for (const auto &[path, is_coherent] : *objects)
        text += (text.empty() ? "" : " ") + format_acpi_path(path) + '=' +
                (is_coherent ? (*is_coherent ? "1" : "0") : "?");
    return text;
}

void assert_found(const std::string &code, const char *expected) {
    assert_string_equal(find(code).c_str(), expected);
}

void assert_found_for(const char *device, const std::string &code, const char *expected) {
    assert_string_equal(find(code, device).c_str(), expected);
}

void scopes_are_resolved(void **) {
    assert_found("", "");
    assert_found(CCA_1, "\\=1");
    // Scope (\_SB) { Device (PCI0) { Name (_CCA, 1) } Device (USB0) { Name (_CCA, 0) } }
    const std::string two = scope("\\_SB_", device("PCI0", CCA_1) + device("USB0", CCA_0));
    assert_found_for("\\_SB_.PCI0", two, "\\_SB_.PCI0=1");
    assert_found_for("\\_SB_.USB0", two, "\\_SB_.USB0=0");
    assert_found_for("\\_SB_.PCI0.RP00", two, "\\_SB_.PCI0=1");
    assert_found_for("\\_SB_", two, "");
    // Scope (\_SB.MOD0) { Name (_CCA, 0) }
    assert_found(scope("\\\x2E_SB_MOD0", CCA_0), "\\_SB_.MOD0=0");
    // Scope (\) { Scope (_SB.MOD0.PCI0) { Name (_CCA, 0) } }
    assert_found(scope("\\\0"s, scope("\x2F\x03_SB_MOD0PCI0", CCA_0)), "\\_SB_.MOD0.PCI0=0");
    assert_found(scope("\\_SB_", scope("\x2F\x03_SB_MOD0PCI0", CCA_0)), "");
    // Name (\_SB.MOD0._CCA, 0), Name (MOD0._CCA, 0) in \_SB and elsewhere
    assert_found("\x08\\\x2F\x03_SB_MOD0_CCA\0"s, "\\_SB_.MOD0=0");
    assert_found(scope("\\_SB_", "\x08\x2EMOD0_CCA\0"s), "\\_SB_.MOD0=0");
    assert_found("\x08\x2EMOD0_CCA\0"s, "");
    // Processor, PowerResource and ThermalZone open scopes, too.
    assert_found_for("\\CPU0", package("\x5B\x83", "CPU0\x01\0\0\0\0\0"s + CCA_0), "\\CPU0=0");
    assert_found_for("\\PWR0", package("\x5B\x84", "PWR0\0\0\0"s + CCA_0), "\\PWR0=0");
    assert_found_for("\\TZ00", package("\x5B\x85", "TZ00" + CCA_0), "\\TZ00=0");
    // Equal ones are found once.
    assert_found(CCA_1 + CCA_1 + CCA_0 + CCA_1, "\\=1 \\=0");
}

// Linux searches a single name after Scope in the scopes above. Which it finds depends on what is
// loaded; a declaration is not searched.
void scope_is_searched_in_parents(void **) {
    assert_found(scope("\\\x2E_SB_USB0", scope("MOD0", CCA_0)), "\\_SB_.MOD0=0");
    assert_found(scope("\\\x2E_SB_USB0", scope("\x2EMOD0PCI0", CCA_0)), "");
    assert_found(scope("\\\x2E_SB_USB0", device("MOD0", CCA_0)), "");
}

// Which device the parent is depends on the scope, see below: each can be meant.
void names_of_parents_can_mean_any(void **) {
    assert_found(scope("\\\x2E_SB_USB0", device("^MOD0", CCA_0)), "\\_SB_.MOD0=0");
    assert_found(scope("\\\x2E_SB_USB0", "\x08^_CCA\0"s),
                 "\\=0 \\_SB_=0 \\_SB_.MOD0=0 \\_SB_.MOD0.PCI0=0");
}

// After an error, such as a Scope whose target is missing, Linux may not leave the scope.
void scope_can_stay_open(void **) {
    const std::string missing = scope("GONE", "\x08NAM1\x01");
    // Device (\_SB.MOD0) { Scope (GONE) { ... } } Name (_CCA, 0)
    assert_found(device("\\\x2E_SB_MOD0", missing) + CCA_0, "\\=0 \\_SB_.MOD0=0");
    // Device (\_SB.USB0) { Scope (\_SB.MOD0) { Scope (GONE) { ... } } Name (_CCA, 0) }
    assert_found(device("\\\x2E_SB_USB0", scope("\\\x2E_SB_MOD0", missing) + CCA_0),
                 "\\_SB_.MOD0=0");
    assert_found(scope("\\_SB_", missing) + device("MOD0", CCA_0), "\\_SB_.MOD0=0");
    // If (1) { ... } Name (_CCA, 0)
    assert_found(device("USB0", package("\xA0", "\x01" + scope("\\\x2E_SB_MOD0", missing)) + CCA_0),
                 "\\=0 \\_SB_=0 \\_SB_.MOD0=0 \\_SB_.MOD0.PCI0=0");
}

void values_are_integers(void **) {
    const auto value = [](const std::string &data) {
        return find("\x08_CCA" + data);
    };
    assert_string_equal(value("\x0A\x01").c_str(), "\\=1");
    assert_string_equal(value("\x0B\0\0"s).c_str(), "\\=0");
    assert_string_equal(value("\x0C\x01\0\0\0"s).c_str(), "\\=1");
    assert_string_equal(value("\x0E\0\0\0\0\0\0\0\0"s).c_str(), "\\=0");
    for (const std::string &data :
         {"\x0A\x02"s, "\xFF"s, "\x0B\x01\x01"s, "\x0E\0\0\0\0\0\0\0\x80"s, // not 0 or 1
          "\x0D"
          "1\0"s,                                    // a string
          package("\x11", "\x0A\x01\x01"),           // Buffer (1) { 1 }
          package("\x12", "\x01\x01"), "\x5B\x30"s}) // Package { 1 }, Revision
        assert_string_equal(value(data).c_str(), "\\=?");
    assert_string_equal(value("PCI0").c_str(), "failed"); // of no constant
    assert_string_equal(value("").c_str(), "failed");
}

// An object of another kind, whose value only Linux knows.
void other_objects_are_uncertain(void **) {
    assert_found(device("_SB_", method("_CCA", "\xA4\x01")), "\\_SB_=?"); // Method (_CCA)
    assert_found("\x8A"
                 "BUFF"
                 "\0"s +
                     "_CCA",
                 "\\=?"); // CreateDWordField
    assert_found("\x5B\x13"
                 "BUFF"
                 "\0"s
                 "\x0A\x08"
                 "_CCA",
                 "\\=?"); // CreateField
    assert_found(device("_CCA", ""), "\\=?");
}

// Field (REGN, ...) { _CCA, 8 }; a method or an If that has the name; an External.
void other_uses_fail(void **) {
    assert_found(package("\x5B\x81", "REGN\0_CCA\x08"s), "failed");
    assert_found(CCA_1 + package("\x5B\x86", "INDXDATA\0_CCA\x08"s), "failed");
    assert_found(CCA_1 + method("_INI", "\x70\0_CCA"s), "failed"); // Store (0, _CCA)
    assert_found(CCA_1 + package("\xA0", "\x01" + CCA_0), "failed");
    assert_found(CCA_1 + package("\xA1", CCA_0), "failed");
    assert_found(CCA_1 + package("\xA2", "\x01" + CCA_0), "failed");
    assert_found(CCA_1 + "\x15_CCA\x01\0"s, "failed");
    assert_found(CCA_1 + "\x06_CCAXCCA", "failed");
    assert_found(CCA_1 + "\x08LIST" + package("\x12", "\x01_CCA"), "failed");
    assert_found("\x08\x2E_CCA_CCA\x01", "failed");
    assert_found("\x08\x2E_CCAABCD\x01", "failed");
    // Bytes that are part of two names.
    assert_found(CCA_1 + "\x08\x2E"
                         "AB_CCA__\x01",
                 "failed");
    // A constant: 0x4143435F.
    assert_found(CCA_1 + "\x08"
                         "NUMB\x0C_CCA",
                 "failed");
}

void strings_and_buffers_do_not_count(void **) {
    assert_found("\x08TEXT\x0D"
                 "\x08_CCA\x01_CCA\0"s +
                     CCA_0,
                 "\\=0");
    assert_found("\x08"
                 "BUFF" +
                     package("\x11", "\x0A\x06" + CCA_1) + CCA_0,
                 "\\=0");
}

// What declares no _CCA is skipped, by its length or as a whole.
void other_terms_are_skipped(void **) {
    const std::string terms =
        method("MAIN", "\x70\x01\x60") + package("\xA0", "\x01\xA3") + package("\xA1", "\xA3") +
        package("\xA2", "\0\xA3"s) + "\x5B\x01MUTX\0"s +
        "\x5B\x02"
        "EVNT" +
        "\xA3" + "\x15\\OTHR\x06\0"s + "\x5B\x80REGN\0\x0C\0\0\0\0\x0A\x10"s +
        "\x5B\x80REG2\0"
        "BASE"
        "LENG"s +
        package("\x5B\x81", "REGN\0FLDA\x08"s) + package("\x5B\x87", "REGNFLDA\x01\0FLDB\x08"s) +
        "\x5B\x88TABL\x0D"
        "A\0\x0D"
        "B\0\x0D\0"s +
        "\x8A"
        "BUFF\x0A\x04"
        "FLDC" +
        "\x8D"
        "BUFF\x01"
        "FLDD" +
        "\x5B\x13"
        "BUFF\0\x0A\x08"
        "FLDE"s +
        "\x08LIST" + package("\x12", "\x02\x01PCI0") + "\x08LIS2" + package("\x13", "SIZE\x01");
    // An If can leave any scope open.
    const char *const all = "\\=1 \\_SB_=1 \\_SB_.MOD0=1 \\_SB_.MOD0.PCI0=1";
    assert_found(terms + CCA_1, all);
    assert_found(scope("\\_SB_", terms + CCA_1), all);
}

// The walk must not resume at a wrong byte: any term that it does not know is a failure.
void unknown_terms_fail(void **) {
    for (const std::string &term :
         {"\x70\x01\x60"s, "MAIN"s, "\x06PCI0PCIX"s, "\xA4\x01"s, "\xCC"s, "\x5B\x21\x01"s,
          "\x11\x02\x01"s, "\0"s, "\x0D_\0"s,
          // A name that turns out to be a method with an argument.
          "\x5B\x80REGN\0METH\x01\x0A\x10"s, "\x8AMETHBUFF\0FLDC"s,
          // Names of other characters, or none.
          "\x08pci0\x01"s, "\x08\x31PCI\x01"s, "\x08\0\x01"s, "\x5B\x02\\\0"s}) {
        assert_found(term + CCA_1, "failed");
        assert_found(CCA_1 + term, "failed");
        assert_found(device("PCI0", CCA_1 + term), "failed");
        assert_found(term, ""); // a table without the name is not walked
    }
}

// Package lengths beyond the package around, before their own end, or not to the end of a term.
void package_lengths_are_checked(void **) {
    const std::string inner = "\x5B\x82\x0BMOD0" + CCA_1;
    assert_found(scope("_SB_", inner), "\\_SB_.MOD0=1");
    for (const char length : {'\x00', '\x01', '\x04', '\x0A', '\x0C', '\x11', '\x3F', '\x40',
                              '\x4B', '\x80', '\xC0', '\xFF'}) {
        std::string bad = inner;
        bad[2] = length;
        assert_found(scope("_SB_", bad), "failed");
        assert_found(scope("_SB_", bad) + CCA_1 + CCA_1 + CCA_1, "failed");
    }
    // In two, three and four bytes.
    for (unsigned num_further = 1; num_further <= 3; ++num_further) {
        const std::size_t length = 1 + num_further + 4 + CCA_1.size();
        const std::string first(1, static_cast<char>(num_further << 6 | length));
        assert_found("\x5B\x82" + first + std::string(num_further, '\0') + "_SB_" + CCA_1,
                     "\\_SB_=1");
    }
}

void depth_is_limited(void **) {
    std::string code = CCA_1;
    for (int i = 0; i < 32; ++i)
        code = scope("\\_SB_", code);
    assert_found(code, "\\_SB_=1");
    assert_found(scope("\\_SB_", code), "failed");
}

void damaged_tables_fail(void **) {
    const std::string table = make_table(device("_SB_", CCA_0) + method("MAIN", "\xA4\x01"));
    const auto is_read = [](const std::string &bytes) {
        return find_cca_objects(bytes, "_SB_").has_value();
    };
    assert_true(is_read(table));
    for (std::size_t i = 0; i < table.size(); ++i) {
        assert_false(is_read(table.substr(0, i)));
        std::string changed = table;
        ++changed[i];
        assert_false(is_read(changed));
    }
    assert_true(is_read(make_table("")));
    assert_false(is_read(make_table("") + '\0')); // the sum is the same
}

// Truncated, with a header that fits: fails, or the object is gone or has its value.
void truncated_code_never_becomes_coherent(void **) {
    const std::string code = scope("\\_SB_", device("MOD0", CCA_0 + method("MAIN", "\xA4\x01"))) +
                             scope("\\\x2E_SB_MOD0", "\x08LIST" + package("\x12", "\x01\x01")) +
                             scope("\\\x2F\x03_SB_MOD0PCI0", "\x08_CCA\x0C\0\0\0\0"s);
    assert_found(code, "\\_SB_.MOD0=0 \\_SB_.MOD0.PCI0=0");
    for (std::size_t i = 0; i < code.size(); ++i) {
        const std::string text = find(code.substr(0, i));
        assert_true(text == "failed" || text.find("=1") == text.npos);
    }
}

void aliases_are_found(void **) {
    const auto is_found = [](const std::string &bytes) {
        return may_have_alias(make_table(bytes), "_SB_MOD0PCI0");
    };
    assert_true(is_found("\x06PCI0PCIX"));
    assert_true(is_found("\x06\\\x2E_SB_MOD0^^PCIX"));
    assert_true(is_found("\x06\\_SB_\\SYSB"));
    assert_true(is_found(method("MAIN", "\xA3\x06PCI0PCIX\xA3")));
    assert_false(is_found("\x06PCI1PCIX"));
    assert_false(is_found("\x06\x2EPCI0_SUBNAME"));
    assert_false(is_found("\x06PCI0"));
    assert_false(is_found("PCI0PCIX"));
    assert_false(is_found("\x06\\\0PCIX"s));
}

void paths_are_parsed(void **) {
    assert_string_equal(parse_acpi_path("\\_SB_.PCI0")->c_str(), "_SB_PCI0");
    assert_string_equal(parse_acpi_path("\\")->c_str(), "");
    assert_string_equal(format_acpi_path("_SB_PCI0").c_str(), "\\_SB_.PCI0");
    assert_string_equal(format_acpi_path("").c_str(), "\\");
    for (const std::string &text : {""s, "_SB_.PCI0"s, "\\_SB.PCI0"s, "\\_SB_.PCI"s, "\\_SB_."s,
                                    "\\_SB_PCI0"s, "\\_SB_..PCI0"s, "\\_SB_.pci0"s, "\\1ABC"s,
                                    "\\_SB_.PCI0 "s, '\\' + std::string(400, 'A')})
        assert_false(parse_acpi_path(text).has_value());
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(scopes_are_resolved),
        cmocka_unit_test(scope_is_searched_in_parents),
        cmocka_unit_test(names_of_parents_can_mean_any),
        cmocka_unit_test(scope_can_stay_open),
        cmocka_unit_test(values_are_integers),
        cmocka_unit_test(other_objects_are_uncertain),
        cmocka_unit_test(other_uses_fail),
        cmocka_unit_test(strings_and_buffers_do_not_count),
        cmocka_unit_test(other_terms_are_skipped),
        cmocka_unit_test(unknown_terms_fail),
        cmocka_unit_test(package_lengths_are_checked),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(damaged_tables_fail),
        cmocka_unit_test(truncated_code_never_becomes_coherent),
        cmocka_unit_test(aliases_are_found),
        cmocka_unit_test(paths_are_parsed),
    };
    return cmocka_run_group_tests_name("aml", tests, nullptr, nullptr);
}
