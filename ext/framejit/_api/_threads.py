"""How many threads kernels run on."""

from __future__ import annotations

from typing import Any

from framejit._api._config import config
from framejit._api._platform import core


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
    """Makes `threadpoolctl.threadpool_limits` hold for kernels, if threadpoolctl is installed."""
    try:
        import threadpoolctl
    except ImportError:
        return
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
