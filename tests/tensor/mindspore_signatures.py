"""Run by a Python with MindSpore: `mindspore_signatures.py OUT` writes framejit's module `ops._signature_table` anew.

MindSpore has the signatures of Tensor's methods and of mint's functions as texts in its library, in any order. Where there is more than one, an
error lists them in the order in which they are tried.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import mindspore
from mindspore import Tensor, mint

PARAMETERS = r"(?:(?:\*, )?\w+=<[\w,]+>(?:, )?)*"
HEAD = '''"""The signatures of Tensor's methods and of mint's functions as MindSpore 2.10 tells them in errors.

Written by tests/tensor/mindspore_signatures.py.
"""

# Names, and after ":" the forms of a call, with ";" between them. MindSpore has two forms with one text where a form is there twice.
'''


def listed(call):
    """The signatures that the error of a call with too many arguments has."""
    try:
        call(*[object()] * 20)
    except Exception as error:
        return re.findall(rf'^"(?:Tensor\.)?\w+\(({PARAMETERS})\)"$', str(error), re.MULTILINE)
    return []


def rows(found, owner):
    """By signatures: the names that have them."""
    by_forms = {}
    for name in sorted(found):
        order = listed(getattr(owner, name))
        forms = order if sorted(order) == sorted(found[name]) else sorted(found[name])
        forms = forms * 2 if len(order) == len(forms) == 1 else forms
        by_forms.setdefault("; ".join(f"({form})" for form in forms), []).append(name)
    return sorted((" ".join(names), forms) for forms, names in by_forms.items())


text = (Path(mindspore.__file__).parent / "lib" / "libmindspore_common.so").read_bytes()
tables = {}
x = Tensor([[1.0]])
functions = {**vars(mint.nn.functional), **vars(mint)}
for title, prefix, owner in (("METHODS", rb"Tensor\.", x), ("FUNCTIONS", b"", type("mint", (), functions))):
    found = {}
    for name, form in re.findall(rb"\0" + prefix + rb"([a-z]\w*)\((" + PARAMETERS.encode() + rb")\)(?=\0)", text):
        name, form = name.decode(), form.decode()
        if hasattr(owner, name) and (form or prefix) and form not in found.setdefault(name, []):
            found[name].append(form)
    with contextlib.redirect_stderr(io.StringIO()):
        lines = [f"{names}: {forms}" for names, forms in rows(found, owner)]
    tables[title] = "\n".join(lines)
Path(sys.argv[1]).write_text(HEAD + "\n".join(f'{title} = """\\\n{table}\n"""\n' for title, table in tables.items()))
