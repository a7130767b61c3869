"""What tests of loops share: comparison with plain execution, and texts that they expect in the graphs."""

import framejit as fj
from forms_support import check_same, run
from framejit import _core


def vector_type():
    """How graphs name a vector of float64 for the instruction set that is there: an override gives no more than that."""
    return f"f64x{8 if _core.cpu_features()['isa'] == 'avx512' else 4}"


def loops(marked):
    """The entries of compiled loops."""
    return [entry for entry in marked._report()["entries"] if entry["kind"] == "loop"]


def compare(function, *of_calls):
    """The marked function, after calls that came to the same as the unmarked one's. Each of `of_calls` makes the arguments of one."""
    marked = fj.jit(function)
    for _ in range(3):
        for make in of_calls:
            check_same(run(function, make()), run(marked, make()), function.__name__)
    return marked
