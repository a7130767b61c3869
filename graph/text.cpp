// Printing graphs.
#include "graph/text.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>
#include <utility>

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
    block(graph_.body(), "  return");
    out_ += "}\n";
    return std::move(out_);
  }

 private:
  void block(const Block& b, const char* last) {
    const std::vector<std::size_t> starts =
        &b == &graph_.body() ? graph_.gradient_starts() : std::vector<std::size_t>{};
    for (std::size_t i = 0; i < b.nodes.size(); ++i) {
      if (std::binary_search(starts.begin(), starts.end(), i)) out_ += "  gradient\n";
      statement(b.nodes[i]);
    }
    out_ += indent_ + last;
    for (std::size_t i = 0; i < b.results.size(); ++i) {
      out_ += i ? ", " : " ";
      out_ += name(b.results[i]);
    }
    out_ += "\n";
  }

  void blocks(const Node& n) {
    for (std::size_t i = 0; i < n.blocks.size(); ++i) {
      if (i) out_ += " else";
      const std::vector<ValueId>& params = n.blocks[i]->params;
      for (std::size_t k = 0; k < params.size(); ++k)
        out_ += (k ? ", " : " with ") + name(params[k]) + ": " + type_of(params[k]);
      out_ += " {\n";
      indent_ += "  ";
      block(*n.blocks[i], "  yield");
      indent_.resize(indent_.size() - 2);
      out_ += indent_ + "  }";
    }
  }

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
      out_ += indent_ + "  %? = ?\n";
      return;
    }
    const Node& n = graph_.node(v);
    const bool named = !is_bare(n.op);
    out_ += indent_ + "  ";
    if (named) out_ += name(v) + " = ";
    out_ += name_of(n.op);
    for (std::size_t i = 0; i < n.inputs.size(); ++i) {
      out_ += i ? ", " : " ";
      out_ += name(n.inputs[i]);
    }
    attributes(n);
    if (named && !is_control(n.op)) out_ += " : " + type_of(v);
    blocks(n);
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
        case AttrKey::Most: out_ += "most=" + std::get<Dim>(value).str(); break;
        case AttrKey::Window: out_ += "window=" + axes(std::get<std::vector<int64_t>>(value)); break;
        case AttrKey::Name: out_ += "name=" + std::get<std::string>(value); break;
      }
    }
    flags("ignore", n.flag_rule.ignored, separator);
    flags("trap", n.flag_rule.trapped, separator);
    if (n.rematerialized) out_.append(std::exchange(separator, ", ")).append("rematerialized");
    if (!n.attrs.empty() || n.flag_rule || n.rematerialized) out_ += "}";
  }

  void flags(const char* key, uint8_t set, const char*& separator) {
    if (!set) return;
    out_ += std::exchange(separator, ", ");
    out_ += key;
    const char* between = "=";
    for (const FlagName& flag : kFlagNames) {
      if (!(set & flag.bit)) continue;
      out_ += std::exchange(between, "|");
      out_ += flag.name;
    }
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
  std::string out_, indent_;
};

}  // namespace

namespace {

/// Also of a type that the verifier refuses because its size overflows.
bool is_c_ordered(const Type& type) {
  try {
    return type.strides == c_strides(type.dtype, type.shape);
  } catch (const DimOverflow&) {
    return false;
  }
}

}  // namespace

std::string str(const Type& type) {
  std::string out(name_of(type.dtype));
  out += list(type.shape);
  if (!is_c_ordered(type)) out += " strides=" + list(type.strides);
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
  const auto number_block = [&](auto&& self, const Block& block) -> void {
    for (ValueId v : block.nodes) {
      if (index(v) >= names.size()) continue;
      names[index(v)].append("%").append(std::to_string(number++));
      for (const std::unique_ptr<Block>& inner : graph.node(v).blocks) {
        for (ValueId p : inner->params) names[index(p)].append("%").append(std::to_string(number++));
        self(self, *inner);
      }
    }
  };
  number_block(number_block, graph.body());
  return names;
}

std::string print(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).run(); }

}  // namespace framejit::graph
