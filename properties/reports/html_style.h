// The looks of index.html: system fonts, light and dark by the reader's preference, nothing loaded
// from anywhere.
#pragma once

namespace kvconform {

inline constexpr const char* kReportStyle = R"css(
:root { color-scheme: light dark; --text: #1c2024; --soft: #5d6670; --page: #fbfbfa; --panel: #fff;
  --line: #dcdfe3; --good: #1a7f37; --bad: #c62828; --weak: #8a5a00; --bar: #4a7dbd; --heat: 198, 40, 40; }
@media (prefers-color-scheme: dark) { :root { --text: #e6e8ea; --soft: #9aa4ae; --page: #15181b;
  --panel: #1d2125; --line: #343a40; --good: #57c271; --bad: #ff7b72; --weak: #e0af4f; --bar: #6f9fdc;
  --heat: 255, 100, 90; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 76rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
p.soft, .soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; background: var(--panel); font-variant-numeric: tabular-nums; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { font-weight: 600; } td.number { text-align: right; }
td.subject, th.subject { max-width: 22rem; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); font-weight: 600; } .weak { color: var(--weak); }
.failure { background: var(--panel); border: 1px solid var(--line); border-left: .3rem solid var(--bad);
  padding: .8rem 1rem; margin: 0 0 1rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem .9rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre, code { font: 13px/1.45 ui-monospace, monospace; }
pre { margin: .6rem 0 0; white-space: pre-wrap; overflow-wrap: anywhere; }
code { overflow-wrap: anywhere; user-select: all; }
.bars { display: grid; grid-template-columns: max-content minmax(6rem, 1fr) max-content; gap: .1rem .7rem;
  align-items: center; max-width: 52rem; }
.bar { background: var(--line); height: .8rem; position: relative; }
.bar i { display: block; height: 100%; background: var(--bar); }
.bar.short i { background: var(--bad); } .bar u { position: absolute; top: -.15rem; bottom: -.15rem;
  width: 2px; background: var(--text); }
.quantities { display: grid; grid-template-columns: repeat(auto-fill, minmax(19rem, 1fr)); gap: 1.2rem; }
.heat { margin-top: .8rem; } .heat td { padding: 0; min-width: 1.5rem; height: 1.15rem; font-size: 10px;
  text-align: center; } .heat th { padding: .05rem .5rem; font-size: 12px; font-weight: 400; white-space: nowrap; }
summary { cursor: pointer; font-weight: 600; }
)css";

}  // namespace kvconform
