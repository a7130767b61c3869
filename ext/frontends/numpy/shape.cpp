// Functions that look at the same elements in another shape, and the attributes of arrays.
#include <algorithm>
#include <numeric>

#include "capture/python_names.h"
#include "ext/frontends/numpy/call.h"
#include "ext/frontends/numpy/index.h"
#include "ext/frontends/numpy/library_call_capture.h"
#include "graph/layout.h"
#include "graph/support/check.h"

namespace framejit::ext::frontends {

using arrays::descr_of;
using arrays::numpy_version;
using graph::Dim;
using graph::Dims;
using graph::Relation;

namespace {

/// A view that is an object of its own, also where it shows the same elements in the same places.
Value* new_view(Session& session, ValueId of, ValueId view) {
  if (view == of) {
    const graph::Type type = session.graph().type(of);
    view = session.builder().view(of, type.shape, type.strides, 0);
  }
  return fresh_array(session, view);
}

/// Has it an axis of length 1 with a stride that a packed array would not have? With an unknown length NumPy makes its
/// strides anew where the shape stays the same, and without one it does not.
bool has_odd_axis(const graph::Type& type) {
  const Dims packed = graph::c_strides(type.dtype, type.shape);
  for (std::size_t i = 0; i < packed.size(); ++i)
    if (type.shape[i] == Dim(1) && !(type.strides[i] == packed[i])) return true;
  return false;
}

Captured<Dims> resolve_unknown(Session& session, const Dim& size, Dims shape) {
  graph::ShapeEnv& shapes = session.graph().shapes();
  int unknown = -1;
  Dim known = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shapes.holds(Relation::Le, 0, shape[i])) {
      known = known * shape[i];
      continue;
    }
    if (unknown >= 0 || !shapes.equal(shape[i], -1))
      return break_at(BreakId::WouldRaise, "can only specify one unknown dimension");
    unknown = static_cast<int>(i);
  }
  if (unknown >= 0) {
    if (shapes.equal(known, 0)) return break_at(BreakId::WouldRaise, "cannot reshape an empty array");
    shape[static_cast<std::size_t>(unknown)] = settle(session, floordiv(size, known));
  }
  if (!shapes.equal(product(shape), size)) return break_at(BreakId::WouldRaise, "cannot reshape array");
  return shape;
}

/// An array to be seen in another shape. The strides of empty arrays differ between ways and versions.
Captured<Value*> whole_array(Session& session, Value* array) {
  FRAMEJIT_TRY(x, array_argument(session, array));
  if (session.graph().shapes().equal(session.graph().type(x->id()).size(), 0))
    return break_at(BreakId::UnsupportedArgument, "an empty array in another shape");
  return x;
}

Captured<Value*> reshaped(Session& session, Value* array, Dims shape) {
  FRAMEJIT_TRY(x, whole_array(session, array));
  const graph::Type type = session.graph().type(x->id());
  const Dims given = shape;
  FRAMEJIT_TRY(full, resolve_unknown(session, type.size(), std::move(shape)));
  // With -1 NumPy makes strides anew, also where the shape stays: along axes of length 1 they are those of their
  // neighbours.
  const bool has_one = std::find(type.shape.begin(), type.shape.end(), Dim(1)) != type.shape.end();
  if (full != given && full == type.shape &&
      (has_odd_axis(type) || (has_one && !graph::is_c_contiguous(session.graph().shapes(), type))))
    return break_at(BreakId::UnsupportedArgument, "a reshape of axes of length 1");
  FRAMEJIT_TRY(id, built(session.builder().reshape(x->id(), std::move(full))));
  return new_view(session, x->id(), id);
}

/// The array with its axes reversed: what is in Fortran order there is in C order here.
ValueId reversed_axes(Session& session, ValueId x) {
  std::vector<int> axes(static_cast<std::size_t>(session.graph().type(x).rank()));
  std::iota(axes.rbegin(), axes.rend(), 0);
  return session.builder().transpose(x, axes);
}

/// reshape(order='F') of what need not be copied: a copy's base would tell that it was made in another shape.
Captured<Value*> reshaped_by_columns(Session& session, Value* array, Dims shape) {
  FRAMEJIT_TRY(x, whole_array(session, array));
  const graph::Type type = session.graph().type(x->id());
  if (!graph::is_f_contiguous(session.graph().shapes(), type) || has_odd_axis(type))
    return break_at(BreakId::UnsupportedArgument, "reshape(order='F') that copies");
  FRAMEJIT_TRY(full, resolve_unknown(session, type.size(), std::move(shape)));
  std::reverse(full.begin(), full.end());
  FRAMEJIT_TRY(id, built(session.builder().reshape(reversed_axes(session, x->id()), std::move(full))));
  return new_view(session, x->id(), reversed_axes(session, id));
}

Captured<Value*> call_reshape(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "shape", "order"}, 2));
  FRAMEJIT_TRY(order, order_argument(v[2], 'C', "CF"));
  FRAMEJIT_TRY(shape, dims_argument(call.session, v[1]));
  if (order == 'F') return reshaped_by_columns(call.session, v[0], std::move(shape));
  return reshaped(call.session, v[0], std::move(shape));
}

/// x.reshape(2, 3), x.reshape((2, 3)).
Captured<Value*> method_reshape(const Call& call) {
  if (call.args.size() < 2) return break_at(BreakId::UnsupportedArgument, "reshape() without a shape");
  char order = 'C';
  if (!call.keywords.empty()) {
    FRAMEJIT_TRY(given, call.keywords.size() == 1 && call.keywords[0].first == "order"
                            ? order_argument(call.keywords[0].second, 'C', "CF")
                            : Captured<char>(break_at(BreakId::UnsupportedArgument,
                                                      "reshape() with a keyword other than order=")));
    order = given;
  }
  Dims shape;
  if (call.args.size() == 2) {
    FRAMEJIT_TRY(all, dims_argument(call.session, call.args[1]));
    shape = std::move(all);
  } else {
    for (Value* value : call.args.subspan(1)) {
      std::optional<Dim> dim = as_dim(*value);
      if (!dim) return break_at(BreakId::UnsupportedArgument, "a dimension of type " + type_name(*value));
      shape.push_back(settle(call.session, *dim));
    }
  }
  return order == 'F' ? reshaped_by_columns(call.session, call.args[0], std::move(shape))
                      : reshaped(call.session, call.args[0], std::move(shape));
}

Captured<Value*> flat(const Call& call, bool view_if_possible) {
  FRAMEJIT_TRY(v, bind(call, {"a", "order"}, 1));
  Session& session = call.session;
  FRAMEJIT_TRY(order, order_argument(v[1], 'C', "CFAK"));
  FRAMEJIT_TRY(x, whole_array(session, v[0]));
  graph::ShapeEnv& shapes = session.graph().shapes();
  if (order != 'C') {
    const bool c = graph::is_c_contiguous(shapes, session.graph().type(x->id())),
               f = graph::is_f_contiguous(shapes, session.graph().type(x->id()));
    if (order == 'K' && !c && !f)
      return break_at(BreakId::UnsupportedArgument, "the order of memory of an array that is not contiguous");
    if (order == 'F' || (f && !c)) x = fresh_array(session, reversed_axes(session, x->id()));
  }
  Dim size = settle(session, session.graph().type(x->id()).size());
  if (session.graph().type(x->id()).rank() == 1 && has_odd_axis(session.graph().type(x->id())))
    return break_at(BreakId::UnsupportedArgument, "a flat view of one element");
  // What is not contiguous is copied first and owns its memory; the copy is the one-dimensional array itself.
  bool view = view_if_possible && graph::is_c_contiguous(shapes, session.graph().type(x->id()));
  FRAMEJIT_TRY(line, built(session.builder().reshape(x->id(), Dims{size})));
  if (view) return new_view(session, x->id(), line);
  return fresh_array(session, session.builder().copy(line, 'C'));
}

Captured<Value*> call_ravel(const Call& call) { return flat(call, true); }
Captured<Value*> method_flatten(const Call& call) { return flat(call, false); }

Captured<Value*> transposed(Session& session, Value* array, std::span<Value* const> axes) {
  FRAMEJIT_TRY(x, array_argument(session, array));
  int rank = session.graph().type(x->id()).rank();
  std::vector<int> permutation;
  if (axes.empty()) {
    for (int i = rank; i-- > 0;) permutation.push_back(i);
  } else {
    if (static_cast<int>(axes.size()) != rank) return break_at(BreakId::WouldRaise, "axes don't match array");
    for (Value* value : axes) {
      FRAMEJIT_TRY(axis, axis_argument(session, value, rank));
      if (std::count(permutation.begin(), permutation.end(), axis))
        return break_at(BreakId::WouldRaise, "repeated axis in transpose");
      permutation.push_back(axis);
    }
  }
  return new_view(session, x->id(), session.builder().transpose(x->id(), permutation));
}

/// The items of a tuple or list argument; the argument itself where it is none.
std::vector<Value*> spread(Session& session, Value* value) {
  if (value->kind == ValueKind::Tuple || value->kind == ValueKind::List) return value->items;
  std::vector<Value*> items;
  if (value->is_constant() && value->object && PyTuple_CheckExact(value->object.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value->object.get()); ++i)
      items.push_back(session.values().constant(PyTuple_GET_ITEM(value->object.get(), i)));
    return items;
  }
  return {value};
}

Captured<Value*> call_transpose(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axes"}, 1));
  std::vector<Value*> axes;
  if (!absent(v[1])) axes = spread(call.session, v[1]);
  if (!absent(v[1]) && axes.empty()) return break_at(BreakId::UnsupportedArgument, "transpose with no axes");
  return transposed(call.session, v[0], axes);
}

/// x.transpose(), x.transpose(1, 0), x.transpose((1, 0)).
Captured<Value*> method_transpose(const Call& call) {
  if (!call.keywords.empty()) return break_at(BreakId::UnsupportedArgument, "transpose() with a keyword");
  std::vector<Value*> axes(call.args.begin() + 1, call.args.end());
  if (axes.size() == 1 && !axes[0]->is_none()) {
    axes = spread(call.session, axes[0]);
    if (axes.empty()) return break_at(BreakId::UnsupportedArgument, "transpose with no axes");
  } else if (axes.size() == 1) {
    axes.clear();
  }
  return transposed(call.session, call.args[0], axes);
}

Captured<Value*> call_swapaxes(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis1", "axis2"}, 3));
  FRAMEJIT_TRY(x, array_argument(call.session, v[0]));
  int rank = call.session.graph().type(x->id()).rank();
  FRAMEJIT_TRY(first, axis_argument(call.session, v[1], rank));
  FRAMEJIT_TRY(second, axis_argument(call.session, v[2], rank));
  std::vector<int> permutation(static_cast<std::size_t>(rank));
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[static_cast<std::size_t>(first)], permutation[static_cast<std::size_t>(second)]);
  return new_view(call.session, x->id(), call.session.builder().transpose(x->id(), permutation));
}

Captured<Value*> call_broadcast_to(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"array", "shape", "subok"}, 2));
  FRAMEJIT_TRY(subok, flag_argument(v[2], false));  // there are no subclasses here
  (void)subok;
  FRAMEJIT_TRY(given, operand(call.session, v[0]));
  Value* x = given.value;
  if (!given.is_array()) {
    FRAMEJIT_TRY(id, convert(call.session, given, given.type.dtype));
    x = fresh_array(call.session, call.session.builder().copy(id, 'C'));
  }
  FRAMEJIT_TRY(shape, dims_argument(call.session, v[1]));
  FRAMEJIT_TRY(id, built(call.session.builder().broadcast_to(x->id(), std::move(shape))));
  call.session.inputs().set_writing(id, capture::Writing::Refused);
  return fresh_array(call.session, id);
}

/// Arrays that have the common shape are given back themselves; the views of others warn when they are written.
Captured<Value*> call_broadcast_arrays(const Call& call) {
  Session& session = call.session;
  if (!call.keywords.empty()) return break_at(BreakId::UnsupportedArgument, "np.broadcast_arrays with subok=");
  graph::ShapeEnv& shapes = session.graph().shapes();
  std::vector<Value*> arrays;
  Dims common;
  for (Value* value : call.args) {
    FRAMEJIT_TRY(x, array_argument(session, value));
    arrays.push_back(x);
    const Dims own = session.graph().type(x->id()).shape;
    if (own.size() > common.size()) common.insert(common.begin(), own.size() - common.size(), Dim(1));
    for (std::size_t i = 0; i < own.size(); ++i) {
      Dim& length = common[common.size() - own.size() + i];
      if (shapes.equal(length, 1)) length = own[i];
      else if (!shapes.equal(own[i], 1) && !shapes.equal(own[i], length))
        return break_at(BreakId::WouldRaise, "shape mismatch: objects cannot be broadcast to a single shape");
    }
  }
  std::vector<bool> same;
  for (Value* x : arrays) {
    const Dims own = session.graph().type(x->id()).shape;
    same.push_back(own.size() == common.size());
    for (std::size_t i = 0; same.back() && i < own.size(); ++i) same.back() = shapes.equal(own[i], common[i]);
  }
  const auto count = std::count(same.begin(), same.end(), true);
  if (numpy_version().major < 2 && count != 0 && count != std::ssize(same))
    return break_at(BreakId::UnsupportedArgument,
                    "np.broadcast_arrays, which gives views of all arrays if one has another shape");
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    Value*& x = arrays[k];
    if (same[k]) continue;
    FRAMEJIT_TRY(id, built(session.builder().broadcast_to(x->id(), common)));
    session.inputs().set_writing(id, session.inputs().writing(x->id()) == capture::Writing::Allowed
                                         ? capture::Writing::Warns
                                         : capture::Writing::Refused);
    x = fresh_array(session, id);
  }
  if (numpy_version().major >= 2) return session.values().tuple(std::move(arrays));
  Value* list = session.values().make(ValueKind::List);
  list->items = std::move(arrays);
  return list;
}

/// np.lib.stride_tricks.as_strided() within the array's own elements. The base of what NumPy gives is an object of its
/// own, so that no region ends while such a view lives.
Captured<Value*> call_as_strided(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"x", "shape", "strides", "subok", "writeable"}, 1));
  Session& session = call.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  FRAMEJIT_TRY(x, array_argument(session, v[0]));
  for (std::size_t flag : {3u, 4u}) {
    FRAMEJIT_REQUIRE(flag_argument(v[flag], false));
  }
  const graph::Type type = session.graph().type(x->id());
  Dims shape = type.shape, strides = type.strides;
  if (!absent(v[1])) {
    FRAMEJIT_TRY(given, dims_argument(session, v[1]));
    shape = std::move(given);
  }
  if (!absent(v[2])) {
    FRAMEJIT_TRY(given, dims_argument(session, v[2]));
    strides = std::move(given);
  }
  if (shape.size() != strides.size()) return break_at(BreakId::WouldRaise, "mismatch in length of strides and shape");
  Dim reach = 0, last = 0;
  auto inside = [&](const Dim& length, const Dim& stride, Dim& end) {
    end = end + (length - Dim(1)) * stride;
    return shapes.holds(Relation::Lt, 0, length) && shapes.holds(Relation::Le, 0, stride);
  };
  bool known = true;
  for (std::size_t i = 0; i < type.shape.size(); ++i) known = known && inside(type.shape[i], type.strides[i], last);
  for (std::size_t i = 0; i < shape.size(); ++i) known = known && inside(shape[i], strides[i], reach);
  if (!known || !shapes.holds(Relation::Le, reach, last))
    return break_at(BreakId::UnsupportedArgument, "as_strided() beyond the elements of the array");
  const ValueId id = session.builder().view(x->id(), std::move(shape), std::move(strides), 0);
  session.inputs().set_writing(id, capture::Writing::Foreign);
  return fresh_array(session, id);
}

/// framejit._traced._library_functions.head(count, *arrays): the first `count` of the items of each array, as fresh
/// arrays.
Captured<Value*> call_head(const Call& call) {
  Session& session = call.session;
  FRAMEJIT_CHECK(call.args.size() > 1 && call.args[0]->is_array() && call.args[0]->wrap() == Wrap::PyInt,
                 "head() of what is not measured");
  const Dim count = session.builder().measure(call.args[0]->id(), session.graph().type(call.args[1]->id()).shape[0]);
  std::vector<Value*> heads;
  for (Value* array : call.args.subspan(1)) {
    const ValueId view = session.builder().slice(array->id(), 0, 0, count, 1);
    heads.push_back(fresh_array(session, session.builder().copy(view, 'C')));
  }
  return session.values().tuple(std::move(heads));
}

/// x.view(), x.view(dtype) of elements of the same size.
Captured<Value*> method_view(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "dtype"}, 1));
  Session& session = call.session;
  FRAMEJIT_TRY(x, array_argument(session, v[0]));
  FRAMEJIT_TRY(dtype, dtype_argument(v[1]));
  const DType from = session.graph().type(x->id()).dtype, to = dtype.value_or(from);
  if (to == from) return new_view(session, x->id(), x->id());
  if (graph::size_of(to) != graph::size_of(from) || to == DType::Bool)
    return break_at(BreakId::UnsupportedArgument, "view() of elements of another size");
  return fresh_array(session, session.builder().reinterpret(x->id(), to));
}

Captured<Value*> method_diagonal(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "offset", "axis1", "axis2"}, 1));
  Session& session = call.session;
  graph::ShapeEnv& shapes = session.graph().shapes();
  FRAMEJIT_TRY(x, array_argument(session, v[0]));
  const graph::Type type = session.graph().type(x->id());
  if (type.rank() < 2) return break_at(BreakId::WouldRaise, "diag requires an array of at least two dimensions");
  int64_t offset = 0;
  int axes[] = {0, 1};
  if (v[1]) {
    FRAMEJIT_TRY(given, int_argument(session, v[1]));
    offset = given;
  }
  for (std::size_t i : {0u, 1u}) {
    if (!v[2 + i]) continue;
    FRAMEJIT_TRY(axis, axis_argument(session, v[2 + i], type.rank()));
    axes[i] = axis;
  }
  if (axes[0] == axes[1]) return break_at(BreakId::WouldRaise, "axis1 and axis2 cannot be the same");
  const auto rows = static_cast<std::size_t>(axes[0]), columns = static_cast<std::size_t>(axes[1]);
  const Dim height = type.shape[rows] - (offset < 0 ? Dim(0) - offset : Dim(0)),
            width = type.shape[columns] - Dim(offset > 0 ? offset : 0);
  const Dim length = settle(session, shapes.holds(Relation::Lt, width, height) ? width : height);
  if (!shapes.holds(Relation::Lt, 0, length))
    return break_at(BreakId::UnsupportedArgument, "a diagonal without elements");
  Dims shape, strides;
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    if (i != rows && i != columns) {
      shape.push_back(type.shape[i]);
      strides.push_back(type.strides[i]);
    }
  shape.push_back(length);
  strides.push_back(type.strides[rows] + type.strides[columns]);
  const Dim start = offset < 0 ? (Dim(0) - offset) * type.strides[rows] : Dim(offset) * type.strides[columns];
  const ValueId id = session.builder().view(x->id(), std::move(shape), std::move(strides), start);
  session.inputs().set_writing(id, capture::Writing::Refused);
  return fresh_array(session, id);
}

/// Of real arrays: themselves.
Captured<Value*> method_conj(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self"}, 1));
  if (graph::is_complex(call.session.graph().type(v[0]->id()).dtype))
    return apply_ufunc(call.session, Op::Conjugate, std::span<Value* const>(v));
  return array_argument(call.session, v[0]);
}

/// np.expand_dims reshapes: unlike x[:, None], which has a stride of 0.
Captured<Value*> call_expand_dims(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis"}, 2));
  Session& session = call.session;
  FRAMEJIT_TRY(x, whole_array(session, v[0]));
  const Dims old = session.graph().type(x->id()).shape;
  std::vector<Value*> given = spread(session, v[1]);  // a list will do
  int rank = static_cast<int>(old.size() + given.size());
  FRAMEJIT_TRY(axes, axes_argument(session, session.values().tuple(std::move(given)), rank));
  if (axes.empty()) return break_at(BreakId::UnsupportedArgument, "np.expand_dims with no axis");
  Dims shape;
  std::size_t from = 0;
  for (int i = 0; i < rank; ++i) {
    bool added = std::binary_search(axes.begin(), axes.end(), i);
    shape.push_back(added ? Dim(1) : old[from++]);
  }
  FRAMEJIT_TRY(id, built(session.builder().reshape(x->id(), std::move(shape))));
  return new_view(session, x->id(), id);
}

Captured<Value*> call_squeeze(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "axis"}, 1));
  Session& session = call.session;
  FRAMEJIT_TRY(x, array_argument(session, v[0]));
  const graph::Type type = session.graph().type(x->id());
  std::vector<int64_t> axes;
  if (absent(v[1])) {
    for (int i = 0; i < type.rank(); ++i)
      if (session.graph().shapes().equal(type.shape[static_cast<std::size_t>(i)], 1)) axes.push_back(i);
    if (axes.empty()) return x;
  } else {
    FRAMEJIT_TRY(given, axes_argument(session, v[1], type.rank()));
    axes = std::move(given);
    if (axes.empty()) return break_at(BreakId::UnsupportedArgument, "squeeze with no axes");
  }
  Dims shape, strides;
  for (int i = 0; i < type.rank(); ++i) {
    std::size_t at = static_cast<std::size_t>(i);
    if (!std::binary_search(axes.begin(), axes.end(), i)) {
      shape.push_back(type.shape[at]);
      strides.push_back(type.strides[at]);
    } else if (!session.graph().shapes().equal(type.shape[at], 1)) {
      return break_at(BreakId::WouldRaise, "cannot select an axis to squeeze out which has size not equal to one");
    }
  }
  return fresh_array(session, session.builder().view(x->id(), std::move(shape), std::move(strides), 0));
}

/// Arrays in C order, one behind the other; what differs in layout is NumPy's.
Captured<Value*> call_concatenate(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/arrays", "axis", "out", "dtype", "casting"}, 1));
  Session& session = call.session;
  graph::Graph& graph = session.graph();
  FRAMEJIT_TRY(dtype, dtype_argument(v[3]));
  const bool plain = absent(v[2]) && !(v[1] && v[1]->is_none());
  if (!plain) return break_at(BreakId::UnsupportedArgument, "np.concatenate with out= or axis=None");
  const bool same_kind = absent(v[4]) || (v[4]->is_constant() && PyUnicode_CheckExact(v[4]->object.get()) &&
                                          PyUnicode_CompareWithASCIIString(v[4]->object.get(), "same_kind") == 0);
  if (!same_kind) return break_at(BreakId::UnsupportedArgument, "np.concatenate with casting=");
  std::vector<arrays::OperandType> types;
  std::vector<Operand> arrays;
  if (v[0]->is_array()) return break_at(BreakId::UnsupportedArgument, "np.concatenate of the rows of an array");
  for (Value* item : spread(session, v[0])) {
    FRAMEJIT_TRY(one, operand(session, item));
    if (!one.is_array()) return break_at(BreakId::UnsupportedArgument, "np.concatenate of values that are not arrays");
    if (graph.type(one.value->id()).rank() == 0) return break_at(BreakId::WouldRaise, "np.concatenate of 0-d arrays");
    types.push_back(one.type);
    arrays.push_back(std::move(one));
  }
  if (arrays.empty()) return break_at(BreakId::WouldRaise, "need at least one array to concatenate");
  Dims shape = graph.type(arrays[0].id).shape;
  const auto rank = static_cast<int>(shape.size());
  if (rank == 0) return break_at(BreakId::WouldRaise, "zero-dimensional arrays cannot be concatenated");
  int axis = 0;
  if (v[1]) {
    FRAMEJIT_TRY(given, axis_argument(session, v[1], rank));
    axis = given;
  }
  const auto along = static_cast<std::size_t>(axis);
  Dim length = 0;
  for (const Operand& array : arrays) {
    const graph::Type type = graph.type(array.id);
    if (type.rank() != rank) return break_at(BreakId::WouldRaise, "arrays of different ranks");
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (i != along && !graph.shapes().equal(shape[i], type.shape[i]))
        return break_at(BreakId::WouldRaise, "arrays that differ in shape");
    // An empty array is contiguous in all orders, but its strides count.
    const bool is_empty =
        std::any_of(type.shape.begin(), type.shape.end(), [&](const Dim& n) { return graph.shapes().equal(n, 0); });
    if (rank > 1 && type.strides != graph::c_strides(type.dtype, type.shape) &&
        (is_empty || !graph::is_c_contiguous(graph.shapes(), type)))
      return library_call(session, call.callable, call.args, call.keywords);
    length = length + type.shape[along];
  }
  shape[along] = settle(session, length);
  DType to = DType::F64;
  if (dtype) {
    to = *dtype;
    for (const arrays::OperandType& type : types)
      if (!PyArray_CanCastTypeTo(descr_of(type.dtype), descr_of(to), NPY_SAME_KIND_CASTING))
        return break_at(BreakId::UnsupportedArgument, "np.concatenate with such a dtype=");
  } else {
    FRAMEJIT_TRY(common, arrays::result_type(types));
    to = common;
  }
  const ValueId result = session.builder().empty(to, shape);
  Dim at = 0;
  for (const Operand& array : arrays) {
    const Dim part = graph.type(array.id).shape[along];
    FRAMEJIT_TRY(elements, cast(session, array.id, to));
    FRAMEJIT_REQUIRE(write(session, session.builder().slice(result, axis, at, part, 1), elements));
    at = at + part;
  }
  return fresh_array(session, result);
}

/// np.repeat by one number: a broadcast view that is written to memory of its own. Numbers for each element are
/// NumPy's.
Captured<Value*> call_repeat(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"a", "repeats", "axis"}, 2));
  Session& session = call.session;
  graph::GraphBuilder& builder = session.builder();
  const std::optional<Dim> count = v[1]->is_array() ? std::nullopt : as_dim(*v[1]);
  const bool is_number = count && count->is_const() && count->value() > 0;
  const bool is_array =
      v[0]->is_array() && v[0]->wrap() == Wrap::NdArray && session.graph().type(v[0]->id()).rank() > 0;
  if (!is_number || !is_array) return library_call(session, call.callable, call.args, call.keywords);
  FRAMEJIT_TRY(x, array_argument(session, v[0]));
  ValueId elements = x->id();
  int axis = 0;
  if (absent(v[2])) {
    FRAMEJIT_TRY(line, built(builder.reshape(elements, {session.graph().type(elements).size()})));
    elements = line;
  } else {
    FRAMEJIT_TRY(given, axis_argument(session, v[2], session.graph().type(elements).rank()));
    axis = given;
  }
  const graph::Type type = session.graph().type(elements);
  Dims shape = type.shape, apart = type.shape;
  const auto along = static_cast<std::size_t>(axis);
  shape[along] = settle(session, shape[along] * *count);
  apart.insert(apart.begin() + axis + 1, *count);
  if (type.shape[along] == Dim(1)) apart = shape;
  else elements = builder.expand_dims(elements, axis + 1);
  const ValueId result = builder.empty(type.dtype, std::move(shape));
  FRAMEJIT_TRY(place, built(builder.reshape(result, apart)));
  FRAMEJIT_TRY(repeated, built(builder.broadcast_to(elements, std::move(apart))));
  FRAMEJIT_REQUIRE(write(session, place, repeated));
  return fresh_array(session, result);
}

/// The method has no name for the interpreter's function, which is called in its place.
Captured<Value*> method_repeat(const Call& call) {
  static PyObject* const repeat = PyObject_GetAttrString(arrays::numpy_module(), "repeat");  // does the same
  Call same = call;
  same.callable = repeat;
  return call_repeat(same);
}

Captured<Value*> method_clip(const Call& call) {
  FRAMEJIT_TRY(v, bind(call, {"/self", "min", "max", "out"}, 1));
  if (!absent(v[3]) && numpy_version().major < 2)
    return break_at(BreakId::UnsupportedArgument, "clip() with out=");  // as np.clip
  FRAMEJIT_TRY(result, clip(call.session, v[0], v[1], v[2]));
  if (absent(v[3])) return result;
  FRAMEJIT_TRY(out, output_argument(call.session, v[3]));
  FRAMEJIT_REQUIRE(store_result(call.session, out->id(), result->id()));
  return out;
}

constexpr FunctionRow kFunctions[] = {
    {"reshape", call_reshape},
    {"ravel", call_ravel},
    {"transpose", call_transpose},
    {"swapaxes", call_swapaxes},
    {"broadcast_to", call_broadcast_to},
    {"expand_dims", call_expand_dims},
    {"squeeze", call_squeeze},
    {"concatenate", call_concatenate, Op::Param, true},
    {"repeat", call_repeat},
    {"broadcast_arrays", call_broadcast_arrays},
    {"as_strided", call_as_strided, Op::Param, false, "numpy.lib.stride_tricks"},
    {"head", call_head, Op::Param, false, python_names::kLibraryFunctions},
};

constexpr FunctionRow kMethods[] = {
    {"view", method_view},       {"diagonal", method_diagonal},   {"conj", method_conj},
    {"conjugate", method_conj},  {"reshape", method_reshape},     {"ravel", call_ravel},
    {"flatten", method_flatten}, {"transpose", method_transpose}, {"swapaxes", call_swapaxes},
    {"squeeze", call_squeeze},   {"clip", method_clip},           {"repeat", method_repeat},
};

// Attributes.

Value* shape_tuple(Session& session, const graph::Type& type) {
  std::vector<Value*> items;
  for (const Dim& dim : type.shape) items.push_back(session.values().integer(dim));
  return session.values().tuple(std::move(items));
}

/// x.flags, of which only the order of the elements is known.
Value* flags(Session& session, const graph::Type& type) {
  static PyObject* const type_of_flags = PyObject_GetAttrString(arrays::umath_module(), "flagsobj");
  graph::ShapeEnv& shapes = session.graph().shapes();
  const bool empty = shapes.equal(type.size(), 0);
  const bool c = empty || graph::is_c_contiguous(shapes, type), f = empty || graph::is_f_contiguous(shapes, type);
  Value* made = session.values().make(ValueKind::Object);
  made->object = Ref<>::share(type_of_flags);
  made->transient = true;
  auto set = [&](const char* name, bool value) {
    made->attributes().append(name, session.values().constant(value ? Py_True : Py_False));
  };
  for (const char* name : {"c_contiguous", "contiguous"}) set(name, c);
  for (const char* name : {"f_contiguous", "fortran"}) set(name, f);
  set("fnc", f && !c);
  set("forc", c || f);
  return made;
}

}  // namespace

Value* complex_part(Session& session, Value* x, int64_t which) {
  const DType dtype = graph::part_of(session.graph().type(x->id()).dtype);
  const ValueId view = session.builder().reinterpret(x->id(), dtype, which * graph::size_of(dtype));
  if (x->wrap() == Wrap::NumpyScalar)
    return session.values().array(session.builder().copy(view, 'C'), Wrap::NumpyScalar);
  return fresh_array(session, view);
}

namespace {

struct Attribute {
  std::string_view name;
  Captured<Value*> (*read)(Session&, Value*, const graph::Type&);
};

constexpr Attribute kAttributes[] = {
    {"shape", [](Session& s, Value*, const graph::Type& t) -> Captured<Value*> { return shape_tuple(s, t); }},
    {"ndim", [](Session& s, Value*, const graph::Type& t) -> Captured<Value*> { return s.values().integer(t.rank()); }},
    {"size", [](Session& s, Value*, const graph::Type& t) -> Captured<Value*> { return s.values().integer(t.size()); }},
    {"strides",
     [](Session& s, Value* x, const graph::Type& t) -> Captured<Value*> {
       if (x->wrap() != Wrap::NdArray || !s.graph().shapes().holds(graph::Relation::Lt, 0, t.size()))
         return break_at(BreakId::UnsupportedArgument, "attribute .strides of a number or an empty array");
       std::vector<Value*> items;
       for (const Dim& stride : t.strides) items.push_back(s.values().integer(stride));
       return s.values().tuple(std::move(items));
     }},
    {"itemsize",
     [](Session& s, Value*, const graph::Type& t) -> Captured<Value*> {
       return s.values().integer(graph::size_of(t.dtype));
     }},
    {"nbytes",
     [](Session& s, Value*, const graph::Type& t) -> Captured<Value*> {
       return s.values().integer(t.size() * Dim(graph::size_of(t.dtype)));
     }},
    {"dtype",
     [](Session& s, Value*, const graph::Type& t) -> Captured<Value*> {
       return s.values().constant(reinterpret_cast<PyObject*>(descr_of(t.dtype)));
     }},
    {"flags",
     [](Session& s, Value* x, const graph::Type& t) -> Captured<Value*> {
       if (x->wrap() != Wrap::NdArray) return break_at(BreakId::UnsupportedArgument, "attribute .flags of a number");
       return flags(s, t);
     }},
    {"T",
     [](Session& s, Value* x, const graph::Type&) -> Captured<Value*> {
       if (x->wrap() == Wrap::NumpyScalar) return x;
       return transposed(s, x, {});
     }},
    {"real",
     [](Session& s, Value* x, const graph::Type& t) -> Captured<Value*> {
       return graph::is_complex(t.dtype) ? complex_part(s, x, 0) : x;
     }},
    {"imag",
     [](Session& s, Value* x, const graph::Type& t) -> Captured<Value*> {
       if (graph::is_complex(t.dtype)) return complex_part(s, x, 1);
       const bool f = t.rank() > 1 && graph::is_f_contiguous(s.graph().shapes(), t) &&
                      !graph::is_c_contiguous(s.graph().shapes(), t);
       if (x->wrap() != Wrap::NdArray || t.rank() == 0 || f)
         return break_at(BreakId::UnsupportedArgument, "attribute .imag of a number, or of an array in Fortran order");
       const ValueId zeros = s.builder().full(s.builder().constant(t.dtype, {}), t.shape);
       s.inputs().set_writing(zeros, capture::Writing::Refused);
       return fresh_array(s, zeros);
     }},
    {"mT",
     [](Session& s, Value* x, const graph::Type& t) -> Captured<Value*> {
       if (numpy_version().major < 2 || x->wrap() != Wrap::NdArray || t.rank() < 2)
         return break_at(BreakId::UnsupportedArgument, "attribute .mT");
       std::vector<int> axes(static_cast<std::size_t>(t.rank()));
       std::iota(axes.begin(), axes.end(), 0);
       std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
       return fresh_array(s, s.builder().transpose(x->id(), axes));
     }},
    {"base",
     [](Session& s, Value* x, const graph::Type& t) -> Captured<Value*> {
       const Op op = s.graph().node(x->id()).op;
       if (x->wrap() != Wrap::NdArray || t.is_view() || x->source || op == Op::Param || op == Op::Carried ||
           op == Op::Output)
         return break_at(BreakId::UnsupportedArgument, "attribute .base of an array that may have one");
       return s.values().constant(Py_None);
     }},
};

}  // namespace

std::span<const FunctionRow> shape_functions() { return kFunctions; }
std::span<const FunctionRow> shape_methods() { return kMethods; }

Captured<Value*> array_attribute(Session& session, Value* array, std::string_view name) {
  const graph::Type type = session.graph().type(array->id());
  for (const Attribute& row : kAttributes)
    if (row.name == name) return row.read(session, array, type);
  return break_at(BreakId::UnsupportedArgument, "attribute ." + std::string(name) + " of an array");
}

bool is_array_attribute(std::string_view name) {
  return std::any_of(std::begin(kAttributes), std::end(kAttributes),
                     [name](const Attribute& row) { return row.name == name; });
}

}  // namespace framejit::ext::frontends
