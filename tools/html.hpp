// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reports as a page of HTML, in one file.
#pragma once

#include <string>
#include <string_view>

namespace tools {

/// For the content of an element, or a quoted attribute.
std::string escape_html(std::string_view text);

/// All before the content, with the title as heading and a style for light and dark screens and for
/// paper. css: further rules.
std::string begin_page(std::string_view title, std::string_view css);

} // namespace tools
