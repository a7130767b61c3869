// Parts of arrays in a compiled loop, and sums of products of two vectors.
#include "capture/loops/loop_instructions.h"

namespace framejit::capture {

using graph::DType;
using Kind = Typed::Kind;
using Op = cfg::Op;
using Type = cfg::Type;

namespace {

bool is_none(const Typed& v) { return v.kind == Kind::Object && v.value->is_none(); }

/// From, to and step of a slice, also of one that is a constant of the code; nothing if the key is no slice.
std::optional<std::vector<Typed>> parts_of(LoopTranslator& t, const Typed& key) {
  std::vector<Typed> parts;
  if (key.kind == Kind::Slice) {
    for (const Typed& part : key.items) parts.push_back(known(t, part));
    return parts;
  }
  if (key.kind != Kind::Object || !key.value->is_constant() || !PySlice_Check(key.value->object.get()))
    return std::nullopt;
  auto* slice = reinterpret_cast<PySliceObject*>(key.value->object.get());
  for (PyObject* part : {slice->start, slice->stop, slice->step}) parts.push_back(literal(t, part));
  return parts;
}

constexpr int64_t kMostStep = 1 << 20;

/// An end of a slice, from 0 to the length, or, of one that goes down, from -1 to the last index.
cfg::Id end_of(LoopTranslator& t, const Typed& v, cfg::Id length, bool down) {
  if (!v.is_integer() || v.kind == Kind::Bool || (v.kind == Kind::Scalar && v.dtype == DType::Bool))
    throw NotCompiled{"a slice whose ends are no integers", true};
  const auto less = [&](cfg::Id a, cfg::Id b) { return t.op(Op::Lt, Type::I64, a, b); };
  cfg::Id at = v.ids[0];
  if (!v.natural) {
    const cfg::Id zero = t.integer(0), lowest = t.integer(down ? -1 : 0),
                  from_end = t.op(Op::Add, Type::I64, at, length);
    const cfg::Id least = t.op(Op::Select, Type::I64, less(from_end, zero), lowest, from_end);
    at = t.op(Op::Select, Type::I64, less(at, zero), least, at);
  }
  const cfg::Id highest = down ? t.op(Op::Sub, Type::I64, length, t.integer(1)) : length;
  return t.op(Op::Select, Type::I64, less(at, length), at, highest);
}

// A function of the graph has three operands at most: the addresses of both vectors, and one number with their length
// (20 bits) and their strides in elements (22 bits each).
constexpr int kCountBits = 20, kStepBits = 22;
VectorDot vector_dot = nullptr;  // NumPy's, the same in all loops

double dot(int64_t a, int64_t b, int64_t form) {
  forget_upper_halves();
  const int64_t count = form & ((1 << kCountBits) - 1), steps = form >> kCountBits;
  double sum = 0.0;
  vector_dot(reinterpret_cast<void*>(a), (steps & ((1 << kStepBits) - 1)) * 8, reinterpret_cast<void*>(b),
             (steps >> kStepBits) * 8, &sum, count, nullptr);
  return sum;
}

/// np.dot: a vector of one element is a factor there, so that -0.0 stays what it is.
double dot_or_product(int64_t a, int64_t b, int64_t form) {
  if ((form & ((1 << kCountBits) - 1)) != 1) return dot(a, b, form);
  return *reinterpret_cast<const double*>(a) * *reinterpret_cast<const double*>(b);
}

const cfg::Function kDot = cfg::prepared({"dot", reinterpret_cast<const void*>(&dot), Type::F64, 3, Type::I64});
const cfg::Function kDotOrProduct =
    cfg::prepared({"dot_or_product", reinterpret_cast<const void*>(&dot_or_product), Type::F64, 3, Type::I64});

}  // namespace

std::optional<Cut> cut_of(LoopTranslator& t, const Typed& key, cfg::Id length) {
  const std::optional<std::vector<Typed>> parts = parts_of(t, key);
  if (!parts) return std::nullopt;
  const Typed &from = (*parts)[0], &to = (*parts)[1];
  Cut cut{cfg::kNone, cfg::kNone, t.integer(1)};
  int64_t by = 1;
  const auto is_fixed = [&](const Typed& end) { return is_none(end) || t.cfg.is_const(end.ids[0]); };
  if (parts->size() == 3 && !is_none(parts->back())) {
    const Typed& step = parts->back();
    if (step.kind != Kind::Int || !t.cfg.is_const(step.ids[0])) throw NotCompiled{"a slice with an unknown step", true};
    by = t.cfg.at(step.ids[0]).imm;
    if (by == 0 || by > kMostStep || by < -kMostStep) throw NotCompiled{"a slice with such a step", true};
  }
  const bool up = by > 0;
  cut.down = !up;
  // Downwards the slice ends in front of the array.
  const cfg::Id none = up ? t.integer(0) : t.op(Op::Sub, Type::I64, length, t.integer(1));
  cut.first = is_none(from) ? none : end_of(t, from, length, !up);
  const cfg::Id last = !is_none(to) ? end_of(t, to, length, !up) : up ? length : t.integer(-1);
  cut.is_known = is_fixed(from) || is_fixed(to);
  if (is_none(from) && by == 1) {
    cut.count = last;
    return cut;
  }
  cfg::Id count = up ? t.op(Op::Sub, Type::I64, last, cut.first) : t.op(Op::Sub, Type::I64, cut.first, last);
  if (by != 1 && by != -1) {
    const int64_t size = up ? by : -by;
    count = t.op(Op::FloorDiv, Type::I64, t.op(Op::Add, Type::I64, count, t.integer(size - 1)), t.integer(size));
  }
  const cfg::Id zero = t.integer(0), any = t.op(Op::Lt, Type::I64, zero, count);
  cut.count = t.op(Op::Select, Type::I64, any, count, zero);
  // NumPy gives an empty part the strides of the array. A whole axis is seldom empty.
  if (is_none(from) && is_none(to)) {
    t.check(any);
    cut.count = count;
    cut.step = t.integer(by);
  } else if (by != 1) cut.step = t.op(Op::Select, Type::I64, any, t.integer(by), t.integer(1));
  return cut;
}

namespace {

/// np.dot copies a vector whose elements go down.
Typed straight(LoopTranslator& t, const Typed& v) {
  if (!v.turned) return v;
  t.check(t.op(Op::Or, Type::I64, t.op(Op::Lt, Type::I64, v.ids[2], t.integer(0)),
               t.op(Op::Eq, Type::I64, v.ids[1], t.integer(0))));
  return known(t, vector_like(v, kSame, {v}));
}

}  // namespace

std::optional<Typed> dot_product(LoopTranslator& t, const Typed& a, const Typed& b, bool by_dot) {
  if (!t.request.options.vector_dot) return std::nullopt;
  const Typed* found = array_of(t, a);
  if (!found || found->ids.size() != 3 || found->dtype != DType::F64) return std::nullopt;
  const Typed left = by_dot ? straight(t, *found) : *found;
  found = array_of(t, b);
  if (!found || found->ids.size() != 3 || found->dtype != DType::F64) return std::nullopt;
  const Typed right = by_dot ? straight(t, *found) : *found;
  // There @ adds one product after the other, and np.dot multiplies copies.
  if (!by_dot && (left.turned || right.turned)) return std::nullopt;
  vector_dot = t.request.options.vector_dot;
  // Where lengths differ, or steps are none that NumPy hands on, the interpreter goes on.
  const cfg::Id count = left.ids[1];
  t.check(t.op(Op::Eq, Type::I64, count, right.ids[1]));
  t.check(t.op(Op::Below, Type::I64, count, t.integer(1 << kCountBits)));
  cfg::Id form = count;
  int at = kCountBits;
  for (const Typed* v : {&left, &right}) {
    const cfg::Id step = v->ids[2], odd = t.op(Op::Or, Type::I64, v->ids[0], step);
    t.check(t.op(Op::Eq, Type::I64, t.op(Op::And, Type::I64, odd, t.integer(7)), t.integer(0)));
    const cfg::Id elements = t.op(Op::Shr, Type::I64, step, t.integer(3));
    t.check(t.op(Op::Lt, Type::I64, t.integer(0), elements));
    t.check(t.op(Op::Lt, Type::I64, elements, t.integer(1 << kStepBits)));
    form = t.op(Op::Or, Type::I64, form, t.op(Op::Shl, Type::I64, elements, t.integer(at)));
    at += kStepBits;
  }
  cfg::Node n;
  n.op = Op::CallReads;
  n.type = Type::F64;
  n.function = by_dot ? &kDotOrProduct : &kDot;
  n.args[0] = left.ids[0];
  n.args[1] = right.ids[0];
  n.args[2] = form;
  const cfg::Id made = t.add(n);
  t.pending.push_back(made);
  return of_scalar(made, DType::F64);
}

}  // namespace framejit::capture
