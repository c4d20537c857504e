// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "described_call.hpp"

#include "text.hpp"

#include <array>
#include <cstdio>

namespace coherdma::reports {

std::string location_of(const std::string &frame) {
    const source_frame parsed = parse_frame(frame);
    if (!parsed.file.empty())
        return base_name(parsed.file) + ":" + std::to_string(parsed.line);
    if (frame.find('/') == std::string::npos || !frame.ends_with(')'))
        return "";
    const std::string file = base_name(frame);
    return file.substr(0, file.size() - 1);
}

void set_frame(described_call &call, std::size_t index, source_files &files) {
    if (call.stack.empty())
        return;
    call.frame = parse_frame(call.stack[index]);
    call.location = location_of(call.stack[index]);
    for (int line = call.frame.line - 1; line <= call.frame.line + 1; ++line)
        if (files.has_line(call.frame.file, line))
            call.source.push_back({.number = line, .text = files.line(call.frame.file, line)});
}

std::string source_text(const described_call &call) {
    constexpr std::size_t MAX_LENGTH = 70;
    std::string text;
    for (const described_call::source_line &line : call.source) {
        std::array<char, 128> row;
        std::snprintf(row.data(), row.size(), "  %c%5d  %.*s\n",
                      line.number == call.frame.line ? '>' : ' ', line.number,
                      static_cast<int>(MAX_LENGTH), printable(line.text).c_str());
        text += row.data();
    }
    return text;
}

} // namespace coherdma::reports
