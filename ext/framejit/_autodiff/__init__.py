"""Gradients: compiled ones, and the tape that replaces them where the interpreter runs a function."""
