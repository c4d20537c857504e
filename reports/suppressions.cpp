// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "suppressions.hpp"

#include "coherency/files.hpp"
#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fnmatch.h>

namespace coherdma::reports {
namespace {

constexpr std::size_t MAX_FILE_SIZE = 65536, MAX_PROBLEMS = 10;
constexpr std::string_view BLANKS = " \t\r";

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(BLANKS);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(BLANKS) - begin + 1);
}

/// Removes the first field and its colon from the line; returns the field.
std::string remove_field(std::string_view &line) {
    const std::string_view field = line.substr(0, line.find(':'));
    line.remove_prefix(std::min(field.size() + 1, line.size()));
    return std::string(trimmed(field));
}

bool is_kind(const std::string &text, const std::vector<std::string> &kinds) {
    return text == "*" || std::find(kinds.begin(), kinds.end(), text) != kinds.end();
}

bool has_function(const std::vector<std::string> &frames, const std::string &pattern) {
    return std::any_of(frames.begin(), frames.end(), [&](const std::string &frame) {
        return fnmatch(pattern.c_str(), function_of(frame).c_str(), 0) == 0;
    });
}

} // namespace

std::string function_of(const std::string &frame) {
    // Names of functions and paths may contain blanks and parentheses.
    const std::size_t abs_path_pos = frame.find(" (/");
    const std::size_t path_pos =
        abs_path_pos != std::string::npos ? abs_path_pos : frame.rfind(" (");
    if (path_pos == std::string::npos || frame.substr(0, path_pos) != "??")
        return frame.substr(0, path_pos);
    const std::size_t slash = frame.rfind('/'), plus = frame.rfind('+');
    const std::size_t begin = slash == std::string::npos ? path_pos + 2 : slash + 1;
    return frame.substr(begin, plus == std::string::npos ? plus : plus - begin);
}

std::string pattern_of(std::string name) {
    for (char &c : name)
        if (std::string_view("*?[]\\#").find(c) != std::string_view::npos)
            c = '?';
    return name;
}

/// Whether a rule has the kind, the device and, if it has a function, a frame of the finding.
bool suppressions::matches(std::string_view kind, const std::string &device,
                           const std::vector<std::string> &frames) const {
    return std::any_of(rules.begin(), rules.end(), [&](const rule &candidate) {
        return (candidate.kind == "*" || candidate.kind == kind) &&
               fnmatch(candidate.device.c_str(), device.c_str(), 0) == 0 &&
               (candidate.function.empty() || has_function(frames, candidate.function));
    });
}

/// text: lines KIND[:DEVICE[:FUNCTION]] with # comments. Invalid lines are ignored and become
/// problems.
suppressions parse_suppressions(std::string_view text, const std::string &file_name,
                                const std::vector<std::string> &kinds) {
    suppressions result;
    for (std::size_t line_number = 1; !text.empty(); ++line_number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        line = trimmed(line.substr(0, line.find('#')));
        if (line.empty())
            continue;
        suppressions::rule parsed;
        parsed.kind = remove_field(line);
        parsed.device = remove_field(line);
        parsed.function = trimmed(line); // may contain colons
        if (parsed.device.empty())
            parsed.device = "*";
        if (is_kind(parsed.kind, kinds))
            result.rules.push_back(parsed);
        else if (result.problems.size() < MAX_PROBLEMS)
            result.problems.push_back(file_name + ":" + std::to_string(line_number) + ": '" +
                                      printable(parsed.kind.substr(0, 40)) +
                                      "' is not a kind of finding (such as " + kinds.front() +
                                      "), nor *");
    }
    return result;
}

suppressions read_suppressions(const std::string &file_name,
                               const std::vector<std::string> &kinds) {
    const auto text = coherency::read_file(file_name, MAX_FILE_SIZE + 1);
    suppressions failed;
    if (!text)
        failed.problems.push_back("cannot read " + file_name + ": " + std::strerror(errno));
    else if (text->size() > MAX_FILE_SIZE)
        failed.problems.push_back(file_name + ": larger than 64 KiB");
    else
        return parse_suppressions(*text, file_name, kinds);
    return failed;
}

} // namespace coherdma::reports
