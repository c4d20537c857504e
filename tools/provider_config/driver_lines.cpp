// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_config/driver_lines.hpp"

namespace tools::provider_config {
namespace {

/// Removes and returns the next line, with its newline.
std::string_view next_line(std::string_view &text) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end == text.npos ? end : end + 1);
    text.remove_prefix(line.size());
    return line;
}

/// "driver NAME" -> NAME; "" for any other line.
std::string_view parse_driver_name(std::string_view line) {
    const auto next_word = [&line] {
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        const std::string_view word = line.substr(0, line.find_first_of(" \t\n"));
        line.remove_prefix(word.size());
        return word;
    };
    return next_word() == "driver" ? next_word() : std::string_view();
}

/// Whether a line "driver NAME" makes libibverbs load the plugin of that short name: NAME is the
/// short name, or a path that ends in /libSHORT_NAME.
bool names_plugin(std::string_view name, std::string_view short_name) {
    const std::string_view base_name = name.substr(name.rfind('/') + 1);
    return name == short_name || (name.substr(0, 1) == "/" && base_name.substr(0, 3) == "lib" &&
                                  base_name.substr(3) == short_name);
}

} // namespace

std::vector<driver_line> parse_driver_lines(std::string_view text) {
    std::vector<driver_line> lines;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::string_view name = parse_driver_name(next_line(text));
        if (!name.empty())
            lines.push_back({number, std::string(name)});
    }
    return lines;
}

bool is_coherdma_driver(std::string_view name) {
    return names_plugin(name, "coherdma");
}

bool is_soft_driver(std::string_view name) {
    return names_plugin(name, "rxe") || names_plugin(name, "siw");
}

std::string add_driver_line(std::string text, const std::string &name) {
    const bool has_newline = text.empty() || text.back() == '\n';
    text += (has_newline ? "driver " : "\ndriver ") + name;
    if (has_newline)
        text += '\n';
    return text;
}

/// text: of a file in libibverbs.d. Undoes what enable added.
std::string remove_coherdma_lines(std::string_view text) {
    std::string result;
    while (!text.empty()) {
        const std::string_view line = next_line(text);
        if (!is_coherdma_driver(parse_driver_name(line)))
            result += line;
        else if (line.back() != '\n' && !result.empty())
            result.pop_back(); // the last line had no newline: remove the one before it
    }
    return result;
}

} // namespace tools::provider_config
