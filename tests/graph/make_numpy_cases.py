"""Writes what NumPy does to the files that test_numpy.cpp reads: scalars, result layouts and the bits of reductions.

Run by hand with NumPy 2.3 or later, in this folder: ``python make_numpy_cases.py``.
"""

import random

import numpy as np

random.seed(20)


def text(numbers):
    return ",".join(map(str, numbers)) or "-"


def operand(shape, dtype=np.float64):
    """An array of this shape in a random layout: C, F, permuted, strided, reversed or repeated."""
    rank = len(shape)
    order = random.sample(range(rank), rank)
    mode = random.randrange(4)
    if mode == 0:
        return np.zeros(shape, dtype)
    if mode == 1:
        return np.zeros(shape, dtype, order="F")
    base = np.zeros([shape[axis] * random.choice([1, 1, 2]) for axis in order], dtype)
    base = base.transpose([order.index(i) for i in range(rank)])
    steps = [slice(None, None, base.shape[i] // shape[i] * random.choice([1, 1, -1])) for i in range(rank)]
    array = base[tuple(steps)]
    if mode == 3 and rank:
        axis = random.randrange(rank)
        array = np.broadcast_to(np.take(array, [0], axis=axis), array.shape)
    return array


def random_shape(rank):
    return [random.choice([1, 2, 3, 4]) for _ in range(rank)]


def described(array):
    return f"{text(array.shape)} {text(array.strides)}"


def layouts():
    """Lines: kind, operands as shape and strides, ``->``, what NumPy gave."""
    for _ in range(250):
        shape = random_shape(random.randrange(1, 5))
        operands = []
        for number in range(random.choice([1, 2, 2, 3])):
            own = [1 if number and random.random() < 0.2 else n for n in shape]
            cut = random.choice([0, 0, 0, random.randrange(len(shape) + 1)]) if number else 0
            operands.append(operand(own[cut:]))
        function = {1: np.negative, 2: np.add, 3: np.clip}[len(operands)]
        yield f"ufunc {' '.join(map(described, operands))} -> {described(function(*operands))}"
        if len(operands) == 3:
            condition = operands[0].astype(bool, copy=False)
            result = np.where(condition, operands[1], operands[2])
            yield f"where {' '.join(map(described, [condition, *operands[1:]]))} -> {described(result)}"
        x = operands[0]
        yield f"copy {described(x)} -> {described(x.copy(order='K'))}"
        yield f"astype {described(x)} -> {described(x.astype(np.float32))}"
        axes = tuple(sorted(random.sample(range(x.ndim), random.randrange(1, x.ndim + 1))))
        kept = np.add.reduce(x, axis=axes, keepdims=True)
        dropped = np.asarray(np.add.reduce(x, axis=axes))
        yield f"reduce {described(x)} {text(axes)} -> {described(dropped)} {described(kept)}"
        target = reshaped(x.size)
        with_target = x.reshape(target)
        is_view = np.shares_memory(x, with_target)
        yield f"reshape {described(x)} {text(target)} -> {int(is_view)} {described(with_target)}"


def reshaped(size):
    """A random shape of this many elements, with axes of length 1 here and there."""
    shape = []
    while size > 1:
        factors = [n for n in range(2, size + 1) if size % n == 0]
        shape.append(random.choice(factors))
        size //= shape[-1]
    for _ in range(random.randrange(3)):
        shape.insert(random.randrange(len(shape) + 1), 1)
    return tuple(shape)


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return value


def reductions():
    """Lines: reduction, dtype, shape, strides, offset, axes, ``->``, hash of the result's bytes in C order.

    Element i of the memory is (i * 2654435761 mod 2**32) / 2**32 - 0.5, rounded to the dtype; for products that is
    divided by 64 and 1 added first.
    """
    for number in range(480):
        name = "reduce_sum" if number < 400 else random.choice(["reduce_prod", "reduce_max", "reduce_min"])
        function = {"reduce_sum": np.add, "reduce_prod": np.multiply, "reduce_max": np.maximum, "reduce_min": np.minimum}
        dtype = random.choice([np.float32, np.float64])
        rank = random.randrange(1, 5)
        limit = {1: 40000, 2: 200, 3: 34, 4: 14}[rank] if number % 3 else {1: 300, 2: 30, 3: 9, 4: 5}[rank]
        shape = [random.choice([1, random.randrange(1, limit), random.randrange(1, limit)]) for _ in range(rank)]
        order = random.sample(range(rank), rank) if random.random() < 0.5 else list(range(rank))
        outer = [shape[axis] + random.choice([0, 0, 0, 3]) for axis in order]
        outer = [n * random.choice([1, 1, 1, 2]) for n in outer]
        count = int(np.prod(outer))
        values = (np.arange(count, dtype=np.uint64) * 2654435761 % 2**32 / 2**32 - 0.5)
        values = (values / 64 + 1 if name == "reduce_prod" else values).astype(dtype)
        base = values.reshape(outer).transpose([order.index(i) for i in range(rank)])
        array = base
        for axis in range(rank):
            step = max(1, base.shape[axis] // shape[axis] if random.random() < 0.7 else 1)
            index = [slice(None)] * rank
            index[axis] = slice(0, step * (shape[axis] - 1) + 1, step)
            array = array[tuple(index)]
            if random.random() < 0.15:
                index[axis] = slice(None, None, -1)
                array = array[tuple(index)]
        offset = array.__array_interface__["data"][0] - values.__array_interface__["data"][0]
        axes = tuple(sorted(random.sample(range(rank), random.randrange(1, rank + 1))))
        result = np.asarray(function[name].reduce(array, axis=axes))
        short = {"float32": "f32", "float64": "f64"}[array.dtype.name]
        yield f"{name} {short} {described(array)} {offset} {count} {text(axes)} -> {fnv(result.tobytes())}"


NAMES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "f32": np.float32, "f64": np.float64,
}
UNARY = """negative absolute sign square reciprocal sqrt floor ceil rint trunc isnan isinf isfinite signbit invert
    logical_not""".split()
BINARY = """add subtract multiply divide floor_divide remainder fmod minimum maximum copysign equal not_equal less
    less_equal greater greater_equal bitwise_and bitwise_or bitwise_xor left_shift right_shift logical_and logical_or
    logical_xor power""".split()
FLAGS = {"divide by zero": 1, "overflow": 2, "underflow": 4, "invalid value": 8}


def special_values(dtype):
    if dtype == np.bool_:
        return np.array([False, True])
    if np.issubdtype(dtype, np.integer):
        info = np.iinfo(dtype)
        small = [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, info.max, info.max - 1, info.max // 2]
        small += [info.min, info.min + 1, -1, -2, -3, -7, -64] if info.min else []
        return np.array([n for n in small if info.min <= n <= info.max], dtype)
    info = np.finfo(dtype)
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.7, 127.9, 128.0, 1e9, 2147483647.5, 2147483648.0, 9.3e18, 1.9e19]
    values += [float(info.max), float(info.tiny), float(info.smallest_subnormal), np.inf]
    return np.array(values + [-v for v in values] + [np.nan], dtype)


def outcome(function, *operands):
    """The bits of the result and the flags of each element alone; NaN counts as one value."""
    result = function(*operands)
    if np.issubdtype(result.dtype, np.floating):
        result = np.where(np.isnan(result), np.asarray(np.nan, result.dtype), result)
    raised = []
    np.seterrcall(lambda kind, _: raised[-1].add(FLAGS[kind]))
    with np.errstate(all="call"):
        for position in range(len(result)):
            raised.append(set())
            function(*(operand[position : position + 1] for operand in operands))
    return f"{fnv(result.tobytes())} {fnv(bytes(sum(flags) for flags in raised))}"


def scalars():
    """Lines: ``values``, dtype, bits; then operator, dtypes of operand and result, ``->``, hashes of result and flags.

    Binary operators meet all pairs of values. Conversions to uint32 are left out where NumPy's own result depends on the
    position.
    """
    for name, dtype in NAMES.items():
        values = special_values(dtype)
        width = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[values.itemsize]
        yield f"values {name} {text(values.view(width))}"
        left, right = (grid.ravel() for grid in np.meshgrid(values, values, indexing="ij"))
        for operator in UNARY + BINARY:
            operands = [values] if operator in UNARY else [left, right]
            if operator == "power" and dtype != np.bool_ and np.issubdtype(dtype, np.signedinteger):
                operands = [operands[0][right >= 0], right[right >= 0]]
            if operator == "power" and np.issubdtype(dtype, np.floating):
                continue  # NumPy's own loop
            if operator in ("reciprocal", "signbit") and not np.issubdtype(dtype, np.floating):
                continue  # NumPy goes through a float
            try:
                with np.errstate(all="ignore"):
                    result = getattr(np, operator)(*operands)
                    line = outcome(getattr(np, operator), *operands)
            except TypeError:
                continue
            if result.dtype not in (np.dtype(dtype), np.dtype(np.bool_)):
                continue  # NumPy promotes first
            yield f"{operator} {name} {text([number for number, d in NAMES.items() if d == result.dtype])} -> {line}"
        for target_name, target in NAMES.items():
            source = values
            if target == np.uint32 and np.issubdtype(dtype, np.floating):
                continue
            with np.errstate(all="ignore"):
                line = outcome(lambda x, to=target: x.astype(to), source)
            yield f"cast {name} {target_name} -> {line}"


def main():
    with open("numpy_scalars.txt", "w") as file:
        file.write(f"# NumPy {np.__version__}; see make_numpy_cases.py\n" + "\n".join(scalars()) + "\n")
    with open("numpy_layouts.txt", "w") as file:
        file.write(f"# NumPy {np.__version__}; see make_numpy_cases.py\n" + "\n".join(layouts()) + "\n")
    with open("numpy_reductions.txt", "w") as file:
        file.write(f"# NumPy {np.__version__}; see make_numpy_cases.py\n" + "\n".join(reductions()) + "\n")


if __name__ == "__main__":
    main()
