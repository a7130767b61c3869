// A ufunc keeps its loops in three parallel tables: functions, their data, and the type numbers of their operands. For
// numeric dtypes NumPy 2 wraps the very same entries. The ufunc objects are kept alive for ever: kernels hold the
// pointers.
#include "ext/arrays/numpy_loops.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "ext/arrays/numpy_api.h"
#include "ext/arrays/promotion.h"

namespace framejit::ext::arrays {

namespace {

codegen::NumpyLoop loop_of(PyUFuncObject* ufunc, graph::DType operand, graph::DType result) {
  if (!ufunc || ufunc->nout != 1 || !ufunc->functions) return {};
  for (int loop = 0; loop < ufunc->ntypes; ++loop) {
    const char* types = ufunc->types + loop * ufunc->nargs;
    bool matches = types[ufunc->nin] == type_num_of(result);
    for (int i = 0; i < ufunc->nin; ++i) matches = matches && types[i] == type_num_of(operand);
    if (matches && ufunc->functions[loop])
      return {ufunc->functions[loop], ufunc->data ? const_cast<void*>(ufunc->data[loop]) : nullptr};
  }
  return {};
}

}  // namespace

codegen::NumpyLoop numpy_loop(graph::Op op, graph::DType operand, graph::DType result) {
  PyUFuncObject* ufunc = ufunc_of(op);
  if (!ufunc && is_of_scipy(op)) {  // the operator of a tensor, which nothing has run so far
    if (!capture::Ref<>::steal(PyImport_ImportModule("scipy.special"))) PyErr_Clear();
    ufunc = ufunc_of(op);
  }
  return loop_of(ufunc, operand, result);
}

namespace {

bool is_of_numpy(PyUFuncObject* ufunc) {
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy");
  return ufunc->name && module && PyModule_Check(module) &&
         PyDict_GetItemString(PyModule_GetDict(module), ufunc->name) == reinterpret_cast<PyObject*>(ufunc);
}

bool has_loop_of_ints(const PyUFuncObject* ufunc) {
  for (int loop = 0; loop < ufunc->ntypes; ++loop)
    if (PyTypeNum_ISINTEGER(ufunc->types[loop * ufunc->nargs])) return true;
  return false;
}

/// Functions whose loop over float64 gives the same bits whatever else it goes over. Not such are minimum and its like,
/// for zeros and NaN.
bool is_same_at_every_place(const PyUFuncObject* ufunc) {
  static constexpr std::string_view kNames[] = {"exp",  "exp2", "expm1",   "log",     "log2",    "log10",  "log1p",
                                                "sin",  "cos",  "tan",     "arcsin",  "arccos",  "arctan", "sinh",
                                                "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt"};
  return ufunc->name && std::find(std::begin(kNames), std::end(kNames), ufunc->name) != std::end(kNames);
}

}  // namespace

const capture::ScalarLoop* scalar_loop(PyObject* callable, int count, graph::DType dtype, bool of_ints) {
  if (!PyObject_TypeCheck(callable, &PyUFunc_Type)) return nullptr;
  auto* ufunc = reinterpret_cast<PyUFuncObject*>(callable);
  if (ufunc->nin != count || ufunc->nout != 1 || !ufunc->functions || ufunc->core_enabled || !is_of_numpy(ufunc) ||
      (of_ints && has_loop_of_ints(ufunc)))
    return nullptr;
  const char type = dtype == graph::DType::F32 ? NPY_FLOAT : NPY_DOUBLE;
  static auto* const known = new std::map<std::pair<PyObject*, char>, capture::ScalarLoop>;
  if (const auto at = known->find({callable, type}); at != known->end()) return &at->second;
  for (int loop = 0; loop < ufunc->ntypes; ++loop) {
    const char* types = ufunc->types + loop * ufunc->nargs;
    const char result = types[count];
    if (types[0] != type || types[count - 1] != type || !ufunc->functions[loop] ||
        (result != type && result != NPY_BOOL))
      continue;
    void* data = ufunc->data ? const_cast<void*>(ufunc->data[loop]) : nullptr;
    return &known
                ->emplace(std::pair(Py_NewRef(callable), type),
                          capture::ScalarLoop{ufunc->functions[loop], data, result == NPY_BOOL,
                                              is_same_at_every_place(ufunc)})
                .first->second;
  }
  return nullptr;
}

capture::ScalarLoop array_loop(const char* ufunc, graph::DType dtype) {
  PyObject* const found = PyDict_GetItemString(PyModule_GetDict(numpy_module()), ufunc);
  if (!found || !PyObject_TypeCheck(found, &PyUFunc_Type) || !is_of_numpy(reinterpret_cast<PyUFuncObject*>(found)))
    return {};
  const codegen::NumpyLoop loop = loop_of(reinterpret_cast<PyUFuncObject*>(Py_NewRef(found)), dtype, dtype);
  return {loop.function, loop.data, false, false};
}

codegen::NumpyLoop linalg_loop(const char* name, graph::DType dtype) {
  PyObject* const module = PyDict_GetItemString(PyImport_GetModuleDict(), "numpy.linalg._umath_linalg");
  PyObject* const found =
      module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), name) : nullptr;
  if (!found || !PyObject_TypeCheck(found, &PyUFunc_Type)) return {};
  return loop_of(reinterpret_cast<PyUFuncObject*>(Py_NewRef(found)), dtype, dtype);
}

capture::VectorDot vector_dot() {
  return reinterpret_cast<capture::VectorDot>(PyDataType_GetArrFuncs(PyArray_DescrFromType(NPY_DOUBLE))->dotfunc);
}

}  // namespace framejit::ext::arrays
