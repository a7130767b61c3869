"""The three examples of the documentation of MindSpore's ``jit``."""

import numpy as np

from framejit import Tensor, jit

x = Tensor(np.ones([1, 1, 3, 3]).astype(np.float32))
y = Tensor(np.ones([1, 1, 3, 3]).astype(np.float32))


# A compiled function by calling jit.
def tensor_add(x, y):
    z = x + y
    return z


tensor_add_graph = jit(function=tensor_add)
out = tensor_add_graph(x, y)
print(out)


# A compiled function through the decorator.
@jit
def tensor_add_with_dec(x, y):
    z = x + y
    return z


out = tensor_add_with_dec(x, y)
print(out)


# The whole function captured into one graph.
@jit(fullgraph=True)
def tensor_add_fullgraph(x, y):
    z = x + y
    return z


out = tensor_add_fullgraph(x, y)
print(out)
