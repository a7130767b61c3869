#include "ext/library_calls/listed_functions.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "capture/python_names.h"
#include "capture/warnings.h"
#include "ext/arrays/numpy_api.h"
#include "ext/library_calls/library_call.h"

namespace framejit::ext::library_calls {

using capture::Ref;

namespace {

/// By module: functions that only read their arguments and give a fresh array or a number.
struct Listed {
  const char* module;
  std::vector<const char*> names;
};

const std::vector<Listed>& listed() {
  // clang-format off: lists of names
  static const std::vector<Listed> all = {
      {"numpy",
       {"sort", "argsort", "lexsort", "partition", "argpartition", "searchsorted", "digitize", "interp", "convolve",
        "correlate", "cumsum", "cumprod", "argmin", "argmax", "take", "choose", "trace", "dot", "vdot", "inner",
        "tensordot", "einsum", "kron", "linspace", "logspace", "geomspace", "eye", "identity", "tri", "tril",
        "triu", "bartlett", "blackman", "hamming", "hanning", "kaiser", "percentile", "quantile", "median",
        "repeat", "tile", "nansum", "nanprod", "nancumsum", "nancumprod", "nan_to_num", "isclose", "i0", "unwrap",
        "vander", "packbits", "unpackbits", "isin", "allclose", "array_equal", "polyval", "pad", "select",
        "bincount", "nanmean", "nanmedian", "nanpercentile", "nanquantile", "nanvar", "nanstd", "nanmax", "nanmin",
        "nanargmax", "nanargmin", "ediff1d", "histogram_bin_edges", "block", "histogram", "insert", "delete",
        "unravel_index", "ravel_multi_index", "tril_indices", "triu_indices"}},
      {"numpy.linalg",
       {"inv", "solve", "det", "cholesky", "pinv", "matrix_power", "eigvalsh", "norm", "cond", "matrix_rank",
        "eigvals", "multi_dot", "tensorinv", "tensorsolve", "matrix_norm", "vector_norm", "vecdot", "eigh", "svd",
        "qr", "slogdet"}},
      {"numpy.fft",
       {"fftfreq", "rfftfreq", "fft", "ifft", "fft2", "ifft2", "fftn", "ifftn", "rfft", "irfft", "rfft2", "irfft2",
        "rfftn", "irfftn", "hfft", "ihfft"}},
      {python_names::kLibraryFunctions,
       {"unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "rounded", "lstsq", "histogram2d"}},
  };
  // clang-format on
  return all;
}

/// SciPy's functions of BLAS and LAPACK, without the letter of their dtype, by how many arguments they need. They copy
/// what they compute in, unless a flag overwrite_… is set. Those that give a work space are missing: it holds whatever
/// was in memory.
struct FortranFunctions {
  const char* module;
  std::size_t required;
  std::vector<const char*> names;
};

const std::vector<FortranFunctions>& fortran_functions() {
  static const std::vector<FortranFunctions> all = {
      {"scipy.linalg._flapack", 1, {"getrf", "potrf", "potri", "trtri", "gesdd", "syev", "heev", "syevd", "heevd"}},
      {"scipy.linalg._flapack", 2, {"gesv", "posv", "potrs", "getri", "trtrs", "tbtrs", "pbsv", "pbtrs"}},
      {"scipy.linalg._flapack", 3, {"getrs", "ptsv", "pttrs"}},
      {"scipy.linalg._flapack", 4, {"gtsv", "gbsv"}},
      {"scipy.linalg._flapack", 5, {"gbtrs"}},
      {"scipy.linalg._fblas", 1, {"nrm2", "asum"}},
      {"scipy.linalg._fblas", 2, {"dot", "trmv", "trsv"}},
      {"scipy.linalg._fblas", 3, {"gemm", "gemv", "symm", "symv", "hemm", "hemv", "trmm", "trsm"}},
  };
  return all;
}

/// Each module that f2py makes has a type of its own.
bool is_fortran(PyObject* callable) { return std::strcmp(Py_TYPE(callable)->tp_name, "fortran") == 0; }

/// How many arguments a listed function of these needs; null: it is none of them.
const std::size_t* required_arguments(PyObject* callable) {
  if (!is_fortran(callable)) return nullptr;
  static auto* known = new std::map<PyObject*, std::size_t>;  // kept alive for ever
  if (known->empty()) {
    for (const FortranFunctions& row : fortran_functions()) {
      PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), row.module);
      if (!module || !PyModule_Check(module)) continue;
      for (const char* name : row.names) {
        for (const char letter : {'s', 'd', 'c', 'z'}) {
          PyObject* found = PyDict_GetItemString(PyModule_GetDict(module), (std::string(1, letter) + name).c_str());
          if (found && is_fortran(found)) known->emplace(Py_NewRef(found), row.required);
        }
      }
    }
  }
  const auto at = known->find(callable);
  return at == known->end() ? nullptr : &at->second;
}

/// A ufunc of numbers that NumPy, or scipy.special, has under its own name.
bool is_library_ufunc(PyUFuncObject* ufunc) {
  if (!ufunc->name || ufunc->ntypes == 0 || ufunc->types[0] == NPY_OBJECT) return false;
  for (const char* home : {"numpy", "scipy.special"}) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), home);
    PyObject* found =
        module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), ufunc->name) : nullptr;
    if (found == reinterpret_cast<PyObject*>(ufunc)) return true;
  }
  return false;
}

/// Is reading its attributes sure to run no code of the program's? So it is for functions, and for those of NumPy in C.
bool reads_plainly(PyObject* callable) {
  PyTypeObject* type = Py_TYPE(callable);
  return !PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE) && type->tp_getattro == PyObject_GenericGetAttr;
}

}  // namespace

std::optional<FunctionName> function_name(PyObject* callable) {
  if (!reads_plainly(callable)) return std::nullopt;
  static PyObject* const kModule = PyUnicode_InternFromString("__module__");
  static PyObject* const kName = PyUnicode_InternFromString("__name__");
  const Ref<> module = Ref<>::steal(PyObject_GetAttr(callable, kModule));
  const Ref<> name = module ? Ref<>::steal(PyObject_GetAttr(callable, kName)) : Ref<>();
  const auto text = [](const Ref<>& object) {
    return object && PyUnicode_Check(object.get()) ? PyUnicode_AsUTF8(object.get()) : nullptr;
  };
  const char *home = text(module), *own = text(name);
  if (home && own) return FunctionName{home, own};
  capture::clear_error_of_call();
  return std::nullopt;
}

bool is_followed(PyObject* callable) {
  // clang-format off: a list of names
  static const std::vector<std::string_view> names = {
      "allclose", "array_equal", "block", "delete", "ediff1d", "eye", "i0", "identity", "insert", "isclose", "isin", "kron",
      "linspace", "logspace", "median", "nan_to_num", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
      "nanvar", "pad", "percentile", "polyval", "quantile", "select", "tile", "trace", "tri", "unwrap"};
  // clang-format on
  const std::optional<FunctionName> function = is_library_function(callable) ? function_name(callable) : std::nullopt;
  return function && function->module == "numpy" && std::ranges::find(names, function->name) != names.end();
}

bool is_library_function(PyObject* callable) {
  static auto* known = new std::map<PyObject*, bool>;  // those found: kept alive for ever
  if (auto at = known->find(callable); at != known->end()) return at->second;
  if (!PyCallable_Check(callable) || PyType_Check(callable)) return false;
  if (PyObject_TypeCheck(callable, &PyUFunc_Type)) return is_library_ufunc(reinterpret_cast<PyUFuncObject*>(callable));
  if (required_arguments(callable)) return true;
  const std::optional<FunctionName> function = function_name(callable);
  if (!function) return false;
  for (const Listed& row : listed()) {
    if (function->module != row.module) continue;
    if (std::none_of(row.names.begin(), row.names.end(), [&](const char* name) { return function->name == name; }))
      continue;
    Ref<> module = Ref<>::steal(PyImport_GetModule(Ref<>::steal(PyUnicode_FromString(row.module)).get()));
    Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), function->name.c_str())) : Ref<>();
    capture::clear_error_of_call();
    if (found.get() != callable) return false;
    Py_INCREF(callable);
    return (*known)[callable] = true;
  }
  return false;
}

bool is_left_alone(const LibraryCall& call) {
  const std::size_t* required = required_arguments(call.callable.get());
  if (required && call.args.size() > *required) return true;  // flags among them, perhaps
  return std::any_of(call.keywords.begin(), call.keywords.end(), [&](const auto& keyword) {
    const auto& [name, piece] = keyword;
    if (PyUnicode_CompareWithASCIIString(name.get(), "out") == 0) return piece.object.get() != Py_None;
    const char* words = required ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (words && std::string_view(words).ends_with("work")) return true;
    if (!words || !std::string_view(words).starts_with("overwrite_")) return false;
    return !piece.object || !PyLong_Check(piece.object.get()) || PyObject_IsTrue(piece.object.get()) != 0;
  });
}

namespace {

/// How often the operand stands in the call.
std::size_t count_uses(const LibraryCall& call, std::size_t slot) {
  std::size_t count = 0;
  const auto visit = [&](const auto& self, const Piece& piece) -> void {
    count += piece.kind == Piece::Slot && piece.slot == slot;
    for (const Piece& item : piece.items) self(self, item);
  };
  for (const Piece& piece : call.args) visit(visit, piece);
  for (const auto& [name, piece] : call.keywords) visit(visit, piece);
  return count;
}

}  // namespace

std::vector<std::pair<std::size_t, Ref<>>> flags_of_operands(const LibraryCall& call) {
  constexpr std::string_view kFlag = "overwrite_";
  if (!required_arguments(call.callable.get())) return {};
  for (const auto& [name, piece] : call.keywords)
    if (const char* words = PyUnicode_AsUTF8(name.get()); !words || std::string_view(words).starts_with(kFlag))
      return {};
  const Ref<> doc = Ref<>::steal(PyObject_GetAttrString(call.callable.get(), "__doc__"));
  const char* text = doc && PyUnicode_Check(doc.get()) ? PyUnicode_AsUTF8(doc.get()) : nullptr;
  capture::clear_error_of_call();
  if (!text) return {};
  // x,info = dgesv(a,b,[overwrite_a,overwrite_b])
  const std::string_view all(text), line = all.substr(0, all.find('\n'));
  std::vector<std::string> names;
  for (std::size_t at = line.find('('); at != std::string_view::npos && at + 1 < line.size();) {
    const std::size_t end = line.find_first_of(",[])", ++at);
    if (end != std::string_view::npos && end > at) names.emplace_back(line.substr(at, end - at));
    at = end;
  }
  std::vector<std::pair<std::size_t, Ref<>>> out;
  for (std::size_t i = 0; i < std::min(call.args.size(), names.size()); ++i) {
    const Piece& piece = call.args[i];
    const std::string flag = std::string(kFlag) + names[i];
    // If one array is two operands, the function would write to one of them while it still reads the other.
    if (piece.kind != Piece::Slot || piece.wrap != capture::Wrap::NdArray || count_uses(call, piece.slot) > 1 ||
        std::find(names.begin(), names.end(), flag) == names.end())
      continue;
    Ref<> word = Ref<>::steal(PyUnicode_InternFromString(flag.c_str()));
    if (word) out.emplace_back(piece.slot, std::move(word));
  }
  return out;
}

bool is_fortran_error(PyObject* type) {
  constexpr std::pair<const char*, const char*> kErrors[] = {{"scipy.linalg._flapack", "__flapack_error"},
                                                             {"scipy.linalg._fblas", "__fblas_error"}};
  return std::any_of(std::begin(kErrors), std::end(kErrors), [type](const auto& error) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), error.first);
    return module && PyModule_Check(module) && PyDict_GetItemString(PyModule_GetDict(module), error.second) == type;
  });
}

bool is_library_method(std::string_view name) {
  for (std::string_view known : {"argmin", "argmax", "argsort", "argpartition", "cumsum", "cumprod", "take", "choose",
                                 "trace", "repeat", "searchsorted", "dot", "round", "byteswap", "__divmod__"})
    if (name == known) return true;
  return false;
}

}  // namespace framejit::ext::library_calls
