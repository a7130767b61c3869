"""A scalar operator is added in the places that codegen/README.md names, and in no other: in a copy of the sources."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]
CONFIGURE = ["-G", "Ninja", "-DFRAMEJIT_PYTHON=OFF", "-DFRAMEJIT_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug"]

# For each file: what is found there, and what is put before it. The operators: `deg2rad` has NumPy's loop alone, `distance`
# code of its own on floats and integers, `logabs` and `cuberoot` own functions at O1, `turn` is of complex numbers.
EDITS = {
    "graph/op.h": [
        (
            '  X(Cast, "cast", 1,',
            r"""  X(Deg2rad, "deg2rad", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "deg2rad") \
  X(Distance, "distance", 2, IntOrFloat, Elementwise, Native, Same, Float, true, "distance", .own = Float | Half | Int) \
  X(LogAbs, "logabs", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "logabs", .own = Math, .ulps = {1.5, 1.0}) \
  X(CubeRoot, "cuberoot", 1, Float, Elementwise, NumpyLoop, Same, Float, false, "cuberoot", .own = MathInFloat64, \
    .ulps = {1.0, 1.0}) \
  X(Turn, "turn", 1, Complex, Elementwise, Native, Same, None, false, "turn", .own = Complex) \
""",
        )
    ],
    "graph/scalar_float.h": [
        (
            "    case Op::Add: return a + b;\n",
            """    case Op::Deg2rad: return a * static_cast<T>(0.017453292519943295769L);
    case Op::Distance: return std::fabs(a - b);
    case Op::LogAbs: return std::log(std::fabs(a));
    case Op::CubeRoot: return std::cbrt(a);
""",
        )
    ],
    "graph/scalar_ops.cpp": [
        (
            "    case Op::Add: return wrapped(x + y);\n",
            "    case Op::Distance: return wrapped(a < b ? y - x : x - y);\n",
        )
    ],
    "graph/passes/grad_rules.cpp": [
        (
            "FRAMEJIT_BINARY(Add, g, g)\n",
            """FRAMEJIT_UNARY(Deg2rad, g * 0.017453292519943295769)
FRAMEJIT_BINARY(Distance, where(f(Op::Less, a(), b()), -g, g), where(f(Op::Less, a(), b()), g, -g))
FRAMEJIT_UNARY(LogAbs, g / x())
FRAMEJIT_UNARY(CubeRoot, g / (square(y()) * 3.0))
FRAMEJIT_NONE(Turn, "it is of complex numbers")
""",
        )
    ],
    "codegen/emit_apply.cpp": [
        (
            "    case Op::Add: return v.fadd(size, a, b);\n",
            "    case Op::Distance: return v.fabs(size, v.fsub(size, a, b));\n",
        ),
        (
            "    case Op::Add: return v.iadd(size, a, b);\n",
            "    case Op::Distance: return v.isub(size, v.imax(size, is_signed, a, b), v.imin(size, is_signed, a, b));\n",
        ),
    ],
    "codegen/emit_math.h": [("  Vec exp(const Vec& x);\n", "  Vec log_abs(const Vec& x);\n")],
    "codegen/emit_math.cpp": [
        (
            "    case Op::Exp: return exponential.exp(a);\n",
            "    case Op::LogAbs: return exponential.log_abs(a);\n    case Op::CubeRoot: return twofold.cbrt(a);\n",
        ),
        ("bool has_math(", "Vec ExpLogMath::log_abs(const Vec& x) { return log(Op::Log, v.fabs(size, x)); }\n\n"),
    ],
    "codegen/lower_complex.cpp": [
        (
            "      case Op::Divide: return quotient();\n",
            "      case Op::Turn: return terms_.pair(negative(im(0)), re(0));\n",
        )
    ],
}
CHECK = """
#include "codegen/lower.h"
#include "harness.h"

namespace framejit::codegen::testing {

TEST(Invented, IsCompiled) {
  using graph::takes;
  EXPECT_TRUE(takes(Op::Distance, DType::U16) && takes(Op::Distance, DType::F32) && !takes(Op::Distance, DType::Bool));
  for (Isa isa : isas()) {
    EXPECT_TRUE(emits(Op::Distance, DType::U16, DType::U16, false, isa));
    EXPECT_TRUE(emits(Op::Distance, DType::F16, DType::F16, false, isa));
    for (Op own : {Op::LogAbs, Op::CubeRoot}) {
      EXPECT_TRUE(emits(own, DType::F32, DType::F32, true, isa));
      EXPECT_FALSE(emits(own, DType::F32, DType::F32, false, isa));
    }
    EXPECT_FALSE(emits(Op::Deg2rad, DType::F64, DType::F64, true, isa));
    LoopNest nest;
    const uint16_t a = add_load(nest, DType::U16, Access::Contiguous), b = add_load(nest, DType::U16, Access::Contiguous);
    add_store(nest, DType::U16, Access::Contiguous, add_apply(nest, Op::Distance, DType::U16, DType::U16, {a, b}));
    const Executable code = compile(nest, isa);
    uint16_t x[] = {7, 0, 65535}, y[] = {9, 65535, 1}, z[3] = {};
    char* ptrs[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(y), reinterpret_cast<char*>(z)};
    const int64_t strides[] = {2, 0, 2, 0, 2, 0};
    run_kernel(code, ptrs, strides, 3);
    EXPECT_EQ(z[0], 2);
    EXPECT_EQ(z[1], 65535);
    EXPECT_EQ(z[2], 65534);
  }
  EXPECT_TRUE(is_composed(Op::Turn, DType::C64, DType::C64, {}));
  EXPECT_FALSE(is_composed(Op::Sqrt, DType::C64, DType::C64, {}));
}

}  // namespace framejit::codegen::testing
"""


def test_the_readme_names_the_places():
    """Files between backquotes under "a scalar operator"."""
    text = (ROOT / "codegen" / "README.md").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^- \*\*a scalar operator\*\*(.*?)^- \*\*", text, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"`(\w+/[\w/.]+)`", recipe)) == set(EDITS)


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    """The sources of graph and codegen with their tests and the new operators, built without optimization."""
    root = tmp_path_factory.mktemp("sources")
    for folder in ("cmake", "codegen", "graph", "tests/codegen", "tests/graph"):
        shutil.copytree(ROOT / folder, root / folder)
    for file in ("CMakeLists.txt", "tests/CMakeLists.txt", "ext/framejit/__init__.py"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, root / file)
    for name, edits in EDITS.items():
        file = root / name
        text = file.read_text(encoding="utf-8")
        for before, added in edits:
            assert text.count(before) == 1, f"{name}: {before}"
            text = text.replace(before, added + before)
        file.write_text(text, encoding="utf-8")
    (root / "tests" / "codegen" / "test_invented.cpp").write_text(CHECK, encoding="utf-8")
    run("cmake", "-S", root, "-B", root / "build", *CONFIGURE, "-DCMAKE_CXX_FLAGS_DEBUG=-O0")
    run("cmake", "--build", root / "build", "--target", "test_graph", "test_codegen")
    return root / "build" / "tests"


def run(*command) -> str:
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace")
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
    return result.stdout


@pytest.mark.parametrize(
    "program, tests",
    [
        ("test_graph", "OpTable.*:Grad.EachOperatorOfTheTableAgainstDifferences"),
        ("test_codegen", "Invented.*:*Elementwise.SingleElements*:*Elementwise.LayoutsAndTails*:*Math*"),
    ],
)
def test_tests_of_all_operators_pass(copy, program, tests):
    assert "[  PASSED  ]" in run(copy / program, f"--gtest_filter={tests}")


def test_own_functions_are_measured(copy):
    """The functions of the new rows are among those whose errors tests/codegen/test_math.cpp bounds."""
    run(copy / "test_codegen", "--gtest_filter=*Math.ErrorsF32*", f"--gtest_output=json:{copy / 'math.json'}")
    measured = (copy / "math.json").read_text(encoding="utf-8")
    assert '"logabs"' in measured and '"cuberoot"' in measured
