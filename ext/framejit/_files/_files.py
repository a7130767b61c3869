"""Files that are checked before anything is read from them: a line with the format, its version, the length and the SHA-256 of all that
follows, then a header in JSON and the bytes of arrays.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def write(path: Path, parts: list[bytes]) -> None:
    """All or nothing: the file is put in its place when it is whole."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def with_header(header: Any, data: list[bytes], padding: int = 1) -> list[bytes]:
    """The header's length, the header and the bytes."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % padding)
    return [len(text).to_bytes(8, "little"), text, *data]


def sealed(kind: str, version: int, body: list[bytes]) -> list[bytes]:
    """With the first line."""
    digest = hashlib.sha256()
    for part in body:
        digest.update(part)
    return [f"framejit {kind} {version} {sum(map(len, body))} {digest.hexdigest()}\n".encode(), *body]


def unsealed(content: bytes, kind: str, version: int) -> bytes:
    """What follows the first line. ValueError where that does not fit."""
    line, newline, body = content.partition(b"\n")
    fields = line.decode("ascii", "replace").rsplit(" ", 3)
    if not newline or len(fields) != 4 or fields[0] != f"framejit {kind}":
        raise ValueError(f"it is no {kind} of framejit")
    if fields[1] != str(version):
        raise ValueError(f"it is of version {fields[1]}, this framejit reads version {version}")
    if fields[2] != str(len(body)):
        raise ValueError(f"it is cut: {fields[2]} bytes were written, {len(body)} are there")
    if hashlib.sha256(body).hexdigest() != fields[3]:
        raise ValueError("its bytes were altered, the checksum differs")
    return body


def header_and_data(body: bytes) -> tuple[Any, memoryview]:
    """What `with_header` put together."""
    size = int.from_bytes(body[:8], "little")
    if len(body) < 8 + size:
        raise ValueError("it is cut")
    return json.loads(body[8 : 8 + size]), memoryview(body)[8 + size :]
