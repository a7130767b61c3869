"""Forward passes and steps of forward and backward, beside torch, JAX and MindSpore: time, peak memory, page faults.

    ./dev python benchmarks/training.py [--threads N] [--rounds R] [--only WORD] [--patience S] [--engines framejit,torch]

A block of ResNet and the attention of Llama 3, those of MindSpore's tutorial on compilation (whole) and smaller ones. Each engine runs in a
process of its own; the processes take turns in each round, and the ratio is the median over rounds. Memory is what the process held at most
while it stepped, beyond what it held before the first step, where weights and inputs were there already: it is that of a second process, which
steps some times without being timed. Faults are pages that the system had to give in a step once the engine is warm: 0 where all memory is used
again. Results are compared with those of framejit's eager mode first. An engine whose first call takes longer than --patience has that call, with what
it compiles, as its time in all rounds.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from interleaved import against_best

# name: batch, channels, height and width
BLOCKS = {
    "BasicBlock (1,128,256,256)": (1, 128, 256),
    "BasicBlock (8,64,56,56)": (8, 64, 56),
    "BasicBlock (1,64,56,56)": (1, 64, 56),
}
# name: length, hidden, heads, heads of keys
ATTENTIONS = {"LlamaAttention (1,512,4096)": (512, 4096, 32, 8), "LlamaAttention (1,512,1024)": (512, 1024, 16, 4)}
ENGINES = ("framejit", "framejit O0", "torch", "torch channels last", "torch.compile", "JAX", "MindSpore")


def numbers(case: str) -> list[np.ndarray]:
    """Input, weights and what else the case is given."""
    rng = np.random.default_rng(0)
    if case in BLOCKS:
        batch, channels, size = BLOCKS[case]
        weights = [rng.normal(size=(channels, channels, 3, 3)) / (3 * channels**0.5) for _ in range(2)]
        affine = [rng.normal(size=channels) * 0.1 + base for base in (1, 0, 1, 0)]
        arrays = [rng.normal(size=(batch, channels, size, size)), *weights, *affine]
    else:
        length, hidden, heads, key_heads = ATTENTIONS[case]
        depth = hidden // heads
        shapes = [(hidden, hidden), (key_heads * depth, hidden), (key_heads * depth, hidden), (hidden, hidden)]
        weights = [rng.normal(size=shape) / hidden**0.5 for shape in shapes]
        angles = np.tile(np.outer(np.arange(length), 5e5 ** (-np.arange(0, depth, 2) / depth)), 2)
        arrays = [rng.normal(size=(1, length, hidden)), *weights, np.cos(angles), np.sin(angles)]
    return [array.astype(np.float32) for array in arrays]


def block(lib: Any, x: Any, w: Any, v: Any, scale1: Any, shift1: Any, scale2: Any, shift2: Any) -> Any:
    """Two convolutions, each with a batch norm of moving statistics, and the residual."""
    out = lib.relu(lib.norm(lib.convolution(x, w), scale1, shift1))
    return lib.relu(lib.norm(lib.convolution(out, v), scale2, shift2) + x)


def attention(lib: Any, x: Any, q: Any, k: Any, v: Any, o: Any, cosines: Any, sines: Any) -> Any:
    """Projections, rotary embedding, attention with grouped heads, projection, written out as in the tutorial."""
    _, length, hidden = x.shape
    depth = cosines.shape[-1]
    heads, key_heads = q.shape[0] // depth, k.shape[0] // depth

    def by_head(t: Any, count: int) -> Any:
        return lib.swap(t.reshape((1, length, count, depth)), 1, 2)

    def turned(t: Any) -> Any:
        return t * cosines + lib.join([-t[..., depth // 2 :], t[..., : depth // 2]]) * sines

    def repeated(t: Any) -> Any:
        return lib.broadcast(t[:, :, None], (1, key_heads, heads // key_heads, length, depth)).reshape(
            (1, heads, length, depth)
        )

    queries, keys = turned(by_head(lib.dense(x, q), heads)), turned(by_head(lib.dense(x, k), key_heads))
    keys, values = repeated(keys), repeated(by_head(lib.dense(x, v), key_heads))
    weights = lib.softmax(lib.matmul(queries, lib.swap(keys, 2, 3)) / depth**0.5)
    return lib.dense(lib.swap(lib.matmul(weights, values), 1, 2).reshape((1, length, hidden)), o)


def own_functions(case: str, fj: Any, level: str) -> tuple[Any, Any, Any, Callable[[np.ndarray], Any]]:
    """(forward, forward and backward, tensor -> numpy, numpy -> tensor) of framejit or MindSpore; level "": eager."""
    ops = fj.ops

    class Lib:
        relu, matmul, dense, swap, broadcast = ops.relu, ops.matmul, ops.dense, ops.swapaxes, ops.broadcast_to

        @staticmethod
        def convolution(x: Any, w: Any) -> Any:
            return ops.conv2d(x, w, None, 1, "pad", 1)

        @staticmethod
        def norm(x: Any, scale: Any, shift: Any) -> Any:
            return ops.batch_norm(x, zeros, ones, scale, shift, False, 0.1, 1e-5)

        @staticmethod
        def join(parts: Any) -> Any:
            return ops.cat(parts, -1)

        @staticmethod
        def softmax(x: Any) -> Any:
            return ops.softmax(x, -1)

    if case in BLOCKS:
        zeros, ones = ops.zeros(BLOCKS[case][1], fj.float32), ops.ones(BLOCKS[case][1], fj.float32)
    network, wanted = (block, tuple(range(7))) if case in BLOCKS else (attention, tuple(range(5)))

    def forward(*t: Any) -> Any:
        return network(Lib, *t)

    step = fj.value_and_grad(forward, wanted)
    if level:
        options = {"jit_level": level, **({"fullgraph": True} if fj.__name__ == "framejit" else {})}
        whole = step
        forward = fj.jit(forward, **options)
        # MindSpore compiles no lambda over it, and is faster so.
        step = (
            fj.jit(lambda *t: whole(*t), **options) if fj.__name__ == "framejit" else fj.value_and_grad(forward, wanted)
        )
    if fj.__name__ == "mindspore":
        forward, step = computed(forward), computed(step)
    return forward, step, lambda t: t.asnumpy(), fj.Tensor


def computed(function: Callable[..., Any]) -> Callable[..., Any]:
    """MindSpore's calls return before their results are there, and it can wait on a CPU only by taking them out."""

    def call(*t: Any) -> Any:
        out = function(*t)
        for leaf in (out[0], *out[1]) if isinstance(out, tuple) else (out,):
            leaf.asnumpy()
        return out

    return call


def torch_functions(case: str, engine: str, threads: int) -> tuple[Any, Any, Any, Callable[[np.ndarray], Any]]:
    """(forward, forward and backward, tensor -> numpy, numpy -> tensor) of torch."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)

    class Lib:
        relu, matmul, dense, swap, broadcast = (
            torch.relu,
            torch.matmul,
            functional.linear,
            torch.transpose,
            torch.broadcast_to,
        )

        @staticmethod
        def convolution(x: Any, w: Any) -> Any:
            return functional.conv2d(x, w, None, 1, 1)

        @staticmethod
        def norm(x: Any, scale: Any, shift: Any) -> Any:
            return functional.batch_norm(x, zeros, ones, scale, shift)

        @staticmethod
        def join(parts: Any) -> Any:
            return torch.cat(parts, -1)

        @staticmethod
        def softmax(x: Any) -> Any:
            return torch.softmax(x, -1)

    if case in BLOCKS:
        zeros, ones = torch.zeros(BLOCKS[case][1]), torch.ones(BLOCKS[case][1])
    network, count = (block, 7) if case in BLOCKS else (attention, 5)

    def run(*t: Any) -> Any:
        return network(Lib, *t)

    if engine == "torch.compile":
        run = torch.compile(run)
    last = engine == "torch channels last"

    def tensor(array: np.ndarray) -> Any:
        t = torch.from_numpy(array)
        return t.to(memory_format=torch.channels_last) if last and t.ndim == 4 else t

    def forward(*t: Any) -> Any:
        with torch.no_grad():
            return run(*t)

    def step(*t: Any) -> Any:
        watched = [each.detach().requires_grad_(at < count) for at, each in enumerate(t)]
        out = run(*watched)
        return out.detach(), torch.autograd.grad(out, watched[:count], torch.ones_like(out))

    return forward, step, lambda t: t.detach().numpy(), tensor


def jax_functions(case: str) -> tuple[Any, Any, Any, Callable[[np.ndarray], Any]]:
    """The same of JAX."""
    import jax
    from jax import numpy as jnp

    class Lib:
        relu, matmul, swap, broadcast = jax.nn.relu, jnp.matmul, jnp.swapaxes, jnp.broadcast_to

        @staticmethod
        def dense(x: Any, w: Any) -> Any:
            return x @ w.T

        @staticmethod
        def convolution(x: Any, w: Any) -> Any:
            return jax.lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)))

        @staticmethod
        def norm(x: Any, scale: Any, shift: Any) -> Any:
            return x * (scale / (1 + 1e-5) ** 0.5)[:, None, None] + shift[:, None, None]

        @staticmethod
        def join(parts: Any) -> Any:
            return jnp.concatenate(parts, -1)

        @staticmethod
        def softmax(x: Any) -> Any:
            return jax.nn.softmax(x, -1)

    network, count = (block, 7) if case in BLOCKS else (attention, 5)

    def forward(*t: Any) -> Any:
        return network(Lib, *t)

    def with_sum(*t: Any) -> Any:
        out = forward(*t)
        return out.sum(), out

    def step(*t: Any) -> Any:
        gradients, out = jax.grad(with_sum, tuple(range(count)), has_aux=True)(*t)
        return out, gradients

    def waited(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = jax.jit(function)
        return lambda *t: jax.block_until_ready(compiled(*t))

    return waited(forward), waited(step), np.asarray, jnp.asarray


def functions(case: str, engine: str, threads: int) -> tuple[Any, Any, Any, Callable[[np.ndarray], Any]]:
    """(forward, forward and backward, array -> numpy, numpy -> array) of an engine."""
    if engine.startswith("torch"):
        return torch_functions(case, engine, threads)
    if engine == "JAX":
        return jax_functions(case)
    module = importlib.import_module("mindspore" if engine == "MindSpore" else "framejit")
    if engine != "MindSpore":
        module.config.num_threads = threads
    return own_functions(case, module, {"framejit O0": "O0", "eager": ""}.get(engine, "O1"))


def kilobytes(field: str) -> int:
    """VmRSS or VmHWM of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


def child(case: str, engine: str, both: bool, threads: int, results: str, patience: float) -> None:
    """Runs as many calls as each line of standard input says, and answers a line; at first without being asked.

    A first call that took longer than `patience` seconds is the answer to all lines.
    """
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])  # XLA and MindSpore take all that there are
    forward, step, to_numpy, tensor = functions(case, engine, threads)
    arrays = [tensor(array) for array in numbers(case)]
    call = step if both else forward
    before = kilobytes("VmRSS")

    def timed(count: int) -> tuple[Any, dict[str, float]]:
        """The last result of so many calls, and what one took."""
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        start, busy = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(count):
            out = None  # its memory is free for the next
            out = call(*arrays)
        spent, busy = time.perf_counter_ns() - start, time.process_time_ns() - busy
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        return out, {"nanoseconds": spent / count, "faults": faults / count, "busy": busy / spent}

    out, once = timed(1)
    if results:
        leaves = [out[0], *out[1]] if both else [out]
        np.savez(results, *[to_numpy(leaf) for leaf in leaves])
        del leaves
    del out
    waited_for = once["nanoseconds"] <= patience * 1e9
    if waited_for:
        call(*arrays)
        Path("/proc/self/clear_refs").write_text("5")  # forgets the highest
        for _ in range(3):
            call(*arrays)
    print(json.dumps({"first": once["nanoseconds"], "kilobytes": kilobytes("VmHWM") - before}), flush=True)
    for line in sys.stdin:
        print(json.dumps(timed(int(line))[1] if waited_for else once), flush=True)


def ask(process: subprocess.Popen[str], count: int | None = None) -> dict[str, float]:
    """An answer of a child, to a question or to none."""
    assert process.stdin and process.stdout
    if count is not None:
        process.stdin.write(f"{count}\n")
        process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args} ended")
    return json.loads(line)


def compare(expected: str, found: str) -> None:
    """Each array of two files, as a whole: where a ReLU's argument is the noise of rounding (three in a million) its gradient is all or nothing."""
    with np.load(expected) as a, np.load(found) as b:
        for name in a.files:
            error = float(np.linalg.norm(b[name] - a[name]) / np.linalg.norm(a[name]))
            if not error <= 3e-3:
                raise AssertionError(f"{name} is off by {error:.1e} of itself")


def row(case: str, both: bool, engines: dict[str, str], options: argparse.Namespace, home: Path) -> dict[str, float]:
    """Measures and prints one, and gives framejit's speed relative to each of the other engines."""

    def start(engine: str, results: str) -> subprocess.Popen[str]:
        python = engines.get(engine, sys.executable)
        given = ["--child", case, engine, str(int(both)), results, "--threads", str(options.threads)]
        given += ["--patience", str(options.patience)]
        names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
        threads = dict.fromkeys(names, str(options.threads))
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        return subprocess.Popen([python, "-W", "ignore", __file__, *given], env={**os.environ, **threads}, **pipes)

    def ended(process: subprocess.Popen[str]) -> None:
        assert process.stdin
        process.stdin.close()
        process.wait()

    oracle = str(home / "expected.npz")
    with start("eager", oracle) as eager:
        ask(eager)
        ended(eager)
    children, ready, lost = {}, {}, []
    for engine in engines:
        children[engine] = start(engine, str(home / "found.npz"))
        try:
            ready[engine] = ask(children[engine])
            compare(oracle, str(home / "found.npz"))
        except (RuntimeError, AssertionError) as error:
            lost.append(f"{engine}: {str(error).strip().splitlines()[0]}")
            ready.pop(engine, None)
            ended(children.pop(engine))
    answers: dict[str, list[dict[str, float]]] = {engine: [] for engine in children}
    once = {engine: ask(process, 1)["nanoseconds"] for engine, process in children.items()}
    for _ in range(options.rounds):
        for engine, process in children.items():
            answers[engine].append(ask(process, max(1, int(2e8 / once[engine]))))
    for process in children.values():
        ended(process)
    times = {engine: [answer["nanoseconds"] for answer in given] for engine, given in answers.items()}
    print(f"{case}, {'forward and backward' if both else 'forward'}")
    for engine, given in times.items():
        faults, busy = (statistics.median(answer[name] for answer in answers[engine]) for name in ("faults", "busy"))
        print(
            f"    {engine:20} {statistics.median(given) / 1e6:9.2f} ms  first {ready[engine]['first'] / 1e6:8.1f} ms"
            f"  peak {ready[engine]['kilobytes'] / 1024:8.1f} MiB  {faults:8.0f} faults  {busy:4.2f} processors"
        )
    for line in lost:
        print(f"    {line}")
    others = {engine: given for engine, given in times.items() if engine != "framejit O0"}
    if "framejit" not in others:
        return {}
    if len(others) > 1:
        best, ratio = against_best(others)
        print(f"    {ratio:5.2f} x {best}", flush=True)
    return {
        name: against_best({name: times[name], "framejit": times["framejit"]})[1]
        for name in others
        if name != "framejit"
    }


def main() -> None:
    """All rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument(
        "--engines", default=",".join(ENGINES), help="engine or engine=interpreter that has it, by commas"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=60,
        help="seconds; an engine whose first call takes longer is measured by that call",
    )
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        case, engine, both, results = options.child
        child(case, engine, both == "1", options.threads, results, options.patience)
        return
    engines = {
        name: python or sys.executable for name, _, python in (one.partition("=") for one in options.engines.split(","))
    }
    if unknown := [name for name in engines if name not in ENGINES]:
        parser.error(f"argument --engines: no engine {unknown[0]!r}; choose from {', '.join(ENGINES)}")
    if absent := [python for python in engines.values() if not shutil.which(python)]:
        parser.error(f"argument --engines: no interpreter {absent[0]!r}")
    titles = {
        (case, both): f"{case}, {'both' if both else 'forward'}"
        for case, both in itertools.product((*BLOCKS, *ATTENTIONS), (False, True))
    }
    chosen = [of for of, title in titles.items() if options.only in title]
    if not chosen:
        parser.error(f"argument --only: {options.only!r} is in none of {[*titles.values()]}")
    print(f"# {options.threads} threads, load {os.getloadavg()[0]:.1f}; {' '.join(sys.argv)}")
    ratios: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for case, both in chosen:
            for engine, ratio in row(case, both, engines, options, Path(home)).items():
                ratios.setdefault(engine, []).append(ratio)
    for engine, given in ratios.items():
        mean, least = statistics.geometric_mean(given), min(given)
        print(f"{mean:7.2f} x {engine} in geometric mean of {len(given)} rows, {least:.2f} x at least")


if __name__ == "__main__":
    main()
