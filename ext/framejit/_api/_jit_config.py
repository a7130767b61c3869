"""``JitConfig``: the compilation settings of a network, as in MindSpore."""

from __future__ import annotations

from typing import Any

from framejit._api._jit import OPTIONS, check_options

_ALLOWED = {
    "jit_level": ("O0", "O1", "O2"),
    "exc_mode": ("auto", "sink", "no_sink"),
    "jit_syntax_level": ("STRICT", "COMPATIBLE", "LAX", ""),
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
    jit_syntax_level : {'STRICT', 'COMPATIBLE', 'LAX', ''}
        ``'STRICT'``: as ``fullgraph=True``. The others: what cannot be captured runs in the interpreter.
    **kwargs
        Kept in `jit_config_dict`. The options of `jit` (``infer_boost``, ``exec_order``, ``disable_format_transform``, ``ge_options``) count as there.

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
        if "debug_level" in kwargs and kwargs["debug_level"] not in ("RELEASE", "DEBUG"):
            raise ValueError(
                f"For 'JitConfig', the 'debug_level' must be one of ['RELEASE', 'DEBUG'], but got {kwargs['debug_level']!r}."
            )
        try:
            check_options({name: kwargs[name] for name in OPTIONS if name in kwargs})
        except (TypeError, ValueError) as error:
            raise ValueError(str(error).replace("'jit'", "'JitConfig'", 1)) from None
        self.jit_config_dict: dict[str, Any] = {**kwargs, **fields}

    def __repr__(self) -> str:
        return f"JitConfig({', '.join(f'{name}={value!r}' for name, value in self.jit_config_dict.items())})"
