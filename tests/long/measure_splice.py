"""What sites and exits cost, in ns, beside a call of a builtin in the same process: python tests/long/measure_splice.py"""

import pathlib
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "capture"))

from splice_support import instructions, spliced  # noqa: E402

STATEMENTS = 32
ROUNDS = 4000


def program(statement, count=STATEMENTS):
    scope = {}
    body = f"    {statement}\n" * count
    exec(f"def loop(n):\n  y = 1\n  for i in range(n):\n{body}", scope)
    return scope["loop"]


def best(function, rounds=ROUNDS, repeats=60):
    least = float("inf")
    for _ in range(repeats):
        start = time.perf_counter_ns()
        function(rounds)
        least = min(least, time.perf_counter_ns() - start)
    return least / rounds


def only_awake(function, sites):
    for site in function.splice.sites:
        function.splice.set_dormant(site, site not in sites)
    return function


def measure():
    plain = program("x = y")
    loads = [i for i, r in enumerate(instructions(plain)) if r.op == "LoadFast"]
    base = best(plain)
    sites = spliced(plain, None, extra_sites=loads)
    dormant = best(only_awake(sites, []))
    falls = best(only_awake(sites, loads))
    yield "statement x = y", base / STATEMENTS
    yield "call of a builtin, len('')", best(program("len('')")) / STATEMENTS
    yield "site, dormant", (dormant - base) / len(sites.splice.sites)
    yield "site, falls through", (falls - dormant) / STATEMENTS

    def one(n):
        y = n
        while n > 0:
            x = y
            n -= 1
        return x

    # Its stack is empty where `x = y` begins, as a constant answer needs.
    load = [i for i, r in enumerate(instructions(one)) if r.op == "LoadFast" and r.arg == 1][0]
    taken = spliced(one, load, extra_sites=[load])
    asleep = best(only_awake(taken, []), 50000)
    yield "site and exit", best(only_awake(taken, [load]), 50000) - asleep


if __name__ == "__main__":
    for name, nanoseconds in measure():
        print(f"{name:36} {nanoseconds:6.1f}")
