"""Tensors: their making, Parameters, and random numbers, whose state is a Tensor."""
