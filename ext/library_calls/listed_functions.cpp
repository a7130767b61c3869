#include "ext/library_calls/listed_functions.h"

#include <algorithm>
#include <map>
#include <vector>

#include "capture/python_names.h"
#include "capture/warnings.h"
#include "ext/arrays/numpy_api.h"

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

bool is_library_function(PyObject* callable) {
  static auto* known = new std::map<PyObject*, bool>;  // those found: kept alive for ever
  if (auto at = known->find(callable); at != known->end()) return at->second;
  if (!PyCallable_Check(callable) || PyType_Check(callable)) return false;
  if (PyObject_TypeCheck(callable, &PyUFunc_Type)) return is_library_ufunc(reinterpret_cast<PyUFuncObject*>(callable));
  if (!reads_plainly(callable)) return false;
  const Ref<> home = Ref<>::steal(PyObject_GetAttrString(callable, "__module__"));
  const Ref<> name = home ? Ref<>::steal(PyObject_GetAttrString(callable, "__name__")) : Ref<>();
  const char* words = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (!words) capture::clear_error_of_call();
  if (!words || !PyUnicode_Check(home.get())) return false;
  for (const Listed& row : listed()) {
    if (PyUnicode_CompareWithASCIIString(home.get(), row.module) != 0) continue;
    if (std::none_of(row.names.begin(), row.names.end(), [&](const char* n) { return std::string_view(n) == words; }))
      continue;
    Ref<> module = Ref<>::steal(PyImport_GetModule(home.get()));
    Ref<> found = module ? Ref<>::steal(PyObject_GetAttrString(module.get(), words)) : Ref<>();
    capture::clear_error_of_call();
    if (found.get() != callable) return false;
    Py_INCREF(callable);
    return (*known)[callable] = true;
  }
  return false;
}

bool is_library_method(std::string_view name) {
  for (std::string_view known : {"argmin", "argmax", "argsort", "argpartition", "cumsum", "cumprod", "take", "choose",
                                 "trace", "repeat", "searchsorted", "dot", "round", "byteswap", "__divmod__"})
    if (name == known) return true;
  return false;
}

}  // namespace framejit::ext::library_calls
