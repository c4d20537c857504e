// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: whatever a configuration file or the environment holds is understood or refused.

#include "coherency/config.hpp"

#include <cstdlib>

using namespace coherdma::coherency;

namespace {

void must(bool holds) {
    if (!holds)
        std::abort();
}

void judge(const settings &all) {
    must((all.error == 0) == all.problem.empty());
    must(all.problem.size() < 200);
    for (const char each : all.problem)
        must(each >= ' ' && each <= '~'); // safe for a terminal
    for (const statement &each : all.said)
        must(!each.pattern.empty() && each.pattern.size() <= 128 && !each.source.empty());
    for (const key of : {key::coherent, key::emulate}) {
        const statement *found = about(all, "mlx5_0", "mlx5", of);
        must(!found || (found >= all.said.data() && found < all.said.data() + all.said.size() &&
                        found->of == of));
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    const std::string_view text(reinterpret_cast<const char *>(bytes), size);
    settings of_file;
    parse_file(text, "fuzz", of_file);
    judge(of_file);
    settings of_variable;
    parse_variable(text.substr(0, text.find('\0')), of_variable);
    judge(of_variable);
    return 0;
}
