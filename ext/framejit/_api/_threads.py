"""How many threads kernels run on."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from framejit._api._config import config
from framejit._api._platform import core

if TYPE_CHECKING:
    from importlib.abc import Loader  # imports much that nothing here needs

_THREADPOOLCTL = "threadpoolctl"


def set_num_threads(n: int) -> None:
    """Set how many threads kernels run on, in the whole process. It is the setting `config.num_threads`.

    Parameters
    ----------
    n : int
        0: all that CPU affinity, limits of the control group and ``OMP_NUM_THREADS`` allow, which is the default.

    See Also
    --------
    get_num_threads

    Examples
    --------
    >>> import framejit as fj
    >>> fj.set_num_threads(1)
    >>> fj.get_num_threads()
    1
    >>> fj.set_num_threads(0)
    """
    config.num_threads = n


def get_num_threads() -> int:
    """Say how many threads kernels run on: 1 in a child of ``fork``, and where functions run as plain Python.

    Returns
    -------
    int
        The number itself, also where `config.num_threads` is 0.

    Examples
    --------
    >>> import framejit as fj
    >>> fj.get_num_threads() >= 1
    True
    """
    return 1 if core is None else core.num_threads()


def register_controller() -> None:
    """Have `threadpoolctl.threadpool_limits` hold for kernels once a program imports threadpoolctl.

    It is not imported here, since its import takes time and sets an environment variable.
    """
    imported = sys.modules.get(_THREADPOOLCTL)
    if imported is None:
        sys.meta_path.insert(0, _Finder)
    else:
        _register(imported)


class _Finder:
    """Finds threadpoolctl as the other finders do, and has it know framejit when it has been imported."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != _THREADPOOLCTL or _Finder not in sys.meta_path:
            return None
        sys.meta_path.remove(_Finder)
        spec = find_spec(name)
        if spec is None or spec.loader is None:  # not installed, maybe later
            sys.meta_path.insert(0, _Finder)
        else:
            spec.loader = cast("Loader", _Loader(spec.loader))
        return spec


class _Loader:
    """The loader of threadpoolctl; the module keeps the one that it is given."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _register(module)


def _register(threadpoolctl: Any) -> None:
    if not hasattr(threadpoolctl, "register"):  # before its version 3.2
        return

    from framejit import __version__

    parts: dict[str, Any] = {
        "user_api": "framejit",
        "internal_api": "framejit",
        "filename_prefixes": ("_core",),
        "check_symbols": ("framejit_get_num_threads",),
        "get_num_threads": lambda self: self.dynlib.framejit_get_num_threads(),
        "set_num_threads": lambda self, number: self.dynlib.framejit_set_num_threads(number),
        "get_version": lambda self: __version__,
        "set_additional_attributes": lambda self: None,
    }
    threadpoolctl.register(type("FramejitController", (threadpoolctl.LibController,), parts))
