// From guards and sources to a GuardProgram.
#include <algorithm>
#include <map>
#include <string>

#include "capture/py/abstract.h"
#include "ext/guards/guard_program_impl.h"
#include "graph/support/check.h"

namespace framejit::ext::guards {

using capture::Guard;
using capture::GuardKind;
using capture::SourceKind;
using capture::SourceRef;

/// Compiles one program; `why` is set on the first thing that cannot be tested.
class GuardCompiler {
 public:
  GuardCompiler(GuardProgram& program, int local_count)
      : program_(program), impl_(*program.impl_), locals_(local_count) {}

  void run(const std::vector<Guard>& guards, const std::vector<capture::Input>& inputs,
           const std::vector<SourceRef>& sources) {
    impl_.guards = guards;
    input_of_.assign(guards.size(), -1);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].guard >= guards.size() || guards[inputs[i].guard].kind != GuardKind::Array)
        return fail("an input without its array guard");
      input_of_[inputs[i].guard] = static_cast<int32_t>(i);
    }
    collect_groups(guards, sources);
    for (const Guard& g : guards)
      if (g.source && row(g.kind).fails_unbound) looked_at_.insert(g.source);
    for (const uint32_t i : order(guards)) {
      guard_ = i;
      add(guards[i]);
      if (!why.empty()) return;
    }
    for (std::size_t s = 0; s < program_.symbols_; ++s)
      if (!bound_[s]) return fail("symbol s" + std::to_string(s) + " is bound by no guard");
    for (const SourceRef& source : sources) {
      const GuardOperand operand = operand_of(source);
      // A fetch tests what it fetches; a frame slot must be looked at.
      if (operand.base <= GuardOperand::Stack && !looked_at_.contains(source))
        emit({.op = GuardOp::Bound, .a = operand, .guard = ~0u});
    }
    program_.input_operands_.reserve(inputs.size());
    for (const capture::Input& input : inputs) program_.input_operands_.push_back(operand_of(input.source));
    for (DictGroup& group : impl_.groups)
      for (uint32_t i = 0; i < group.items.size(); ++i)
        if (group.items[i].slot >= 0) group.wanted.push_back(i);
  }

  /// What is measured is bound by a run, not by a guard.
  void set_symbols(const graph::ShapeEnv& shapes) {
    program_.symbols_ = shapes.symbol_count();
    for (uint32_t s = 0; s < program_.symbols_; ++s)
      bound_.push_back(shapes.is_measured(graph::Dim::symbol(graph::SymbolId{s})));
  }

  std::string why;

 private:
  void fail(std::string reason) {
    if (why.empty()) why = std::move(reason);
  }

  void emit(GuardInstr instr) { impl_.code.push_back(instr); }

  static int depth(const capture::Source& source) { return source.base ? 1 + depth(*source.base) : 0; }

  struct Row {
    int order;
    bool fails_unbound;
  };
  static const Row& row(GuardKind kind) {
    static constexpr Row kRows[] = {
#define FRAMEJIT_ROW(name, order, fails_unbound) {order, fails_unbound},
        FRAMEJIT_GUARD_KINDS(FRAMEJIT_ROW)
#undef FRAMEJIT_ROW
    };
    return kRows[static_cast<std::size_t>(kind)];
  }

  /// Guards that bind symbols keep their order, relations come behind them.
  static int rank(const Guard& g) {
    const int order = row(g.kind).order;
    return order == 1 && g.source && depth(*g.source) == 0 ? 0 : order;
  }

  static std::vector<uint32_t> order(const std::vector<Guard>& guards) {
    std::vector<uint32_t> out(guards.size());
    for (uint32_t i = 0; i < out.size(); ++i) out[i] = i;
    std::stable_sort(out.begin(), out.end(), [&](uint32_t a, uint32_t b) { return rank(guards[a]) < rank(guards[b]); });
    return out;
  }

  // Global and builtin names, grouped by dict.

  uint32_t group_of(PyObject* dict) {
    for (uint32_t i = 0; i < impl_.groups.size(); ++i)
      if (impl_.groups[i].dict == dict) return i;
    impl_.groups.emplace_back();
    impl_.groups.back().dict = dict;
    impl_.groups.back().version = capture::DictVersion(dict);
    return static_cast<uint32_t>(impl_.groups.size() - 1);
  }

  DictGroup::Item* group_item(PyObject* dict, PyObject* key) {
    if (!dict || !PyDict_CheckExact(dict) || !key || !PyUnicode_CheckExact(key)) {
      fail("a global whose namespace is not a plain dict");
      return nullptr;
    }
    DictGroup& group = impl_.groups[group_of(dict)];
    const Py_hash_t hash = PyObject_Hash(key);
    const auto [first, last] = group_items_.equal_range({dict, hash});
    for (auto at = first; at != last; ++at)
      if (same_value(group.items[at->second].key, key)) return &group.items[at->second];
    group_items_.emplace(std::pair(dict, hash), group.items.size());
    group.items.push_back({key, hash, nullptr, false, false, -1, ~0u, nullptr});
    return &group.items.back();
  }

  static bool is_name(const capture::Source& source) {
    return source.kind == SourceKind::Global || source.kind == SourceKind::Builtin;
  }

  /// The dict of a HasNot that names one (a module's): looked up with the other names of that dict.
  static PyObject* known_namespace(const Guard& g) {
    return g.kind == GuardKind::HasNot && !g.source ? g.object.get() : nullptr;
  }

  void note_names(const capture::Source& source) {
    if (source.base) note_names(*source.base);
    if (is_name(source)) group_item(source.object.get(), source.key.get());
  }

  void collect_groups(const std::vector<Guard>& guards, const std::vector<SourceRef>& sources) {
    for (uint32_t i = 0; i < guards.size(); ++i) {
      const Guard& g = guards[i];
      if (PyObject* dict = known_namespace(g)) {
        if (DictGroup::Item* item = group_item(dict, g.key.get())) {
          item->absent = true;
          item->guard = i;
        }
        continue;
      }
      if (g.source) note_names(*g.source);
      if (g.other) note_names(*g.other);
      for (const SourceRef& each : g.several) note_names(*each);
      if ((g.kind == GuardKind::Identity || g.kind == GuardKind::Equal) && g.source && is_name(*g.source)) {
        if (DictGroup::Item* item = group_item(g.source->object.get(), g.source->key.get())) {
          if (item->expected && item->expected != g.object.get()) fail("two guards disagree about " + g.source->str());
          item->by_value = g.kind == GuardKind::Equal && (!item->expected || item->by_value);
          item->expected = g.object.get();
          item->guard = i;
        }
      }
    }
    for (const SourceRef& source : sources) note_names(*source);
    for (uint32_t i = 0; i < impl_.groups.size(); ++i)
      emit({.op = GuardOp::FetchGroup, .guard = ~0u, .number = static_cast<int64_t>(i)});
  }

  uint16_t new_slot() {
    if (program_.slots_ >= 0xffff) fail("too many sources");
    return static_cast<uint16_t>(program_.slots_++);
  }

  GuardOperand operand_of(const SourceRef& source) {
    if (!source) {
      fail("a guard without a source");
      return {};
    }
    if (const auto known = impl_.sources.find(source); known != impl_.sources.end()) return known->second;
    const GuardOperand operand = make_operand(*source);
    impl_.sources.emplace(source, operand);
    return operand;
  }

  GuardOperand fixed(PyObject* object) {
    program_.fixed_.push_back(object);
    return {GuardOperand::Fixed, static_cast<uint16_t>(program_.fixed_.size() - 1)};
  }

  GuardOperand fetch(GuardOp op, const capture::Source& source) {
    GuardInstr instr{.op = op, .guard = guard_, .key = source.key.get(), .number = source.index, .source = &source};
    if (source.base) instr.a = operand_of(source.base);
    else if (op == GuardOp::FetchClosure || op == GuardOp::FetchDefault || op == GuardOp::FetchKeywordDefault)
      instr.a = {GuardOperand::Function, 0};
    else fail("source " + source.str() + " has no base");
    if (op == GuardOp::FetchAttr) {
      instr.number = static_cast<int64_t>(impl_.attributes.size());
      impl_.attributes.emplace_back();
    }
    instr.out = new_slot();
    emit(instr);
    return {GuardOperand::Slot, instr.out};
  }

  GuardOperand make_operand(const capture::Source& source) {
    switch (source.kind) {
      case SourceKind::Local:
        if (source.index < 0 || source.index >= locals_) fail("local slot out of range: " + source.str());
        return {GuardOperand::Local, static_cast<uint16_t>(source.index)};
      case SourceKind::Stack: return {GuardOperand::Stack, static_cast<uint16_t>(source.index)};
      case SourceKind::Word: return {GuardOperand::Word, static_cast<uint16_t>(source.index)};
      case SourceKind::Constant: return fixed(source.object.get());
      case SourceKind::Global:
      case SourceKind::Builtin: {
        DictGroup::Item* item = group_item(source.object.get(), source.key.get());
        if (!item) return {};
        if (item->slot < 0) item->slot = new_slot();
        return {GuardOperand::Slot, static_cast<uint16_t>(item->slot)};
      }
      case SourceKind::Cell: return fetch(GuardOp::FetchCell, source);
      case SourceKind::Closure: return fetch(GuardOp::FetchClosure, source);
      case SourceKind::Attr: return fetch(GuardOp::FetchAttr, source);
      case SourceKind::Item: return fetch(source.key ? GuardOp::FetchKey : GuardOp::FetchIndex, source);
      case SourceKind::Default: return fetch(source.key ? GuardOp::FetchKeywordDefault : GuardOp::FetchDefault, source);
      case SourceKind::Self: return fetch(GuardOp::FetchSelf, source);
      case SourceKind::Method: return fetch(GuardOp::FetchMethod, source);
      case SourceKind::Cached: return fetch(GuardOp::FetchCached, source);
    }
    return {};
  }

  DimCode dim_code(const graph::Dim& dim) {
    if (dim.is_const()) return {DimCode::Const, dim.value(), nullptr};
    std::vector<graph::SymbolId> used;
    dim.collect_symbols(used);
    for (const graph::SymbolId id : used) {
      const auto s = static_cast<std::size_t>(id);
      if (s >= program_.symbols_) {
        fail("a symbol that the graph does not have");
        return {};
      }
      if (!bound_[s]) fail("s" + std::to_string(s) + " is used before a guard binds it");
    }
    if (used.size() == 1 && dim == graph::Dim::symbol(used[0]))
      return {DimCode::Symbol, static_cast<int64_t>(used[0]), nullptr};
    return {DimCode::General, 0, &dim};
  }

  /// The symbol that this dim is, if no guard bound it yet; else -1.
  int64_t unbound_symbol(const graph::Dim& dim) const {
    if (dim.is_const()) return -1;
    std::vector<graph::SymbolId> used;
    dim.collect_symbols(used);
    if (used.size() != 1 || !(dim == graph::Dim::symbol(used[0]))) return -1;
    const auto s = static_cast<std::size_t>(used[0]);
    return s < bound_.size() && !bound_[s] ? static_cast<int64_t>(s) : -1;
  }

  void add_array(const Guard& g) {
    // General dims point into it.
    const capture::ArraySpec& spec = impl_.guards[guard_].array;
    ArrayTest test{};
    test.wrap = spec.wrap;
    test.input = input_of_[guard_];
    test.rank = static_cast<int>(spec.shape.size());
    test.item_size = graph::size_of(spec.dtype);
    test.type = arrays::guarded_type(g);
    if (!test.type) return fail("no type for " + g.str());
    if (spec.wrap == capture::Wrap::NdArray || spec.wrap == capture::Wrap::Tensor) {
      test.descr = arrays::descr_of(spec.dtype);
      if (!test.descr) return fail("NumPy has no dtype for " + g.str());
      test.type_number = arrays::type_num_of(spec.dtype);
      test.flags = (spec.writeable ? NPY_ARRAY_WRITEABLE : 0) | (spec.aligned ? NPY_ARRAY_ALIGNED : 0);
      bool above_one = true, empty = false;
      for (const graph::Dim& dim : spec.shape) {
        const int64_t symbol = unbound_symbol(dim);
        test.binds.push_back(symbol >= 0);
        if (symbol >= 0) bound_[symbol] = true;
        test.shape.push_back(dim_code(dim));
        above_one = above_one && dim.is_const() && dim.value() > 1;
        empty = empty || (dim.is_const() && dim.value() == 0);
      }
      // Arrays without elements have strides that follow from how they were made.
      if (!empty && spec.strides == graph::c_strides(spec.dtype, spec.shape)) {
        test.layout = above_one ? ArrayTest::Flag : ArrayTest::Product;
        if (above_one && test.rank) test.flags |= NPY_ARRAY_C_CONTIGUOUS;
      } else {
        test.layout = ArrayTest::Exact;
        if (spec.strides.size() != spec.shape.size()) return fail("strides and shape differ in rank: " + g.str());
        for (const graph::Dim& stride : spec.strides) test.strides.push_back(dim_code(stride));
      }
    }
    const GuardOperand operand = operand_of(g.source);
    if (test.layout == ArrayTest::Flag && spec.wrap == capture::Wrap::NdArray && test.input >= 0 &&
        operand.base == GuardOperand::Local && test.rank <= KnownArray::kMaxRank) {
      KnownArray known{test.type,
                       test.descr,
                       test.type_number,
                       test.flags,
                       test.rank,
                       operand.index,
                       static_cast<uint16_t>(test.input),
                       guard_,
                       {}};
      for (int i = 0; i < test.rank; ++i) known.dims[i] = test.shape[i].value;
      program_.known_.push_back(known);
      return;
    }
    emit({.op = GuardOp::Array, .a = operand, .guard = guard_, .number = static_cast<int64_t>(impl_.arrays.size())});
    impl_.arrays.push_back(std::move(test));
  }

  void add(const Guard& g) {
    GuardInstr instr{
        .op = op_of(g.kind), .guard = guard_, .object = g.object.get(), .key = g.key.get(), .number = g.number};
    switch (g.kind) {
      case GuardKind::Array: return add_array(g);
      case GuardKind::DimRelation: {
        const graph::DimGuard& dim = impl_.guards[guard_].dim;
        RelationTest test{dim.relation, dim_code(dim.left), dim_code(dim.right), dim.outcome};
        instr.number = static_cast<int64_t>(impl_.relations.size());
        impl_.relations.push_back(test);
        return emit(instr);
      }
      case GuardKind::IntSymbol: {
        const int64_t symbol = unbound_symbol(g.dim.left);
        instr.a = operand_of(g.source);
        if (symbol < 0) return fail("an int guard without a symbol of its own: " + g.str());
        bound_[symbol] = true;
        instr.number = symbol;
        return emit(instr);
      }
      case GuardKind::Registrations:
        impl_.registrations = capture::abstract_registrations();
        if (!impl_.registrations) return fail("a number that is kept elsewhere: " + g.str());
        return emit(instr);
      case GuardKind::Distinct:
      case GuardKind::Disjoint: {
        ApartTest test{{}, static_cast<std::size_t>(g.number), {}, {}};
        for (const SourceRef& each : g.several) test.operands.push_back(operand_of(each));
        instr.number = static_cast<int64_t>(impl_.apart.size());
        impl_.apart.push_back(std::move(test));
        return emit(instr);
      }
      case GuardKind::HasNot:
        if (known_namespace(g)) return;  // in its group
        break;
      case GuardKind::Unbound:
        if (g.source->kind == SourceKind::Cached)
          return emit(
              {.op = GuardOp::NotCached, .a = operand_of(g.source->base), .guard = guard_, .source = g.source.get()});
        // Slots behind the arguments are always unbound where a call starts.
        if (g.source->kind == SourceKind::Local && g.source->index >= locals_) return;
        break;
      case GuardKind::Bound:
        if (looked_at_.contains(g.source)) return;
        break;
      case GuardKind::Equal:
        if (is_name(*g.source)) return;  // in its group
        break;
      case GuardKind::Identity:
        if (is_name(*g.source)) return;  // in its group
        if (g.source->kind == SourceKind::Constant && g.source->object.get() == g.object.get()) return;
        break;
      default: break;
    }
    instr.a = operand_of(g.source);
    if (g.kind == GuardKind::SameObject) instr.b = operand_of(g.other);
    if (g.kind == GuardKind::Mro) instr.source = g.source.get();
    emit(instr);
  }

  GuardProgram& program_;
  GuardProgram::Impl& impl_;
  int locals_;
  uint32_t guard_ = 0;
  std::vector<int32_t> input_of_;
  std::vector<bool> bound_;
  std::multimap<std::pair<PyObject*, Py_hash_t>, std::size_t> group_items_;  // a dict and a hash: places in its group
  capture::SourceSet looked_at_;  // by guards that fail where they are unbound
};

Expected<std::unique_ptr<GuardProgram>, std::string> GuardProgram::make(const std::vector<Guard>& guards,
                                                                        const std::vector<capture::Input>& inputs,
                                                                        const std::vector<SourceRef>& sources,
                                                                        const graph::ShapeEnv& shapes,
                                                                        int local_count) {
  std::unique_ptr<GuardProgram> program(new GuardProgram());
  GuardCompiler compiler(*program, local_count);
  compiler.set_symbols(shapes);
  compiler.run(guards, inputs, sources);
  if (!compiler.why.empty()) return Unexpected<std::string>{compiler.why};
  return program;
}

GuardOperand GuardProgram::operand_of(const SourceRef& source) const {
  if (const auto known = impl_->sources.find(source); known != impl_->sources.end()) return known->second;
  FRAMEJIT_CHECK(false, "a source that was not given to GuardProgram::make: " + source->str());
}

}  // namespace framejit::ext::guards
