// Printing graphs.
#include "graph/text.h"

#include <cctype>
#include <unordered_set>

namespace framejit::graph {

namespace {

bool is_identifier(std::string_view name) {
  if (name.empty() || !(std::isalpha(static_cast<unsigned char>(name[0])) || name[0] == '_')) return false;
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') return false;
  return true;
}

std::string list(std::span<const Dim> dims) {
  std::string out = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i) out += ", ";
    out += dims[i].str();
  }
  out += "]";
  return out;
}

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options)
      : graph_(graph), options_(options), names_(value_names(graph)) {}

  std::string run() {
    out_ = "graph @" + graph_.name() + "(";
    for (ValueId p : graph_.params()) {
      if (p != graph_.params().front()) out_ += ", ";
      out_ += name(p) + ": " + type_of(p);
    }
    out_ += ") {\n";
    for (ValueId v : graph_.body().nodes) statement(v);
    out_ += "  return";
    for (std::size_t i = 0; i < graph_.results().size(); ++i) {
      out_ += i ? ", " : " ";
      out_ += name(graph_.results()[i]);
    }
    out_ += "\n}\n";
    return std::move(out_);
  }

 private:
  std::string name(ValueId v) const {
    if (v == kNoValue || index(v) >= names_.size() || names_[index(v)].empty()) return "%?";  // only where g is broken
    return names_[index(v)];
  }

  std::string type_of(ValueId v) const {
    const Type& t = graph_.type(v);
    std::string out = str(t);
    if (t.is_view()) out += " root=" + name(t.root) + " offset=" + t.offset.str();
    return out;
  }

  void statement(ValueId v) {
    if (index(v) >= graph_.value_count()) {  // the verifier shows broken graphs too
      out_ += "  %? = ?\n";
      return;
    }
    const Node& n = graph_.node(v);
    out_ += "  ";
    if (n.op != Op::Write) out_ += name(v) + " = ";
    out_ += name_of(n.op);
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      out_ += i ? ", " : " ";
      out_ += name(n.inputs[i]);
    }
    attributes(n);
    if (n.op != Op::Write) out_ += " : " + type_of(v);
    if (options_.locations && n.location != 0) {
      const Location& where = graph_.location(n.location);
      out_ += "  # " + where.file + ":" + std::to_string(where.line);
    }
    out_ += "\n";
  }

  void attributes(const Node& n) {
    const char* separator = " {";
    for (const auto& [key, value] : n.attrs) {
      out_ += separator;
      separator = ", ";
      switch (key) {
        case AttrKey::Index: out_ += "index=" + std::to_string(std::get<int64_t>(value)); break;
        case AttrKey::Value: out_ += "value=" + scalar_str(n.type.dtype, std::get<Scalar>(value)); break;
        case AttrKey::Axes: out_ += "axes=" + axes(std::get<std::vector<int64_t>>(value)); break;
        case AttrKey::Dim: out_ += "dim=" + std::get<Dim>(value).str(); break;
        case AttrKey::Window: out_ += "window=" + axes(std::get<std::vector<int64_t>>(value)); break;
        case AttrKey::Name: out_ += "name=" + std::get<std::string>(value); break;
      }
    }
    if (!n.attrs.empty()) out_ += "}";
  }

  static std::string axes(const std::vector<int64_t>& values) {
    std::string out = "[";
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i) out += ", ";
      out += std::to_string(values[i]);
    }
    out += "]";
    return out;
  }

  const Graph& graph_;
  const PrintOptions& options_;
  std::vector<std::string> names_;
  std::string out_;
};

}  // namespace

std::string str(const Type& type) {
  std::string out(name_of(type.dtype));
  out += list(type.shape);
  if (type.strides != c_strides(type.dtype, type.shape)) out += " strides=" + list(type.strides);
  return out;
}

std::vector<std::string> value_names(const Graph& graph) {
  std::vector<std::string> names(graph.value_count());
  std::unordered_set<std::string> used;
  uint32_t number = 0;
  for (ValueId p : graph.params()) {
    const std::string own(graph.node(p).name());
    std::string& name = names[index(p)];
    name.assign(1, '%');
    name += is_identifier(own) ? own : std::to_string(number);
    const std::size_t length = name.size();
    for (int i = 2; !used.insert(name).second; ++i) {
      name.resize(length);
      name.append("_").append(std::to_string(i));
    }
    ++number;
  }
  for (ValueId v : graph.body().nodes)
    if (index(v) < names.size()) names[index(v)].append("%").append(std::to_string(number++));
  return names;
}

std::string print(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).run(); }

}  // namespace framejit::graph
