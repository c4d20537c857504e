// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "text.hpp"

#include <array>
#include <cctype>
#include <cstdio>
#include <sstream>

namespace coherdma::reports {
namespace {

/// Whether the text begins with a control character from U+0080 to U+009F, in UTF-8: U+009B begins
/// the same sequences as ESC [.
bool is_c1_control(std::string_view text) noexcept {
    constexpr unsigned char LEAD = 0xc2, BEGIN = 0x80, END = 0xa0;
    return text.size() > 1 && static_cast<unsigned char>(text[0]) == LEAD &&
           static_cast<unsigned char>(text[1]) >= BEGIN &&
           static_cast<unsigned char>(text[1]) < END;
}

} // namespace

std::string printable(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool is_c1 = is_c1_control(text.substr(i));
        result += is_c1 || std::iscntrl(byte) != 0 ? '?' : text[i];
        i += is_c1 ? 1 : 0;
    }
    return result;
}

std::string hex_number(std::uint64_t number) {
    std::array<char, 24> text;
    std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(number));
    return text.data();
}

std::string count_of(std::size_t count, const char *noun) {
    return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string wrapped(const std::string &text, const std::string &indent) {
    constexpr std::size_t WIDTH = 80;
    std::istringstream words(text);
    std::string lines, line;
    for (std::string word; words >> word;) {
        if (!line.empty() && indent.size() + line.size() + 1 + word.size() > WIDTH) {
            lines += indent + line + "\n";
            line.clear();
        }
        line += (line.empty() ? "" : " ") + word;
    }
    return line.empty() ? lines : lines + indent + line + "\n";
}

} // namespace coherdma::reports
