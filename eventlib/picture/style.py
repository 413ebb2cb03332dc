"""How a drawn picture looks."""

MARGIN = 28.0

TINTS = ("#eef4ff", "#effaf1", "#faf3ff", "#fff8e8", "#eefafa", "#fdf0f3")
"""One behind each service, in turn."""

CSS = """
text{font-family:Inter,'Segoe UI','Helvetica Neue',Arial,'DejaVu Sans',sans-serif;fill:#1e293b}
.paper{fill:#fff}
.title{font-size:24px;font-weight:700}
.subtitle{font-size:12.5px;fill:#64748b}
.service{font-size:14px;font-weight:700}
.decider{font-size:11px;fill:#64748b}
.lane{stroke:#dbe2ea}
.between{stroke:#cfdbd0;fill:none}
.world{fill:#fafafa;stroke:#b6bfca;stroke-dasharray:2 4}
.label{font-weight:600;text-anchor:middle}
.count{fill:#64748b;text-anchor:middle}
.box{fill:#fff;stroke:#334155;stroke-width:1.3}
.end{fill:none;stroke:#334155;stroke-width:1.3}
.failure .box{fill:#fdecec;stroke:#c62828}
.failure .label{fill:#a51d1d}
.failure .end{stroke:#c62828}
.compensation .box{fill:#fff5e9;stroke:#c2600c}
.compensation .label{fill:#974806}
.compensation .end{stroke:#c2600c}
.request .box{fill:#1e3a5f;stroke:#1e3a5f}
.request .label{fill:#fff}
.request .count{fill:#cbd5e1}
.effect .box{stroke-width:1;fill:#e8ecf1}
.effect.compensation .box{fill:#fbe9d6}
.listener .box{fill:none;stroke:#94a3b8}
.deadline .box{stroke-dasharray:3 3}
.arrow{fill:none;stroke-width:1.5}
.arrow.step{stroke:#475569}
.arrow.failure{stroke:#c62828}
.arrow.compensation{stroke:#c2600c;stroke-dasharray:5 3}
.arrow.never{opacity:.28}
.arrow:hover{stroke-width:3}
.head.step{fill:#475569}
.head.failure{fill:#c62828}
.head.compensation{fill:#c2600c}
.traffic{font-size:9px;text-anchor:end;paint-order:stroke;stroke:#fff;stroke-width:2.5px;stroke-linejoin:round}
.key{font-size:11px;fill:#475569}
""".strip()
