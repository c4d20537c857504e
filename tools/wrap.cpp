// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "wrap.hpp"

std::vector<std::string> tools::wrap_text(std::string_view text, std::size_t width) {
    std::vector<std::string> lines;
    while (text.size() > width) {
        std::size_t cut = text.rfind(' ', width);
        if (cut == std::string_view::npos || cut == 0)
            cut = width;
        lines.emplace_back(text.substr(0, cut));
        text.remove_prefix(cut);
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    }
    lines.emplace_back(text);
    return lines;
}
