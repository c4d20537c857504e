// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A finding in words: for people, and as a line of JSON for programs.
#pragma once

#include "findings.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace coherdma::emulation {

inline constexpr std::array KINDS = {kind::UNSYNCED_READ, kind::UNSYNCED_WRITE, kind::CONFLICT,
                                     kind::STALE,         kind::DISCARDED,      kind::BESIDE,
                                     kind::REDUNDANT};

/// What came of it.
struct telling {
    bool suppressed = false;
    std::size_t repeated = 0; ///< how many there were at the same site before
};

/// How many there were.
struct counts {
    std::map<kind, std::size_t> of; ///< those that are not suppressed
    std::size_t suppressed = 0;
    std::size_t repeated = 0; ///< of all, those that were not told in full

    [[nodiscard]] std::size_t all() const noexcept;
};

/// Lines of at most 80 characters, but for names of files and functions.
std::string as_text(const finding &);
/// One line.
std::string as_json(const finding &, const telling &);

/// log: where the lines of JSON are; "": nowhere.
std::string as_text(const counts &, const std::string &log);
std::string as_json(const counts &);

std::vector<std::string> frames_of(const deed &);

/// Without what moves a terminal's cursor.
std::string printable(std::string_view);

} // namespace coherdma::emulation
