"""The style of a page: light and dark by the reader's choice, narrow, wide and on paper."""

STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1c2024;--quiet:#5b6570;--rule:#d9dee3;
--card:#f5f7f9;--bar:#0072b2;--ends:#1c2024;--cut:#b84a00;--warn:#fff1e6}
@media (prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e6e9ec;--quiet:#9aa5b1;
--rule:#343b42;--card:#1d2226;--bar:#3b97d3;--ends:#fff;--cut:#ff9a57;--warn:#3a2515}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI","Noto Sans","DejaVu Sans",sans-serif}
main{max-width:56rem;margin:0 auto;padding:2rem 1.25rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .5rem;overflow-wrap:anywhere}
h2{font-size:1.05rem;margin:0 0 .5rem}
p{margin:.5rem 0}
code{font-family:ui-monospace,"DejaVu Sans Mono",monospace;font-size:.92em}
section{margin-top:1.5rem;padding:1rem 1.25rem;background:var(--card);border-radius:.5rem}
.quiet{color:var(--quiet);font-size:.9rem;font-weight:400}
.note,.warn{padding:.6rem 1rem;border-left:4px solid var(--cut);background:var(--warn)}
table{width:100%;border-collapse:collapse;margin-top:1.25rem}
th,td{padding:.35rem .6rem;text-align:left;border-bottom:1px solid var(--rule);
vertical-align:middle}
th{font-weight:600}
thead th{color:var(--quiet);font-size:.85rem;vertical-align:bottom}
.group th{padding-top:1.1rem;overflow-wrap:anywhere}
.rank{width:3.2rem;text-align:right;color:var(--quiet)}
.rank,.number,.ends{font-variant-numeric:tabular-nums}
.number,.ends{text-align:right;white-space:nowrap}
thead .number,thead .ends{white-space:normal}
td.item{overflow-wrap:anywhere}
th.bar,td.bar{width:34%}
td.ends{color:var(--quiet)}
svg{display:block;width:100%;height:1.25rem;overflow:visible}
rect{fill:var(--bar)}
path{fill:none;vector-effect:non-scaling-stroke}
path.ends{stroke:var(--ends);stroke-width:1.5px}
path.cut{stroke:var(--cut);stroke-width:1.5px;stroke-dasharray:4 3}
dl{margin:0}
dl div{display:flex;gap:1rem;padding:.2rem 0}
dt{flex:0 0 14rem;color:var(--quiet);overflow-wrap:anywhere}
dd{margin:0;min-width:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}
@media screen and (max-width:40rem){
main{padding:1.25rem .9rem 2rem}
thead{display:none}
table,tbody{display:block}
tr{display:grid;grid-template-columns:2.2rem 1fr auto;align-items:baseline;
border-bottom:1px solid var(--rule);padding:.35rem 0}
tr.group{display:block}
th,td{border:0;padding:.1rem .35rem}
.rank{width:auto}
td.ends{grid-column:3;font-size:.85rem}
td.ends:empty{display:none}
td.bar{grid-column:2;grid-row:2;width:auto;align-self:center}
dl div{display:block;padding:.3rem 0}
}
@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--quiet:#444;--rule:#bbb;--card:#fff;
--bar:#0072b2;--ends:#000;--cut:#b84a00;--warn:#fff}
body{font-size:11pt}main{max-width:none;padding:0}
section{padding:.5rem 0;break-inside:avoid}tr{break-inside:avoid}thead{display:table-header-group}
rect,.note,.warn{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
"""
