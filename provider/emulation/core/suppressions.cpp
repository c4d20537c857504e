// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "suppressions.hpp"

#include "coherency/files.hpp"
#include "report.hpp"

#include <algorithm>
#include <cstring>
#include <fnmatch.h>

namespace coherdma::emulation {
namespace {

constexpr std::size_t LARGEST_FILE = 65536, MOST_PROBLEMS = 10;
constexpr std::string_view BLANKS = " \t\r";

std::string_view trimmed(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(BLANKS);
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(BLANKS) - begin + 1);
}

/// Up to the next colon, which goes as well.
std::string next_of(std::string_view &left) {
    const std::string_view part = left.substr(0, left.find(':'));
    left.remove_prefix(std::min(part.size() + 1, left.size()));
    return std::string(trimmed(part));
}

bool is_kind(const std::string &text) {
    return text == "*" || std::any_of(KINDS.begin(), KINDS.end(),
                                      [&](kind each) { return text == name_of(each); });
}

/// "main (/usr/bin/rping+0x1234)" is of main, "?? (/usr/bin/rping+0x1234)" of rping.
std::string function_of(const std::string &frame) {
    const std::size_t path = frame.find(" (/"); // which may have blanks and brackets, as names may
    const std::size_t file = path != std::string::npos ? path : frame.rfind(" (");
    if (file == std::string::npos || frame.substr(0, file) != "??")
        return frame.substr(0, file);
    const std::size_t slash = frame.rfind('/'), plus = frame.rfind('+');
    const std::size_t begin = slash == std::string::npos ? file + 2 : slash + 1;
    return frame.substr(begin, plus == std::string::npos ? plus : plus - begin);
}

bool has(const std::vector<std::string> &frames, const std::string &pattern) {
    return std::any_of(frames.begin(), frames.end(), [&](const std::string &each) {
        return fnmatch(pattern.c_str(), function_of(each).c_str(), 0) == 0;
    });
}

} // namespace

bool suppressions::match(const finding &which) const {
    return std::any_of(lines.begin(), lines.end(), [&](const line &each) {
        if (each.kind != "*" && each.kind != name_of(which.is))
            return false;
        if (fnmatch(each.device.c_str(), which.in.device.c_str(), 0) != 0)
            return false;
        return each.function.empty() || has(frames_of(which.request), each.function) ||
               has(frames_of(which.last_sync), each.function) ||
               has(in_words(which.in.registered), each.function);
    });
}

suppressions parse_suppressions(std::string_view text, const std::string &name) {
    suppressions all;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view left = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        left = trimmed(left.substr(0, left.find('#')));
        if (left.empty())
            continue;
        suppressions::line next;
        next.kind = next_of(left);
        next.device = next_of(left);
        next.function = trimmed(left); // with its colons
        if (next.device.empty())
            next.device = "*";
        if (is_kind(next.kind))
            all.lines.push_back(next);
        else if (all.problems.size() < MOST_PROBLEMS)
            all.problems.push_back(name + ":" + std::to_string(number) + ": '" +
                                   printable(next.kind.substr(0, 40)) +
                                   "' is no kind of finding, as unsynced-read, nor *");
    }
    return all;
}

suppressions read_suppressions(const std::string &file) {
    const auto text = coherency::read_file(file, LARGEST_FILE + 1);
    suppressions none;
    if (!text)
        none.problems.push_back("cannot read " + file + ": " + std::strerror(errno));
    else if (text->size() > LARGEST_FILE)
        none.problems.push_back(file + ": larger than such a file may be (64 KiB)");
    else
        return parse_suppressions(*text, file);
    return none;
}

} // namespace coherdma::emulation
