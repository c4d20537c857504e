// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/source.hpp"

#include <cctype>
#include <cstdint>
#include <filesystem>
#include <fstream>

namespace tools::emulate {
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

} // namespace tools::emulate
