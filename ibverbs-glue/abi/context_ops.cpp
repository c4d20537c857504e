// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "context_ops.hpp"

#include <cstring>

namespace coherdma::abi {

/// Converts the table of the newest release to that of a version, without the operations it lacks.
ops_table convert_ops(const verbs_context_ops &ops, abi_version version) noexcept {
    ops_table table{};
    const auto *bytes = reinterpret_cast<const unsigned char *>(&ops);
    for (std::size_t index = 0; index < num_context_ops; ++index) { // in the newest table
        const std::size_t index_in_version = op_index_in_version(version, index);
        if (index_in_version != op_missing)
            std::memcpy(&table.ops[index_in_version], bytes + index * sizeof(void *),
                        sizeof(void *));
    }
    return table;
}

} // namespace coherdma::abi
