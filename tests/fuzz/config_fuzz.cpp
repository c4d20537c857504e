// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: any configuration file or variable is parsed or refused with an error.

#include "coherency/config.hpp"

#include <cstdlib>

using namespace coherdma::coherency;

namespace {

void require(bool condition) {
    if (!condition)
        std::abort();
}

void check_settings(const settings &settings) {
    require((settings.error == 0) == settings.problem.empty());
    require(settings.problem.size() < 200);
    for (const char c : settings.problem)
        require(c >= ' ' && c <= '~'); // safe for a terminal
    const auto &statements = settings.statements;
    for (const statement &statement : statements)
        require(!statement.pattern.empty() && statement.pattern.size() <= 128 &&
                !statement.source.empty());
    for (const key key : {key::coherent, key::emulate}) {
        const statement *match = find_statement(settings, "mlx5_0", "mlx5", key);
        require(!match || (match >= statements.data() &&
                           match < statements.data() + statements.size() && match->key == key));
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(bytes), size);
    settings file_settings;
    parse_file(text, "fuzz", file_settings);
    check_settings(file_settings);
    settings variable_settings;
    parse_variable(text.substr(0, text.find('\0')), variable_settings);
    check_settings(variable_settings);
    return 0;
}
