// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "btf.hpp"

#include <cstddef>
#include <cstring>
#include <linux/btf.h>
#include <optional>
#include <vector>

namespace coherdma::coherency {
namespace {

// As in newer kernels, which widened these fields of btf_type::info: before, the further bits are
// 0.
constexpr std::uint32_t VLEN_MASK = 0xffffff;
constexpr std::uint32_t KIND_MASK = 0x7f;
// Newer kernels have more members in the header, which this file does not need.
constexpr std::size_t MIN_HEADER_SIZE = offsetof(btf_header, str_len) + sizeof(__u32);

// Copies a structure out of the bytes; returns false if it is not inside.
template <typename T>
bool copy_struct_at(std::string_view bytes, std::size_t offset, T &value,
                    std::size_t size = sizeof(T)) {
    if (offset > bytes.size() || size > bytes.size() - offset)
        return false;
    std::memcpy(&value, bytes.data() + offset, size);
    return true;
}

// The bytes of a section; empty if they are not inside.
std::string_view find_section(std::string_view bytes, std::uint64_t offset, std::uint32_t size) {
    return offset <= bytes.size() && size <= bytes.size() - offset ? bytes.substr(offset, size)
                                                                   : std::string_view();
}

// The size of what follows a btf_type; nullopt if the kind is not known.
std::optional<std::uint64_t> size_after_type(std::uint32_t kind, std::uint64_t vlen) {
    switch (kind) {
    case BTF_KIND_PTR:
    case BTF_KIND_FWD:
    case BTF_KIND_TYPEDEF:
    case BTF_KIND_VOLATILE:
    case BTF_KIND_CONST:
    case BTF_KIND_RESTRICT:
    case BTF_KIND_FUNC:
    case BTF_KIND_FLOAT:
    case BTF_KIND_TYPE_TAG:
        return 0;
    case BTF_KIND_INT:
        return sizeof(__u32);
    case BTF_KIND_ARRAY:
        return sizeof(btf_array);
    case BTF_KIND_STRUCT:
    case BTF_KIND_UNION:
        return vlen * sizeof(btf_member);
    case BTF_KIND_ENUM:
        return vlen * sizeof(btf_enum);
    case BTF_KIND_FUNC_PROTO:
        return vlen * sizeof(btf_param);
    case BTF_KIND_VAR:
        return sizeof(btf_var);
    case BTF_KIND_DATASEC:
        return vlen * sizeof(btf_var_secinfo);
    case BTF_KIND_DECL_TAG:
        return sizeof(btf_decl_tag);
    case BTF_KIND_ENUM64:
        return vlen * sizeof(btf_enum64);
    default:
        return {};
    }
}

// The sections of BTF, and its types by their numbers.
struct btf_sections {
    std::string_view types, strings;
    // Of each type in types; the first is that of the type 1, since 0 is void.
    std::vector<std::uint32_t> offsets = {};

    // The string at an offset; "" if it is not inside. The section ends with 0.
    const char *string_at(std::uint32_t offset) const {
        return offset < strings.size() ? strings.data() + offset : "";
    }
};

struct found_member {
    std::uint32_t bit_offset = 0, bitfield_size = 0;
};

std::uint32_t kind_of(const btf_type &type) {
    return type.info >> 24 & KIND_MASK;
}

// Looks in a struct or union, at an offset in types, and in anonymous ones inside. budget: how many
// more members may be visited; the file may have a type inside itself.
std::optional<found_member> find_member(const btf_sections &btf, std::size_t offset,
                                        const char *name, int &budget, int depth = 0) {
    btf_type type = {};
    constexpr int MAX_DEPTH = 8;
    if (depth == MAX_DEPTH || !copy_struct_at(btf.types, offset, type) ||
        (kind_of(type) != BTF_KIND_STRUCT && kind_of(type) != BTF_KIND_UNION))
        return {};
    offset += sizeof type;
    btf_member member = {};
    for (std::uint32_t i = 0; i < (type.info & VLEN_MASK) && budget-- > 0; ++i) {
        if (!copy_struct_at(btf.types, offset + i * sizeof member, member))
            return {};
        found_member result = {member.offset};
        if (BTF_INFO_KFLAG(type.info) != 0)
            result = {BTF_MEMBER_BIT_OFFSET(member.offset),
                      BTF_MEMBER_BITFIELD_SIZE(member.offset)};
        const char *const member_name = btf.string_at(member.name_off);
        if (std::strcmp(member_name, name) == 0)
            return result;
        if (*member_name != '\0' || member.type == 0 || member.type > btf.offsets.size())
            continue;
        const auto inner = find_member(btf, btf.offsets[member.type - 1], name, budget, depth + 1);
        if (inner)
            return found_member{result.bit_offset + inner->bit_offset, inner->bitfield_size};
    }
    return {};
}

// The value of an enumerator of the enum at an offset in types.
std::optional<found_member> find_enumerator(const btf_sections &btf, std::size_t offset,
                                            const char *name) {
    btf_type type = {};
    btf_enum enumerator = {};
    copy_struct_at(btf.types, offset, type);
    offset += sizeof type;
    for (std::uint32_t i = 0; i < (type.info & VLEN_MASK); ++i) {
        if (!copy_struct_at(btf.types, offset + i * sizeof enumerator, enumerator))
            return {};
        if (std::strcmp(btf.string_at(enumerator.name_off), name) == 0)
            return found_member{static_cast<std::uint32_t>(enumerator.val)};
    }
    return {};
}

// Adds what the type at an offset in types says of a name to what others of the same name said.
void search_type(const btf_sections &btf, std::size_t offset, bool is_enum, btf_name &name) {
    int budget = 1 << 20;
    const auto element = is_enum ? find_enumerator(btf, offset, name.name)
                                 : find_member(btf, offset, name.name, budget);
    btf_name addition{.type = name.type, .name = name.name};
    addition.result = element ? btf_name::search_result::known : btf_name::search_result::missing;
    addition.value = element.value_or(found_member()).bit_offset;
    addition.bitfield_size = element.value_or(found_member()).bitfield_size;
    if (name.result == btf_name::search_result::no_type)
        name = addition;
    else if (name.result != addition.result || name.value != addition.value ||
             name.bitfield_size != addition.bitfield_size)
        name.result = btf_name::search_result::contradictory;
}

// A struct or enum that is looked for.
struct matching_type {
    std::size_t offset; // in types
    bool is_enum;
    btf_name *name;
};

} // namespace

bool find_in_btf(std::string_view bytes, std::span<btf_name> names) {
    btf_header header = {};
    if (!copy_struct_at(bytes, 0, header, MIN_HEADER_SIZE) || header.magic != BTF_MAGIC ||
        header.version != BTF_VERSION || header.hdr_len < MIN_HEADER_SIZE)
        return false;
    const std::uint64_t begin = header.hdr_len;
    btf_sections btf = {
        .types = find_section(bytes, begin + header.type_off, header.type_len),
        .strings = find_section(bytes, begin + header.str_off, header.str_len),
    };
    if (btf.types.empty() || btf.strings.empty() || btf.strings.back() != '\0')
        return false;
    std::vector<matching_type> matches;
    for (std::size_t offset = 0; offset < btf.types.size();) {
        btf_type type = {};
        if (!copy_struct_at(btf.types, offset, type))
            return false;
        btf.offsets.push_back(static_cast<std::uint32_t>(offset));
        const bool is_enum = kind_of(type) == BTF_KIND_ENUM;
        if (is_enum || kind_of(type) == BTF_KIND_STRUCT) {
            const char *const type_name = btf.string_at(type.name_off);
            for (btf_name &name : names) {
                if (std::strcmp(type_name, name.type) == 0)
                    matches.push_back({offset, is_enum, &name});
            }
        }
        offset += sizeof type;
        const auto size = size_after_type(kind_of(type), type.info & VLEN_MASK);
        if (!size || *size > btf.types.size() - offset)
            return false;
        offset += *size;
    }
    for (const auto &[offset, is_enum, name] : matches)
        search_type(btf, offset, is_enum, *name);
    return true;
}

} // namespace coherdma::coherency
