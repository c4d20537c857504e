// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "config.hpp"

#include <cstring>

namespace coherdma::registry {
namespace {

constexpr std::size_t NAME_LIMIT = 255;

/// Hands out words, each ended by a zero where it stood; a line's end is remembered, for the zero
/// may have replaced it.
class reader {
  public:
    reader(char *text, std::size_t size) noexcept
        : next(text)
        , end(text + size) {
        *end = '\0';
    }

    bool at_end() const noexcept { return next == end && !line_ended; }
    unsigned line() const noexcept { return lines; }

    /// The line's next word; NULL if it has no more, or only half of one.
    char *word() noexcept {
        while (next != end && !line_ended && is_blank())
            ++next;
        if (next == end || line_ended || *next == '\n' || *next == '#')
            return nullptr;
        return *next == '"' ? quoted() : plain();
    }

    /// Whether a quote is still open at the line's end.
    bool is_torn() const noexcept { return torn; }

    void next_line() noexcept {
        while (next != end && !line_ended)
            line_ended = *next++ == '\n';
        if (line_ended)
            ++lines;
        line_ended = torn = false;
    }

  private:
    /// Text from DOS ends its lines in \r\n.
    bool is_blank() const noexcept {
        return *next == ' ' || *next == '\t' ||
               (*next == '\r' && (next + 1 == end || next[1] == '\n'));
    }

    char *plain() noexcept {
        char *const begin = next;
        while (next != end && *next != '\n' && !is_blank())
            ++next;
        if (next != end) {
            line_ended = *next == '\n';
            *next++ = '\0';
        }
        return begin;
    }

    char *quoted() noexcept {
        char *const begin = ++next;
        char *to = begin;
        while (next != end && *next != '\n' && *next != '"') {
            if (*next == '\\' && next + 1 != end && next[1] != '\n')
                ++next;
            *to++ = *next++;
        }
        if (next == end || *next == '\n') {
            torn = true;
            return nullptr;
        }
        ++next;
        *to = '\0';
        return begin;
    }

    char *next, *end;
    unsigned lines = 1;
    bool line_ended = false, torn = false;
};

bool begins(const char *word, const char *with) noexcept {
    return std::strncmp(word, with, std::strlen(with)) == 0;
}

/// Digits, possibly none; false if their number is too large.
bool number(const char *&at, std::uint32_t &value) noexcept {
    std::uint64_t sum = 0;
    for (; *at >= '0' && *at <= '9'; ++at) {
        sum = 10 * sum + static_cast<std::uint64_t>(*at - '0');
        if (sum > UINT32_MAX)
            return false;
    }
    value = static_cast<std::uint32_t>(sum);
    return true;
}

/// u2.0, or k2.0 of the kernel's API. What is missing after the letter is 0.
bool api_version(const char *word, record &into) noexcept {
    if (*word != 'u' && *word != 'k')
        return false;
    return number(++word, into.major) && (*word != '.' || number(++word, into.minor)) &&
           *word == '\0';
}

/// dapl.2.0. The provider tells its version itself, so only the form is looked at.
bool provider_version(const char *word) noexcept {
    const char *at = std::strchr(word, '.');
    if (!at || at == word)
        return false;
    for (int part = 0; part < 2; ++part) {
        std::uint32_t ignored = 0;
        if (*at != '.' || at[1] < '0' || at[1] > '9' || !number(++at, ignored))
            return false;
    }
    return *at == '\0';
}

enum field { NAME, API, SAFETY, DEFAULT, LIBRARY, VERSION, INSTANCE, PLATFORM, FIELDS };

constexpr const char *EXPECTED[FIELDS + 1] = {
    "a name of at most 255 characters",
    "the version of the API, as in u2.0,",
    "threadsafe or nonthreadsafe",
    "default or nondefault",
    "the name of a library",
    "the version of the provider, as in dapl.2.0,",
    "the instance data (\"\" if there is none)",
    "the data of the platform (\"\" if there is none)",
    "the end of the line",
};

bool understand(int which, const char *word, record &into, bool &counts) noexcept {
    switch (which) {
    case NAME:
        into.name = word;
        return std::strlen(word) <= NAME_LIMIT;
    case API:
        counts = *word == 'u';
        return api_version(word, into);
    case SAFETY:
        into.thread_safe = begins(word, "threadsafe");
        return into.thread_safe || begins(word, "nonthreadsafe");
    case DEFAULT:
        counts = counts && begins(word, "default");
        return begins(word, "default") || begins(word, "nondefault");
    case LIBRARY:
        into.library = word;
        return true;
    case VERSION:
        return provider_version(word);
    case INSTANCE:
        into.instance = word;
        return true;
    default:
        return true;
    }
}

} // namespace

bool parse(char *text, std::size_t size, list<record> &records, list<mistake> &mistakes) noexcept {
    for (reader in(text, size); !in.at_end(); in.next_line()) {
        const char *word = in.word();
        if (!word && !in.is_torn())
            continue; // an empty line, or a comment
        record next;
        bool counts = false;
        int which = NAME;
        while (which < FIELDS && word && understand(which, word, next, counts)) {
            word = in.word();
            ++which;
        }
        if (which != FIELDS || word || in.is_torn()) {
            constexpr char DRIVER[] = "driver_name=";
            const char *driver =
                begins(next.name, DRIVER) ? next.name + sizeof DRIVER - 1 : nullptr;
            if (!mistakes.add({in.line(), word, in.is_torn(), EXPECTED[which], driver}))
                return false;
        } else if (counts && !records.add(next)) {
            return false;
        }
    }
    return true;
}

} // namespace coherdma::registry
