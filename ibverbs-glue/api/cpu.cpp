// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cpu.hpp"
#include "copy_struct.hpp"
#include "error.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <string>

namespace coherdma::api {

ops_choice find_ops(const char *name) noexcept {
    const char *problem = "";
    const cache::cache_ops *ops = cache::choose_ops(name, &problem);
    return {ops, ops ? "" : problem};
}

const ops_choice &default_ops() noexcept {
    static const ops_choice choice = find_ops(secure_getenv("COHERDMA_CACHE"));
    return choice;
}

/// The names of all usable cache_ops, best first, separated by spaces. Determined once.
const char *usable_ops_names() {
    // An array, which has no destructor: another thread may read it during exit().
    static const std::array<char, 256> names = [] {
        std::string list;
        for (const cache::cache_ops &ops : cache::arch_ops()) {
            if (cache::is_usable(ops))
                list += (list.empty() ? "" : " ") + std::string(ops.name);
        }
        std::array<char, 256> text = {};
        list.copy(text.data(), text.size() - 1);
        return text;
    }();
    return names.data();
}

std::size_t buffer_alignment(std::size_t line_size) noexcept {
    constexpr std::size_t MIN_ALIGNMENT = 128;
    return std::max({line_size, cache::writeback_granule(), MIN_ALIGNMENT});
}

} // namespace coherdma::api

int coherdma_query_cpu(coherdma_cpu_attr *attr, size_t size) try {
    using namespace coherdma;
    coherdma_cpu_attr cpu = {};
    const api::ops_choice &choice = api::default_ops();
    const std::size_t line_size = cache::line_size();
    cpu.line_size = static_cast<std::uint32_t>(line_size);
    cpu.buffer_alignment = static_cast<std::uint32_t>(api::buffer_alignment(line_size));
    cpu.instructions = choice.ops ? choice.ops->name : "";
    cpu.choices = api::usable_ops_names();
    cpu.problem = choice.problem;
    return api::copy_out(cpu, attr, size);
} catch (...) {
    return coherdma::api::fail(ENOMEM, "out of memory");
}
