"""The style sheet of a report's page: colours by light and by dark, and what paper wants."""

STYLE = """
:root { --bg: #fff; --ink: #1a2230; --quiet: #5a6675; --rule: #d5dbe3; --panel: #f5f7fa;
  --s1: #1f6fc0; --s2: #2c7d55; --s3: #a85b00; --s4: #7b8794;
  --broken: #b3123c; --stalled: #b8401c; --leaking: #9c4a00; --growing: #95610a; --poisoned: #7a2fb5; --aged: #6f6400;
  --other: #5a6675; }
@media (prefers-color-scheme: dark) { :root { --bg: #10151c; --ink: #e3e9f0; --quiet: #9aa7b6; --rule: #303b48;
  --panel: #171e27; --s1: #6cb6ff; --s2: #7fbf9e; --s3: #ffb454; --s4: #8b96a5;
  --broken: #ff6f8b; --stalled: #ff8a6c; --leaking: #ff9a6c; --growing: #ffb454; --poisoned: #d58cff; --aged: #e6d05a;
  --other: #9aa7b6; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .6rem; padding-bottom: .2rem; border-bottom: 1px solid var(--rule);
  overflow-wrap: anywhere; }
header p, figcaption { color: var(--quiet); }
p, li { overflow-wrap: anywhere; max-width: 48rem; }
.lead { font-size: 1.1rem; }
li { margin: .35rem 0; }
code { font: .92em ui-monospace, monospace; overflow-wrap: anywhere; unicode-bidi: isolate; }
figure { margin: .8rem 0; }
figcaption { font-size: .85rem; }
svg { display: block; width: 100%; height: auto; background: var(--panel); border: 1px solid var(--rule);
  border-radius: 4px; }
svg text { font: 11px system-ui, sans-serif; fill: var(--quiet); }
svg .tick { text-anchor: middle; }
svg .end { text-anchor: end; }
svg .name { fill: var(--ink); font-family: ui-monospace, monospace; }
svg .grid { stroke: var(--rule); fill: none; }
svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
svg .area { stroke: none; opacity: .14; }
svg .shade { opacity: .13; }
.s1 { stroke: var(--s1); fill: var(--s1); } .s2 { stroke: var(--s2); fill: var(--s2); }
.s3 { stroke: var(--s3); fill: var(--s3); } .s4 { stroke: var(--s4); fill: var(--s4); stroke-dasharray: 4 3; }
svg .line.s2 { stroke-width: 2.2; stroke-dasharray: 7 2; }
.v-broken, .v-down { fill: var(--broken); } .v-stalled { fill: var(--stalled); } .v-growing { fill: var(--growing); }
.v-leaking { fill: var(--leaking); } .v-poisoned { fill: var(--poisoned); }
.v-aged { fill: var(--aged); } .v-other { fill: var(--other); }
.heat { fill: var(--s1); } .h0 { opacity: .12; } .h1 { opacity: .3; } .h2 { opacity: .5; } .h3 { opacity: .75; }
.h4 { opacity: 1; }
.key { margin-right: .9rem; white-space: nowrap; }
.sample { display: inline-block; width: .9rem; height: .6rem; margin-right: .35rem; border-radius: 2px; }
.sample.s1, .sample.heat { background: var(--s1); } .sample.s2 { background: var(--s2); }
.sample.s3 { background: var(--s3); } .sample.s4 { background: var(--s4); }
.sample.v-broken, .sample.v-down { background: var(--broken); } .sample.v-stalled { background: var(--stalled); }
.sample.v-growing { background: var(--growing); } .sample.v-poisoned { background: var(--poisoned); }
.sample.v-aged { background: var(--aged); } .sample.v-leaking { background: var(--leaking); }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .88rem; min-width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule); }
thead th { color: var(--quiet); font-weight: 600; white-space: nowrap; }
tbody th { font-weight: 400; }
td, tbody th { white-space: nowrap; }
td:last-child, td code, th code { white-space: normal; }
td code, th code { display: inline-block; min-width: 8ch; max-width: 20rem; }
td:last-child { min-width: 9rem; }
.right { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
@media print {
  :root { --bg: #fff; --ink: #000; --quiet: #444; --rule: #bbb; --panel: #fff; --s1: #1f6fc0; --s2: #2c7d55;
    --s3: #a85b00; --s4: #7b8794; --broken: #b3123c; --stalled: #b8401c; --growing: #95610a; --poisoned: #7a2fb5;
    --leaking: #9c4a00; --aged: #6f6400; --other: #5a6675; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  svg, .heat, .bar, .shade, .area, .sample { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  figure, tr, li { break-inside: avoid; }
  h2 { break-after: avoid; }
  .wide { overflow: visible; }
  table { font-size: 8pt; }
  td, tbody th, td code, th code { white-space: normal; min-width: 0; }
  th, td { overflow-wrap: anywhere; }
}
"""
