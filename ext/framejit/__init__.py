"""A tracing JIT inside CPython for NumPy code."""

__version__ = "0.1.0"


def unsupported_reason() -> str | None:
    return None
