// The probes: each compares NumPy with the candidates on data that tells them apart.
#include "ext/numpy_probe.h"

#include "ext/numpy_api.h"

#include <algorithm>
#include <vector>

#include "ext/errstate.h"

namespace framejit::ext {

using capture::Ref;

namespace {

constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kOldCut = 8192;

/// NumPy's pairwise sum: eight accumulators over blocks of 128, halves above.
template <class T>
T pairwise(const T* x, std::int64_t n) {
  if (n < 8) {
    T sum = -T(0);
    for (std::int64_t i = 0; i < n; ++i) sum += x[i];
    return sum;
  }
  if (n > kBlock) {
    std::int64_t half = n / 2 - (n / 2) % 8;
    T left = pairwise(x, half);
    return left + pairwise(x + half, n - half);
  }
  T lane[8];
  for (int k = 0; k < 8; ++k) lane[k] = x[k];
  std::int64_t i = 8;
  for (; i + 8 <= n; i += 8)
    for (int k = 0; k < 8; ++k) lane[k] += x[i + k];
  T sum = ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
  for (; i < n; ++i) sum += x[i];
  return sum;
}

template <class T>
T sum_cut(const std::vector<T>& x, std::int64_t cut) {
  std::int64_t n = static_cast<std::int64_t>(x.size());
  T sum = 0;
  for (std::int64_t at = 0; at < n; at += cut) sum += pairwise(x.data() + at, std::min(cut, n - at));
  return sum;
}

/// Numbers of one size whose sums round at every step, from a linear congruence.
template <class T>
std::vector<T> rough_numbers(std::size_t n, std::uint64_t seed) {
  std::vector<T> x(n);
  for (T& value : x) {
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    value = static_cast<T>(static_cast<double>(seed >> 11) * 0x1p-53 + 0.1);
  }
  return x;
}

template <class T>
bool numpy_sum(std::vector<T>& x, int type_num, T& sum) {
  npy_intp n = static_cast<npy_intp>(x.size());
  Ref<> array = Ref<>::steal(PyArray_SimpleNewFromData(1, &n, type_num, x.data()));
  if (!array) return false;
  Ref<> result = Ref<>::steal(PyObject_CallMethod(array.get(), "sum", nullptr));
  Ref<> number = result ? Ref<>::steal(PyNumber_Float(result.get())) : Ref<>();
  if (!number) return false;
  sum = static_cast<T>(PyFloat_AS_DOUBLE(number.get()));
  return true;
}

/// The cut that explains NumPy's sums of T on several seeds, or -1.
template <class T>
std::int64_t find_cut(int type_num) {
  bool whole = true, cut = true;
  for (std::uint64_t seed : {1, 2, 3}) {
    std::vector<T> x = rough_numbers<T>(2 * kOldCut + 1003, seed);
    T sum;
    if (!numpy_sum(x, type_num, sum)) return -1;
    whole = whole && sum == sum_cut(x, static_cast<std::int64_t>(x.size()));
    cut = cut && sum == sum_cut(x, kOldCut);
  }
  if (whole == cut) return -1;
  return cut ? kOldCut : 0;
}

bool promotion_state_is(const char* expected) {
  Ref<> getter = Ref<>::steal(PyObject_GetAttrString(numpy_module(), "_get_promotion_state"));
  Ref<> state = getter ? Ref<>::steal(PyObject_CallNoArgs(getter.get())) : Ref<>();
  PyErr_Clear();
  return !state || (PyUnicode_Check(state.get()) && PyUnicode_CompareWithASCIIString(state.get(), expected) == 0);
}

/// Of np.array of three doubles, with ndmin=2.
npy_intp strides_of_new_axis() {
  npy_intp n = 3;
  Ref<> line = Ref<>::steal(PyArray_ZEROS(1, &n, NPY_DOUBLE, 0));
  Ref<> array = Ref<>::steal(PyObject_GetAttrString(numpy_module(), "array"));
  Ref<> args = Ref<>::steal(Py_BuildValue("(O)", line.get())), keywords = Ref<>::steal(Py_BuildValue("{s:i}", "ndmin", 2));
  Ref<> rows = array && args && keywords ? Ref<>::steal(PyObject_Call(array.get(), args.get(), keywords.get())) : Ref<>();
  PyErr_Clear();
  return rows && PyArray_Check(rows.get()) ? PyArray_STRIDE(reinterpret_cast<PyArrayObject*>(rows.get()), 0) : 0;
}

NumpyProbe probe() {
  NumpyProbe found;
  NumpyVersion version = numpy_version();
  found.promotion_known = promotion_state_is(version.major >= 2 ? "weak" : "legacy");
  found.wide_power = version < NumpyVersion{2, 3};
  found.clip_drops_bounds = version.major >= 2;
  found.wide_new_axes = strides_of_new_axis() == 24;
  std::int64_t single = find_cut<float>(NPY_FLOAT32), twice = find_cut<double>(NPY_FLOAT64);
  found.sums_known = single >= 0 && single == twice;
  if (found.sums_known) found.pairwise_cut = single;
  PyErr_Clear();
  return found;
}

}  // namespace

const NumpyProbe& numpy_probe() {
  static NumpyProbe found;
  static bool done = false;
  if (!done) {
    found = probe();
    done = ErrState::current().buffer_size() == kOldCut;  // else sums were cut elsewhere: look again later
  }
  return found;
}

bool sums_compilable() { return numpy_probe().sums_known && ErrState::current().buffer_size() == kOldCut; }

}  // namespace framejit::ext
