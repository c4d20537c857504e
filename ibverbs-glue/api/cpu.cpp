// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cpu.hpp"
#include "copy_out.hpp"
#include "error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <string>

namespace coherdma::api {
namespace {

way find(const char *name) noexcept {
    const char *why = "";
    const cache::path *path = cache::choose(name, &why);
    return {path, path ? "" : why};
}

} // namespace

const way &usual() noexcept {
    static const way found = find(secure_getenv("COHERDMA_CACHE"));
    return found;
}

way named(const char *name) noexcept {
    return find(name);
}

const char *choices() {
    // It has no destructor: while the program is in exit(), another thread may ask.
    static const std::array<char, 256> all = [] {
        std::string names;
        for (const cache::path &each : cache::paths()) {
            if (cache::works(each))
                names += (names.empty() ? "" : " ") + std::string(each.name);
        }
        std::array<char, 256> text = {};
        names.copy(text.data(), text.size() - 1);
        return text;
    }();
    return all.data();
}

std::uint32_t alignment(std::size_t line) noexcept {
    return static_cast<std::uint32_t>(std::max<std::size_t>(line, 128));
}

} // namespace coherdma::api

int coherdma_query_cpu(coherdma_cpu_attr *attr, size_t size) try {
    using namespace coherdma;
    coherdma_cpu_attr found = {};
    const api::way &way = api::usual();
    const std::size_t line = cache::line_size();
    found.line_size = static_cast<std::uint32_t>(line);
    found.alignment = api::alignment(line);
    found.instructions = way.path ? way.path->name : "";
    found.choices = api::choices();
    found.problem = way.problem;
    return api::copy_out(found, attr, size);
} catch (...) {
    return coherdma::api::fail(ENOMEM, "no memory left");
}
