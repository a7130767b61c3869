"""Classes of the user's: accounts, vectors, lists, caches, events."""

import enum
import heapq
import math
from collections import namedtuple
from dataclasses import dataclass, field

import numpy as np

from never_slower_programs import Family

program = Family()


class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance
        self.history = []

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount):
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance -= amount
        self.history.append(("withdraw", amount))


@program(lambda n: (n,), 5, 60, 4000, 25000)
def bank(n):
    account, refused = Account("ada", 100), 0
    for i in range(n):
        try:
            if i % 3:
                account.deposit(i % 50)
            else:
                account.withdraw(i % 170)
        except ValueError:
            refused += 1
    return account.balance, refused, len(account.history)


class Vector:
    def __init__(self, x, y, z):
        self.x, self.y, self.z = x, y, z

    def __add__(self, other):
        return Vector(self.x + other.x, self.y + other.y, self.z + other.z)

    def __mul__(self, scale):
        return Vector(self.x * scale, self.y * scale, self.z * scale)

    def dot(self, other):
        return self.x * other.x + self.y * other.y + self.z * other.z

    def __abs__(self):
        return math.sqrt(self.dot(self))


@program(lambda n: (n,), 3, 40, 2500, 15000)
def vectors(n):
    position, velocity = Vector(1.0, 0.0, 0.0), Vector(0.0, 1.0, 0.5)
    for _ in range(n):
        force = position * (-1.0 / (abs(position) ** 3 + 0.1))
        velocity = velocity + force * 0.01
        position = position + velocity * 0.01
    return position.x, position.y, position.z, abs(velocity)


class Matrix:
    def __init__(self, rows):
        self.rows = rows

    def __matmul__(self, other):
        columns = list(zip(*other.rows))
        return Matrix([[sum(a * b for a, b in zip(r, c)) for c in columns] for r in self.rows])

    def __eq__(self, other):
        return isinstance(other, Matrix) and self.rows == other.rows

    __hash__ = None


@program(lambda n: ([[(i + j) % 5 for j in range(n)] for i in range(n)],), 3, 6, 25, 45)
def matrix_class(rows):
    a = Matrix(rows)
    b = a @ a
    return b.rows, a == b, sum(b.rows[i][i] for i in range(len(rows)))


class Node:
    __slots__ = ("next", "value")

    def __init__(self, value, next=None):
        self.value = value
        self.next = next


@program(lambda n: (n,), 4, 150, 10000, 60000)
def linked_list(n):
    head = None
    for i in range(n):
        head = Node(i, head)
    previous, node = None, head
    while node is not None:
        node.next, previous, node = previous, node, node.next
    total, node = 0, previous
    while node:
        total = (total * 31 + node.value) % 1000003
        node = node.next
    return total


class LeastRecentlyUsed:
    def __init__(self, room):
        self.room = room
        self.items = {}

    def get(self, key):
        if key not in self.items:
            return None
        value = self.items.pop(key)
        self.items[key] = value
        return value

    def put(self, key, value):
        if key in self.items:
            self.items.pop(key)
        elif len(self.items) >= self.room:
            self.items.pop(next(iter(self.items)))
        self.items[key] = value


@program(lambda n: (n,), 4, 80, 6000, 40000)
def cache_class(n):
    cache, hits = LeastRecentlyUsed(16), 0
    for i in range(n):
        key = i * i % 37
        if cache.get(key) is not None:
            hits += 1
        else:
            cache.put(key, i)
    return hits, list(cache.items)


class Event:
    def __init__(self, time, name):
        self.time, self.name = time, name

    def __lt__(self, other):
        return self.time < other.time


@program(lambda n: (n,), 3, 25, 1200, 8000)
def event_queue(n):
    queue = [Event((i * 37) % 101, f"e{i % 5}") for i in range(n)]
    heapq.heapify(queue)
    done, seen = 0, {}
    while queue:
        event = heapq.heappop(queue)
        seen[event.name] = seen.get(event.name, 0) + 1
        done += 1
        if event.time < 60 and done % 4 == 0:
            heapq.heappush(queue, Event(event.time + 50, "again"))
    return done, seen


class Shape:
    def area(self):
        raise NotImplementedError


class Circle(Shape):
    def __init__(self, r):
        self.r = r

    def area(self):
        return math.pi * self.r**2


class Rectangle(Shape):
    def __init__(self, w, h):
        self.w, self.h = w, h

    def area(self):
        return self.w * self.h


class Square(Rectangle):
    def __init__(self, side):
        super().__init__(side, side)


@program(lambda n: (n,), 4, 80, 6000, 40000)
def shapes(n):
    made = []
    for i in range(n):
        made.append(Circle(i * 0.1) if i % 3 == 0 else Square(i) if i % 3 == 1 else Rectangle(i, 2.0))
    total = 0.0
    for shape in made:
        total += shape.area()
    return total


@dataclass
class Item:
    name: str
    price: float
    count: int = 0
    tags: list = field(default_factory=list)

    @property
    def total(self):
        return self.price * self.count


@program(lambda n: (n,), 3, 50, 3500, 20000)
def dataclasses(n):
    items = [Item(f"i{k % 11}", k * 0.25, k % 7) for k in range(n)]
    for item in items:
        if item.count > 3:
            item.tags.append("many")
    return sum(item.total for item in items), sum(len(item.tags) for item in items), items[-1] == items[0]


Point = namedtuple("Point", "x y")


@program(lambda n: ([(i * 0.5, (i * 7) % 5) for i in range(n)],), 4, 80, 6000, 40000)
def named_tuples(pairs):
    points = [Point(*pair) for pair in pairs]
    area = 0.0
    for a, b in zip(points, points[1:]):
        area += a.x * b.y - b.x * a.y
    return area / 2, points[-1]._replace(x=0.0)


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n <= 0:
            raise StopIteration
        self.n -= 1
        return self.n


@program(lambda n: (n,), 4, 200, 15000, 90000)
def iterator_class(n):
    total = 0
    for v in Countdown(n):
        if v % 2:
            total += v
    return total, sorted(Countdown(5))


class Light(enum.Enum):
    RED = 1
    GREEN = 2
    AMBER = 3


@program(lambda n: (n,), 4, 150, 10000, 60000)
def state_machine(n):
    following = {Light.RED: Light.GREEN, Light.GREEN: Light.AMBER, Light.AMBER: Light.RED}
    state, seen = Light.RED, {light.name: 0 for light in Light}
    for _ in range(n):
        state = following[state]
        seen[state.name] += state.value
    return state.name, seen


class Timer:
    depth = 0

    def __enter__(self):
        Timer.depth += 1
        return self

    def __exit__(self, kind, value, traceback):
        Timer.depth -= 1
        return kind is KeyError


@program(lambda n: (n,), 4, 80, 6000, 40000)
def context_managers(n):
    total, lookup = 0, {i: i for i in range(0, 50, 2)}
    for i in range(n):
        with Timer() as timer:
            total += lookup[i % 50] + timer.depth
    return total, Timer.depth


class System:
    def __init__(self, n):
        rng = np.random.default_rng(4)
        self.position, self.velocity = rng.random((n, 3)), np.zeros((n, 3))
        self.mass = rng.random(n)

    def forces(self):
        d = self.position[None, :, :] - self.position[:, None, :]
        r2 = (d**2).sum(axis=-1) + 0.01
        return (d * (self.mass[None, :] * r2**-1.5)[:, :, None]).sum(axis=1)

    def step(self, dt):
        self.velocity = self.velocity + dt * self.forces()
        self.position = self.position + dt * self.velocity

    def energy(self):
        return 0.5 * (self.mass[:, None] * self.velocity**2).sum()


@program(lambda n: (n, 4), 3, 8, 60, 160)
def system_of_arrays(n, steps):
    system = System(n)
    for _ in range(steps):
        system.step(0.01)
    return system.position, system.energy()


class Stack:
    def __init__(self):
        self._items = []

    def push(self, item):
        self._items.append(item)

    def pop(self):
        return self._items.pop()

    def __len__(self):
        return len(self._items)


@program(lambda n: ("3 4 + 2 * 7 / " * n,), 1, 15, 800, 5000)
def stack_calculator(source):
    stack = Stack()
    for token in source.split():
        if token in "+-*/":
            b, a = stack.pop(), stack.pop()
            if token == "+":
                stack.push(a + b)
            elif token == "-":
                stack.push(a - b)
            elif token == "*":
                stack.push(a * b)
            else:
                stack.push(a / b)
        else:
            stack.push(float(token))
    return len(stack), stack.pop()


class Tree:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None

    def insert(self, key):
        node = self
        while True:
            side = "left" if key < node.key else "right"
            child = getattr(node, side)
            if child is None:
                setattr(node, side, Tree(key))
                return
            node = child

    def __iter__(self):
        if self.left:
            yield from self.left
        yield self.key
        if self.right:
            yield from self.right


@program(lambda n: ([(i * 7919) % 10007 for i in range(n)],), 4, 25, 800, 4000)
def binary_tree(keys):
    root = Tree(keys[0])
    for key in keys[1:]:
        root.insert(key)
    return list(root)


class Observer:
    def __init__(self):
        self.handlers = {}

    def on(self, name):
        def register(handler):
            self.handlers.setdefault(name, []).append(handler)
            return handler

        return register

    def emit(self, name, *values):
        return [handler(*values) for handler in self.handlers.get(name, ())]


@program(lambda n: (n,), 4, 80, 6000, 40000)
def observers(n):
    bus = Observer()

    @bus.on("add")
    def add(a, b):
        return a + b

    @bus.on("add")
    def multiply(a, b):
        return a * b

    total = 0
    for i in range(n):
        total += sum(bus.emit("add", i, 2)) + len(bus.emit("none", i))
    return total
