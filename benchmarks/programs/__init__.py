"""Whole NumPy programs. Each module: `make(*size)` gives the arguments of `run`, `SIZES` the sizes."""
