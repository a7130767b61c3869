"""The style of reports: light and dark, on paper, telephones and in notebooks. All of it is below the class `fj`."""

from __future__ import annotations

from framejit._reporting import _picture

_LIGHT = _picture.LIGHT + (
    "--fj-back:#ffffff;--fj-link:#0a4fa8;--fj-good:#e3f9e7;--fj-bad:#ffeceb;--fj-why:#fff8dc;--fj-bar:#2f9e4f;--fj-plain:#9aa4b0;"
    "--fj-good-text:#116329;--fj-bad-text:#a40e26;--fj-k:#a0111f;--fj-s:#0a3069;--fj-c:#4d5763;--fj-n:#0a4fa8;--fj-f:#5a2ca0;"
    "--fj-b:#8a3600;color-scheme:light;"
)
_DARK = _picture.DARK + (
    "--fj-back:#0d1117;--fj-link:#84c2ff;--fj-good:#10301b;--fj-bad:#451a1f;--fj-why:#332b0e;--fj-bar:#3fb55f;--fj-plain:#5d6874;"
    "--fj-good-text:#74e08f;--fj-bad-text:#ffa8a1;--fj-k:#ff9d96;--fj-s:#a8d8ff;--fj-c:#a9b4c0;--fj-n:#84c2ff;--fj-f:#d6b0ff;"
    "--fj-b:#ffc183;color-scheme:dark;"
)
# Notebooks say by an attribute or a class whether they are dark; the wish of the system says nothing there.
_NOTEBOOKS = ('[data-jp-theme-light="false"]', 'html[theme="dark"]', '[data-theme="dark"]', ".vscode-dark")

STYLE = f"""
.fj{{{_LIGHT}}}
{",".join(f"{notebook} .fj" for notebook in _NOTEBOOKS)}{{{_DARK}}}
@media screen and (prefers-color-scheme:dark){{.fj-page{{{_DARK}}}}}
.fj{{color:var(--fj-text);background:var(--fj-back);font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:break-word}}
.fj-page{{margin:0 auto;max-width:68em;padding:1.5em max(1em,3vw) 4em}}
.fj h1{{font-size:1.75em;line-height:1.25;margin:.2em 0;font-weight:650}}
.fj h2{{font-size:1.2em;margin:2.4em 0 .6em;padding-bottom:.3em;border-bottom:1px solid var(--fj-line);font-weight:650}}
.fj h3{{font-size:1em;margin:1.4em 0 .4em;font-weight:650}}
.fj p{{margin:.4em 0}}.fj a{{color:var(--fj-link)}}.fj .soft{{color:var(--fj-soft);font-weight:400}}
.fj code,.fj pre,.fj .source{{font:13px/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}}
.fj pre{{background:var(--fj-panel);color:var(--fj-text);padding:.7em 1em;margin:.5em 0;border-radius:6px;white-space:pre-wrap;overflow-wrap:anywhere}}
.fj .end{{margin-top:3em;font-size:.88em}}
.fj .gain{{font-size:1.3em;font-weight:650;margin:.3em 0}}
.fj .good{{color:var(--fj-good-text)}}.fj .bad{{color:var(--fj-bad-text)}}
.fj .bars{{display:grid;grid-template-columns:max-content 1fr max-content;gap:.35em .8em;align-items:center;max-width:36em;margin:.6em 0}}
.fj .bars b{{display:block;height:.85em;border-radius:3px;background:var(--fj-plain);min-width:2px}}.fj .bars b.fast{{background:var(--fj-bar)}}
.fj .scroll{{overflow-x:auto;margin:.6em 0}}
.fj table{{border-collapse:collapse;font-size:.94em;margin:0}}
.fj td,.fj th{{padding:.35em .8em .35em 0;text-align:left;border-bottom:1px solid var(--fj-line);vertical-align:top;background:none;color:inherit}}
.fj th{{color:var(--fj-soft);font-weight:500}}.fj td.n,.fj th.n{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.fj .source{{border:1px solid var(--fj-line);border-radius:6px;padding:.4em 0;margin:.8em 0;background:var(--fj-back)}}
.fj .source>div{{display:grid;grid-template-columns:3.2em minmax(0,1fr);border-left:4px solid transparent;padding-right:.8em}}
.fj .source i{{color:var(--fj-soft);font-style:normal;text-align:right;padding-right:1em;user-select:none}}
.fj .source span.line{{white-space:pre-wrap;overflow-wrap:anywhere;min-height:1.55em}}
.fj .source>.in{{background:var(--fj-good);border-left-color:var(--fj-bar)}}
.fj .source>.broken{{background:var(--fj-bad);border-left-color:var(--fj-bad-text);border-left-style:double}}
.fj .why{{display:block!important;background:var(--fj-why);color:var(--fj-text);font:14px/1.5 system-ui,sans-serif;padding:.5em .8em .6em 4em!important}}
.fj .key{{display:flex;flex-wrap:wrap;gap:.3em 1.4em;font-size:.88em;color:var(--fj-soft);margin:.4em 0;padding:0;list-style:none}}
.fj .key li::before{{content:"";display:inline-block;width:.9em;height:.9em;border-radius:3px;margin-right:.45em;vertical-align:-.1em;border:1px solid var(--fj-line);background:var(--fj-back)}}
.fj .key .in::before{{background:var(--fj-good);border-color:var(--fj-bar)}}.fj .key .broken::before{{background:var(--fj-bad);border-color:var(--fj-bad-text)}}
.fj .key .input::before{{background:var(--fj-blue)}}.fj .key .reduction::before{{background:var(--fj-orange)}}
.fj .key .call::before{{background:var(--fj-purple)}}.fj .key .result::before{{background:var(--fj-green)}}
.fj .key .elementwise::before{{background:var(--fj-panel)}}.fj .key .memory::before{{border-style:dashed}}.fj .key .control::before{{border-color:var(--fj-edge)}}
.fj details{{margin:.35em 0}}.fj summary{{cursor:pointer;padding:.15em 0}}
.fj .graph{{overflow:auto;max-height:46em;border:1px solid var(--fj-line);border-radius:6px;padding:.6em;margin:.5em 0}}
.fj .graph svg{{display:block;margin:0 auto;max-width:none}}
.fj .graph>div{{position:relative;margin:0 auto}}.fj .graph i{{position:absolute;top:0;width:1px;height:1px;scroll-initial-target:nearest}}
.fj img{{max-width:100%}}
.fj .k{{color:var(--fj-k)}}.fj .s{{color:var(--fj-s)}}.fj .c{{color:var(--fj-c);font-style:italic}}.fj .n{{color:inherit}}
.fj .line .n{{color:var(--fj-n)}}.fj .f{{color:var(--fj-f)}}.fj .d{{color:var(--fj-f)}}.fj .b{{color:var(--fj-b)}}
@media (max-width:40em){{.fj .source>div{{grid-template-columns:2.4em minmax(0,1fr)}}.fj .source i{{padding-right:.6em}}.fj .why{{padding-left:.9em!important}}.fj .bars{{grid-template-columns:1fr max-content}}.fj .bars span:first-child,.fj .bars .name{{grid-column:1/-1}}}}
@media print{{.fj .graph{{max-height:none}}}}
{_picture.STYLE}"""
