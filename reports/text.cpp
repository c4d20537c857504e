// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "text.hpp"

#include <cctype>
#include <sstream>

namespace coherdma::reports {

std::string printable(std::string_view text) {
    std::string result(text);
    for (char &c : result)
        if (std::iscntrl(static_cast<unsigned char>(c)) != 0)
            c = '?';
    return result;
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
