//===- PageStyle.h - How all pages of omnibal-batch look --------------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_PAGESTYLE_H
#define TOOLS_OMNIBAL_BATCH_PAGESTYLE_H

namespace omnibal::rt {

inline constexpr const char *pageStyle = R"html(<style>
:root{--text:#1f2328;--dim:#59636e;--page:#fff;--card:#f6f8fa;--line:#d1d9e0;--grid:#eaeef2;--s0:#c2703d;--s1:#3b6fd4;--cap:#8250df}
@media(prefers-color-scheme:dark){:root{--text:#e6edf3;--dim:#9198a1;--page:#0d1117;--card:#161b22;--line:#3d444d;--grid:#232a33;--s0:#e0915c;--s1:#6f9bf0;--cap:#b794f6}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--text);background:var(--page);max-width:1160px;margin:2em auto;padding:0 1.2em}
h1{font-size:1.6em;margin:0}h2{font-size:1.15em;margin:2em 0 .2em}p{margin:.3em 0;max-width:75ch}.dim{color:var(--dim)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:.8em;margin:1.2em 0}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6em .9em}
.card b{display:block;font-size:1.35em;font-weight:600;font-variant-numeric:tabular-nums}
.card span{color:var(--dim);font-size:.87em}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(340px,1fr));gap:1em}
figure{margin:.6em 0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6em}
figcaption{color:var(--dim);font-size:.9em}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--dim)}
svg text.label{fill:var(--text);font-weight:600}
.axis{stroke:var(--line)}.grid{stroke:var(--grid)}.cap{stroke:var(--cap);stroke-dasharray:4 3}
.s0{fill:var(--s0)}.s1{fill:var(--s1)}.rest{fill:var(--line)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.25em 1em .25em 0;border-bottom:1px solid var(--line);text-align:right}
td:first-child,th:first-child{text-align:left}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.5em}
</style>)html";

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_PAGESTYLE_H
