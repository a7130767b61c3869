// The probes: each compares NumPy with the candidates on data that tells them apart.
#include "ext/arrays/numpy_probe.h"

#include "capture/warnings.h"
#include "ext/arrays/numpy_api.h"
#include "ext/arrays/promotion.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <optional>
#include <vector>

#include "ext/arrays/errstate.h"

namespace framejit::ext::arrays {

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

/// Which cut explains NumPy's sums of T.
template <class T>
struct Cuts {
  bool whole = true, cut = true;
  bool add(const std::vector<double>& numbers, int type_num) {
    std::vector<T> x(numbers.begin(), numbers.end());
    T sum;
    if (!numpy_sum(x, type_num, sum)) return false;
    whole = whole && sum == sum_cut(x, static_cast<std::int64_t>(x.size()));
    cut = cut && sum == sum_cut(x, kOldCut);
    return true;
  }
};

constexpr std::int64_t kFew = 1003;

/// By sums of n numbers.
SumOrder find_order(std::int64_t n) {
  Cuts<float> single;
  Cuts<double> twice;
  // Around zero the two orders give different sums, of both types. Of one sign they are often equal.
  for (std::uint64_t seed : {2, 3}) {
    std::vector<double> x = rough_numbers<double>(static_cast<std::size_t>(n), seed);
    for (double& value : x) value -= 0.6;
    if (!single.add(x, NPY_FLOAT32) || !twice.add(x, NPY_FLOAT64)) return {};
  }
  if (n <= kOldCut) return {single.whole && twice.whole, 0};
  if (single.whole == single.cut || single.cut != twice.cut || single.whole != twice.whole) return {};
  return {true, single.cut ? kOldCut : 0};
}

/// A ufunc's result for arrays of n elements, which lie `step` elements apart.
template <class T>
bool numpy_apply(graph::Op op, int type_num, std::vector<std::vector<std::complex<T>>>& operands, npy_intp n,
                 npy_intp step, std::vector<std::complex<T>>& out) {
  Ref<> args = Ref<>::steal(PyTuple_New(static_cast<Py_ssize_t>(operands.size())));
  for (std::size_t i = 0; args && i < operands.size(); ++i) {
    const npy_intp stride = step * static_cast<npy_intp>(sizeof(std::complex<T>));
    PyObject* array = PyArray_New(&PyArray_Type, 1, &n, type_num, &stride, operands[i].data(), 0, 0, nullptr);
    if (!array) return false;
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), array);
  }
  Ref<> result =
      args ? Ref<>::steal(PyObject_CallObject(reinterpret_cast<PyObject*>(ufunc_of(op)), args.get())) : Ref<>();
  if (!result || !PyArray_Check(result.get())) return false;
  auto* array = reinterpret_cast<PyArrayObject*>(result.get());
  const bool real = PyArray_ITEMSIZE(array) == static_cast<npy_intp>(sizeof(T));
  out.clear();
  for (npy_intp i = 0; i < n; ++i) {
    const char* at = PyArray_BYTES(array) + i * PyArray_ITEMSIZE(array);
    out.push_back(real ? std::complex<T>(*reinterpret_cast<const T*>(at))
                       : *reinterpret_cast<const std::complex<T>*>(at));
  }
  return true;
}

template <class T>
std::complex<T> product(codegen::ComplexForms::Product form, std::complex<T> a, std::complex<T> b) {
  if (form == codegen::ComplexForms::Fused)
    return {std::fma(a.real(), b.real(), -(a.imag() * b.imag())), std::fma(a.real(), b.imag(), a.imag() * b.real())};
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
T scaled_absolute(std::complex<T> a) {
  const T x = std::fabs(a.real()), y = std::fabs(a.imag());
  const T ratio = std::min(x, y) / std::max(x, y);
  return std::sqrt(std::fma(ratio, ratio, T(1))) * std::max(x, y);
}

/// Which formulas explain NumPy's products, squares and absolute values, of vectors and of what is left at their end.
template <class T>
codegen::ComplexForms find_complex(int type_num) {
  constexpr npy_intp kMost = 53, kStep = 2;
  std::vector<std::vector<std::complex<T>>> both, one(1);
  for (std::uint64_t seed : {4, 5}) {
    const std::vector<T> parts = rough_numbers<T>(2 * kMost * kStep, seed);
    std::vector<std::complex<T>>& numbers = both.emplace_back();
    for (std::size_t i = 0; i + 1 < parts.size(); i += 2)
      numbers.emplace_back(parts[i], i % 4 ? parts[i + 1] : -parts[i + 1]);
  }
  one[0] = both[0];
  using Forms = codegen::ComplexForms;
  const auto explains = [&](graph::Op op, npy_intp n, npy_intp step, auto&& formula) {
    std::vector<std::complex<T>> found;
    if (!numpy_apply(op, type_num, op == graph::Op::Multiply ? both : one, n, step, found)) return false;
    for (npy_intp i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i * step);
      if (found[static_cast<std::size_t>(i)] !=
          formula(both[0][at], op == graph::Op::Multiply ? both[1][at] : both[0][at]))
        return false;
    }
    return true;
  };
  const auto everywhere = [&](graph::Op op, auto&& formula) {
    bool all = true;
    for (npy_intp n : {npy_intp{1}, npy_intp{3}, npy_intp{7}, kMost})
      for (npy_intp step : {npy_intp{1}, kStep}) all = all && explains(op, n, step, formula);
    return all;
  };
  Forms forms;
  for (Forms::Product form : {Forms::Rounded, Forms::Fused}) {
    const auto times = [&](std::complex<T> a, std::complex<T> b) { return product(form, a, b); };
    if (everywhere(graph::Op::Multiply, times) && everywhere(graph::Op::Square, times)) forms.product = form;
  }
  forms.scaled_absolute = everywhere(
      graph::Op::Absolute, [](std::complex<T> a, std::complex<T>) { return std::complex<T>(scaled_absolute(a)); });
  return forms;
}

bool promotion_state_is(const char* expected) {
  Ref<> getter = Ref<>::steal(PyObject_GetAttrString(numpy_module(), "_get_promotion_state"));
  Ref<> state = getter ? Ref<>::steal(PyObject_CallNoArgs(getter.get())) : Ref<>();
  capture::clear_error_of_call();
  return !state || (PyUnicode_Check(state.get()) && PyUnicode_CompareWithASCIIString(state.get(), expected) == 0);
}

/// Of np.array of three doubles, with ndmin=2.
npy_intp strides_of_new_axis() {
  npy_intp n = 3;
  Ref<> line = Ref<>::steal(PyArray_ZEROS(1, &n, NPY_DOUBLE, 0));
  Ref<> array = Ref<>::steal(PyObject_GetAttrString(numpy_module(), "array"));
  Ref<> args = Ref<>::steal(Py_BuildValue("(O)", line.get())),
        keywords = Ref<>::steal(Py_BuildValue("{s:i}", "ndmin", 2));
  Ref<> rows =
      array && args && keywords ? Ref<>::steal(PyObject_Call(array.get(), args.get(), keywords.get())) : Ref<>();
  capture::clear_error_of_call();
  return rows && PyArray_Check(rows.get()) ? PyArray_STRIDE(reinterpret_cast<PyArrayObject*>(rows.get()), 0) : 0;
}

NumpyProbe probe() {
  NumpyProbe found;
  NumpyVersion version = numpy_version();
  found.promotion_known = promotion_state_is(version.major >= 2 ? "weak" : "legacy");
  found.wide_power = version < NumpyVersion{2, 3};
  found.clip_drops_bounds = version.major >= 2;
  return found;
}

/// What a search has found. No static with an initializer: the search may let another thread come here.
template <class T>
class Found {
 public:
  template <class F>
  const T& get(F&& search) {
    if (!value_) {
      T found = search();
      capture::clear_error_of_call();
      if (!value_) value_ = found;
    }
    return *value_;
  }

 private:
  std::optional<T> value_;
};

}  // namespace

const NumpyProbe& numpy_probe() {
  static constinit Found<NumpyProbe> found;
  return found.get(probe);
}

bool has_wide_new_axes() {
  static constinit Found<bool> found;
  return found.get([] { return strides_of_new_axis() == 24; });
}

codegen::ComplexForms complex_forms(graph::DType dtype) {
  static constinit Found<codegen::ComplexForms> single, twice;
  return dtype == graph::DType::C64 ? single.get([] { return find_complex<float>(NPY_COMPLEX64); })
                                    : twice.get([] { return find_complex<double>(NPY_COMPLEX128); });
}

SumOrder sum_order(std::int64_t most) {
  if (ErrState::current().buffer_size() != kOldCut) return {};
  static constinit Found<SumOrder> few, all;
  return most <= kOldCut ? few.get([] { return find_order(kFew); })
                         : all.get([] { return find_order(kOldCut + kFew); });
}

}  // namespace framejit::ext::arrays
