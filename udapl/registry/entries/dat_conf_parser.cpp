// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_conf_parser.hpp"

#include <cstring>

namespace coherdma::registry {
namespace {

constexpr std::size_t MAX_NAME_LENGTH = 255;

/// Splits the text into fields and terminates each in place. The terminating zero may replace the
/// line feed, so line_ended records it.
class tokenizer {
  public:
    tokenizer(char *text, std::size_t size) noexcept
        : pos(text)
        , end(text + size) {
        *end = '\0';
    }

    bool at_end() const noexcept { return pos == end && !line_ended; }
    unsigned line() const noexcept { return line_number; }

    /// The next field of the line; NULL at the end of the line or in an unterminated quote.
    char *next_field() noexcept {
        while (pos != end && !line_ended && is_blank())
            ++pos;
        if (pos == end || line_ended || *pos == '\n' || *pos == '#')
            return nullptr;
        return *pos == '"' ? read_quoted() : read_plain();
    }

    bool has_unterminated_quote() const noexcept { return unterminated_quote; }

    void next_line() noexcept {
        while (pos != end && !line_ended)
            line_ended = *pos++ == '\n';
        if (line_ended)
            ++line_number;
        line_ended = unterminated_quote = false;
    }

  private:
    /// Lines may end in \r\n.
    bool is_blank() const noexcept {
        return *pos == ' ' || *pos == '\t' || (*pos == '\r' && (pos + 1 == end || pos[1] == '\n'));
    }

    char *read_plain() noexcept {
        char *const begin = pos;
        while (pos != end && *pos != '\n' && !is_blank())
            ++pos;
        if (pos != end) {
            line_ended = *pos == '\n';
            *pos++ = '\0';
        }
        return begin;
    }

    char *read_quoted() noexcept {
        char *const begin = ++pos;
        char *out = begin;
        while (pos != end && *pos != '\n' && *pos != '"') {
            if (*pos == '\\' && pos + 1 != end && pos[1] != '\n')
                ++pos;
            *out++ = *pos++;
        }
        if (pos == end || *pos == '\n') {
            unterminated_quote = true;
            return nullptr;
        }
        ++pos;
        *out = '\0';
        return begin;
    }

    char *pos, *end;
    unsigned line_number = 1;
    bool line_ended = false, unterminated_quote = false;
};

bool starts_with(const char *text, const char *prefix) noexcept {
    return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

/// Parses zero or more digits and advances pos; false if the number exceeds 32 bits.
bool parse_number(const char *&pos, std::uint32_t &value) noexcept {
    std::uint64_t sum = 0;
    for (; *pos >= '0' && *pos <= '9'; ++pos) {
        sum = 10 * sum + static_cast<std::uint64_t>(*pos - '0');
        if (sum > UINT32_MAX)
            return false;
    }
    value = static_cast<std::uint32_t>(sum);
    return true;
}

/// "u2.0", or "k2.0" for the kernel API. Missing digits count as 0.
bool parse_api_version(const char *text, dat_entry &entry) noexcept {
    if (*text != 'u' && *text != 'k')
        return false;
    return parse_number(++text, entry.major) &&
           (*text != '.' || parse_number(++text, entry.minor)) && *text == '\0';
}

/// "dapl.2.0". Only the form is checked: the provider reports its version itself.
bool is_provider_version(const char *text) noexcept {
    const char *pos = std::strchr(text, '.');
    if (!pos || pos == text)
        return false;
    for (int i = 0; i < 2; ++i) {
        std::uint32_t ignored = 0;
        if (*pos != '.' || pos[1] < '0' || pos[1] > '9' || !parse_number(++pos, ignored))
            return false;
    }
    return *pos == '\0';
}

enum field_index {
    NAME,
    API,
    THREAD_SAFETY,
    DEFAULT,
    LIBRARY,
    VERSION,
    INSTANCE,
    PLATFORM,
    NUM_FIELDS
};

/// The last is expected after all fields.
constexpr const char *EXPECTED[NUM_FIELDS + 1] = {
    "a name of at most 255 characters",
    "the API version, such as u2.0",
    "threadsafe or nonthreadsafe",
    "default or nondefault",
    "the file name of a library",
    "the provider version, such as dapl.2.0",
    "instance data (\"\" if none)",
    "platform data (\"\" if none)",
    "the end of the line",
};

/// Stores the field in the entry; false if it is invalid. is_used: the entry is for the user API
/// (not the kernel's) and "default"; other entries are skipped.
bool parse_field(int index, const char *text, dat_entry &entry, bool &is_used) noexcept {
    switch (index) {
    case NAME:
        entry.name = text;
        return std::strlen(text) <= MAX_NAME_LENGTH;
    case API:
        is_used = *text == 'u';
        return parse_api_version(text, entry);
    case THREAD_SAFETY:
        entry.thread_safe = starts_with(text, "threadsafe");
        return entry.thread_safe || starts_with(text, "nonthreadsafe");
    case DEFAULT:
        is_used = is_used && starts_with(text, "default");
        return starts_with(text, "default") || starts_with(text, "nondefault");
    case LIBRARY:
        entry.library = text;
        return true;
    case VERSION:
        return is_provider_version(text);
    case INSTANCE:
        entry.instance = text;
        return true;
    default:
        return true;
    }
}

} // namespace

bool parse_dat_conf(char *text, std::size_t size, vector<dat_entry> &entries,
                    vector<parse_error> &errors) noexcept {
    for (tokenizer input(text, size); !input.at_end(); input.next_line()) {
        const char *token = input.next_field();
        if (!token && !input.has_unterminated_quote())
            continue; // an empty line or a comment
        dat_entry entry;
        bool is_used = false;
        int index = NAME;
        while (index < NUM_FIELDS && token && parse_field(index, token, entry, is_used)) {
            token = input.next_field();
            ++index;
        }
        if (index != NUM_FIELDS || token || input.has_unterminated_quote()) {
            constexpr char DRIVER[] = "driver_name=";
            const char *solaris_driver =
                starts_with(entry.name, DRIVER) ? entry.name + sizeof DRIVER - 1 : nullptr;
            if (!errors.push_back({input.line(), token, input.has_unterminated_quote(),
                                   EXPECTED[index], solaris_driver}))
                return false;
        } else if (is_used && !entries.push_back(entry)) {
            return false;
        }
    }
    return true;
}

} // namespace coherdma::registry
