"""``JitConfig``: the compilation settings of a network, as in MindSpore."""

from __future__ import annotations

from typing import Any

_ALLOWED = {
    "jit_level": ("O0", "O1", "O2"),
    "exc_mode": ("auto", "sink", "no_sink"),
    "jit_syntax_level": ("STRICT", "LAX", ""),
}


class JitConfig:
    """Compilation settings.

    Parameters
    ----------
    jit_level : {'O0', 'O1', 'O2'}
        Level of optimization; ``'O2'`` also allows reduced precision inside matrix products.
    exc_mode : {'auto', 'sink', 'no_sink'}
        ``'sink'``: one static plan, which keeps its memory; ``'no_sink'``: kernels one by one; ``'auto'``: memory of up to a
        mebibyte is kept.
    jit_syntax_level : {'STRICT', 'LAX', ''}
        ``'STRICT'``: as ``fullgraph=True``.
    **kwargs
        Kept in `jit_config_dict`.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.JitConfig(jit_level="O0").jit_config_dict["jit_level"]
    'O0'
    """

    def __init__(
        self, jit_level: str = "O1", exc_mode: str = "auto", jit_syntax_level: str = "", **kwargs: Any
    ) -> None:
        fields = {"jit_level": jit_level, "exc_mode": exc_mode, "jit_syntax_level": jit_syntax_level}
        for name, value in fields.items():
            if not isinstance(value, str) or value not in _ALLOWED[name]:
                raise ValueError(
                    f"For 'JitConfig', the '{name}' must be one of {list(_ALLOWED[name])}, but got {value!r} of type "
                    f"{type(value).__name__}."
                )
        self.jit_config_dict: dict[str, Any] = {**kwargs, **fields}

    def __repr__(self) -> str:
        return f"JitConfig({', '.join(f'{name}={value!r}' for name, value in self.jit_config_dict.items())})"
