"""Texts that tests expect in the graphs of loops."""

from framejit import _core


def vector_type():
    """How graphs name a vector of float64 for the instruction set that is there: an override gives no more than that."""
    return f"f64x{8 if _core.cpu_features()['isa'] == 'avx512' else 4}"
