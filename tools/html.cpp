// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace tools::bench {

/// The style of the page, for light and dark screens and for paper.
constexpr const char *STYLE = R"(
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
.facts, .plots { display: grid; gap: 1rem; }
.facts { grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); margin: 1.6rem 0; }
.facts div, figure, .scroll { background: var(--card); border: 1px solid var(--line);
  border-radius: 10px; }
.facts div { padding: .9rem 1.1rem; }
.facts b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 650; }
.facts span { color: var(--soft); font-size: .88rem; line-height: 1.35; display: block; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(380px, 100%), 1fr)); }
figure { margin: 0; padding: .8rem .6rem .4rem; max-width: 570px; }
figcaption { font-weight: 600; padding: 0 .5rem; } svg { display: block; width: 100%; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.label { font-weight: 600; fill: currentColor; }
.grid { stroke: var(--line); stroke-width: 1; }
.color1 { color: var(--color1); } .color2 { color: var(--color2); } .color3 { color: var(--color3); }
.curve { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.band { fill: currentColor; opacity: .13; }
.dot { fill: currentColor; stroke: var(--card); stroke-width: 1.5; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .8rem; text-align: right; border-top: 1px solid var(--line);
  white-space: nowrap; }
thead th { border-top: 0; color: var(--soft); font-weight: 600; }
th.name { text-align: left; font-weight: 500; }
tbody th.name:empty { border-top: 0; }
td.good { color: var(--good); } td.bad { color: var(--bad); font-weight: 650; }
details { margin-top: 1rem; } summary { cursor: pointer; color: var(--soft); margin: .6rem 0; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: 1rem;
  font-size: .9rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.4rem; margin: 0; }
dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { max-width: none; padding: 0; } figure, .facts div { break-inside: avoid; } }
)";

} // namespace tools::bench
