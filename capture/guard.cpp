// Guards as Python expressions.
#include "capture/guard.h"

#include <algorithm>
#include <span>

#include "capture/py/repr.h"

namespace framejit::capture {

namespace {

std::string shape_text(const graph::Dims& shape) {
  std::string out = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + shape[i].str();
  return out + (shape.size() == 1 ? ",)" : ")");
}

std::string numpy_name(graph::DType dtype) {
  std::string_view name = graph::name_of(dtype);
  const graph::DTypeInfo& row = graph::info(dtype);
  if (dtype == graph::DType::Bool || dtype == graph::DType::BF16)
    return dtype == graph::DType::Bool ? "bool" : "bfloat16";
  const char* kind = row.kind == 'i' ? "int" : row.kind == 'u' ? "uint" : row.kind == 'f' ? "float" : "complex";
  return kind + std::string(name.substr(1));
}

std::string array_text(const std::string& x, const ArraySpec& spec) {
  switch (spec.wrap) {
    case Wrap::PyFloat: return "type(" + x + ") is float";
    case Wrap::PyInt: return "type(" + x + ") is int";
    case Wrap::PyBool: return "type(" + x + ") is bool";
    case Wrap::PyComplex: return "type(" + x + ") is complex";
    case Wrap::NumpyScalar: return "type(" + x + ") is numpy." + numpy_name(spec.dtype);
    case Wrap::Generator: return "type(" + x + ") is numpy.random.Generator";
    case Wrap::NdArray:
    case Wrap::Tensor: break;
  }
  std::string out = "type(" + x + ") is " + (spec.wrap == Wrap::Tensor ? "Tensor" : "ndarray");
  out += " and " + x + ".dtype == " + numpy_name(spec.dtype) + " and " + x + ".shape == " + shape_text(spec.shape);
  if (spec.strides != graph::c_strides(spec.dtype, spec.shape))
    out += " and " + x + ".strides == " + shape_text(spec.strides);
  if (spec.writeable) out += " and " + x + ".flags.writeable";
  return out;
}

std::string relation_text(const graph::DimGuard& g) {
  const char* op = "==";
  switch (g.relation) {
    case graph::Relation::Eq: op = g.outcome ? " == " : " != "; break;
    case graph::Relation::Ne: op = g.outcome ? " != " : " == "; break;
    case graph::Relation::Lt: op = g.outcome ? " < " : " >= "; break;
    case graph::Relation::Le: op = g.outcome ? " <= " : " > "; break;
  }
  return g.left.str() + op + g.right.str();
}

std::string list_text(std::span<const SourceRef> sources) {
  constexpr std::size_t kShown = 3;
  std::string out;
  for (const SourceRef& s : sources.first(std::min(sources.size(), kShown)))
    out += (out.empty() ? "" : ", ") + s->str();
  return sources.size() <= kShown ? out : out + " and " + std::to_string(sources.size() - kShown) + " more";
}

/// "a is distinct from b, c"; "a, b share no memory with one another and with c, d".
std::string apart_text(const Guard& g, const std::string& verb, const std::string& preposition) {
  const auto count = static_cast<std::size_t>(g.number);
  const std::span<const SourceRef> several = g.several;
  std::string out = list_text(several.first(count)) + " " + verb + " ";
  if (count > 1) out += preposition + " one another";
  if (count == several.size()) return out;
  return out + (count > 1 ? " and " : "") + preposition + " " + list_text(several.subspan(count));
}

}  // namespace

Guard identity_guard(SourceRef a, SourceRef b, bool same) {
  Guard g{};
  g.kind = same ? GuardKind::SameObject : GuardKind::Distinct;
  if (same) {
    g.source = std::move(a);
    g.other = std::move(b);
  } else {
    g.several = {std::move(a), std::move(b)};
    g.number = 1;
  }
  return g;
}

std::string Guard::str() const {
  const std::string x = source ? source->str() : std::string();
  const std::string name = key ? text_of(key.get()) : std::string();
  const std::string type = kind == GuardKind::TypeAttr && number == 1 ? x : "type(" + x + ")";
  switch (kind) {
    case GuardKind::Identity: return x + " is " + short_repr(object.get());
    case GuardKind::Type: return "type(" + x + ") is " + short_repr(object.get());
    case GuardKind::Equal: return x + " == " + short_repr(object.get());
    case GuardKind::Array: return array_text(x, array);
    case GuardKind::IntSymbol: return "type(" + x + (object ? ") is list" : ") is int");
    case GuardKind::Length: return "len(" + x + ") == " + std::to_string(number);
    case GuardKind::Width:
      return x + (number == 0 ? " is a str of ASCII characters"
                              : " is a str of characters of " + std::to_string(8 * number) + " bits");
    case GuardKind::Member: return short_repr(key.get()) + (number ? " in " : " not in ") + x;
    case GuardKind::Elements:
      return object ? "list(" + x + ") == list(" + short_repr(object.get()) + ")"
                    : "no element of " + x + " has a __hash__ in Python";
    case GuardKind::Keys: return "list(" + x + ") == list(" + short_repr(object.get()) + ")";
    case GuardKind::Unbound: return x + (source->kind == SourceKind::Cached ? " is not cached" : " is unbound");
    case GuardKind::Bound: return x + (source->kind == SourceKind::Cached ? " is cached" : " is bound");
    case GuardKind::HasNot:
      if (!source) return short_repr(key.get()) + " not in globals()";
      return short_repr(key.get()) + " not in " + x + (number ? "" : ".__dict__");
    case GuardKind::TypeAttr:
      if (!object) return "not hasattr(" + type + ", " + short_repr(key.get()) + ")";
      return type + "." + name + " is " + short_repr(object.get());
    case GuardKind::Mro: {
      std::string classes;
      for (const HeldRef& part : source->parts) classes += (classes.empty() ? "" : ", ") + short_repr(part.get());
      return x + ".__mro__ == (" + classes + ")";
    }
    case GuardKind::Code: return x + ".__code__ is the code of " + (reason.empty() ? x : reason);
    case GuardKind::DimRelation: return shown.empty() ? relation_text(dim) : shown;
    case GuardKind::Disjoint:
      if (several.size() == 2) return "not may_share_memory(" + several[0]->str() + ", " + several[1]->str() + ")";
      return apart_text(*this, number > 1 ? "share no memory" : "shares no memory", "with");
    case GuardKind::SameObject: return x + " is " + other->str();
    case GuardKind::Distinct:
      if (several.size() == 2) return several[0]->str() + " is not " + several[1]->str();
      return apart_text(*this, number > 1 ? "are distinct" : "is distinct", "from");
    case GuardKind::OwnDict: return x + ".__dict__ is not shared";
    case GuardKind::Registrations: return "abc.get_cache_token() == " + std::to_string(number);
  }
  return {};
}

std::string Guard::about() const {
  std::string out = std::to_string(static_cast<int>(kind)) + " " + (source ? source->str() : std::string());
  if (kind == GuardKind::DimRelation)
    for (const graph::Dim* side : {&dim.left, &dim.right})
      if (!side->is_const()) out += " " + side->str();
  if (key) out += " " + text_of(key.get());
  if (other) out += " " + other->str();
  for (const SourceRef& each : several) out += " " + each->str();
  return out;
}

}  // namespace framejit::capture
