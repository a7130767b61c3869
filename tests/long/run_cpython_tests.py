"""Runs CPython's own regression tests with every code object spliced or marked, and compares each test's outcome with a plain run.

    python tests/long/run_cpython_tests.py                    all modules, regions that fall through, then random exits
    python tests/long/run_cpython_tests.py --modes marked     every function of the test module marked in place
    python tests/long/run_cpython_tests.py --language         the modules about the language and its builtins
    python tests/long/run_cpython_tests.py --sample           a few modules

Each module runs in processes of its own, plain and in each mode:

    fall      a site at every legal boundary; its region falls through
    exits     sites run random stretches and leave at random boundaries
    marked    framejit.mark() on the test module
    library   on the pure Python standard library too
    rewrite   as `library`, with stress='rewrite': what does no array work is captured and run by framejit all the same
    break     the same with a graph's end after every third instruction
    guards    the same with each guard failing once

In the first two the frame hook gives every frame of every function spliced code. Modules that ask whether `frame.f_code` is the
function's `__code__`, which the hook makes untrue, are spliced as they are loaded instead. The others are compared with a plain
run in a process that has imported framejit. A difference counts only if a second run of both shows it again.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent

SAMPLE = """test_generators test_exceptions test_with test_contextlib test_coroutines test_scope test_grammar test_patma
test_sys_settrace test_except_star test_frame test_yield_from test_super test_traceback""".split()

# About the language and its builtins.
LANGUAGE = """test_grammar test_scope test_global test_exceptions test_baseexception test_exception_group test_exception_hierarchy
test_exception_variations test_except_star test_raise test_generators test_generator_stop test_genexps test_listcomps test_setcomps
test_dictcomps test_coroutines test_asyncgen test_yield_from test_with test_contextlib test_contextlib_async test_context
test_functools test_itertools test_operator test_descr test_descrtut test_class test_super test_metaclass test_subclassinit
test_genericclass test_property test_dynamicclassattribute test_decorators test_dataclasses test_enum test_patma test_unpack
test_unpack_ex test_named_expressions test_list test_dict test_dict_version test_dictviews test_set test_tuple test_range test_iter
test_iterlen test_enumerate test_slice test_index test_int test_long test_float test_complex test_bool test_bytes test_unicode
test_fstring test_format test_string test_sort test_hash test_compare test_richcmp test_contains test_binop test_augassign
test_unary test_pow test_math test_cmath test_call test_extcall test_keywordonlyarg test_positional_only_arg test_pep646_syntax
test_traceback test_inspect test_frame test_funcattrs test_code test_compile test_dis test_peepholer test_sys test_sys_settrace
test_sys_setprofile test_builtin test_types test_typing test_type_annotations test_type_cache test_isinstance test_typechecks
test_abc test_gc test_weakref test_weakset test_finalization test_copy test_copyreg test_pickle test_collections test_deque
test_defaultdict test_ordered_dict test_userdict test_userlist test_userstring test_reprlib test_threading test_threading_local
test_thread test_import test_module test_opcache test_syntax test_symtable test_string_literals test_memoryview test_buffer
test_array test_heapq test_bisect test_statistics test_fractions test_numeric_tower test_random test_re test_json
test_warnings test_memoryio test_queue""".split()

# Not about Python code, of no use in a process that is rewritten, or in need of a terminal, a network or an hour.
SKIPPED = {
    "test_asyncio": "a package of tests: its modules are run one by one",
    "test_concurrent_futures": "starts processes, minutes long",
    "test_gdb": "starts gdb",
    "test_idle": "needs a display",
    "test_tk": "needs a display",
    "test_ttk_guionly": "needs a display",
    "test_ttk_textonly": "needs a display",
    "test_tix": "needs a display",
    "test_multiprocessing_fork": "starts processes, minutes long",
    "test_multiprocessing_forkserver": "starts processes, minutes long",
    "test_multiprocessing_spawn": "starts processes, minutes long",
    "test_peg_generator": "compiles C for minutes",
    "test_regrtest": "runs the test runner",
    "test_distutils": "compiles C",
    "test_lib2to3": "minutes long, plain Python",
    "test_tools": "checks the source tree",
    "test_venv": "installs packages",
    "test_ensurepip": "installs packages",
    "test_ssl": "needs a network",
    "test_urllibnet": "needs a network",
    "test_urllib2net": "needs a network",
    "test_nntplib": "needs a network",
    "test_smtpnet": "needs a network",
    "test_socket": "needs a network",
    "test_zipfile64": "writes gigabytes",
    "test_bigmem": "needs gigabytes",
    "test_curses": "needs a terminal",
    "test_readline": "needs a terminal",
    "test_winreg": "another system",
    "test_msilib": "another system",
    "test_startfile": "another system",
}

# They compare frame.f_code with a function's __code__.
LOADED = {"test_sys_settrace", "test_pdb", "test_bdb", "test_trace", "test_sys_setprofile", "test_profile", "test_cprofile"}

# Outcomes that rightly differ; docs/usage.md lists what may be told apart. A part of the test's id, and why.
EXPECTED = {
    "test_co_positions_artificial_instructions": "lists the instructions of a frame's f_code",
    "test_dis.": "lists the instructions of a frame's f_code, or looks for specialised ones in __code__, which does not run",
    "test_sys.SizeofTest.test_objecttypes": "the size of a frame object goes with the stack that its code declares",
    "test_sys.SysModuleTest.test_getframe": "asks whether frame.f_code is __code__",
    "test_descr.ClassPropertiesAndMethods.test_slots": "counts objects while the callee is spliced for the first time",
    "test_tracemalloc.TestTracemallocEnabled.test_get_traced_memory": "counts memory while a callee is spliced for the first time",
}

# The same for marks in place.
EXPECTED_MARKED = {
    "test_dis.": EXPECTED["test_dis."],
    "test_co_positions_artificial_instructions": EXPECTED["test_co_positions_artificial_instructions"],
    "test_sys.SizeofTest.test_objecttypes": EXPECTED["test_sys.SizeofTest.test_objecttypes"],
    "test_sys.SysModuleTest.test_getframe": EXPECTED["test_sys.SysModuleTest.test_getframe"],
    "test_descr.ClassPropertiesAndMethods.test_slots": "counts objects while the callee is compiled for the first time",
    "test_sort.TestOptimizedCompares.test_unsafe_float_compare": "asks whether a float of a list is the same object or an equal one",
    ".test_bug_782369": "counts references to a small int, which all of the process shares",
    "test_sys.SysModuleTest.test_refcount": "counts references to None while it is compiled",
    "test_re.ReTests.test_search_anchor_at_beginning": "asserts that a search takes less than 0.1 seconds",
    "test_warnings.": "looks at all warnings: RecompileLimitWarning",
    "test_memoryio.CBytesIOTest.test_sizeof": "the size of an instance's dict",
    "test_builtin.TestBreakpoint.test_envar_unimportable": "takes each warning for its own: RecompileLimitWarning",
    "test_list.ListTest.test_preallocation": "the size of a list: one that is made during capture is handed over with room to grow",
    "test_descr.SharedKeyTests.test_subclasses": "the size of an instance's dict: instances that are dropped at once are not made",
    "test_coroutines.OriginTrackingTest.test_unawaited_warning_when_module_broken": "counts all warnings: RecompileLimitWarning",
    "test_dict.DictTest.test_reversed_dict_keys_changed_during_iteration": "looks at the holes that deleted keys leave: a dict that is made during capture has none",
    "test_gc.GCTogglingTests.test_bug1055820c": "minds which allocation collects: one of capture's may",
    "test_gc.GCTogglingTests.test_bug1055820d": "minds which allocation collects: one of capture's may",
    "test_gc.GCTests.test_get_count": "counts new objects: those of capture are among them",
    "test_gc.GCTests.test_get_objects_arguments": "counts all objects, those of compiled code among them",
    "test_gc.GCTests.test_resurrection_does_not_block_cleanup_of_other_objects": "counts garbage: instances that are dropped at once are not made",
}

if sys.version_info >= (3, 12):  # a generator has no gi_code of its own: it is that of its frame
    for expected in (EXPECTED, EXPECTED_MARKED):
        expected["test_generators.__test__.syntax"] = "asks whether gi_code is __code__"
    for test in ("test_opcache.", "test_type_cache.TypeCacheWithSpecializationTests"):
        EXPECTED_MARKED[test] = "looks for specialised instructions in __code__, which does not run"
if sys.version_info >= (3, 14):  # entries of the stack may own no reference
    EXPECTED["test_no_refs_to_exception_and_traceback_objects"] = "counts references: an entry that is written owns one"
    for test in (
        "test_no_refs_to_exception_and_traceback_objects",
        "test_list_overwrite_local",
        "test_bug1229429",
        "test_memoryio.CBytesIOTest.test_cow_",
        "MemoryviewTest.test_getbuffer",
        "MemorySliceTest.test_getbuffer",
        "MemorySliceSliceTest.test_getbuffer",
        "MemorySliceTest.test_refs",
    ):
        EXPECTED_MARKED[test] = "counts references: an entry that is written owns one"
    EXPECTED_MARKED["test_tuple.TupleTest.test_track_literals"] = "asks which tuples the collector knows: all that a region makes"
    EXPECTED_MARKED["test_gc.GCTests.test_heap_size"] = "counts all objects while it is compiled"
    EXPECTED_MARKED["test_code.CodeTest.test_stateless"] = "asks whether anything hangs on a code object: what is compiled does"

MARKING = {"marked": None, "library": None, "rewrite": "rewrite", "break": "rewrite,break=3", "guards": "rewrite,guards"}


def child(name, mode, share, seed, output):
    """In the subprocess: run one test module, write {test id: outcome}."""
    import unittest

    splices = mode in ("fall", "exits")
    if splices:
        core = find_core()
    elif mode != "plain":
        import framejit
    from test import support
    from test.support import os_helper

    support.use_resources = {}
    outcomes = {}

    class Result(unittest.TestResult):
        def note(self, test, outcome):
            outcomes[test.id()] = outcome

        def addSuccess(self, test):
            outcomes.setdefault(test.id(), "ok")

        def addError(self, test, err):
            self.note(test, f"error {err[0].__name__}")
            details[test.id()] = self._exc_info_to_string(err, test)

        def addFailure(self, test, err):
            self.note(test, "failure")
            details[test.id()] = self._exc_info_to_string(err, test)

        def addSkip(self, test, reason):
            self.note(test, "skipped")

        def addExpectedFailure(self, test, err):
            self.note(test, "expected failure")

        def addUnexpectedSuccess(self, test):
            self.note(test, "unexpected success")

        def addSubTest(self, test, subtest, err):
            if err is not None:
                self.note(test, "failure in a subtest")
                details[test.id()] = self._exc_info_to_string(err, test)

    details = {}
    counters = {}
    with os_helper.temp_cwd():
        stop_rewriting = lambda: None  # noqa: E731
        if mode in MARKING:
            handle = framejit.mark(*targets(name, mode), stress=MARKING[mode])
        elif splices and name in LOADED:
            stop_rewriting = splice_what_is_loaded(core, share, seed)
        elif splices:
            # The harness: outcomes must be noted even where a test breaks what it runs in.
            core._hook_splice_all(share, seed, (str(HERE / "run_cpython_tests.py"),))
        try:
            suite = unittest.defaultTestLoader.loadTestsFromName(f"test.{name}")
            stop_rewriting()  # tests that trace would see it
            suite.run(Result())
        except unittest.SkipTest as e:
            outcomes["module"] = f"skipped: {e}"
        if mode in MARKING:
            counters = {**framejit.stats(), **framejit._core.break_counts()}
            handle.close()
        elif splices:
            if name not in LOADED:
                core._hook_splice_all(None)
            counters = core._hook_splice_all_counters()
    with open(output, "w") as f:
        json.dump({"outcomes": outcomes, "details": details, "counters": counters}, f)
    sys.stdout.flush()
    os._exit(0)  # what tests leave behind must not decide


def targets(name, mode):
    if mode == "marked":
        return f"test.{name}", f"test.{name}.*"
    return (os.path.dirname(os.__file__) + "/*",)


def splice_what_is_loaded(core, share, seed):
    import importlib.machinery
    import types

    get_code = importlib.machinery.SourceFileLoader.get_code

    def rewrite(code):
        consts = tuple(rewrite(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
        return core._splice_stressed(code.replace(co_consts=consts), share, seed)

    def get_spliced_code(self, fullname):
        code = get_code(self, fullname)
        return code and rewrite(code)

    importlib.machinery.SourceFileLoader.get_code = get_spliced_code
    return lambda: setattr(importlib.machinery.SourceFileLoader, "get_code", get_code)


def find_core():
    try:
        from framejit import _core
    except ImportError:
        import _core
    return _core


def environment():
    path = os.pathsep.join(os.path.abspath(p) for p in sys.path if p and p != str(HERE))
    return {**os.environ, "PYTHONPATH": path}


def run_module(name, mode, share, seed, timeout):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "result.json")
        command = [sys.executable, "-W", "ignore", __file__, "--child", name, mode, str(share), str(seed), output]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, **pipes, cwd=folder, env=environment(), start_new_session=True) as process:
            try:
                _, errors = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # with what the tests have started
                return {"status": "timeout", "outcomes": {}, "details": {}, "counters": {}}
        if os.path.exists(output):
            with open(output) as f:
                return {"status": "ran", **json.load(f)}
        tail = errors.decode(errors="replace")[-3000:]
        return {"status": f"exit {process.returncode}", "outcomes": {}, "details": {"process": tail}, "counters": {}}


def differences(plain, spliced):
    if plain["status"] != spliced["status"]:
        return {"process": (plain["status"], spliced["status"])}
    if spliced["counters"].get("internal_errors"):
        return {"internal_errors": (0, spliced["counters"]["internal_errors"])}
    ids = plain["outcomes"].keys() | spliced["outcomes"].keys()
    return {
        i: (plain["outcomes"].get(i), spliced["outcomes"].get(i))
        for i in ids
        if plain["outcomes"].get(i) != spliced["outcomes"].get(i)
    }


def plain_mode(mode):
    return "imported" if mode in MARKING else "plain"


def expected_reason(test_id, mode):
    table = EXPECTED_MARKED if mode in MARKING else EXPECTED
    return next((reason for part, reason in table.items() if part in test_id), None)


def compare_module(name, modes, options):
    """Counts and differences of one module; each difference is one that a second run of both confirms."""
    report = {"name": name, "tests": 0, "differences": [], "expected": [], "counters": {}, "seconds": {}, "status": "ran"}
    plains = {p: run_module(name, p, 0, 0, options.timeout) for p in {plain_mode(mode) for mode in modes}}
    report["tests"] = max(len(plain["outcomes"]) for plain in plains.values())
    report["status"] = next((p["status"] for p in plains.values() if p["status"] != "ran"), "ran")
    for mode in modes if report["status"] == "ran" else ():
        plain = plains[plain_mode(mode)]
        share = 0 if mode == "fall" else options.share
        timeout = 6 * options.timeout
        start = time.time()
        spliced = run_module(name, mode, share, options.seed, timeout)
        report["seconds"][mode] = round(time.time() - start, 1)
        report["counters"][mode] = spliced["counters"]
        found = differences(plain, spliced)
        if found:
            again_plain = run_module(name, plain_mode(mode), 0, 0, options.timeout)
            again = run_module(name, mode, share, options.seed, timeout)
            found = {i: d for i, d in found.items() if i in differences(again_plain, again)}
        for test_id, (before, after) in sorted(found.items()):
            reason = expected_reason(test_id, mode)
            if reason:
                report["expected"].append((mode, test_id, reason))
            else:
                detail = spliced["details"].get(test_id, "")
                report["differences"].append((mode, test_id, before, after, detail))
    return report


def all_modules():
    folder = pathlib.Path(importlib.util.find_spec("test").origin).parent
    names = sorted(p.stem if p.suffix else p.name for p in folder.glob("test_*") if p.suffix == ".py" or p.is_dir())
    names = [n for n in names if n not in SKIPPED]
    names += [f"test_asyncio.{p.stem}" for p in sorted((folder / "test_asyncio").glob("test_*.py"))]
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sample", action="store_true", help="a few modules only")
    parser.add_argument("--language", action="store_true", help="the modules about the language and its builtins")
    parser.add_argument("--modes", default="fall,exits")
    parser.add_argument("--share", type=int, default=96, help="of 256 questions that run a stretch")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--timeout", type=int, default=150, help="seconds for a plain module; six times that spliced")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--report", help="write all counts there as JSON")
    parser.add_argument("modules", nargs="*")
    options = parser.parse_args()
    names = options.modules or (SAMPLE if options.sample else LANGUAGE if options.language else all_modules())
    modes = options.modes.split(",")
    if unknown := set(modes) - {"fall", "exits", *MARKING}:
        parser.error(f"no such mode: {', '.join(sorted(unknown))}")
    print(f"{sys.version.split()[0]}: {len(names)} modules, {modes}, seed {options.seed}", flush=True)
    start = time.time()
    reports = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(compare_module, n, modes, options) for n in names]
        for future in concurrent.futures.as_completed(futures):
            report = future.result()
            reports.append(report)
            seconds = ", ".join(f"{mode} {value} s" for mode, value in report["seconds"].items())
            print(f"[{len(reports)}] {report['name']}: plain {report['status']}, {seconds}", flush=True)
            for mode, test_id, before, after, detail in report["differences"]:
                print(f"  DIFFERENT [{mode}] {test_id}: {before} -> {after}\n{detail}", flush=True)
            if options.report:
                pathlib.Path(options.report).write_text(json.dumps(reports, indent=1))
    summarize(reports, modes, time.time() - start)
    return 1 if any(r["differences"] for r in reports) else 0


def summarize(reports, modes, seconds):
    tests = sum(r["tests"] for r in reports)
    print(f"{len(reports)} modules, {tests} tests, {seconds:.0f} s")
    for mode in modes:
        counted = [r["counters"].get(mode) or {} for r in reports]
        sums = {}
        for key, value in (item for counters in counted for item in counters.items()):
            if isinstance(value, int):
                sums[key] = sums.get(key, 0) + value
        print(f"  {mode}: {sums}")
        if sums.get("frames_marked"):
            print(f"    captured: {sums['frames_captured'] / sums['frames_marked']:.2%} of the marked frames")
    for report in reports:
        for mode, test_id, reason in report["expected"]:
            print(f"  as expected [{mode}] {test_id}: {reason}")
    print(f"{sum(len(r['differences']) for r in reports)} differences")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
    sys.exit(main())
