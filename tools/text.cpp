// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "text.hpp"

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

std::string tools::make_printable(std::string text) {
    for (char &ch : text)
        if (std::iscntrl(static_cast<unsigned char>(ch)) != 0)
            ch = '?';
    return text;
}
