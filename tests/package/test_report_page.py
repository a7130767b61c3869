"""Reports in a browser: on a telephone and on a screen, light and dark, nothing overflows, all is legible, links lead somewhere."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import framejit as fj
import numpy as np
import pytest

pytestmark = pytest.mark.capture

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (360, 1280)

PROGRAM = '''
import os
import numpy as np

def helper_with_a_name_that_is_longer_than_most_names_of_functions(values):
    """A docstring."""
    return np.tanh(values) + 1

class Model:
    @staticmethod
    def step(x, w):
        y = x * w[None, :]  # a comment that is so long that no telephone shows it in one line, and that is why it is here
        for i in range(3):
            y = y + helper_with_a_name_that_is_longer_than_most_names_of_functions(y) * i
        stamp = os.getpid()
        print("stamp", stamp > 0, f"{stamp:>10}"[:0])
        return np.sort(np.where(y > 1, y, -y) @ w)

def average(x, a):
    out = np.empty_like(x)
    s = x[0]
    for i in range(len(x)):
        s = a * x[i] + (1 - a) * s
        out[i] = s
    return out

def branches(x):
    y = x * 2 if x.sum() > 0 else x - 1
    while x.sum() < 100:
        x = x * 2 + 1
    return y + x

def deep(x, w, b):
    for i in range(8):
        h = np.tanh(x @ w + b)
        h = (h - h.mean(axis=1, keepdims=True)) / np.sqrt(h.var(axis=1, keepdims=True) + 1e-5)
        x = x + h * b
    return x.sum(axis=0), x.max(), [x * i for i in range(2, 9)]

def words(text):
    return text.split()

if __name__ == "__main__":
    for n in (30, 30, 30, 31):
        Model.step(np.ones((n, 4)), np.ones(4))
        average(np.ones(300), 0.5)
        branches(np.ones(n))
        deep(np.ones((n, 8)), np.eye(8), np.ones(8))
        words("a b")
'''

SCRIPT = """
const results = {};
function brightness(color) {
  const [r, g, b] = color.match(/[\\d.]+/g).map(Number).map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function opaque(color) { return color !== 'none' && color !== 'transparent' && !/, 0\\)$/.test(color); }
function behind(win, element) {
  if (element.tagName === 'text') {
    const rect = element.parentNode.querySelector(':scope > rect');
    if (rect && opaque(win.getComputedStyle(rect).fill)) return win.getComputedStyle(rect).fill;
  }
  for (let e = element; e; e = e.parentElement) {
    const color = win.getComputedStyle(e).backgroundColor;
    if (opaque(color)) return color;
  }
  return 'rgb(255, 255, 255)';
}
function measure(frame) {
  const win = frame.contentWindow, doc = frame.contentDocument;
  const folded = doc.querySelectorAll('details').length;
  doc.querySelectorAll('details').forEach(d => d.open = true);
  const texts = [];
  const walker = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ['STYLE', 'TITLE', 'title', 'SCRIPT'].includes(element.tagName)) continue;
    const style = win.getComputedStyle(element);
    const front = element.tagName === 'text' ? style.fill : style.color;
    const [low, high] = [brightness(front), brightness(behind(win, element))].sort((a, b) => a - b);
    texts.push([Math.round((high + 0.05) / (low + 0.05) * 100) / 100, walker.currentNode.data.trim().slice(0, 40)]);
  }
  texts.sort((a, b) => a[0] - b[0]);
  const ids = [...doc.querySelectorAll('[id]')].map(e => e.id);
  return {
    overflow: doc.documentElement.scrollWidth - win.innerWidth,
    wide: [...doc.querySelectorAll('.fj p, .fj pre, .fj .source > div, .fj .bars, .fj .key')].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 40)),
    dead: [...doc.querySelectorAll('a[href]')].map(a => a.getAttribute('href')).filter(h => h.startsWith('#') ? !doc.getElementById(h.slice(1)) : !h.startsWith('https://')),
    links: doc.querySelectorAll('a[href]').length,
    repeated: ids.filter((id, i) => ids.indexOf(id) !== i),
    texts: texts.length, worst: texts.slice(0, 3), folded,
    back: behind(win, doc.querySelector('.fj')),
    first: [...doc.querySelectorAll('h1')].map(e => e.nextElementSibling).map(e => [e.className.split(' ')[0], Math.round(e.getBoundingClientRect().bottom)]),
    pictures: [...doc.querySelectorAll('svg')].map(s => [s.querySelectorAll('rect').length, s.getBoundingClientRect().width > 0]),
  };
}
window.onload = () => {
  document.querySelectorAll('iframe').forEach(f => results[f.name] = measure(f));
  document.body.textContent = JSON.stringify(results);
};
"""


@pytest.fixture(scope="module")
def browser() -> str:
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium or Chrome")
    return found


def look(browser: str, folder: Path, pages: dict[str, str], dark: bool) -> dict:
    """What each page is like at each width: a page with the report in frames measures it, since reports have no scripts."""
    frames = "".join(
        f'<iframe name="{name}-{width}" style="width:{width}px;height:800px;border:0" srcdoc="{html.escape(page)}"></iframe>'
        for name, page in pages.items()
        for width in WIDTHS
    )
    file = folder / "look.html"
    file.write_text(f"<!DOCTYPE html><meta charset=utf-8><script>{SCRIPT}</script><body>{frames}", encoding="utf-8")
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}", scheme]
    done = subprocess.run(
        [*command, "--dump-dom", file.as_uri()], capture_output=True, text=True, timeout=120, check=False
    )
    found = re.search(r"<body[^>]*>(\{.*\})</body>", done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:] + done.stdout[-500:]
    return json.loads(html.unescape(found[1]))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A report of a program, a report of a function, and a dark notebook with two outputs."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "FRAMEJIT_PROFITABILITY": "measure"}
    command = [sys.executable, "-m", "framejit", "--report", "out", "program.py"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    scope: dict = {"__name__": "program"}
    exec(compile(PROGRAM, str(folder / "program.py"), "exec"), scope)
    call = fj.explain(scope["Model"].step)
    for _ in range(4):
        report = call(np.ones((30, 4)), np.ones(4))
    report.save(folder / "step.html")
    outputs = report._repr_html_() + report._repr_html_()
    return {
        "program": (folder / "out" / "report.html").read_text(),
        "function": (folder / "step.html").read_text(),
        "notebook": f'<!DOCTYPE html><body data-jp-theme-light="false" style="background:#111;margin:0">{outputs}</body>',
    }


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_page(browser, pages, tmp_path, dark):
    found = look(browser, tmp_path, pages, dark)
    assert set(found) == {f"{name}-{width}" for name in pages for width in WIDTHS}
    for name, page in found.items():
        assert page["overflow"] <= 0, name
        assert page["wide"] == [], name
        assert page["dead"] == [] and page["links"] > 0, name
        assert page["repeated"] == [], name
        assert page["texts"] > 100, name
        assert page["first"] and all(kind == "gain" for kind, _ in page["first"]), name  # what was gained comes first,
        assert page["first"][0][1] < 400, name  # on the first screen
        assert page["worst"][0][0] >= 4.5, (name, page["worst"])
        assert page["pictures"] and all(boxes > 1 and shown for boxes, shown in page["pictures"]), name
        lit = sum(map(int, re.findall(r"\d+", page["back"])[:3]))
        assert (lit < 150) == (dark or name.startswith("notebook")), (name, page["back"])
    assert max(boxes for boxes, _ in found["program-360"]["pictures"]) > 60  # the picture of the deep graph


class Metadata:
    def __init__(self, *rows: str) -> None:
        self.rows = list(rows)

    def get_all(self, name: str) -> list[str] | None:
        assert name == "Project-URL"
        return self.rows or None


@pytest.mark.parametrize(
    ("rows", "address"),
    [
        ((), None),
        (("Source, https://example.org/source",), None),
        (
            ("Source, https://example.org/source", "Documentation, https://example.org/docs/"),
            "https://example.org/docs/breaks.html",
        ),
    ],
)
def test_links_to_the_documentation_that_the_package_names(monkeypatch, rows, address):
    from framejit._reporting import _reasons

    monkeypatch.setattr(_reasons.metadata, "metadata", lambda name: Metadata(*rows))
    assert _reasons.page_address() == address

    def f(x):
        return x + len(str(x))

    shown = fj.explain(f)(np.ones(3))._repr_html_()
    (number,) = set(re.findall(r'<section id="fj\d+-(FJ\d+)">', shown))
    assert re.search(rf'<a href="#fj\d+-{number}">{number}</a>', shown)
    assert (f'<a href="{address}#{number}">documentation</a>' in shown) == (address is not None)
    assert f"python -m framejit docs {number}" in shown
