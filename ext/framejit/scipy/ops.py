"""``mindspore.scipy.ops``: primitives of linear algebra."""

from __future__ import annotations

from typing import Any

from framejit.ops._primitives import Eig as Eig
from framejit.ops._primitives import Primitive
from framejit.scipy import linalg
from framejit.scipy.linalg import solve_triangular as solve_triangular


class SolveTriangular(Primitive):
    """The solution of a triangular system."""

    _parameters = {"lower": False, "unit_diagonal": False, "trans": "N"}

    def __call__(self, a: Any, b: Any) -> Any:
        o = self._options
        return linalg.solve_triangular(a, b, o["trans"], o["lower"], o["unit_diagonal"])
