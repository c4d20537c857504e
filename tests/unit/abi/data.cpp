// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "data.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {

// Rows by key, which is the first num_key_fields fields, joined by dots; then a value for each
// release, or an empty field.
std::map<std::string, per_release> read_table(const std::string &name, int num_key_fields) {
    std::ifstream file(std::string("tests/data/abi/") + name);
    std::map<std::string, per_release> rows;
    std::string line, field;
    std::getline(file, line);
    if (!line.ends_with(",v36,v44,v45,v49,v57,v59,v62,v64,v65"))
        throw std::runtime_error(name + ": unexpected columns");
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::string key;
        for (int i = 0; i < num_key_fields && std::getline(fields, field, ','); ++i)
            key += (key.empty() ? "" : ".") + field;
        per_release &row = rows[key];
        for (auto &value : row) {
            if (std::getline(fields, field, ',') && !field.empty())
                value = std::stoul(field);
        }
    }
    return rows;
}

} // namespace

std::map<std::string, per_release> layout_data(coherdma::abi::arch arch) {
    return read_table(arch == coherdma::abi::arch::x86_64 ? "x86_64.csv" : "aarch64.csv", 2);
}

std::map<std::string, per_release> symbol_data() {
    return read_table("symbols.csv", 1);
}
