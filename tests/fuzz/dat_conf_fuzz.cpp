// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libFuzzer: the parser accepts or rejects each line of any dat.conf, and parses the accepted
// entries equally when they are written as a new file.

#include "entries/dat_conf_parser.hpp"

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

using namespace coherdma::registry;

namespace {

void require(bool condition) {
    if (!condition)
        std::abort();
}

/// A parsed file. The buffer has no more than the one extra byte that the parser needs, so that the
/// sanitizer detects an access beyond it.
class parsed_file {
  public:
    explicit parsed_file(std::string_view input)
        : text(static_cast<char *>(std::malloc(input.size() + 1)))
        , size(input.size()) {
        std::memcpy(text, input.data(), size);
        require(parse_dat_conf(text, size, entries, errors));
    }
    ~parsed_file() { std::free(text); }
    parsed_file(const parsed_file &) = delete;
    parsed_file &operator=(const parsed_file &) = delete;

    bool contains(const char *field) const {
        return field && field >= text && field + std::strlen(field) <= text + size;
    }

    vector<dat_entry> entries;
    vector<parse_error> errors;

  private:
    char *text;
    std::size_t size;
};

std::string quote(const char *field) {
    std::string quoted = "\"";
    for (; *field; ++field) {
        if (*field == '"' || *field == '\\')
            quoted += '\\';
        quoted += *field;
    }
    return quoted + '"';
}

std::string to_line(const dat_entry &entry) {
    return quote(entry.name) + " u" + std::to_string(entry.major) + '.' +
           std::to_string(entry.minor) + (entry.thread_safe ? " threadsafe" : " nonthreadsafe") +
           " default " + quote(entry.library) + " id.1.0 " + quote(entry.instance) + " \"\"\n";
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const unsigned char *bytes, std::size_t size) {
    const std::string_view input(reinterpret_cast<const char *>(bytes), size);
    const parsed_file file(input);
    std::size_t num_lines = 1;
    for (const char c : input)
        num_lines += c == '\n' ? 1 : 0;
    require(file.entries.size() + file.errors.size() <= num_lines);
    std::size_t last_line = 0;
    for (const parse_error &error : file.errors) {
        require(error.line > last_line && error.line <= num_lines);
        last_line = error.line;
        require(!error.field || (file.contains(error.field) && !error.unterminated_quote));
        require(*error.expected);
    }
    std::string rewritten;
    for (const dat_entry &entry : file.entries) {
        require(file.contains(entry.name) && file.contains(entry.library) &&
                file.contains(entry.instance));
        require(std::strlen(entry.name) < 256);
        rewritten += to_line(entry);
    }
    const parsed_file copy(rewritten);
    require(copy.errors.size() == 0 && copy.entries.size() == file.entries.size());
    for (std::size_t i = 0; i < file.entries.size(); ++i)
        require(to_line(file.entries[i]) == to_line(copy.entries[i]));
    return 0;
}
