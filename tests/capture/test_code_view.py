"""CodeView: canonical instructions, positions, handlers, depths and boundaries agree with the dis module."""

import dis
import sys
import types
from collections.abc import Mapping


from splice_support import all_codes, core, sample_modules, seeded, stdlib_codes

FOLDED = {"CACHE", "EXTENDED_ARG", "KW_NAMES", "PRECALL"}


def raw_instructions(code):
    """What dis says, without the instructions that CodeView folds away."""
    out = []
    start = None
    for instr in dis.get_instructions(code, show_caches=False):
        if start is None:
            start = instr.offset // 2
        if instr.opname in FOLDED:
            continue
        out.append((start, instr))
        start = None
    return out


def check_against_dis(code):
    ours = core._splice_decode(code)
    theirs = raw_instructions(code)
    if sys.version_info < (3, 13):  # later ones have instructions that become two
        assert len(ours) == len(theirs)
    by_offset = {row[4]: i for i, row in reversed(list(enumerate(ours)))}
    for start, instr in theirs:
        if sys.version_info >= (3, 13) and instr.opname == "CALL_KW":
            continue
        op, arg, flag, kwnames, offset, place, depth, boundary, handler = ours[by_offset[start]]
        if op == "Call" and instr.opname == "LOAD_CONST":
            continue  # the names of CALL_KW
        p = instr.positions
        assert place == tuple(
            -1 if v is None else v for v in (p.lineno, p.end_lineno, p.col_offset, p.end_col_offset)
        ), (code, start)
        if instr.opname in ("FOR_ITER", "SEND"):  # past what pops at the end, where there is such
            assert ours[arg][4] >= instr.argval // 2
        elif instr.opcode in dis.hasjrel and op not in ("EndAsyncFor", "Nop"):
            if flag and "BACKWARD" not in instr.opname:
                assert ours[arg][4] < start and ours[by_offset[start] + 1][0] == "Nop"  # it jumped over a jump back
            else:  # there, or in the last copy of what is there
                there = ours[by_offset[instr.argval // 2]]
                assert (ours[arg][0], ours[arg][5], ours[arg][6]) == (there[0], there[5], there[6])
        if instr.opname == "LOAD_GLOBAL":
            assert code.co_names[arg] == instr.argval.removeprefix("NULL + ")
            assert flag == bool(instr.arg & 1)
        if instr.opname in ("LOAD_FAST", "STORE_FAST", "LOAD_CONST"):
            assert arg == instr.arg
    return ours


def test_every_opcode_has_a_row():
    table = core._splice_opcodes()
    import opcode

    caches = opcode._inline_cache_entries
    for name, number in dis.opmap.items():
        if number > 255 or name.startswith("INSTRUMENTED_"):
            continue
        if name in ("CACHE", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR", "TRACE_RECORD"):
            continue  # never in co_code of a function
        expected = caches.get(name, 0) if isinstance(caches, Mapping) else caches[number]
        assert table[number] is not None, name
        assert table[number][1] == expected, name


def test_sample_agrees_with_dis():
    count = 0
    for code in stdlib_codes(sample_modules()):
        check_against_dis(code)
        count += 1
    assert count > 1000


def test_every_reachable_instruction_has_one_depth_within_stacksize():
    for code in stdlib_codes(sample_modules()):
        for op, arg, flag, kwnames, offset, place, depth, boundary, handler in core._splice_decode(code):
            assert -1 <= depth <= code.co_stacksize
            assert not boundary or depth >= 0


def rows(function):
    return core._splice_decode(function.__code__)


def test_call_is_one_instruction():
    def f(g, x):
        return g(x, key=1)

    (call,) = [r for r in rows(f) if r[0] == "Call"]
    assert call[1] == 2
    assert f.__code__.co_consts[call[3]] == ("key",)
    assert call[7]


def test_boundaries():
    def gen(xs):
        for x in xs:
            try:
                y = yield x
            except ValueError:
                y = yield from xs
        return y

    seen = rows(gen)
    names = [r[0] for r in seen]
    first = names.index("Resume")
    assert not any(r[7] for r in seen[: first + 1])
    assert seen[first + 1][7]
    for before, row in zip([None] + seen[:-1], seen):
        if row[0] in ("Resume", "Send", "PushExcInfo", "EndAsyncFor", "EndFor", "EndSend", "CleanupThrow"):
            assert not row[7], row
        if row[0] == "YieldValue":
            assert row[7] == (before[0] != "Send")


def test_handlers():
    def f(x):
        try:
            return x()
        except ValueError:
            return 1

    seen = rows(f)
    call = next(r for r in seen if r[0] == "Call")
    assert seen[call[8]][0] == "PushExcInfo"
    assert seen[call[8]][6] == 1
    assert seen[0][8] == -1


def test_jumps_name_instructions():
    def f(n):
        s = 0
        while n:
            s += n
            n -= 1
        return s

    seen = rows(f)
    back = [r for r in seen if r[0] in ("PopJumpIfTrue", "Jump") and r[2]]
    assert len(back) == 1
    assert back[0][1] < seen.index(back[0])
    assert not any(r[2] for r in seen if r[0] in ("PopJumpIfFalse", "PopJumpIfNone"))


def test_all_codes_finds_nested():
    code = compile("def f():\n  return lambda: [x for x in y]", "<t>", "exec")
    assert isinstance(code, types.CodeType)
    assert {c.co_name for c in all_codes(code)} >= {"<module>", "f", "<lambda>"}


def test_sample_encodes_to_the_same_bytes():
    for code in stdlib_codes(sample_modules()):
        assert core._splice_encode(code) == (code.co_code, code.co_linetable, code.co_exceptiontable), code


# CPython 3.15 reads co_code of such bytes in a way that crashes; debug builds assert that there are none.
CRASHES = sys.version_info >= (3, 15) or hasattr(sys, "gettotalrefcount")


def test_code_that_no_compiler_made():
    """Changed bytes give instructions, or one that is not known, never a crash."""
    rng = seeded("bytes")
    codes = [c for c in stdlib_codes(sample_modules()) if len(c.co_code) > 40]
    # CPython's own co_code writes past the end where the last instruction seems to have caches: 10 units at most.
    last = {"co_code": 24, "co_linetable": 0, "co_exceptiontable": 0}
    refused = left_alone = 0
    for code in rng.sample(codes, 300):
        parts = {name: bytearray(getattr(code, name)) for name in ("co_code", "co_linetable", "co_exceptiontable")}
        for _ in range(rng.randrange(1, 4)):
            name, part = rng.choice([(n, p) for n, p in parts.items() if p and not (n == "co_code" and CRASHES)])
            part[rng.randrange(len(part) - last[name])] = rng.randrange(256)
        changed = code.replace(**{name: bytes(part) for name, part in parts.items()})
        left_alone += [row[0] for row in core._splice_decode(changed)] == ["Unknown"]
        try:
            core._splice_encode(changed)
        except RuntimeError:
            refused += 1
    assert 0 < refused <= left_alone < 300
