// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// BTF: the kernel's description of its own types, in /sys/kernel/btf/vmlinux.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace coherdma::coherency {

/// A member of a struct, or of an anonymous struct or union in it, or an enumerator of an enum, by
/// name. find_in_btf() sets the rest.
struct btf_name {
    enum class search_result {
        no_type,      ///< no such struct or enum
        missing,      ///< the type is there, without the name
        known,        ///< is in one type, or in several with the same value
        contradictory ///< types of the same name differ
    };

    const char *type;
    const char *name;
    search_result result = search_result::no_type;
    std::uint32_t value = 0;         ///< of an enumerator; of a member the offset in bits
    std::uint32_t bitfield_size = 0; ///< in bits; 0: not a bitfield

    bool is_known() const { return result == search_result::known; }
};

/// Sets the results of all names. Returns false if the bytes are not BTF that is known: then the
/// results mean nothing.
bool find_in_btf(std::string_view bytes, std::span<btf_name> names);

} // namespace coherdma::coherency
