"""The examples of MindSpore's pages about jit, and scripts that import mindspore."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, context, jit, ms_function, nn
from tensor.tensor_support import assert_array, assert_same

pytestmark = pytest.mark.capture


@pytest.fixture(autouse=True)
def graph_mode():
    """Where the pages speak of networks, these are compiled."""
    yield
    fj.set_context(mode=fj.PYNATIVE_MODE, jit_syntax_level=context.LAX)


def add(x, y):
    z = x + y
    return z


@pytest.mark.parametrize("mark", [lambda f: jit(function=f), jit, jit(fullgraph=True)])
def test_page_of_jit(mark):
    x, y = (Tensor(np.ones([1, 1, 3, 3]).astype(np.float32)) for _ in range(2))
    assert_array(mark(add)(x, y), np.full((1, 1, 3, 3), 2, np.float32))


def f(a: Tensor, b: Tensor, c: Tensor):
    return a * b + c


MODES = [
    {"capture_mode": mode, **more}
    for mode in ("ast", "bytecode")
    for more in ({"jit_level": "O0"}, {"backend": "GE"}, {"jit_level": "O0", "fullgraph": True}, {"backend": "GE", "fullgraph": True})
]


@pytest.mark.parametrize("arguments", MODES, ids=str)
def test_ways_to_mark(arguments):
    inputs = [Tensor(np.random.randn(2, 3), fj.float32) for _ in range(3)]
    marked = jit(f, **arguments)
    assert_same(marked(*inputs), f(*inputs))
    assert_same(marked(*inputs), f(*inputs))


@pytest.mark.parametrize("arguments", [{"capture_mode": "ast", "jit_level": "O1"}, {"capture_mode": "bytecode", "jit_level": "O1"}], ids=str)
def test_ways_to_mark_at_o1(arguments):
    inputs = [Tensor(np.random.randn(2, 3), fj.float32) for _ in range(3)]
    marked = jit(f, **arguments)
    for _ in range(2):
        np.testing.assert_allclose(marked(*inputs).asnumpy(), f(*inputs).asnumpy(), rtol=1e-6, atol=1e-6)


def test_trace_is_a_decorator_only():
    with pytest.raises(ValueError, match="trace"):
        jit(f, capture_mode="trace")

    @jit(capture_mode="trace", jit_level="O0")
    def traced(a, b, c):
        return a * b + c

    inputs = [Tensor(np.random.randn(2, 3), fj.float32) for _ in range(3)]
    assert_same(traced(*inputs), f(*inputs))


def test_terminal_code_is_compiled():
    names = {}
    exec("def g(a, b, c):\n    return a * b + c", names)
    inputs = [Tensor(np.random.randn(2, 3), fj.float32) for _ in range(3)]
    marked = jit(names["g"], fullgraph=True)
    assert_same(marked(*inputs), f(*inputs))


def test_jit_config_of_a_network():
    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.flatten, self.relu = nn.Flatten(), nn.ReLU()
            self.fc1, self.fc2 = nn.Dense(12, 8, fj.initializer.Normal(0.02)), nn.Dense(8, 4)

        def construct(self, x):
            return self.fc2(self.relu(self.fc1(self.flatten(x))))

    net, x = Net(), Tensor(np.random.randn(2, 3, 4), fj.float32)
    expected = net(x)
    net.set_jit_config(fj.JitConfig(jit_level="O1"))
    np.testing.assert_allclose(net(x).asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)


# --- JIT Fallback -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["MS_DEV_ENABLE_FALLBACK", "MS_DEV_JIT_SYNTAX_LEVEL"])
def test_fallback_can_be_switched_off(monkeypatch, variable):
    def function(x):
        return x + Tensor(np.unique(np.array([3, 1, 2]), axis=0))

    x = Tensor([1, 1, 1])
    assert jit(function)(x).tolist() == [2, 3, 4]
    monkeypatch.setenv(variable, "0")
    with pytest.raises(fj.GraphBreakError):
        jit(function)(x)
    assert jit(function, capture_mode="bytecode")(x).tolist() == [2, 3, 4]
    monkeypatch.delenv(variable)
    fj.set_context(jit_syntax_level=context.STRICT)
    with pytest.raises(fj.GraphBreakError):
        jit(function)(x)
    monkeypatch.setenv("MS_DEV_JIT_SYNTAX_LEVEL", "2")
    assert jit(function)(x).tolist() == [2, 3, 4]


def test_what_is_not_captured_raises_types_of_mindspore_at_the_users_line(monkeypatch):
    monkeypatch.setenv("MS_DEV_ENABLE_FALLBACK", "0")

    def attribute(x):
        return Tensor(x.asnumpy() * 2)

    def clock(x):
        return x + time.time()

    for function, kind in ((attribute, AttributeError), (clock, TypeError)):
        with pytest.raises(fj.GraphBreakError) as raised:
            jit(function)(Tensor([1.0]))
        assert isinstance(raised.value, kind) and type(raised.value).__name__ == "GraphBreakError"
        last = raised.traceback[-1]
        assert last.frame.code.name == function.__qualname__
        assert last.lineno + 1 == function.__code__.co_firstlineno + 1


def test_jit_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("MS_JIT", "0")
    before = fj.stats()["frames_marked"]
    marked = jit(add)
    assert_same(marked(Tensor(1), Tensor(2)), Tensor(3))
    assert fj.stats()["frames_marked"] == before and marked.cache_entries() == []


def test_numpy_inside():
    @ms_function
    def np_binop():
        a = np.array([1, 2, 3])
        b = np.array([4, 5, 6])
        c = a + b
        return Tensor(c)

    for _ in range(3):
        assert str(np_binop()) == "[5 7 9]"


def test_tensor_made_inside():
    class BinOpNet(nn.Cell):
        def construct(self):
            tensor_num = Tensor(np.array(9))
            res = tensor_num + tensor_num
            return res

    context.set_context(mode=context.GRAPH_MODE)
    net = BinOpNet()
    for _ in range(3):
        assert str(net()) == "18"


def test_print_inside(capsys):
    @ms_function
    def test_print():
        x = Tensor(np.array([1, 2, 3, 4, 5]))
        y = Tensor(np.array([1, 2, 3, 4, 5]))
        tensor_sum = x + y
        print("tensor_sum: ", tensor_sum)
        x = np.array([1, 2, 3, 4, 5])
        y = np.array([1, 2, 3, 4, 5])
        np_sum = x + y
        print("np_sum: ", np_sum)
        return tensor_sum, Tensor(np_sum)

    for _ in range(3):
        tensor_sum, np_sum = test_print()
        assert capsys.readouterr().out == "tensor_sum:  [ 2  4  6  8 10]\nnp_sum:  [ 2  4  6  8 10]\n"
        assert tensor_sum.tolist() == np_sum.tolist() == [2, 4, 6, 8, 10]


def test_limit_1_values_may_be_arguments():
    @ms_function
    def with_arguments(x, y):
        return Tensor(np.add(x, y) * 2)

    for n in (1, 2, 3):
        x = np.arange(n + 2) * n
        assert_array(with_arguments(x, x), np.add(x, x) * 2)


def test_limit_2_python_types():
    @ms_function
    def mixed(x, names, table):
        total = x
        for name in names:
            total = total + table[name]
        return total, {"sum": total, "names": set(names)}, f"{len(names)} names"

    x = Tensor([1.0])
    for _ in range(2):
        total, more, text = mixed(x, ["a", "b"], {"a": 1, "b": 2.5})
        assert total.tolist() == [4.5] and more["names"] == {"a", "b"} and more["sum"] is total and text == "2 names"


def test_limit_3_arrays_may_be_returned():
    @ms_function
    def test_np_add():
        x = np.array([1, 2, 3, 4, 5])
        y = np.array([1, 2, 3, 4, 5])
        return np.add(x, y)

    for _ in range(3):
        result = test_np_add()
        assert type(result) is np.ndarray and result.tolist() == [2, 4, 6, 8, 10]


def test_limit_4_control_flow():
    @ms_function
    def flow(x, y):
        values = np.array([1.0, 2.0], np.float32)
        while x < 3:
            x = x + Tensor(values)[0]
        if x > y:
            return x * Tensor(values)
        for v in values:
            y = y - float(v)
        return y

    for x, y in ((0.0, 1.0), (0.0, 9.0), (2.5, 3.0)):
        args = Tensor(x), Tensor(y)
        assert_same(flow(*args), flow.__wrapped__(*args))


def test_limit_5_attributes_and_methods_of_classes():
    class Numbers:
        def __init__(self, count):
            self.values = np.arange(count, dtype=np.float32)
            self.calls = 0

        def doubled(self):
            self.calls += 1
            return self.values * 2

    numbers = Numbers(3)

    @ms_function
    def use(x):
        return x + Tensor(numbers.doubled()) + Tensor(numbers.values)

    for calls in (1, 2, 3):
        assert use(Tensor([1.0, 1.0, 1.0])).tolist() == [1, 4, 7] and numbers.calls == calls


def test_limit_6_mindspore_numpy():
    mnp = fj.numpy

    @ms_function
    def test_mnp_average():
        x = mnp.array([[1.0, 2.0], [3.0, 4.0]])
        x_average = mnp.average(x)
        return Tensor(x_average)

    for _ in range(3):
        assert_array(test_mnp_average(), np.float32(2.5))


def test_limit_7_results_may_be_dropped():
    @ms_function
    def test_np_vdot():
        x = np.array([[1, 2], [3, 4]])
        y = x.T
        np.vdot(x, y)
        return Tensor(y)

    for _ in range(3):
        assert test_np_vdot().tolist() == [[1, 3], [2, 4]]


def test_limit_8_methods_of_self_take_arrays():
    class Network(nn.Cell):
        def __init__(self):
            super().__init__()
            self.value = 1

        def construct(self):
            x = np.array([1, 2, 3])
            y = np.array([3, 4, 5])
            z = self.fn(x, y)
            out = Tensor(z)
            return out

        def fn(self, x, y):
            return x + y

    context.set_context(mode=context.GRAPH_MODE)
    net = Network()
    for _ in range(3):
        assert net().tolist() == [4, 6, 8]


# --- Scripts that import mindspore ----------------------------------------------------------------------------------------

SCRIPT = """
import mindspore as ms
import mindspore.nn as nn
import mindspore.numpy as mnp
import mindspore.ops as ops
import mindspore.common.dtype as mstype
from mindspore import Tensor, Parameter, ParameterTuple, context, jit, set_seed
from mindspore.common.initializer import initializer, Normal
from mindspore.common.parameter import Parameter as P2
from mindspore.mint.nn import functional as MF
from mindspore.ops import functional as F
from mindspore.ops import operations as P

assert P2 is Parameter and ms.dtype.float32 is mstype.float32 is ms.float32 and F.add is ops.add
context.set_context(mode=context.GRAPH_MODE, device_target="CPU")

class Net(nn.Cell):
    def __init__(self):
        super(Net, self).__init__()
        self.w = Parameter(initializer("ones", [3, 2], mstype.float32), name="w")
        self.matmul, self.relu = P.MatMul(), P.ReLU()

    def construct(self, x):
        return self.relu(self.matmul(x, self.w)) + 1

print(Net()(Tensor([[1, 2, 3]], ms.float32)), mnp.ones((2,)).sum())
try:
    ops.sofmax
except AttributeError as error:
    print(error)
try:
    import mindspore.nothing
except ImportError as error:
    print(error)
"""


def test_as_mindspore(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, "-m", "framejit", "--as-mindspore", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FRAMEJIT_STRICT": "1"})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[[7. 7.]] 2.0" and "softmax" in lines[1] and "mindspore.nothing" in lines[2]


TRAINING = """
import numpy as np
import mindspore
import mindspore.dataset as ds
import mindspore.nn as nn
import mindspore.train.callback
from mindspore import Tensor, context, load_checkpoint, load_param_into_net, save_checkpoint
from mindspore.common.initializer import Normal
from mindspore.nn.optim import Momentum
from mindspore.nn.cell import Cell
from mindspore.ops.primitive import Primitive
from mindspore.train import Model
from mindspore.train.callback import Callback, LossMonitor
from mindspore.train.serialization import save_checkpoint as save

assert Cell is nn.Cell and Momentum is nn.Momentum and save is save_checkpoint and mindspore.train.callback.LossMonitor is LossMonitor
context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
mindspore.set_seed(1)

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.fc = nn.Dense(2, 1, Normal(0.02))

    def construct(self, x):
        return self.fc(x)

x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
y = x @ np.float32([[2.0], [-1.0]]) + 0.5
data = ds.NumpySlicesDataset({"x": x, "y": y}, shuffle=False).batch(16)
net = Net()
model = Model(net, nn.MSELoss(), Momentum(net.trainable_params(), 0.1, 0.9))
model.train(40, data)
print(np.round(net.fc.weight.asnumpy(), 2).tolist(), np.round(net.fc.bias.asnumpy(), 2).tolist())
import framejit.nn
assert framejit.nn is nn and nn.__name__ == "framejit.nn" and nn.__spec__.name == "framejit.nn"
"""


def test_training_as_mindspore(tmp_path):
    """Modules of any depth are framejit's own, not second copies of them."""
    script = tmp_path / "script.py"
    script.write_text(TRAINING)
    command = [sys.executable, "-m", "framejit", "--as-mindspore", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FRAMEJIT_STRICT": "1"})
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[2.0, -1.0]] [0.5]\n"


def test_tensors_as_mindspore_name_its_module(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import pickle
import mindspore
from mindspore.common.tensor import Tensor
print(type(mindspore.Tensor(1)), Tensor is mindspore.Tensor, pickle.loads(pickle.dumps(Tensor([2]))).tolist())
""")
    command = [sys.executable, "-m", "framejit", "--as-mindspore", str(script)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "<class 'mindspore.common.tensor.Tensor'> True [2]\n", done.stderr


def test_imports_changed_to_framejit():
    changed = SCRIPT.replace("mindspore", "framejit").split("try:")[0]
    done = subprocess.run([sys.executable, "-c", changed], capture_output=True, text=True)
    assert done.stdout == "[[7. 7.]] 2.0\n", done.stderr


def test_importing_is_quick():
    """Nothing of Tensors is imported before it is used."""
    code = "import sys, framejit; print([m for m in sys.modules if m.startswith('framejit.') and any(p in m for p in ('ops', 'nn', 'tensor', 'mint'))])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


# --- The pages as programs ------------------------------------------------------------------------------------------------

# Of each example of MindSpore's pages, the test that runs it.
EXAMPLES = {
    "mindspore.jit: jit(function=), @jit, @jit(fullgraph=True)": "test_page_of_jit",
    "Just-in-time Compilation: define, wrap, run": "test_page_of_just_in_time_compilation",
    "Just-in-time Compilation: each capture mode, level, backend and fullgraph": "test_page_of_just_in_time_compilation",
    "Just-in-time Compilation: trace is a decorator": "test_trace_is_a_decorator_only",
    "Just-in-time Compilation: code typed into a terminal": "test_terminal_code_is_compiled",
    "Just-in-time Compilation: convolution and attention modules": "test_blocks.py",
    "mindspore.JitConfig: LeNet5": "test_page_of_jit_config",
    "JIT Fallback: NumPy": "test_numpy_inside",
    "JIT Fallback: a Tensor made inside": "test_tensor_made_inside",
    "JIT Fallback: print": "test_print_inside",
    "JIT Fallback: MS_DEV_ENABLE_FALLBACK=0": "test_fallback_can_be_switched_off",
    "JIT Fallback: the log": "test_the_log_of_the_page",
    "JIT Fallback, limit 1: values that are arguments": "test_limit_1_values_may_be_arguments",
    "JIT Fallback, limit 2: Python's types": "test_limit_2_python_types",
    "JIT Fallback, limit 3: arrays that are returned": "test_limit_3_arrays_may_be_returned",
    "JIT Fallback, limit 4: control flow": "test_limit_4_control_flow",
    "JIT Fallback, limit 5: attributes and methods of classes": "test_limit_5_attributes_and_methods_of_classes",
    "JIT Fallback, limit 6: mindspore.numpy": "test_limit_6_mindspore_numpy",
    "JIT Fallback, limit 7: results that are dropped": "test_limit_7_results_may_be_dropped",
    "JIT Fallback, limit 8: methods of self": "test_limit_8_methods_of_self_take_arrays",
}


def test_each_example_has_its_test():
    here = Path(__file__)
    for test in EXAMPLES.values():
        assert test in globals() or here.with_name(test).exists(), test


def run_as_mindspore(tmp_path, program, **environment):
    script = tmp_path / "script.py"
    script.write_text(program)
    command = [sys.executable, "-m", "framejit", "--as-mindspore", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "FRAMEJIT_STRICT": "1", **environment})
    assert done.returncode == 0, done.stderr
    return done


JUST_IN_TIME = """
import time
import mindspore
import numpy as np
from mindspore import Tensor

def f(a: Tensor, b: Tensor, c: Tensor):
    return a * b + c

jitted_f = mindspore.jit(f)
f_input = [Tensor(np.random.randn(2, 3), mindspore.float32) for _ in range(3)]
out = f(*f_input)
expected = f"{out=}"
out = jitted_f(*f_input)
assert f"{out=}" == expected

function_dict = {"function ": f}
for mode in ("ast", "bytecode"):
    for level in ("O0", "O1"):
        function_dict[f"{mode} {level}"] = mindspore.jit(f, capture_mode=mode, jit_level=level)
    function_dict[f"{mode} ge"] = mindspore.jit(f, capture_mode=mode, backend="GE")

@mindspore.jit(capture_mode="trace", jit_level="O0")
def jitted_by_trace_and_levelO0_f(a, b, c):
    return a * b + c

@mindspore.jit(capture_mode="trace", jit_level="O1")
def jitted_by_trace_and_levelO1_f(a, b, c):
    return a * b + c

@mindspore.jit(capture_mode="trace", backend="GE")
def jitted_by_trace_and_ge_f(a, b, c):
    return a * b + c

function_dict["trace O0"] = jitted_by_trace_and_levelO0_f
function_dict["trace O1"] = jitted_by_trace_and_levelO1_f
function_dict["trace ge"] = jitted_by_trace_and_ge_f
for level in ("O0", "O1"):
    function_dict[f"ast {level} fullgraph"] = mindspore.jit(f, capture_mode="ast", jit_level=level, fullgraph=True)
function_dict["ast ge fullgraph"] = mindspore.jit(f, capture_mode="ast", backend="GE", fullgraph=True)

dataset = [[Tensor(np.random.randn(2, 3), mindspore.float32) for _ in range(3)] for i in range(1000)]
for s, f in function_dict.items():
    s_time = time.time()
    out = f(*dataset[0])
    time_to_prepare = time.time() - s_time
    s_time = time.time()
    for i in range(1000):
        out = f(*dataset[i])
    time_to_run_thousand_times = time.time() - s_time
    print(f"{s}, out shape: {out.shape}, time to prepare: {time_to_prepare:.2f}s, time to run a thousand times: {time_to_run_thousand_times:.2f}s")
    a, b, c = (x.asnumpy() for x in dataset[-1])
    assert np.allclose(out.asnumpy(), a * b + c, 1e-6, 1e-6)
    assert f is function_dict["function "] or len(f.cache_entries()) == 1
"""


def test_page_of_just_in_time_compilation(tmp_path):
    lines = run_as_mindspore(tmp_path, JUST_IN_TIME).stdout.splitlines()
    assert len(lines) == 13 and all("out shape: (2, 3), time to prepare: 0.0" in line for line in lines)


LENET = """
import mindspore
import numpy as np
from mindspore import JitConfig, Tensor, nn
from mindspore.common.initializer import Normal

class LeNet5(nn.Cell):
    def __init__(self, num_class=10, num_channel=1):
        super(LeNet5, self).__init__()
        self.conv1 = nn.Conv2d(num_channel, 6, 5, pad_mode='valid')
        self.conv2 = nn.Conv2d(6, 16, 5, pad_mode='valid')
        self.relu = nn.ReLU()
        self.max_pool2d = nn.MaxPool2d(kernel_size=2, stride=2)
        self.flatten = nn.Flatten()
        self.fc1 = nn.Dense(16 * 5 * 5, 120, weight_init=Normal(0.02))
        self.fc2 = nn.Dense(120, 84, weight_init=Normal(0.02))
        self.fc3 = nn.Dense(84, num_class, weight_init=Normal(0.02))

    def construct(self, x):
        x = self.max_pool2d(self.relu(self.conv1(x)))
        x = self.max_pool2d(self.relu(self.conv2(x)))
        x = self.flatten(x)
        x = self.relu(self.fc1(x))
        x = self.relu(self.fc2(x))
        x = self.fc3(x)
        return x

jitconfig = JitConfig(jit_level="O1")
net = LeNet5()
x = Tensor(np.random.default_rng(0).normal(size=(4, 1, 32, 32)), mindspore.float32)
expected = net(x).asnumpy()
net.set_jit_config(jitconfig)
for _ in range(2):
    assert np.allclose(net(x).asnumpy(), expected, 1e-4, 1e-5)
(compiled,) = LeNet5.construct.__framejit_compiled__.values()
assert [entry["kind"] for entry in compiled.cache_entries()] == ["function"]
"""


def test_page_of_jit_config(tmp_path):
    run_as_mindspore(tmp_path, LENET)


FALLBACK = """
import numpy as np
from mindspore import Tensor, ms_function

@ms_function
def np_binop():
    a = np.array([1, 2, 3])
    b = np.array([4, 5, 6])
    c = a + b
    return Tensor(np.unique(c, return_index=True)[0])

res = np_binop()
print(res)
"""


def test_the_log_of_the_page(tmp_path):
    done = run_as_mindspore(tmp_path, FALLBACK, GLOG_v="1")
    assert done.stdout == "[5 7 9]\n"
    assert done.stderr == ""  # nothing of it falls back


CODE_EXTRA = """
import numpy as np
from mindspore import Tensor, jit, nn, ops
from mindspore._c_expression import get_code_extra, jit_mode_pi_disable, jit_mode_pi_enable
from mindspore.common.api import _no_grad

class Net(nn.Cell):
    @jit(capture_mode="bytecode")
    def construct(self, x):
        with _no_grad():
            y = x * 2
        return y + x

jit_mode_pi_enable()
net, x = Net(), Tensor([1.0, 2.0])
assert get_code_extra(net.construct) is None and get_code_extra(3) is None and get_code_extra(len) is None
for _ in range(3):
    assert net(x).tolist() == [3.0, 6.0]
for function in (net.construct, Net.construct, net.construct.__wrapped__):
    found = get_code_extra(function)
    assert found["stat"] == "GRAPH_CALLABLE" and found["break_count_"] == 0 and found["compile_count_"] == 1
    assert found["code"]["call_count_"] == 3 and "multiply" in found["code"]["phase_"] and found["code"]["compiled_code_"] is None
assert ops.grad(net)(x).tolist() == [1.0, 1.0]

@jit(capture_mode="bytecode")
def broken(x):
    print(end="")
    return x + 1

broken(x)
found = get_code_extra(broken)
assert found["stat"] == "GRAPH_CALLABLE" and found["break_count_"] == 1 and found["code"]["compiled_code_"].co_name == "broken"
jit_mode_pi_disable()
assert ops.switch(True, 1, 2) == 1 and not ops.is_sequence_value_unknown((1, 2)) and not ops.is_sequence_shape_unknown([1])
"""


def test_what_became_of_a_function(tmp_path):
    run_as_mindspore(tmp_path, CODE_EXTRA)
