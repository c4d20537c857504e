// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// AML is a list of terms: an opcode, and what belongs to it. Terms that contain others are packages
// and begin with their length. Here terms that open a scope (Scope, Device, ...) are walked, other
// declarations and the bodies of methods are skipped.
//
// Nothing can define a _CCA without the name in its bytes. So:
//   - A table without the bytes _CCA is not walked.
//   - Each _CCA in the bytes must be the name of an object that the walk met, or be in a string or
//     buffer. Else, as in a method or in an If, what it does would have to be executed: failure.
//   - A term that is not known, or reaches beyond the package that it is in, is a failure. So is an
//     Alias, a second name, since a Scope with it can mean a device of another name.
//
// Which device an object belongs to is uncertain, since Linux goes on after an error. So the walk
// follows all scopes, of the device and those above it, that the current scope can be:
//   - If a scope ends after an error, Linux can stay in it (acpi_ps_parse_loop()).
//   - A single name after Scope is searched in the scopes above, too, which can lack it.
// On the other hand, Linux can find less: an error or an If can end the table or a scope early.

#include "aml.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace coherdma::coherency {
namespace {

constexpr std::string_view CCA = "_CCA";
constexpr std::size_t NAME_SIZE = 4; // of each name in a path

// The table's header, as in the specification's "System Description Table Header".
constexpr std::size_t HEADER_SIZE = 36;
constexpr std::size_t HEADER_LENGTH = 4; // the length of the table, 32-bit little-endian

constexpr int MAX_SCOPE_DEPTH = 32; // of scopes in each other; far beyond that of real tables
constexpr std::size_t MAX_PATH_NAMES = 63; // of the device, so that scope_set has a bit for each

// Of the device's path the scopes that its first names are: bit 0 is the root.
using scope_set = std::uint64_t;
constexpr scope_set ROOT_SCOPE = 1;
constexpr scope_set ALL_SCOPES = ~scope_set{0};

// Opcodes and prefixes, named as in the specification's "AML Specification".
enum opcode : unsigned {
    NULL_NAME = 0x00,
    ZERO_OP = 0x00,
    ONE_OP = 0x01,
    ALIAS_OP = 0x06,
    NAME_OP = 0x08,
    BYTE_PREFIX = 0x0A,
    WORD_PREFIX = 0x0B,
    DWORD_PREFIX = 0x0C,
    STRING_PREFIX = 0x0D,
    QWORD_PREFIX = 0x0E,
    SCOPE_OP = 0x10,
    BUFFER_OP = 0x11,
    PACKAGE_OP = 0x12,
    VAR_PACKAGE_OP = 0x13,
    METHOD_OP = 0x14,
    EXTERNAL_OP = 0x15,
    DUAL_NAME_PREFIX = 0x2E,
    MULTI_NAME_PREFIX = 0x2F,
    CREATE_DWORD_FIELD_OP = 0x8A,
    CREATE_WORD_FIELD_OP = 0x8B,
    CREATE_BYTE_FIELD_OP = 0x8C,
    CREATE_BIT_FIELD_OP = 0x8D,
    CREATE_QWORD_FIELD_OP = 0x8F,
    IF_OP = 0xA0,
    ELSE_OP = 0xA1,
    WHILE_OP = 0xA2,
    NOOP_OP = 0xA3,
    ONES_OP = 0xFF,
    // Two bytes, of which the first is EXT_PREFIX.
    EXT_PREFIX = 0x5B,
    MUTEX_OP = 0x5B01,
    EVENT_OP = 0x5B02,
    CREATE_FIELD_OP = 0x5B13,
    REVISION_OP = 0x5B30,
    OP_REGION_OP = 0x5B80,
    FIELD_OP = 0x5B81,
    DEVICE_OP = 0x5B82,
    PROCESSOR_OP = 0x5B83,
    POWER_RES_OP = 0x5B84,
    THERMAL_ZONE_OP = 0x5B85,
    INDEX_FIELD_OP = 0x5B86,
    BANK_FIELD_OP = 0x5B87,
    DATA_REGION_OP = 0x5B88,
};

std::size_t count_mentions(std::string_view bytes) {
    std::size_t count = 0;
    for (std::size_t pos = bytes.find(CCA); pos != bytes.npos; pos = bytes.find(CCA, pos + 1))
        ++count;
    return count;
}

bool is_name_char(char c, bool is_first) {
    return (c >= 'A' && c <= 'Z') || c == '_' || (!is_first && c >= '0' && c <= '9');
}

// A name as a table has it, relative to a scope: prefixes, and names of four characters.
struct name_string {
    bool is_absolute = false;    // begins with a backslash
    std::size_t num_parents = 0; // of prefixes ^
    std::string names;
};

// Reads code. After a failure it reads zeros.
struct aml_reader {
    std::string_view code;
    std::size_t end = code.size(); // of the innermost package
    std::size_t pos = 0;
    bool failed = false;

    unsigned read_byte() {
        if (pos >= end)
            failed = true;
        return failed ? 0 : static_cast<unsigned char>(code[pos++]);
    }

    void skip_bytes(std::size_t count) {
        for (; count > 0 && !failed; --count)
            read_byte();
    }

    unsigned read_opcode() {
        const unsigned byte = read_byte();
        return byte == EXT_PREFIX ? byte << 8 | read_byte() : byte;
    }

    // The two highest bits of the first byte are the number of bytes that follow it. Without these
    // the others are the length, else the lowest four are its lowest bits. It counts from here.
    std::size_t read_package_end() {
        const std::size_t begin = pos;
        const unsigned first = read_byte();
        const unsigned num_further = first >> 6;
        std::size_t length = first & (num_further == 0 ? 0x3F : 0x0F);
        for (unsigned i = 0; i < num_further; ++i)
            length |= std::size_t{read_byte()} << (4 + 8 * i);
        failed = failed || length < pos - begin || length > end - begin;
        return failed ? pos : begin + length;
    }

    // Reads a package's length, and with read_contents() all that it has: up to `end`.
    template <typename function>
    void read_package(function read_contents) {
        const std::size_t outer_end = std::exchange(end, read_package_end());
        read_contents();
        end = outer_end;
    }

    void skip_package() {
        read_package([this] { pos = end; });
    }

    name_string read_name() {
        name_string name;
        const auto skip_prefix = [this](char prefix) {
            const bool has_prefix = pos < end && code[pos] == prefix;
            pos += has_prefix ? 1 : 0;
            return has_prefix;
        };
        name.is_absolute = skip_prefix('\\');
        while (!name.is_absolute && skip_prefix('^'))
            ++name.num_parents;
        const unsigned first = read_byte();
        std::size_t num_names = first == NULL_NAME ? 0 : 1;
        if (first == DUAL_NAME_PREFIX)
            num_names = 2;
        else if (first == MULTI_NAME_PREFIX)
            num_names = read_byte();
        else if (first != NULL_NAME)
            --pos;
        for (std::size_t i = 0; i < num_names * NAME_SIZE && !failed; ++i) {
            name.names += static_cast<char>(read_byte());
            failed = failed || !is_name_char(name.names.back(), i % NAME_SIZE == 0);
        }
        return name;
    }
};

class aml_walk {
  public:
    aml_walk(std::string_view code, std::string_view device_path)
        : input{code}
        , device{device_path} {}

    std::optional<std::vector<cca_object>> find_objects() {
        num_unexplained = count_mentions(input.code);
        if (num_unexplained > 0)
            walk_terms(ROOT_SCOPE, 0);
        if (input.failed || num_unexplained > 0)
            return {};
        return objects;
    }

  private:
    aml_reader input;
    std::string_view device;
    std::vector<cca_object> objects;
    std::size_t num_unexplained = 0; // _CCA in the bytes that are not an object's name

    // The scopes that the name can mean in one of these.
    scope_set resolve(const name_string &name, scope_set scopes, bool is_searched = false) const {
        if (name.is_absolute)
            scopes = ROOT_SCOPE;
        else if (name.num_parents > 0 || (is_searched && name.names.size() == NAME_SIZE))
            scopes = ALL_SCOPES;
        scope_set matches = 0;
        for (std::size_t i = 0; i <= device.size() / NAME_SIZE; ++i) {
            const bool is_in_scope = (scopes >> i & 1) != 0;
            if (is_in_scope && device.substr(i * NAME_SIZE).starts_with(name.names))
                matches |= scope_set{1} << (i + name.names.size() / NAME_SIZE);
        }
        return matches;
    }

    void declare(name_string name, scope_set scopes, std::optional<bool> is_coherent = {}) {
        if (name.names.empty())
            input.failed = true;
        if (!name.names.ends_with(CCA))
            return;
        --num_unexplained;
        name.names.resize(name.names.size() - NAME_SIZE);
        const scope_set matches = resolve(name, scopes);
        for (std::size_t i = 0; i <= device.size() / NAME_SIZE; ++i) {
            const cca_object object{std::string(device.substr(0, i * NAME_SIZE)), is_coherent};
            if ((matches >> i & 1) != 0 && std::ranges::find(objects, object) == objects.end())
                objects.push_back(object);
        }
    }

    // Reads a constant; whether it is the integer 1 or 0.
    std::optional<bool> read_data() {
        const auto read_integer = [this](int num_bytes) -> std::optional<bool> {
            unsigned long long value = 0;
            for (int i = 0; i < num_bytes; ++i)
                value |= static_cast<unsigned long long>(input.read_byte()) << 8 * i;
            return value > 1 ? std::nullopt : std::optional(value == 1);
        };
        const std::size_t begin = input.pos;
        switch (input.read_opcode()) {
        case ZERO_OP:
            return false;
        case ONE_OP:
            return true;
        case BYTE_PREFIX:
            return read_integer(1);
        case WORD_PREFIX:
            return read_integer(2);
        case DWORD_PREFIX:
            return read_integer(4);
        case QWORD_PREFIX:
            return read_integer(8);
        case STRING_PREFIX:
            while (input.read_byte() != 0) {
            }
            num_unexplained -= count_mentions(input.code.substr(begin, input.pos - begin));
            return {};
        case BUFFER_OP:
            input.skip_package();
            num_unexplained -= count_mentions(input.code.substr(begin, input.pos - begin));
            return {};
        case PACKAGE_OP:
        case VAR_PACKAGE_OP:
            input.skip_package();
            return {};
        case ONES_OP:
        case REVISION_OP:
            return {};
        default:
            input.failed = true;
            return {};
        }
    }

    // Skips constants and names. A name can be a method, whose arguments then follow; no argument
    // begins as a term of walk_term() does, so that it fails.
    void skip_args(int count) {
        for (; count > 0; --count) {
            const char first = input.pos < input.end ? input.code[input.pos] : '\0';
            if (is_name_char(first, true) || first == '\\' || first == '^' ||
                first == DUAL_NAME_PREFIX || first == MULTI_NAME_PREFIX)
                input.read_name();
            else
                read_data();
        }
    }

    // These return the scopes in which Linux can be afterwards.

    scope_set walk_scope(scope_set scopes, int depth, bool is_scope_op,
                         std::size_t num_further = 0) {
        scope_set inner_scopes = 0;
        input.read_package([&] {
            const name_string name = input.read_name();
            if (!is_scope_op)
                declare(name, scopes);
            input.skip_bytes(num_further);
            inner_scopes = walk_terms(resolve(name, scopes, is_scope_op), depth + 1);
        });
        return scopes | inner_scopes;
    }

    scope_set walk_terms(scope_set scopes, int depth) {
        if (depth > MAX_SCOPE_DEPTH)
            input.failed = true;
        while (!input.failed && input.pos < input.end)
            scopes = walk_term(scopes, depth);
        return scopes;
    }

    scope_set walk_term(scope_set scopes, int depth) {
        const unsigned opcode = input.read_opcode();
        switch (opcode) {
        case SCOPE_OP:
            return walk_scope(scopes, depth, true);
        case DEVICE_OP:
        case THERMAL_ZONE_OP:
            return walk_scope(scopes, depth, false);
        case PROCESSOR_OP: // an identifier, an address, a length
            return walk_scope(scopes, depth, false, 1 + 4 + 1);
        case POWER_RES_OP: // a level, an order
            return walk_scope(scopes, depth, false, 1 + 2);
        case IF_OP:
        case ELSE_OP:
        case WHILE_OP:
            input.skip_package();
            return ALL_SCOPES;
        default:
            walk_declaration(opcode, scopes);
            return scopes;
        }
    }

    void walk_declaration(unsigned opcode, scope_set scopes) {
        switch (opcode) {
        case NAME_OP: {
            const name_string name = input.read_name();
            return declare(name, scopes, read_data());
        }
        case METHOD_OP:
            return input.read_package([&] {
                declare(input.read_name(), scopes);
                input.pos = input.end;
            });
        case FIELD_OP:
        case INDEX_FIELD_OP:
        case BANK_FIELD_OP:
            return input.skip_package();
        case EXTERNAL_OP: // a type, a number of arguments
            input.read_name();
            return input.skip_bytes(2);
        case MUTEX_OP: // flags
            declare(input.read_name(), scopes);
            return input.skip_bytes(1);
        case EVENT_OP:
            return declare(input.read_name(), scopes);
        case OP_REGION_OP: // an address space; an offset and a length
            declare(input.read_name(), scopes);
            input.skip_bytes(1);
            return skip_args(2);
        case DATA_REGION_OP: // what identifies a table
            declare(input.read_name(), scopes);
            return skip_args(3);
        case CREATE_BIT_FIELD_OP: // a buffer and an index
        case CREATE_BYTE_FIELD_OP:
        case CREATE_WORD_FIELD_OP:
        case CREATE_DWORD_FIELD_OP:
        case CREATE_QWORD_FIELD_OP:
            skip_args(2);
            return declare(input.read_name(), scopes);
        case CREATE_FIELD_OP: // a buffer, an index and a size
            skip_args(3);
            return declare(input.read_name(), scopes);
        case NOOP_OP:
            return;
        default:
            input.failed = true;
        }
    }
};

// The code of a table; nullopt if the table is damaged.
std::optional<std::string_view> find_code(std::string_view table) {
    if (table.size() < HEADER_SIZE)
        return {};
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i)
        length |= std::size_t{static_cast<unsigned char>(table[HEADER_LENGTH + i])} << 8 * i;
    unsigned sum = 0; // a byte of the header makes that of all bytes 0
    for (const char c : table)
        sum += static_cast<unsigned char>(c);
    if (length != table.size() || sum % 256 != 0)
        return {};
    return table.substr(HEADER_SIZE);
}

} // namespace

std::optional<std::vector<cca_object>> find_cca_objects(std::string_view table,
                                                        std::string_view device) {
    const auto code = find_code(table);
    return code ? aml_walk(*code, device).find_objects() : std::nullopt;
}

// Searches the bytes, since a table without _CCA need not be one that can be walked.
bool may_have_alias(std::string_view table, std::string_view device) {
    const char opcode = ALIAS_OP;
    for (std::size_t pos = table.find(opcode); pos != table.npos;
         pos = table.find(opcode, pos + 1)) {
        aml_reader input{table.substr(pos + 1)};
        const std::string names = input.read_name().names;
        input.read_name();
        for (std::size_t i = 0; !input.failed && !names.empty() && i < device.size();
             i += NAME_SIZE) {
            if (names.ends_with(device.substr(i, NAME_SIZE)))
                return true;
        }
    }
    return false;
}

std::optional<std::string> parse_acpi_path(std::string_view text) {
    if (text.empty() || text[0] != '\\' || text.size() > MAX_PATH_NAMES * (NAME_SIZE + 1))
        return {};
    std::string path;
    for (std::size_t i = 1; i < text.size(); ++i) {
        const std::size_t column = (i - 1) % (NAME_SIZE + 1); // in a name and its separator
        if (column < NAME_SIZE ? !is_name_char(text[i], column == 0) : text[i] != '.')
            return {};
        if (column < NAME_SIZE)
            path += text[i];
    }
    // Neither a name that is too short nor a separator at the end.
    if (text.size() > 1 && text.size() % (NAME_SIZE + 1) != 0)
        return {};
    return path;
}

std::string format_acpi_path(std::string_view path) {
    std::string text = "\\";
    for (std::size_t i = 0; i < path.size(); i += NAME_SIZE)
        text.append(i == 0 ? "" : ".").append(path.substr(i, NAME_SIZE));
    return text;
}

} // namespace coherdma::coherency
