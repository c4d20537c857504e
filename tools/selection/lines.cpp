// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selection/lines.hpp"

namespace tools::selection {
namespace {

/// Cuts the next line off, with its end if it has one.
std::string_view next_line(std::string_view &rest) {
    const std::size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end == rest.npos ? end : end + 1);
    rest.remove_prefix(line.size());
    return line;
}

/// "driver NAME" -> NAME; "" for any other line.
std::string_view named_in(std::string_view line) {
    const auto word = [&line] {
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        const std::string_view found = line.substr(0, line.find_first_of(" \t\n"));
        line.remove_prefix(found.size());
        return found;
    };
    return word() == "driver" ? word() : std::string_view();
}

bool is_file_of(std::string_view name, std::string_view plugin) {
    const std::string_view end = name.substr(name.rfind('/') + 1);
    return name == plugin ||
           (name.substr(0, 1) == "/" && end.substr(0, 3) == "lib" && end.substr(3) == plugin);
}

} // namespace

std::vector<driver_line> driver_lines(std::string_view text) {
    std::vector<driver_line> all;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::string_view name = named_in(next_line(text));
        if (!name.empty())
            all.push_back({number, std::string(name)});
    }
    return all;
}

bool is_ours(std::string_view name) {
    return is_file_of(name, "coherdma");
}

bool is_soft(std::string_view name) {
    return is_file_of(name, "rxe") || is_file_of(name, "siw");
}

std::string with_ours(std::string text, const std::string &name) {
    const bool ended = text.empty() || text.back() == '\n';
    text += (ended ? "driver " : "\ndriver ") + name;
    if (ended)
        text += '\n';
    return text;
}

std::string without_ours(std::string_view text) {
    std::string kept;
    while (!text.empty()) {
        const std::string_view line = next_line(text);
        if (!is_ours(named_in(line)))
            kept += line;
        else if (line.back() != '\n' && !kept.empty())
            kept.pop_back(); // a line that had no end has none again
    }
    return kept;
}

} // namespace tools::selection
