// np.clip: the composition that NumPy's Python code makes of its bounds.
#include <vector>

#include "ext/arrays/numpy_probe.h"
#include "ext/frontends/numpy/ops.h"

namespace framejit::ext::frontends {

namespace {

/// NumPy 2: a Python int that no element of an integer array can lie beyond is no bound.
bool drops(const Operand& bound, DType dtype, bool low) {
  if (!arrays::numpy_probe().clip_drops_bounds || !graph::is_int(dtype)) return false;
  if (!bound.type.value || !PyLong_CheckExact(bound.type.value)) return false;
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(bound.type.value, &overflow);
  if (overflow) return (overflow < 0) == low;
  int bits = 8 * graph::size_of(dtype);
  if (graph::is_unsigned_int(dtype)) {
    if (low) return value <= 0;
    return bits < 64 && value >= (1LL << bits) - 1;
  }
  long long limit = bits == 64 ? INT64_MAX : (1LL << (bits - 1)) - 1;
  return low ? value <= -limit - 1 : value >= limit;
}

/// Known bounds that are NaN are deprecated in NumPy 1.
bool is_nan(const Operand& bound) {
  if (!bound.type.value || !graph::is_float(bound.type.dtype)) return false;
  double value = PyFloat_AsDouble(bound.type.value);
  PyErr_Clear();
  return value != value;
}

}  // namespace

Captured<Value*> clip(Session& session, Value* value, Value* low, Value* high) {
  FRAMEJIT_TRY(x, operand(session, value));
  if (!x.is_array()) return break_at(BreakId::UnsupportedArgument, "np.clip of a scalar");
  std::vector<Operand> bounds;
  bool present[2] = {false, false};
  Value* given[2] = {low, high};
  for (int i = 0; i < 2; ++i) {
    if (!given[i] || given[i]->is_none()) continue;
    FRAMEJIT_TRY(bound, operand(session, given[i]));
    if (is_nan(bound)) return break_at(BreakId::UnsupportedArgument, "np.clip with a bound of NaN");
    present[i] = !drops(bound, x.type.dtype, i == 0);
    if (present[i]) bounds.push_back(std::move(bound));
  }
  if (!present[0] && !present[1]) return break_at(BreakId::UnsupportedArgument, "np.clip without bounds");
  if (!present[0] || !present[1]) {
    const Operand both[] = {x, bounds[0]};
    return apply_ufunc(session, present[0] ? Op::Maximum : Op::Minimum, both);
  }
  // The loop has one formula for bounds of stride 0 and another one for arrays of bounds, which differ in signed zeros.
  bool scalars = bounds[0].type.scalar && bounds[1].type.scalar;
  if (!scalars && graph::is_float(x.type.dtype))
    return break_at(BreakId::UnsupportedArgument, "np.clip with arrays of bounds");
  const Operand all[] = {x, bounds[0], bounds[1]};
  return apply_ufunc(session, Op::Clip, all);
}

}  // namespace framejit::ext::frontends
