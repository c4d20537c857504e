// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "text.hpp"

#include <algorithm>
#include <cctype>

namespace {

/// Whether the byte is not the first of its character.
bool is_utf8_continuation(char byte) {
    constexpr unsigned CONTINUATION_MASK = 0xc0, CONTINUATION = 0x80;
    return (static_cast<unsigned char>(byte) & CONTINUATION_MASK) == CONTINUATION;
}

} // namespace

std::vector<std::string> tools::wrap_text(std::string_view text, std::size_t width) {
    std::vector<std::string> lines;
    while (text.size() > width) {
        std::size_t cut = text.rfind(' ', width);
        if (cut == std::string_view::npos || cut == 0) {
            cut = width;
            while (cut > 1 && is_utf8_continuation(text[cut]))
                --cut;
        }
        lines.emplace_back(text.substr(0, cut));
        text.remove_prefix(cut);
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    }
    lines.emplace_back(text);
    return lines;
}

std::string tools::format_entry(std::string_view name, const std::vector<std::string> &lines) {
    constexpr std::size_t WIDTH = 79, INDENT = 14, MARGIN = 2;
    std::string text;
    for (const std::string &line : lines)
        for (const std::string &part : wrap_text(make_printable(line), WIDTH - INDENT)) {
            std::string start(text.empty() ? MARGIN : INDENT, ' ');
            if (text.empty())
                start += name;
            start.resize(std::max(start.size() + (text.empty() ? 1U : 0U), INDENT), ' ');
            text += start + part + "\n";
        }
    return text;
}

std::string tools::format_count(std::size_t number, std::string_view singular,
                                std::string_view plural) {
    return std::to_string(number) + " " + std::string(number == 1 ? singular : plural);
}

std::string tools::shorten_frame(std::string frame) {
    if (const std::size_t path = frame.find(" (/"); path != std::string::npos)
        frame.erase(path + 2, frame.rfind('/') + 1 - (path + 2));
    return frame;
}

std::string tools::make_printable(std::string text) {
    constexpr char C1_LEAD = '\xc2'; // U+0080 to U+009F are C2 80 to C2 9F in UTF-8
    constexpr unsigned char C1_END = 0xa0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (std::iscntrl(static_cast<unsigned char>(text[i])) != 0)
            text[i] = '?';
        else if (text[i] == C1_LEAD && i + 1 < text.size() && is_utf8_continuation(text[i + 1]) &&
                 static_cast<unsigned char>(text[i + 1]) < C1_END)
            text.replace(i, 2, "?");
    }
    return text;
}
