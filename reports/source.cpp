// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "source.hpp"

#include <cctype>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace coherdma::reports {
namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t MAX_FILE_SIZE = 4 << 20;
constexpr std::size_t TAB_WIDTH = 8, MAX_LINE_LENGTH = 400;

/// For a line of source code in HTML: no tabs or control characters, and not too long.
std::string expand_tabs(const std::string &line) {
    std::string result;
    for (const char ch : line.substr(0, MAX_LINE_LENGTH)) {
        if (ch == '\t')
            result.append(TAB_WIDTH - result.size() % TAB_WIDTH, ' ');
        else if (ch != '\r')
            result += std::iscntrl(static_cast<unsigned char>(ch)) != 0 ? '?' : ch;
    }
    return result;
}

} // namespace

/// "main (/src/mailbox.c:120)", "main (mailbox.c:120)"; without a source line "main (/bin/x+0x12)".
source_frame parse_frame(const std::string &frame) {
    source_frame parsed;
    const std::size_t absolute = frame.find(" (/"), colon = frame.rfind(':');
    const std::size_t open = absolute != std::string::npos ? absolute : frame.rfind(" (");
    parsed.function = frame.substr(0, open);
    if (open == std::string::npos || colon == std::string::npos || colon < open ||
        !frame.ends_with(')'))
        return parsed;
    const char *const end = frame.data() + frame.size() - 1;
    const auto [rest, error] = std::from_chars(frame.data() + colon + 1, end, parsed.line);
    if (error == std::errc{} && rest == end && parsed.line > 0)
        parsed.file = frame.substr(open + 2, colon - open - 2);
    else
        parsed.line = 0;
    return parsed;
}

/// Empty unless this is a regular file with an absolute path: debug information may name anything.
const std::vector<std::string> &source_files::lines_of(const std::string &file) {
    const auto [it, is_new] = lines_by_file_.try_emplace(file);
    std::error_code error;
    if (!is_new || !file.starts_with('/') || !fs::is_regular_file(file, error) ||
        fs::file_size(file, error) > MAX_FILE_SIZE)
        return it->second;
    std::ifstream stream(file);
    for (std::string line; std::getline(stream, line);)
        it->second.push_back(expand_tabs(line));
    return it->second;
}

bool source_files::has_line(const std::string &file, int line) {
    return line > 0 && static_cast<std::size_t>(line) <= lines_of(file).size();
}

std::string source_files::line(const std::string &file, int line) {
    return has_line(file, line) ? lines_of(file)[static_cast<std::size_t>(line) - 1] : "";
}

std::string trim(const std::string &text) {
    const std::size_t begin = text.find_first_not_of(' '), end = text.find_last_not_of(' ');
    return begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
}

std::string base_name(const std::string &path) {
    return path.substr(path.rfind('/') + 1);
}

} // namespace coherdma::reports
