// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: whatever a dat.conf holds is understood or left out, line by line, and what is
// understood of a file is understood again of the same records written anew.

#include "config.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

using namespace coherdma::registry;

namespace {

void must(bool holds) {
    if (!holds)
        std::abort();
}

/// The text is no longer than its bytes and the one of room, so that the sanitizer sees its end.
class parsed {
  public:
    explicit parsed(std::string_view from)
        : text(static_cast<char *>(std::malloc(from.size() + 1)))
        , size(from.size()) {
        std::memcpy(text, from.data(), size);
        must(parse(text, size, records, mistakes));
    }
    ~parsed() { std::free(text); }
    parsed(const parsed &) = delete;
    parsed &operator=(const parsed &) = delete;

    bool has(const char *word) const {
        return word && word >= text && word + std::strlen(word) <= text + size;
    }

    list<record> records;
    list<mistake> mistakes;

  private:
    char *text;
    std::size_t size;
};

std::string quoted(const char *word) {
    std::string all = "\"";
    for (; *word; ++word) {
        if (*word == '"' || *word == '\\')
            all += '\\';
        all += *word;
    }
    return all + '"';
}

std::string written(const record &one) {
    return quoted(one.name) + " u" + std::to_string(one.major) + '.' + std::to_string(one.minor) +
           (one.thread_safe ? " threadsafe" : " nonthreadsafe") + " default " +
           quoted(one.library) + " id.1.0 " + quoted(one.instance) + " \"\"\n";
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    const std::string_view given(reinterpret_cast<const char *>(bytes), size);
    const parsed first(given);
    std::size_t lines = 1;
    for (const char each : given)
        lines += each == '\n' ? 1 : 0;
    must(first.records.size() + first.mistakes.size() <= lines);
    std::size_t before = 0;
    for (const mistake &each : first.mistakes) {
        must(each.line > before && each.line <= lines);
        before = each.line;
        must(!each.found || (first.has(each.found) && !each.torn));
        must(*each.expected);
    }
    std::string again;
    for (const record &each : first.records) {
        must(first.has(each.name) && first.has(each.library) && first.has(each.instance));
        must(std::strlen(each.name) < 256);
        again += written(each);
    }
    const parsed second(again);
    must(second.mistakes.size() == 0 && second.records.size() == first.records.size());
    for (std::size_t place = 0; place < first.records.size(); ++place) {
        const record &one = first.records[place], &other = second.records[place];
        must(written(one) == written(other));
    }
    return 0;
}
