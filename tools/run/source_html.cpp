// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "run/source_html.hpp"

#include "html.hpp"
#include "run/debug_info.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::run {

using namespace coherdma::reports;

const char *const SOURCE_STYLE = R"(
pre { margin: 0; padding: .6rem 0; font: .84rem/1.5 ui-monospace, monospace; min-width: max-content; }
pre span { display: block; padding: 0 .9rem; } pre b { color: var(--soft); font-weight: 400; }
pre .hit { background: color-mix(in srgb, var(--bad) 16%, transparent); }
)";

std::string format_frame(const std::string &frame, source_files &files) {
    const source_frame parsed = parse_frame(frame);
    return parsed.file.empty()
               ? "<code>" + escape_html(frame) + "</code>"
               : fmt::format("<code title=\"{}\">{} ({}:{})<span class=soft> {}</span></code>",
                             escape_html(parsed.file), escape_html(parsed.function),
                             escape_html(base_name(parsed.file)), parsed.line,
                             escape_html(trim(files.line(parsed.file, parsed.line))));
}

std::string format_source_lines(const std::vector<std::pair<int, std::string>> &lines,
                                const std::vector<int> &hits) {
    std::string html;
    for (const auto &[number, text] : lines)
        html += fmt::format("<span{}><b>{:5} </b>{}</span>",
                            std::find(hits.begin(), hits.end(), number) != hits.end() ? " class=hit"
                                                                                      : "",
                            number, escape_html(text));
    return html.empty() ? "" : "<div class=\"scroll\"><pre>" + html + "</pre></div>\n";
}

std::string format_files_without_lines(const std::vector<std::string> &frames) {
    std::string html;
    for (const file_without_lines &file : files_without_lines(frames))
        html += "<dt>" + escape_html(base_name(file.path)) + "</dt><dd>" + escape_html(file.fix) +
                "</dd>\n";
    return html.empty()
               ? ""
               : "<footer><p>Source lines are missing for</p><dl>\n" + html + "</dl></footer>\n";
}

} // namespace tools::run
