// Parsing the text form.
#include <algorithm>
#include <unordered_map>

#include "graph/support/check.h"
#include "graph/text.h"

namespace framejit::graph {

namespace {

/// Thrown inside of the parser only; parse() makes a value of it.
struct Failure {
  std::string_view rest;
  std::string message;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Graph run() {
    expect("graph");
    expect("@");
    Graph graph{std::string(word("a graph's name"))};
    graph_ = &graph;
    expect("(");
    if (!take(")")) {
      do param();
      while (take(","));
      expect(")");
    }
    expect("{");
    graph.set_results(statements("return"));
    skip_spaces();
    if (!rest_.empty()) fail("text after the graph");
    add_symbols();
    return graph;
  }

 private:
  void param() {
    const std::string_view name = new_name();
    Node node{};
    node.op = Op::Param;
    node.attrs.emplace_back(AttrKey::Index, static_cast<int64_t>(graph_->params().size()));
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0)
      node.attrs.emplace_back(AttrKey::Name, std::string(name));
    expect(":");
    node.type = type();
    define(name, std::move(node));
  }

  /// Up to the end of a block: what it gives.
  std::vector<ValueId> statements(std::string_view last) {
    while (!take_word(last)) {
      if (depth_ == 0 && take_word("gradient")) graph_->begin_gradient();
      else statement();
    }
    std::vector<ValueId> results;
    if (!at("}")) {
      do results.push_back(value());
      while (take(","));
    }
    expect("}");
    return results;
  }

  /// Names of a block are known in it only.
  std::unique_ptr<Block> block() {
    auto out = std::make_unique<Block>();
    if (++depth_ > kMostBlocks) fail("too many blocks in each other");
    graph_->open(*out);
    const std::unordered_map<std::string_view, ValueId> outside = values_;
    if (take_word("with")) {
      do {
        const std::string_view name = new_name();
        expect(":");
        Node carried{};
        carried.op = Op::Carried;
        carried.type = type();
        define(name, std::move(carried));
      } while (take(","));
    }
    expect("{");
    out->results = statements("yield");
    values_ = outside;
    graph_->close();
    --depth_;
    return out;
  }

  void statement() {
    Node node{};
    std::string_view name;
    if (at("%")) {
      name = new_name();
      expect("=");
    }
    const std::string_view start = here();
    const std::optional<Op> op = op_from_name(word("an operator"));
    if (!op) fail_at(start, "unknown operator");
    node.op = *op;
    if (node.op == Op::Param || node.op == Op::Carried) fail_at(start, "it belongs in the head of a block");
    if (name.empty() != is_bare(node.op)) fail_at(start, "a name for what has a value");
    if (at("%")) {
      do node.inputs.push_back(value());
      while (take(","));
    }
    if (!takes_operands(node.op, node.inputs.size())) fail_at(start, "number of operands");
    std::string_view constant;
    const bool has_blocks = node.op == Op::If || node.op == Op::Loop;
    if (!has_blocks && take("{")) attributes(node, constant);
    if (node.op == Op::Write) {
      node.type = graph_->type(node.inputs[0]);
      node.type.root = graph_->root(node.inputs[0]);
    } else if (is_control(node.op)) {
      node.type = Type{DType::Bool, {}, {}};
      if (has_blocks) node.blocks.push_back(block());
      if (node.op == Op::If) {
        if (!take_word("else")) fail("expected else");
        node.blocks.push_back(block());
      }
    } else {
      expect(":");
      node.type = type();
    }
    if (constant.data() != nullptr) {
      Scalar bits;
      if (!parse_scalar(constant, node.type.dtype, bits)) fail_at(constant, "value does not fit the dtype");
      node.attrs.emplace_back(AttrKey::Value, bits);
    }
    define(name, std::move(node));
  }

  void attributes(Node& node, std::string_view& constant) {
    do {
      const std::string_view start = here();
      const std::string_view key = word("an attribute");
      if (key == "rematerialized") {
        node.rematerialized = true;
        continue;
      }
      expect("=");
      if (key == "axes" || key == "window") {
        std::vector<int64_t> numbers;
        for (const Dim& d : dims()) {
          if (!d.is_const()) fail_at(start, std::string(key) + " are numbers");
          numbers.push_back(d.value());
        }
        node.attrs.emplace_back(key == "axes" ? AttrKey::Axes : AttrKey::Window, std::move(numbers));
      } else if (key == "ignore" || key == "trap") {
        uint8_t& set = key == "ignore" ? node.flag_rule.ignored : node.flag_rule.trapped;
        do set |= flag();
        while (take("|"));
      } else if (key == "index") {
        node.attrs.emplace_back(AttrKey::Index, dim().value());
      } else if (key == "dim" || key == "most") {
        node.attrs.emplace_back(key == "dim" ? AttrKey::Dim : AttrKey::Most, dim());
      } else if (key == "value") {
        skip_spaces();
        const std::size_t end = at("(") ? rest_.find(')') + 1 : rest_.find_first_of(" ,}");
        constant = rest_.substr(0, end);
        rest_.remove_prefix(constant.size());
      } else {
        fail_at(start, "unknown attribute");
      }
    } while (take(","));
    expect("}");
  }

  uint8_t flag() {
    const std::string_view start = here(), name = word("a flag");
    for (const FlagName& known : kFlagNames)
      if (known.name == name) return known.bit;
    fail_at(start, "unknown flag");
  }

  Type type() {
    Type t;
    const std::string_view start = here();
    const std::optional<DType> dtype = dtype_from_name(word("a dtype"));
    if (!dtype) fail_at(start, "unknown dtype");
    t.dtype = *dtype;
    t.shape = dims();
    if (take_word("strides")) {
      expect("=");
      t.strides = dims();
      if (t.strides.size() != t.shape.size()) fail("a stride for each axis");
    } else {
      try {
        t.strides = c_strides(t.dtype, t.shape);
      } catch (const DimOverflow& overflow) {
        fail_at(start, overflow.what());
      }
    }
    if (take_word("root")) {
      expect("=");
      t.root = value();
      if (!take_word("offset")) fail("expected offset=");
      expect("=");
      t.offset = dim();
    }
    return t;
  }

  Dims dims() {
    Dims out;
    expect("[");
    if (take("]")) return out;
    do out.push_back(dim());
    while (take(","));
    expect("]");
    return out;
  }

  Dim dim() {
    skip_spaces();
    Dim d;
    if (!parse_dim(rest_, d)) fail("expected a dimension");
    std::vector<SymbolId> found;
    d.collect_symbols(found);
    for (SymbolId s : found) symbols_ = std::max(symbols_, static_cast<uint32_t>(s) + 1);
    if (symbols_ > kMaxSymbols) fail("too many symbols");
    return d;
  }

  void add_symbols() {
    for (uint32_t i = 0; i < symbols_; ++i) graph_->shapes().fresh(2);
    for_each_node(*graph_, graph_->body(), [&](ValueId v) {
      if (graph_->node(v).op != Op::Measure) return;
      std::vector<SymbolId> symbol;
      const AttrValue* dim = graph_->node(v).find(AttrKey::Dim);
      if (dim) std::get<Dim>(*dim).collect_symbols(symbol);
      for (SymbolId s : symbol) graph_->shapes().set_measured(s);
    });
  }

  std::string_view new_name() {
    expect("%");
    const std::string_view name = word("a name");
    if (values_.contains(name)) fail_at(name, "defined twice");
    return name;
  }

  void define(std::string_view name, Node node) {
    const ValueId v = graph_->append(std::move(node));
    if (!name.empty()) values_.emplace(name, v);
  }

  ValueId value() {
    expect("%");
    const std::string_view name = word("a name");
    const auto it = values_.find(name);
    if (it == values_.end()) fail_at(name, "not defined before");
    return it->second;
  }

  void skip_spaces() {
    while (!rest_.empty()) {
      if (rest_[0] == '#') rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      else if (std::isspace(static_cast<unsigned char>(rest_[0]))) rest_.remove_prefix(1);
      else return;
    }
  }

  std::string_view here() {
    skip_spaces();
    return rest_;
  }

  bool at(std::string_view token) {
    skip_spaces();
    return rest_.starts_with(token);
  }

  bool take(std::string_view token) {
    if (!at(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!take(token)) fail("expected '" + std::string(token) + "'");
  }

  std::string_view next_word() {
    skip_spaces();
    std::size_t n = 0;
    while (n < rest_.size() && (std::isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_')) ++n;
    return rest_.substr(0, n);
  }

  bool take_word(std::string_view expected) {
    if (next_word() != expected) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  std::string_view word(std::string_view what) {
    const std::string_view w = next_word();
    if (w.empty()) fail("expected " + std::string(what));
    rest_.remove_prefix(w.size());
    return w;
  }

  [[noreturn]] void fail(std::string message) { fail_at(here(), std::move(message)); }
  [[noreturn]] static void fail_at(std::string_view where, std::string message) {
    throw Failure{where, std::move(message)};
  }

  static constexpr uint32_t kMaxSymbols = 1u << 16;  // a slip of the pen must not ask for gigabytes
  static constexpr int kMostBlocks = 100;            // nor for the whole stack

  std::string_view rest_;
  Graph* graph_ = nullptr;
  std::unordered_map<std::string_view, ValueId> values_;
  uint32_t symbols_ = 0;
  int depth_ = 0;
};

}  // namespace

Expected<Graph, ParseError> parse(std::string_view text) {
  try {
    return Parser(text).run();
  } catch (const Failure& f) {
    const std::string_view before = text.substr(0, static_cast<std::size_t>(f.rest.data() - text.data()));
    const int line = static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1;
    const std::size_t line_start = before.rfind('\n');
    const std::size_t column = before.size() - (line_start == std::string_view::npos ? 0 : line_start + 1) + 1;
    return Unexpected{ParseError{line, static_cast<int>(column), f.message}};
  }
}

}  // namespace framejit::graph
