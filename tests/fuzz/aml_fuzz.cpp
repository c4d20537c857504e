// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: the objects _CCA of any code of an ACPI table are found, or it is refused.

#include "coherency/acpi/aml.hpp"

#include <cstdlib>

using namespace coherdma::coherency;

namespace {

constexpr const char *DEVICE = "_SB_MOD0PCI0";

void require(bool condition) {
    if (!condition)
        std::abort();
}

// A header with the length and checksum of the code, so that the walk begins.
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

bool has_object(const std::vector<cca_object> &objects, const std::string &device, bool value) {
    for (const cca_object &object : objects) {
        if (object.device == device && object.is_coherent == value)
            return true;
    }
    return false;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    const std::string code(reinterpret_cast<const char *>(bytes), size);
    find_cca_objects(code, DEVICE);
    may_have_alias(code, DEVICE);
    const auto objects = find_cca_objects(make_table(code), DEVICE);
    require(objects || code.find("_CCA") != code.npos);
    if (!objects)
        return 0;
    for (const cca_object &object : *objects)
        require(std::string(DEVICE).starts_with(object.device) &&
                parse_acpi_path(format_acpi_path(object.device)) == object.device);
    if (code.find("_CCA") == code.npos) // not walked
        return 0;
    // What is before an object does not hide it.
    const auto more_objects =
        find_cca_objects(make_table(code + std::string("\x08_CCA\0", 6)), DEVICE);
    require(more_objects && more_objects->size() >= objects->size() &&
            has_object(*more_objects, "", false));
    return 0;
}
