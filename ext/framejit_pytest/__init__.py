"""The pytest plugin of framejit: options, and fixtures that say what was compiled.

pytest imports this package in every session of an environment that has framejit. So it is not a part of `framejit`, whose import
takes NumPy's along, and imports that only for a session that asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import framejit

MODES = {
    "mark": "compiles the functions of --framejit-packages where they stand",
    "strict": "as mark, where packages are given; internal errors of framejit are errors, and so are graph breaks in tests "
    "marked with framejit_fullgraph",
    "off": "marked functions run as plain Python",
}
BREAKS = pytest.StashKey[list[dict[str, Any]]]()  # of a test that is to have none


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, and those of an ini file that are their defaults."""
    group = parser.getgroup("framejit", "compiled functions (framejit)")
    group.addoption("--framejit", choices=tuple(MODES), help="; ".join(f"{name}: {what}" for name, what in MODES.items()))
    group.addoption(
        "--framejit-packages",
        action="append",
        metavar="NAMES",
        help="comma list of packages or modules to mark; also patterns on their names, or with a / in it on file names",
    )
    group.addoption("--framejit-level", choices=("O0", "O1"), help="the jit_level of what is marked (default: O0)")
    parser.addini("framejit", "default of --framejit")
    parser.addini("framejit_packages", "default of --framejit-packages", type="args", default=[])
    parser.addini("framejit_level", "default of --framejit-level")


def pytest_configure(config: pytest.Config) -> None:
    """Start what the options ask for."""
    config.addinivalue_line(
        "markers", "framejit_fullgraph: with --framejit=strict, a graph break of a marked function fails the test"
    )
    mode = config.getoption("--framejit") or config.getini("framejit")
    if not mode:
        return
    if mode not in MODES:
        raise pytest.UsageError(f"the ini option 'framejit' must be one of {', '.join(MODES)}, not {mode!r}")
    from framejit_pytest._session import Session

    config.pluginmanager.register(Session(config, str(mode)), f"framejit-{mode}")


@pytest.fixture
def framejit_explain(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`framejit.explain`, which raises what the function raises, and whose reports are shown if the test fails."""
    from framejit_pytest._fixtures import explain_in

    return explain_in(request.node)


@pytest.fixture
def no_graph_breaks(request: pytest.FixtureRequest) -> Iterator[list[dict[str, Any]]]:
    """Fails the test if a marked function that runs in it breaks its graph; the value lists the breaks so far."""
    if request.config.pluginmanager.get_plugin("framejit-off"):
        pytest.skip("--framejit=off: nothing is captured")
    from framejit_pytest._fixtures import watched_breaks

    with watched_breaks() as breaks:
        request.node.stash[BREAKS] = breaks
        yield breaks


@pytest.fixture
def framejit_stats() -> Callable[[], dict[str, int]]:
    """A function that returns the counters of `framejit.stats`, counted since the test has begun."""
    from framejit_pytest._fixtures import stats_since_now

    return stats_since_now()


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After a test that has passed and asked for `no_graph_breaks`, look whether there were any."""
    breaks = item.stash.get(BREAKS, None)
    if breaks:
        from framejit_pytest._fixtures import fail_for

        fail_for(breaks)
