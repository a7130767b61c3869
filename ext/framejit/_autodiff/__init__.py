"""Gradients: compiled ones, and the tape that stands in for them where the interpreter runs a function."""
