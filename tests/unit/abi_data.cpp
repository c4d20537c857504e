// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "abi_data.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace {

std::map<std::string, of_epochs> table(const std::string &name, int words) {
    std::ifstream file(std::string(COHERDMA_TEST_DATA "/abi/") + name);
    std::map<std::string, of_epochs> rows;
    std::string line, field;
    std::getline(file, line);
    if (!line.ends_with(",v36,v44,v45,v49,v57,v59,v62,v64,v65"))
        throw std::runtime_error(name + ": not the epochs that are known");
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::string key;
        for (int word = 0; word < words && std::getline(fields, field, ','); ++word)
            key += (key.empty() ? "" : ".") + field;
        of_epochs &row = rows[key];
        for (auto &each : row) {
            if (std::getline(fields, field, ',') && !field.empty())
                each = std::stoul(field);
        }
    }
    return rows;
}

} // namespace

std::map<std::string, of_epochs> layout_data(coherdma::abi::machine of) {
    return table(of == coherdma::abi::machine::x86_64 ? "x86_64.csv" : "aarch64.csv", 2);
}

std::map<std::string, of_epochs> symbol_data() {
    return table("symbols.csv", 1);
}
