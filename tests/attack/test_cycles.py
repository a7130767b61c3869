"""Objects that hold themselves, or thousands of others in one another, do not end the process."""

from __future__ import annotations

import pytest
from attack.attack_support import run

pytestmark = pytest.mark.capture

PROGRAM = """
import contextlib, os, sys
import numpy as np, framejit

class Node:
    def __init__(self, next=None):
        self.next = next

def list_in_itself():
    a = []
    a.append(a)
    return a

def list_in_its_tuple():
    a = []
    a.append((a,))
    return a[0]

def dict_in_itself():
    a = {{}}
    a[0] = a
    return a

def object_in_itself():
    a = Node()
    a.next = a
    return a

def lists():
    a = []
    for _ in range(5000):
        a = [a]
    return a

def tuples():
    a = ()
    for _ in range(5000):
        a = (a,)
    return a

def objects():
    a = None
    for _ in range(5000):
        a = Node(a)
    return a

def f(x):
    a = {make}()
    total = 0
    for i in range(100):
        for j in range(3):
            total += i * j
    y = x + total
    print(end="")
    for row in y:
        b = (a, row)
    if y.sum() > 0:
        c = [a]
    else:
        c = [a, a]
    return y, a, b[0], c[0]

for marked in (framejit.jit(f, capture_mode="bytecode"), f):
    with contextlib.ExitStack() as stack:
        if marked is f:
            stack.enter_context(framejit.mark(f, stress="{stress}"))
        for _ in range(4):
            y, a, b, c = marked(np.ones(4))
            assert (y == 14851).all() and a is b and a is c
print("the same")
sys.stdout.flush()
os._exit(0)  # a chain that is dropped is as deep as the stack may be
"""
MAKES = "list_in_itself list_in_its_tuple dict_in_itself object_in_itself lists tuples objects".split()


@pytest.mark.parametrize("stress", ["rewrite", "rewrite,break=3", "rewrite,guards"])
@pytest.mark.parametrize("make", MAKES)
def test_what_holds_itself(make, stress):
    assert run(PROGRAM.format(make=make, stress=stress)) == "the same\n"
