// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "html.hpp"

namespace tools {
namespace {

constexpr const char *BASE_STYLE = R"(
:root { color-scheme: light dark; --back: #fbfaf8; --card: #fff; --text: #1d2129; --soft: #646b78;
  --line: #e3e1dc; --color1: #c2410c; --color2: #1d5fbf; --color3: #0f8a64; --good: #0f8a64;
  --bad: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --card: #1b1f26; --text: #e7e9ed;
  --soft: #9aa3b2; --line: #2e343e; --color1: #ff9a62; --color2: #7fb2ff; --color3: #4fd3a5;
  --good: #4fd3a5; --bad: #ff9a62; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 2.5rem 1.5rem 3rem; background: var(--back);
  color: var(--text); font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .3rem; }
p { max-width: 46rem; margin: .3rem 0 1rem; } .soft, dt { color: var(--soft); }
code { font-family: ui-monospace, monospace; font-size: .92em; }
.warning { border-left: 4px solid var(--bad); padding: .4rem .9rem; }
.card, figure, .scroll { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; text-align: right; border-top: 1px solid var(--line);
  white-space: nowrap; }
thead th { border-top: 0; color: var(--soft); font-weight: 600; }
th.name { text-align: left; font-weight: 500; }
tbody th.name:empty { border-top: 0; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--soft); margin: .6rem 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem;
  font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.4rem; margin: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; } figure { break-inside: avoid; } }
)";

} // namespace

std::string escape_html(std::string_view text) {
    std::string result;
    for (const char ch : text) {
        switch (ch) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        case '\'':
            result += "&#39;";
            break;
        default:
            result += ch;
        }
    }
    return result;
}

std::string begin_page(std::string_view title, std::string_view css) {
    std::string html = "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
                       "<meta name=viewport content=\"width=device-width\">\n<title>";
    html += escape_html(title) + "</title>\n<style>" + BASE_STYLE;
    html += css;
    return html + "</style></head><body>\n<h1>" + escape_html(title) + "</h1>\n";
}

} // namespace tools
