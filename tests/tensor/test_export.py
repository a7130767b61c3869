"""Graphs in files: what is loaded gives the bits of what was exported; everything else is an error that says so."""

from __future__ import annotations

import subprocess
import sys

import framejit as fj
import numpy as np
import pytest
from framejit import Parameter, Tensor, int32, nn, ops
from framejit._files import _files
from tensor.tensor_support import assert_same

pytestmark = pytest.mark.capture
_random = np.random.default_rng(3)


def numbers(*shape):
    return Tensor(_random.normal(size=shape).astype(np.float32))


class LeNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, pad_mode="valid")
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode="valid")
        self.norm = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(2, 2)
        self.flatten = nn.Flatten()
        self.fc = nn.Dense(16 * 4 * 4, 10)
        self.scale = Parameter(Tensor(np.float32([2.0])), name="scale", requires_grad=False)

    def construct(self, x):
        x = self.pool(ops.relu(self.conv1(x)))
        x = self.pool(ops.relu(self.norm(self.conv2(x))))
        return self.fc(self.flatten(x)) * self.scale


def attention(q, k, mask):
    scores = ops.matmul(q, k.swapaxes(-1, -2)) / 2.0 + mask
    return ops.softmax(scores, -1), ops.topk(scores, 2), ops.argmax(scores, -1), ops.cumsum(scores, 1), q


def until_small(x):
    rounds = 0
    while (x * x).sum() > 1.0:
        x = x / 2
        rounds = rounds + 1
    return {"x": x if x[0, 0] > 0 else -x, "rounds": rounds, "shape": x.shape}


def containers(pair, scale, *, table=None):
    x, y = pair
    return [(x * scale, y), {"none": None, 3: x[0]}, scale]


def reload(function, *args, path):
    fj.export(function, *args, file_name=path)
    return fj.load(path)


NETWORKS = {
    "dense": (nn.Dense(3, 4, activation="relu"), (numbers(2, 3),)),
    "lenet": (LeNet(), (numbers(1, 1, 28, 28),)),
    "attention": (attention, (numbers(2, 3, 4), numbers(2, 3, 4), numbers(3, 3))),
    "until_small": (until_small, (numbers(2, 3) * 9.0,)),
    "containers": (containers, ([numbers(2, 3), numbers(2)], 3)),
    "int32": (lambda x, y: (x // y, x % 3, (x > y).astype(int32).sum()), (Tensor(np.arange(6, dtype=np.int32)), Tensor(np.int32(4)))),
}  # fmt: skip


def same(result, expected):
    if isinstance(expected, dict):
        assert type(result) is dict and list(result) == list(expected)
        result, expected = list(result.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert type(result) is type(expected) and len(result) == len(expected)
        for a, b in zip(result, expected):
            same(a, b)
    elif isinstance(expected, np.ndarray):
        assert type(result) is np.ndarray and (result.dtype, result.strides) == (expected.dtype, expected.strides)
        assert result.tobytes() == expected.tobytes()
    else:
        assert_same(result, expected)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, tmp_path):
    network, args = NETWORKS[name]
    graph = reload(network, *args, path=tmp_path / "net")
    for factor in (1, 2):
        inputs = [one * factor if isinstance(one, Tensor) else one for one in args]
        same(graph(*inputs), network(*inputs))
        with fj.disable():  # in the interpreter, from the file's graph
            same(graph(*inputs), network(*inputs))
    assert graph._run.cache_entries()[0]["hits"] == 2 and graph._run._report()["breaks"] == []
    assert graph._run.graphs().count("graph @") == 1


def test_in_another_process(tmp_path):
    for name in ("lenet", "attention", "until_small"):
        network, args = NETWORKS[name]
        fj.export(network, *args, file_name=tmp_path / name)
        np.savez(tmp_path / name, *[one.asnumpy() for one in args])
    script = """
import sys
import numpy as np
import framejit as fj
from framejit import Tensor
def leaves(x):
    x = list(x.values()) if isinstance(x, dict) else x
    return [leaf for one in x for leaf in leaves(one)] if isinstance(x, (list, tuple)) else [np.asarray(x)]
for path in sys.argv[1:]:
    graph = fj.load(path)
    given = np.load(path + ".npz")
    np.savez(path + "_out", *leaves(graph(*[Tensor(given[key]) for key in given.files])))
"""
    paths = [str(tmp_path / name) for name in ("lenet", "attention", "until_small")]
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for name, path in zip(("lenet", "attention", "until_small"), paths):
        network, args = NETWORKS[name]
        found, wanted = np.load(path + "_out.npz"), network(*args)
        wanted = list(wanted.values()) if isinstance(wanted, dict) else wanted if isinstance(wanted, tuple) else [wanted]
        wanted = [leaf for one in wanted for leaf in (one if isinstance(one, tuple) else (one,))]
        assert len(found.files) == len(wanted)
        for key, one in zip(found.files, wanted):
            assert found[key].tobytes() == np.asarray(one).tobytes()


W = np.arange(12.0).reshape(3, 4)[::-1, ::2]  # a constant with gaps, its rows the other way round
OFFSET = np.float32(0.5)


def of_numpy(x, y, how):
    d = x / (y + OFFSET)
    r = d.sum()
    q = d * 2 if r > 3 else d - 1
    return d[1:], x[::2], r, float(r), int(x.shape[0]), q, np.maximum.reduce(x, axis=0), np.sort(x @ W, axis=0), list(np.linalg.eigh(x @ x.T)), bool(r > 3), d, how


def test_functions_of_numpy(tmp_path):
    x, y = _random.normal(size=(3, 3)), np.asfortranarray(_random.normal(size=(3, 3)))
    graph = reload(of_numpy, x, y, "fast", path=tmp_path / "f")
    for scale in (1.0, -50.0):
        y *= scale
        c_ordered = np.ascontiguousarray(y)
        result, expected = graph(x, y, "fast"), of_numpy(x, c_ordered, "fast")
        same(result, expected)
        assert result[1].base is x and result[0].base is result[10]
        with fj.disable():
            result = graph(x, y, "fast")
        same(result, expected)
        assert result[1].base is x and result[0].base is result[10]


def test_functions_of_framejit_keep_their_names_in_files(tmp_path):
    x = numbers(3, 3)
    loaded = reload(lambda x: ops.lstsq(x, x), x, path=str(tmp_path / "f"))
    assert b'"framejit._host", "lstsq"' in (tmp_path / "f.mindir").read_bytes()
    assert_same(loaded(x), ops.lstsq(x, x))


def test_no_warning_is_given(tmp_path, recwarn):
    graph = reload(lambda x: 1 / x, np.ones(3), path=tmp_path / "f")
    with np.errstate(all="raise"):
        assert np.isinf(graph(np.zeros(3))).all()
    assert not recwarn.list


def test_what_is_printed(tmp_path, capsys):
    for x in (numbers(3), numbers(3).astype(fj.float64)):
        graph = reload(tells, x, 2.5, path=tmp_path / "tells")
        expected = tells(x + 1, 2.5)
        printed = capsys.readouterr().out
        assert_same(graph(x + 1, 2.5), expected)
        assert capsys.readouterr().out == printed != ""


class Switch(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = (nn.ReLU(), nn.Softmax(), nn.Tanh())
        self.second = [nn.Sigmoid(), nn.Dense(3, 3)]

    def construct(self, x, i, j):
        return self.second[j](self.first[i](x)) + x


def test_cells_that_a_tensor_chooses(tmp_path):
    net, x = Switch(), numbers(2, 3)
    graph = reload(net, x, Tensor(0), Tensor(1), path=tmp_path / "switch")
    for i in range(-3, 3):
        for j in (0, 1):
            assert_same(graph(x, Tensor(i), Tensor(j)), net(x, Tensor(i), Tensor(j)))
    with pytest.raises(RuntimeError, match="raised an error"):
        graph(x, Tensor(3), Tensor(1))


def test_what_raised(tmp_path):
    def checked(x):
        if x.sum() > 3:
            raise ValueError("too much")
        return x * 2

    graph = reload(checked, np.ones(2), path=tmp_path / "f")
    same(graph(np.ones(2)), np.full(2, 2.0))
    with pytest.raises(RuntimeError, match="raised an error"):
        graph(np.full(2, 2.0))
    inverse = reload(lambda x: np.linalg.inv(x) + 1, np.eye(2), path=tmp_path / "g")
    with pytest.raises(RuntimeError, match="raised an error"):
        inverse(np.zeros((2, 2)))


def test_parameters(tmp_path):
    net = LeNet()
    x = numbers(1, 1, 28, 28)
    graph = reload(net, x, path=tmp_path / "net")
    cell = nn.GraphCell(graph)
    own = net.parameters_dict()
    for name, parameter in cell.parameters_dict().items():
        assert parameter.requires_grad == own[name].requires_grad
        assert_same(Tensor(parameter), Tensor(own[name]))
    assert set(own) == set(cell.parameters_dict())
    assert_same(cell(x), net(x))
    other = LeNet()
    fj.save_checkpoint(other, str(tmp_path / "other.ckpt"))
    fj.load_checkpoint(str(tmp_path / "other.ckpt"), cell)
    assert_same(cell(x), other(x))
    assert_same(graph(x), net(x))  # its own are as they were
    given = nn.GraphCell(graph, {"scale": Tensor(np.float32([4.0])), "no such name": Tensor(1)})
    assert_same(given(x), net(x) * 2)
    for config in (fj.JitConfig(jit_level="O0"), fj.JitConfig(jit_level="O1", exc_mode="sink")):
        cell.set_jit_config(config)
        np.testing.assert_allclose(cell(x).asnumpy(), other(x).asnumpy(), rtol=1e-5, atol=1e-6)


class TrainingNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.steps = fj.Parameter(Tensor(0, fj.int32), name="steps", requires_grad=False)
        self.layers = nn.SequentialCell(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Dense(32, 3))

    def construct(self, x):
        self.steps += 1
        print("step", self.steps.value(), self.steps)
        return self.layers(x)


def test_what_writes_into_parameters(tmp_path, capsys):
    """A training is exported with its Parameters and the state of its optimizer, and goes on in the loaded graph."""
    x, labels = numbers(4, 1, 4, 4), Tensor(np.array([0, 2, 1, 2]), fj.int32)
    net = TrainingNet()
    optimizer = nn.Adam(net.trainable_params(), nn.exponential_decay_lr(0.1, 0.9, 10, 2, 1))
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), optimizer).set_train()
    step(x, labels)
    cell = nn.GraphCell(reload(step, x, labels, path=tmp_path / "step"))
    capsys.readouterr()
    for call, stance in ((cell, "default"), (cell, "default"), (fj.jit(cell), "default"), (cell, "force_eager")):
        outcomes = []
        for one, how in ((step, "default"), (call, stance)):
            with fj.stance(how):
                loss = one(x, labels)
            outcomes.append((loss, capsys.readouterr().out))
        assert_same(outcomes[0][0], outcomes[1][0])
        assert outcomes[0][1] == outcomes[1][1] != ""
    own = {p.name: p for p in (*net.get_parameters(), *optimizer.get_parameters())}
    assert own["steps"].asnumpy() == 5 and set(cell.parameters_dict()) <= set(own)
    for name, parameter in cell.parameters_dict().items():
        assert_same(Tensor(parameter), Tensor(own[name]))


def test_gradients(tmp_path):
    net = nn.SequentialCell(nn.Dense(3, 4), nn.Tanh(), nn.Dense(4, 2))
    x = numbers(5, 3)
    cell = nn.GraphCell(reload(net, x, path=tmp_path / "net"))

    def gradients(network):
        return fj.value_and_grad(lambda x: (network(x) ** 2).sum(), 0, network.trainable_params())(x)

    assert_same(gradients(cell), gradients(net))
    with fj.disable():
        assert_same(gradients(cell), gradients(net))
    function = reload(lambda a, b: ((a * b).sum(), a * 2), np.ones(3), np.ones(3), path=tmp_path / "f")

    def broken(a, b):
        print(end="")
        total, twice = function(a, b)
        return total * 3 + twice.sum()

    a, b = np.arange(3.0), np.full(3, 5.0)
    same(fj.grad(broken, (0, 1))(a, b), (b * 3 + 2, a * 3))


def test_inside_of_what_is_compiled(tmp_path):
    graph = reload(lambda x, y: x[1:] * y, np.ones((3, 2)), np.ones(2), path=tmp_path / "f")
    marked = fj.jit(lambda x, y: graph(x[1:] + 1, y)[0] + graph(x[:-1], y)[1], fullgraph=True)
    x, y = _random.normal(size=(4, 2)), np.array([2.0, 3.0])
    same(marked(x, y), (x[1:] + 1)[1] * y + x[2] * y)  # the second argument is a view of x
    assert "library_call" not in marked.graphs() and marked.graphs().count("graph @") == 1


@pytest.mark.parametrize(
    ("args", "error", "says"),
    [
        ((), TypeError, "2 inputs are needed, as it was exported, but got 0"),
        ((numbers(3, 3), 2), ValueError, r"input 0 must be a Tensor of float32 with the shape \(2, 3\).*but got .*\(3, 3\)"),
        ((Tensor(np.ones((2, 3))), 2), TypeError, "input 0 must be a Tensor of float32 .*but got a Tensor of float64"),
        ((np.ones((2, 3), np.float32), 2), TypeError, "but got an array of float32"),
        ((numbers(2, 3), 2.0), TypeError, "input 1 must be 2 of type int, .*but got 2.0 of type float"),
        ((numbers(2, 3), 3), ValueError, "input 1 must be 2 of type int, .*but got 3"),
        (([numbers(2, 3)], 2), TypeError, "but got a list of 1"),
    ],
)
def test_wrong_inputs(args, error, says, tmp_path):
    graph = reload(lambda x, k: x * k, numbers(2, 3), 2, path=tmp_path / "f")
    for call in (graph, nn.GraphCell(graph)):
        with pytest.raises(error, match=says):
            call(*args)
        same(call(x := numbers(2, 3), 2), x * 2)


def test_wrong_containers(tmp_path):
    graph = reload(lambda x: x["a"] + x["b"][0], {"a": np.ones(2), "b": (np.ones(2),)}, path=tmp_path / "f")
    a = np.ones(2)
    same(graph({"a": a, "b": (a,)}), a + a)
    for given, error, says in (
        ({"b": (a,), "a": a}, ValueError, r"a dict with the keys \['a', 'b'\].*but got a dict with the keys \['b', 'a'\]"),
        ({"a": a, "b": (a, a)}, ValueError, r"input 0\['b'\] must be a tuple of 1.*but got a tuple of 2"),
        ({"a": a, "b": [a]}, TypeError, "but got a list of 1"),
        ({"a": a, "b": (a.astype(int),)}, TypeError, r"input 0\['b'\]\[0\] must be an array of float64"),
        (a, TypeError, "a dict with the keys"),
    ):
        with pytest.raises(error, match=says):
            graph(given)


def prints(x):
    print(end="", file=None)
    return x + 1


def tells(x, k):
    y = x * k
    print("y:", y, k, x.shape, sep="|")
    print(y.sum(), end=";")
    y[0] = 3.0
    print(f"{y} and {k:.2f} of {float(y.sum()):5.1f}{x!r}")
    return y + 1, f"{y.shape} {float(x[0])}"


def adds_in_place(x):
    x += 1
    return x


def writes_on_one_side(x):
    if x.sum() > 3:
        x[0] = 5.0
    return x * 2


seen = []


def remembers(x):
    seen.append(1)
    return x + 1


@fj.custom_op
def doubled(x):
    return x * 2.0


class Point:
    def __init__(self, x):
        self.x = x


STATE = Tensor(np.zeros(3, np.float32))
WEIGHT = Parameter(Tensor(np.zeros(3, np.float32)), name="weight")


def writes_into_a_tensor(x):
    STATE[0] = x[0]
    return x * 2


def writes_into(w):
    w[0] = 1.0
    return w * 2


def factorial(n):
    return n if n < 2 else n * factorial(n - 1)


def factorial_in_rounds(n):
    product = n
    while n > 1:
        n = n - 1
        product = product * n
    return product


@pytest.mark.parametrize(
    ("function", "args", "error", "says"),
    [
        (prints, (np.ones(3),), fj.GraphBreakError, r"(?s)FJ010.*print\(end"),
        (adds_in_place, (np.ones(3),), ValueError, "writes into"),
        (writes_on_one_side, (np.ones(3),), ValueError, "writes into"),
        (writes_into_a_tensor, (numbers(3),), ValueError, "writes into STATE"),
        (writes_into, (WEIGHT,), ValueError, r"writes into args\[0\]"),
        (remembers, (np.ones(3),), ValueError, "changes an object"),
        (factorial, (numbers(1),), fj.GraphBreakError, r"(?s)a recursive call below the depth of inlining\n.*if n < 2"),
        (lambda x: doubled(x) + 1, (np.ones(3),), ValueError, "custom_op"),
        (lambda x: x, (np.ones(3),), ValueError, "computes nothing"),
        (lambda x: (x + 1, {1, 2}), (np.ones(3),), ValueError, "the result must be of"),
        (lambda x: (x + 1, Point(x)), (np.ones(3),), ValueError, "the result must be of .*but has a .*Point"),
        (lambda x, y: x + 1, (np.ones(3), object()), ValueError, "cannot hold .*object"),
        (lambda x: x + 1, ({object: np.ones(3)},), ValueError, "cannot hold .*object"),
        (3, (np.ones(3),), TypeError, "'net' must be a Cell or a callable, but got int"),
    ],
)
def test_what_cannot_be_exported(function, args, error, says, tmp_path):
    (tmp_path / "f.mindir").write_bytes(b"old")
    with pytest.raises(error, match=says):
        fj.export(function, *args, file_name=tmp_path / "f.mindir")
    assert [path.name for path in tmp_path.iterdir()] == ["f.mindir"] and (tmp_path / "f.mindir").read_bytes() == b"old"
    assert seen == []


def test_a_loop_does_what_a_recursion_cannot(tmp_path):
    n = Tensor(np.float32([5.0]))
    assert fj.jit(factorial)(n).asnumpy() == factorial(n).asnumpy() == [120.0]
    again = reload(factorial_in_rounds, n, path=tmp_path / "f.mindir")
    assert again(Tensor(np.float32([6.0]))).asnumpy() == [720.0]


def test_two_parameters_of_one_name(tmp_path):
    one, other = (Parameter(Tensor(np.float32([k])), name="w") for k in (1, 2))
    with pytest.raises(ValueError, match="two Parameters have the name 'w'"):
        fj.export(lambda x: x * one + other, numbers(1), file_name=tmp_path / "f")


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"file_name": 3}, TypeError, "'file_name' must be str or Path, but got 3 of type int"),
        ({"file_name": ""}, TypeError, "'file_name'"),
        ({"file_name": "f", "file_format": "ONNX"}, ValueError, "'file_format' must be 'MINDIR', but got 'ONNX'"),
        ({"file_name": "f", "file_format": None}, ValueError, "'file_format' must be 'MINDIR', but got None"),
    ],
)
def test_wrong_arguments(arguments, error, says):
    with pytest.raises(error, match=says):
        fj.export(nn.ReLU(), numbers(2), **arguments)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [((3,), "'graph' must be"), ((abs, [1]), "'params_init' must be a dict, but got list"), ((abs, {"a": 1}), "Tensors by name, but got 'a': int")],
)  # fmt: skip
def test_wrong_arguments_of_graph_cell(arguments, says):
    with pytest.raises(TypeError, match=says):
        nn.GraphCell(*arguments)


def resealed(path, change):
    """The file with another header."""
    header, data = _files.header_and_data(_files.unsealed(path.read_bytes(), "graph", 1))
    change(header)
    path.write_bytes(b"".join(_files.sealed("graph", 1, _files.with_header(header, [bytes(data)]))))


def test_files_with_the_former_name_of_library_calls(tmp_path):
    path, x = tmp_path / "f.mindir", numbers(3, 3).asnumpy()
    expected = reload(lambda x: np.sort(x, axis=0), x, path=path)(x)
    resealed(path, lambda h: h.update(graph=h["graph"].replace("library_call", "host_call")))
    assert b"host_call" in path.read_bytes() and b"library_call" not in path.read_bytes()
    assert np.array_equal(fj.load(path)(x), expected)


def test_wrong_files(tmp_path):
    path = tmp_path / "f.mindir"
    weight = np.ones((2, 2))

    def write():
        fj.export(lambda x: np.sort(x @ weight, axis=0), np.ones((2, 2)), file_name=path)
        return path.read_bytes()

    whole = write()
    assert whole == write()
    for content, says in (
        (b"", "no graph of framejit"),
        (whole[:-3], "it is cut"),
        (whole[:-3] + b"abc", "its bytes were altered"),
        (whole.replace(b"framejit graph 1 ", b"framejit graph 9 ", 1), "of version 9, this framejit reads version 1"),
        (whole.replace(b"framejit graph 1 ", b"framejit checkpoint 1 ", 1), "no graph of framejit"),
    ):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=says):
            fj.load(path)

    def call(header):
        return next(one for one in header["calls"].values() if one["callable"] == ["numpy", "sort"])

    for change, says in (
        (lambda h: h.pop("graph"), "'graph'"),
        (lambda h: h.update(graph="graph @f() {"), "line 1"),
        (lambda h: h.update(graph=h["graph"].replace("matmul", "nothing").replace("library_call", "nothing")), "unknown operator"),
        (lambda h: h.update(outputs=[[7, 0]]), "its results are not those of the graph"),
        (lambda h: h.update(outputs=[[0, 2]]), "its results are not those of the graph"),
        (lambda h: h.update(result=["result", 1]), "result 1"),
        (lambda h: h.update(params=h["params"][:1]), "zip"),
        (lambda h: h.update(params=[["input", 1], ["constant", 0]]), "input 1"),
        (lambda h: h["constants"][0].update(strides=[8, 16]), "no constant"),
        (lambda h: h["constants"][0].update(data_offsets=[0, 99]), "the place of 'weight'"),
        (lambda h: h["inputs"][0].__setitem__(2, [3, 2]), "no input"),
        (lambda h: h.update(calls={}), "a library call that is not known"),
        (lambda h: call(h).update(callable=["numpy", "load"]), "a call that cannot be made"),
        (lambda h: call(h).update(callable=["os", "getcwd"]), "a call of os.getcwd"),
        (lambda h: call(h).update(callable=["numpy", "no_such_function"]), "no_such_function"),
        (lambda h: call(h).update(args=[["operand", 1, 0]]), "a library call that is not known"),
        (lambda h: call(h)["keywords"].update(out=["operand", 0, 0]), "a call that cannot be made"),
    ):
        write()
        resealed(path, change)
        with pytest.raises(ValueError, match=f"not loaded.*{says}"):
            fj.load(path)
    with pytest.raises(FileNotFoundError):
        fj.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match="'file_name' must be str or Path, but got None"):
        fj.load(None)
