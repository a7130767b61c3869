"""An array that is larger than the memory of the processes: Dask splits it into chunks, and framejit compiles the work on a chunk.

    pip install "framejit[examples]"
    python examples/out_of_core.py

A file has the hourly winds of a region, east and north. The program computes the mean output of a wind turbine at each place, and
the output in its best hour. A process holds one chunk at a time; its memory is limited to less than the size of the file.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster

import framejit as fj


@fj.jit
def turbine_output(wind):
    """The share of its rated power that a turbine gives, for winds (m/s) whose first axis is east and north."""
    speed = np.sqrt(wind[0] * wind[0] + wind[1] * wind[1]) * np.float32(1.25)  # at the height of the hub
    rising = (speed * speed * speed - np.float32(27.0)) / np.float32(1701.0)  # from 3 m/s on, all of it at 12 m/s
    output = np.clip(rising, np.float32(0.0), np.float32(1.0))
    return np.where(speed > np.float32(25.0), np.float32(0.0), output)  # a storm: it is turned off


def write_winds(file: Path, shape: tuple[int, ...], hours: int) -> None:
    """Makes the file, `hours` hours at a time."""
    winds = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape)
    for start in range(0, shape[1], hours):
        piece = winds[:, start : start + hours]
        piece[...] = np.random.default_rng(start).standard_normal(piece.shape, dtype=np.float32) * 6
    winds.flush()


def read_winds(file: Path, block_info=None):
    """The chunk of the file that a task is for; runs in the workers."""
    location = block_info[None]["array-location"]
    return np.array(np.load(file, mmap_mode="r")[tuple(slice(*ends) for ends in location)])


def summary(file: Path, hours: int, output) -> tuple[da.Array, da.Array]:
    """The mean and the maximum over time of `output`, as Dask arrays that are not computed yet."""
    shape = np.load(file, mmap_mode="r").shape
    winds = da.map_blocks(
        read_winds, file, chunks=da.core.normalize_chunks((2, hours, *shape[2:]), shape), dtype=np.float32
    )
    share = da.map_blocks(output, winds, drop_axis=0, dtype=np.float32)
    return share.mean(axis=0), share.max(axis=0)


def most_memory() -> int:
    """The most bytes that this process has held."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    """Makes the file, runs the workload on a cluster of this machine's processes, and says what it took."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--megabytes", type=int, default=2000, help="size of the file")
    parser.add_argument("--memory", type=int, default=500, help="megabytes that each worker may use")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="do it again with plain NumPy, and compare")
    options = parser.parse_args()
    side, hours = 128, 100  # a chunk has 13 MB
    count = options.megabytes * 10**6 // (2 * 4 * side * side)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "winds.npy"
        write_winds(file, (2, count, side, side), hours)
        cluster = LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            memory_limit=options.memory * 10**6,
            dashboard_address=None,
        )
        with cluster, Client(cluster) as client:
            start = time.perf_counter()
            mean, best = da.compute(*summary(file, hours, turbine_output))
            seconds = time.perf_counter() - start
            held = max(client.run(most_memory).values())
            calls = sum(stats["kernel_calls"] for stats in client.run(fj.stats).values())
            if options.check:
                plain = da.compute(*summary(file, hours, turbine_output.__wrapped__))
                assert np.array_equal(mean, plain[0]) and np.array_equal(best, plain[1]), "framejit differs from NumPy"
        print(f"winds: {file.stat().st_size / 1e6:.0f} MB")
        print(f"most that a worker held: {held / 1e6:.0f} MB")
        print(f"kernels run: {calls} in {seconds:.2f} s")
        print(
            f"mean output: {mean.mean():.3f} of rated power, best place: {mean.max():.3f}, best hour: {best.max():.3f}"
        )


if __name__ == "__main__":
    main()
