"""MindSpore's communication in its one group of one process: the answers of MindSpore 2.10 on a CPU, started by msrun with one worker."""

from __future__ import annotations

import subprocess
import sys

import framejit as fj
import numpy as np
import pytest
from framejit import Tensor, communication, mint, nn, ops
from framejit.communication import GlobalComm, comm_func

pytestmark = pytest.mark.capture


@pytest.fixture
def group():
    communication.init()
    yield
    communication.release()
    fj.reset_auto_parallel_context()


def numbers():
    return Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))


def test_before_init_there_is_rank_0_of_1_and_no_group():
    assert (communication.get_rank(), communication.get_group_size()) == (0, 1)
    assert (communication.get_local_rank(), communication.get_local_rank_size()) == (0, 1)
    assert not mint.distributed.is_initialized()
    for call in (
        lambda: communication.get_process_group_ranks(),
        lambda: communication.create_group("g", [0]),
        lambda: ops.AllReduce()(numbers()),
    ):
        with pytest.raises(RuntimeError, match="has not been inited"):
            call()


def test_the_environment_says_the_rank_before_init(monkeypatch):
    monkeypatch.setenv("RANK_ID", "3")
    monkeypatch.setenv("RANK_SIZE", "4")
    assert (communication.get_rank(), communication.get_group_size()) == (3, 4)
    with pytest.raises(RuntimeError, match="one process, but RANK_SIZE says that there are 4"):
        communication.init()
    assert not GlobalComm.INITED


def test_group(group):
    assert (GlobalComm.BACKEND, GlobalComm.WORLD_COMM_GROUP, GlobalComm.INITED) == ("mccl", "mccl_world_group", True)
    assert communication.get_process_group_ranks() == [0]
    communication.create_group("g", [0])
    assert (communication.get_rank("g"), communication.get_group_size("g")) == (0, 1)
    assert communication.get_world_rank_from_group_rank("g", 0) == communication.get_group_rank_from_world_rank(0, "g") == 0
    communication.destroy_group("g")
    for call, error in (
        (lambda: communication.get_rank("g"), RuntimeError),
        (lambda: communication.get_rank(3), TypeError),
        (lambda: communication.create_group("h", [0, 1]), RuntimeError),
        (lambda: communication.create_group("h", (0,)), TypeError),
        (lambda: communication.create_group("h", []), ValueError),
        (lambda: communication.create_group("h", [0, 0]), ValueError),
        (lambda: communication.destroy_group("mccl_world_group"), ValueError),
        (lambda: communication.init("hccl"), RuntimeError),
        (lambda: communication.init("gloo"), RuntimeError),
        (lambda: communication.init(3), TypeError),
    ):
        with pytest.raises(error):
            call()


@pytest.mark.parametrize(
    "primitive",
    [
        ops.AllReduce(), ops.AllReduce(ops.ReduceOp.MAX), ops.AllReduce("avg"), ops.ReduceScatter(), ops.AllGather(), ops.Reduce(0),
        ops.CollectiveGather(0), ops.CollectiveScatter(), ops.AlltoAll(1, 0, 1),
    ],
)  # fmt: skip
def test_primitives_give_a_copy_of_what_they_are_given(group, primitive):
    x = numbers()
    for function in (primitive, fj.jit(lambda x: primitive(x))):
        found = function(x)
        np.testing.assert_array_equal(found.asnumpy(), x.asnumpy())
        found[0] = 9.0
        np.testing.assert_array_equal(x.asnumpy(), numbers().asnumpy())
    gradient = fj.grad(lambda x: (primitive(x) * x).sum())(x)
    np.testing.assert_array_equal(gradient.asnumpy(), 2 * x.asnumpy())


def test_broadcast_takes_a_tuple(group):
    x = numbers()
    found = ops.Broadcast(0)((x, x * 2))
    np.testing.assert_array_equal(found[1].asnumpy(), 2 * x.asnumpy())
    with pytest.raises(RuntimeError, match="but got the rank 1"):
        ops.Broadcast(1)((x,))


def test_primitives_refuse_what_one_process_cannot_take(group):
    for call, error in (
        (lambda: ops.AllReduce("median")(numbers()), TypeError),
        (lambda: ops.AllReduce("sum", "h")(numbers()), RuntimeError),
        (lambda: ops.AllReduce()(3.0), TypeError),
        (lambda: ops.AlltoAll(2, 0, 1)(numbers()), ValueError),
        (lambda: ops.Reduce(1)(numbers()), RuntimeError),
    ):
        with pytest.raises(error):
            call()


def test_functions_give_a_result_and_a_handle(group):
    x = numbers()
    for function in (comm_func.all_reduce, comm_func.all_gather_into_tensor, comm_func.reduce_scatter_tensor):
        found, handle = function(x)
        np.testing.assert_array_equal(found.asnumpy(), x.asnumpy())
        assert handle is None
        assert function(x, async_op=True)[1].wait() is None
    for function in (comm_func.broadcast, comm_func.gather_into_tensor, comm_func.scatter_tensor):
        np.testing.assert_array_equal(function(x).asnumpy(), x.asnumpy())
    np.testing.assert_array_equal(comm_func.reduce(x, 0).asnumpy(), x.asnumpy())
    assert comm_func.barrier() is None
    for function in (comm_func.send, comm_func.recv, comm_func.isend, comm_func.irecv):
        with pytest.raises(ValueError, match="should not be the same as the rank of the current process"):
            function(x)


def test_functions_of_mint_write_their_outputs(group):
    D, x = mint.distributed, numbers()
    for call in (
        lambda out: D.all_gather([out], x), lambda out: D.all_gather_into_tensor(out, x), lambda out: D.gather(x, [out]),
        lambda out: D.scatter(out, [x]), lambda out: D.reduce_scatter(out, [x]), lambda out: D.reduce_scatter_tensor(out, x),
        lambda out: D.all_to_all([out], [x]), lambda out: D.all_to_all_single(out, x), lambda out: ops.scatter_tensor(out, x),
        lambda out: ops.gather_into_tensor(out, x), lambda out: D.all_gather_into_tensor_uneven(out, x),
        lambda out: D.reduce_scatter_tensor_uneven(out, x),
    ):  # fmt: skip
        out = Tensor(np.zeros((2, 3), np.float32))
        assert call(out) is None
        np.testing.assert_array_equal(out.asnumpy(), x.asnumpy())
    for call in (lambda: D.all_reduce(x), lambda: D.reduce(x, 0), lambda: D.broadcast(x, 0), lambda: D.barrier()):
        assert call() is None
    np.testing.assert_array_equal(x.asnumpy(), numbers().asnumpy())
    assert D.all_reduce(x, async_op=True).wait() is None
    for call in (
        lambda: D.all_gather([x, x], x), lambda: D.all_gather_into_tensor(Tensor([1.0]), x), lambda: D.all_reduce(3),
        lambda: D.all_gather_into_tensor(x.astype(fj.float64), x), lambda: D.all_reduce(x, async_op=1),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_objects(group):
    D, given = mint.distributed, {"a": [1, 2]}
    for call in (
        lambda out: D.all_gather_object(out, given),
        lambda out: D.gather_object(given, out),
        lambda out: D.scatter_object_list(out, [given]),
    ):
        out = [None]
        call(out)
        assert out == [given]
        assert out[0] is not given
    out = [given]
    D.broadcast_object_list(out)
    assert out == [given]


def test_process_groups_of_mint():
    D = mint.distributed
    D.init_process_group()
    try:
        assert (D.get_rank(), D.get_world_size(), D.get_backend(), D.is_initialized()) == (0, 1, "hccl", True)
        name = D.new_group([0], backend="mccl")
        assert name.startswith("mccl_1_")
        assert (D.get_rank(name), D.get_backend(name), D.get_process_group_ranks(name)) == (0, "mccl", [0])
        assert D.new_group([0, 1]) == ""
        assert D.get_rank("none") == D.get_world_size("none") == -1
        D.destroy_process_group(name)
        assert D.get_rank(name) == -1
        for wrong in ({"backend": "gloo"}, {"world_size": 2}, {"rank": 1}):
            with pytest.raises(ValueError):
                D.init_process_group(**wrong)
    finally:
        D.destroy_process_group()
    assert not D.is_initialized()


def test_settings_of_parallel_training():
    assert fj.get_auto_parallel_context("parallel_mode") == fj.ParallelMode.STAND_ALONE
    fj.set_auto_parallel_context(parallel_mode=fj.ParallelMode.DATA_PARALLEL, gradients_mean=True, device_num=1)
    assert fj.context.get_auto_parallel_context("gradients_mean") is True
    fj.reset_auto_parallel_context()
    assert fj.get_auto_parallel_context("parallel_mode") == "stand_alone"
    for settings, error in (
        ({"parallel_mode": "x"}, ValueError), ({"foo": 1}, ValueError), ({"device_num": 2}, ValueError), ({"global_rank": 1}, ValueError),
        ({"pipeline_stages": 2}, ValueError), ({"gradients_mean": 1}, TypeError), ({"device_num": 1.5}, TypeError),
        ({"device_num": True}, TypeError),
    ):  # fmt: skip
        with pytest.raises(error):
            fj.set_auto_parallel_context(**settings)


def test_a_step_of_data_parallel_training(group):
    fj.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
    net = nn.Dense(3, 1, "ones", has_bias=False)
    optimizer = nn.SGD(net.trainable_params(), 0.5)
    reducer = nn.DistributedGradReducer(optimizer.parameters)
    gradients = fj.grad(lambda x: net(x).sum(), None, optimizer.parameters)

    def step(x):
        optimizer(reducer(gradients(x)))

    step(Tensor([[1.0, 2.0, 3.0]]))
    np.testing.assert_array_equal(net.weight.asnumpy(), [[0.5, 0.0, -0.5]])
    with pytest.raises(ValueError):
        nn.DistributedGradReducer(optimizer.parameters, degree=0)


def test_modules_have_mindspores_names():
    program = (
        "import mindspore as ms, mindspore.mint.distributed as dist\n"
        "from mindspore.communication import init, get_rank, get_group_size\n"
        "from mindspore.communication.management import GlobalComm\n"
        "from mindspore.communication.comm_func import all_reduce\n"
        "from mindspore.context import ParallelMode\n"
        "init()\n"
        "print(get_rank(), get_group_size(), GlobalComm.BACKEND, dist.get_rank(), all_reduce(ms.Tensor([2.0]))[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", "from framejit._mindspore._mindspore import install; install()\n" + program],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "0 1 mccl 0 [2.]\n"
