"""The documentation as a site: `./dev docs` builds it into build/docs. Warnings, dead links among them, are errors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS))

# The notebook runs without the user's settings of IPython, and its kernel logs errors only.
profile = DOCS.parent / "build" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
os.environ["IPYTHONDIR"] = str(profile.parent)

from framejit import __version__ as release  # noqa: E402

project = "framejit"
author = copyright = "the framejit authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc"]
exclude_patterns = ["**/.*"]
nitpicky = True
language = "en"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
myst_heading_slug_func = "conf.heading_id"
myst_links_external_new_tab = False
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True

autodoc_typehints = "none"  # numpydoc says types
autosummary_generate = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

html_theme = "pydata_sphinx_theme"
html_title = f"framejit {release}"
html_theme_options = {
    "navbar_align": "left",
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False


def heading_id(title: str) -> str:
    """The anchor of a heading: the number of a break reason, or what GitHub makes of the title."""
    number = re.match(r"FJ\d{3}\b", title)
    return number[0] if number else re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def prepare(app: object, docname: str, content: list[str]) -> None:
    """Links to files of the repository that are no pages become their paths, and anchors of headings stand above them."""

    def resolve(link: re.Match[str]) -> str:
        text, target = link.groups()
        path = (DOCS / docname).parent / target.split("#")[0]
        if not path.exists():
            raise SystemExit(f"{docname}: the link to {target} leads nowhere")
        return text if path.is_relative_to(DOCS) and path.suffix in (".md", ".ipynb") else f"{text} (`{shown(path)}`)"

    def shown(path: Path) -> str:
        return str(path.resolve().relative_to(DOCS.parent))

    content[0] = re.sub(r'^## <a id="(\w+)"></a>', r'<a id="\1"></a>\n\n## ', content[0], flags=re.MULTILINE)
    content[0] = re.sub(r"\[([^]]*)\]\((\.\./[^)]*)\)", resolve, content[0])


def setup(app) -> None:  # type: ignore[no-untyped-def]
    app.connect("source-read", prepare)
