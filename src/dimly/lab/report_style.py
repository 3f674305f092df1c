"""How a report looks: light, dark and in print, on a desk and on a phone. Nothing is loaded from anywhere."""

STYLE = """
:root { --paper: #ffffff; --card: #f4f6f8; --ink: #1b1f24; --soft: #57606a; --line: #d5dae0; --accent: #0072b2;
  --band: #0072b233; --bar: #9aa7b4; --alone: #c04a00; --warn: #fff1e5; --warn-ink: #8a3200; color-scheme: light; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --card: #1e242b; --ink: #e8ebee; --soft: #a3adb8; --line: #37414b; --accent: #5cb3ea;
    --band: #5cb3ea40; --bar: #66727e; --alone: #ff9b57; --warn: #3a2313; --warn-ink: #ffb98a; color-scheme: dark; }
  svg .people, svg.symbol { filter: brightness(1.45); }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 60rem; margin: 0 auto; padding: 0 1.25rem; }
header { padding-top: 2.2rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .3rem; letter-spacing: -.01em; }
h2 { font-size: 1.45rem; margin: 3rem 0 .2rem; padding-top: 1rem; border-top: 3px solid var(--accent); }
h3 { font-size: 1.12rem; margin: 2.2rem 0 .5rem; }
p, li, figcaption, caption { max-width: 44rem; }
p { margin: .5rem 0; }
.soft, figcaption, footer, .lead { color: var(--soft); }
.lead { font-size: 1.05rem; margin-top: 0; }
code { font: .9em ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; background: var(--card);
  padding: .1em .3em; border-radius: .25rem; overflow-wrap: anywhere; }
a { color: var(--accent); }
nav ol { columns: 2; column-gap: 2.5rem; padding-left: 1.3rem; margin: .4rem 0; }
nav li { margin: .15rem 0; break-inside: avoid; }
nav h2 { font-size: 1rem; margin: 1.8rem 0 0; padding: 0; border: 0; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .8rem; margin: 1.4rem 0 0; }
.cards div { background: var(--card); border-radius: .6rem; padding: .8rem 1rem; }
.cards dt { color: var(--soft); font-size: .88rem; }
.cards dd { margin: 0; font-size: .9rem; line-height: 1.4; }
.cards dd b { display: block; font-size: 1.3rem; line-height: 1.3; margin: .05rem 0 .15rem; overflow-wrap: anywhere; }
.warning { background: var(--warn); color: var(--warn-ink); border-left: .35rem solid currentColor; padding: .8rem 1rem;
  border-radius: .3rem; margin: 1.2rem 0; max-width: 44rem; }
.promise { font-size: 1.08rem; border-left: .3rem solid var(--accent); padding: .1rem 0 .1rem 1rem; margin: .8rem 0; }
.verdict { font-weight: 600; }
ul.checks { list-style: none; padding-left: 0; }
ul.checks li { padding-left: 1.9rem; position: relative; margin: .55rem 0; }
ul.checks li::before { content: ""; position: absolute; left: 0; top: .28em; width: 1em; height: 1em;
  border: 2px solid var(--soft); border-radius: .2em; }
.scroll { overflow-x: auto; margin: .8rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .94rem; }
caption { text-align: left; color: var(--soft); padding-bottom: .4rem; }
th, td { padding: .36rem 1.1rem .36rem 0; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; }
thead th { vertical-align: bottom; color: var(--soft); font-size: .86rem; line-height: 1.3; }
td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
tr.here { background: var(--card); }
dl.facts { display: grid; grid-template-columns: minmax(9rem, 13rem) 1fr; gap: .3rem 1rem; margin: .8rem 0; }
dl.facts dt { color: var(--soft); }
dl.facts dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0 1.4rem; }
figure > svg { display: block; width: 100%; max-width: 37rem; height: auto; }
figcaption { font-size: .92rem; margin-top: .4rem; }
svg text { fill: var(--ink); font-family: inherit; font-size: 11.5px; }
svg text.label { fill: var(--soft); font-size: 12px; }
svg text.strong { font-weight: 600; font-size: 12px; }
svg .grid { stroke: var(--line); stroke-width: 1; }
svg .band { fill: var(--band); }
svg .bar { fill: var(--bar); }
svg .dot { fill: var(--accent); }
svg .curve { fill: none; stroke: var(--accent); stroke-width: 2.4; }
svg .alone { fill: none; stroke: var(--alone); stroke-width: 2.4; stroke-dasharray: 7 4; }
svg .field { fill: var(--card); }
svg .people { opacity: .68; }
svg text.name { font-size: 19px; font-weight: 700; paint-order: stroke; stroke: var(--paper); stroke-width: 4.5px;
  stroke-linejoin: round; }
svg.symbol { width: 1.1em; height: 1.1em; vertical-align: -.15em; margin-right: .35em; }
.key { display: inline-block; width: 1.5em; height: .8em; vertical-align: -.02em; margin-right: .3em; }
.key.bar { background: var(--bar); } .key.band { background: var(--band); }
.key.alone { height: 0; border-top: 3px dashed var(--alone); vertical-align: .25em; }
.key.curve { height: 0; border-top: 3px solid var(--accent); vertical-align: .25em; }
.key.dot { width: .7em; height: .7em; border-radius: 50%; background: var(--accent); }
footer { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1rem; padding-bottom: 3rem;
  font-size: .92rem; }
@media (max-width: 34rem) {
  h1 { font-size: 1.5rem; } nav ol { columns: 1; }
  .cards { grid-template-columns: 1fr 1fr; gap: .6rem; } .cards div { padding: .65rem .75rem; }
  .cards dd b { font-size: 1.1rem; }
  dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .55rem; }
  svg text, svg text.label, svg text.strong { font-size: 15px; } svg text.name { font-size: 24px; }
  th, td { padding-right: .7rem; } table { font-size: .88rem; }
}
@media print {
  :root { --paper: #ffffff; --card: #f4f6f8; --ink: #000000; --soft: #444444; --line: #bbbbbb; --accent: #0072b2;
    --band: #0072b233; --bar: #9aa7b4; --alone: #c04a00; --warn: #ffffff; --warn-ink: #000000; color-scheme: light; }
  svg .people, svg.symbol { filter: none; }
  body { font-size: 10.5pt; } nav { display: none; } main, header, footer { max-width: none; padding: 0; }
  figure, table, .cards div, .warning, li { break-inside: avoid; } h2, h3 { break-after: avoid; }
  figure > svg { max-width: 12cm; } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
"""
