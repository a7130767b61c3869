// Which steps make the objects of a region, and in which order.
#include "ext/region/object_plan.h"

#include <algorithm>
#include <utility>

namespace framejit::ext::region {

using capture::Recipe;
using capture::Wrap;
using graph::ValueId;
using Result = ObjectPlan::Result;
using Root = ObjectPlan::Root;
using Step = ObjectPlan::Step;
using Storage = ObjectPlan::Storage;

namespace {

bool is_mutable(const Recipe& r) {
  return r.kind == Recipe::Kind::List || r.kind == Recipe::Kind::Dict || r.kind == Recipe::Kind::Cell ||
         r.kind == Recipe::Kind::Instance;
}

bool is_array(Wrap wrap) { return wrap == Wrap::NdArray || wrap == Wrap::Tensor; }

/// Does its size, or that of the memory it lies in, depend on what is measured?
bool is_measured(const graph::Graph& graph, ValueId v) {
  const auto is = [&](const graph::Dim& d) { return graph.shapes().is_measured(d); };
  const graph::Type &type = graph.type(v), &root = graph.type(graph.root(v));
  return is(type.offset) || std::any_of(type.shape.begin(), type.shape.end(), is) ||
         std::any_of(root.shape.begin(), root.shape.end(), is);
}

/// Do they make objects that the cycle collector knows of?
bool may_collect(const capture::Region& region, const std::vector<Step>& steps) {
  return std::any_of(steps.begin(), steps.end(), [&region](const Step& step) {
    const Recipe::Kind kind = region.recipes[step.recipe].kind;
    const bool plain = kind == Recipe::Kind::Result || kind == Recipe::Kind::Constant || kind == Recipe::Kind::Int ||
                       kind == Recipe::Kind::Choice || kind == Recipe::Kind::Range;
    return step.how == Step::Make && !plain;
  });
}

class ObjectPlanner {
 public:
  explicit ObjectPlanner(ObjectPlan& out) : out_(out) {}
  /// A reason why it cannot be done, or "".
  std::string analyse();

 private:
  std::string analyse_result(uint32_t recipe);
  void order(uint32_t recipe);
  void order_fill(uint32_t recipe);
  Step step_of(uint32_t recipe) const;

  ObjectPlan& out_;
  std::vector<uint8_t> visited_, filled_, is_late_, fill_late_;  // by recipe
};

std::string ObjectPlanner::analyse() {
  const graph::Graph& graph = *out_.region.graph;
  for (const ValueId root : out_.plan.program().result_roots) {
    out_.roots.emplace_back();
    out_.roots.back().layout = arrays::ArrayLayout::make(graph.type(root));
  }
  const std::size_t n = out_.region.recipes.size();
  out_.result_of.assign(n, -1);
  visited_.assign(n, 0);
  filled_.assign(n, 0);
  is_late_.assign(n, 0);
  fill_late_.assign(n, 0);
  for (uint32_t i = 0; i < n; ++i) {
    if (out_.region.recipes[i].kind == Recipe::Kind::Result)
      if (std::string why = analyse_result(i); !why.empty()) return why;
  }
  for (Result& result : out_.results) {
    // A number whose root is nothing else is written in place by the kernel.
    if (result.kind != Result::RootNumber) continue;
    Root& root = out_.roots[result.number];
    if (root.storage == Storage::Hidden) {
      root.storage = is_open(result.wrap, root.layout.dtype) ? Storage::Number : Storage::Cell;
      root.wrap = result.wrap;
      if (root.storage == Storage::Number) result.kind = Result::RootObject;
    }
  }
  for (std::size_t k = 0; k < out_.roots.size(); ++k)
    if (out_.roots[k].storage == Storage::Array && is_measured(graph, out_.plan.program().result_roots[k])) {
      out_.roots[k].storage = Storage::Measured;
      out_.measures = true;
    }
  for (const Root& root : out_.roots)
    if (root.storage == Storage::Cell && (!root.layout.constant || root.layout.bytes > 16))
      return "a number of more than one element";
  for (uint32_t i = 0; i < n; ++i) order(i);
  for (uint32_t i = 0; i < n; ++i)
    if (is_mutable(out_.region.recipes[i])) order_fill(i);
  out_.early_collects = may_collect(out_.region, out_.early);
  out_.late_collects = may_collect(out_.region, out_.late);
  return {};
}

std::string ObjectPlanner::analyse_result(uint32_t recipe) {
  const graph::Graph& graph = *out_.region.graph;
  const Recipe& r = out_.region.recipes[recipe];
  if (r.index >= graph.results().size()) return "a result that the graph does not have";
  const ValueId value = graph.results()[r.index];
  const ValueId root = graph.root(value);
  const bool view = value != root;
  Result result{Result::RootObject,       r.wrap,   0, arrays::ArrayLayout::make(graph.type(value)),
                graph.type(value).offset, r.writing};
  if (!result.layout.descr) return "NumPy has no dtype for a result";

  const std::vector<ValueId>& params = graph.params();
  for (uint32_t p = 0; p < params.size(); ++p) {
    if (params[p] != root) continue;
    result.number = p;
    if (is_array(r.wrap)) result.kind = view ? Result::ParamView : Result::ParamObject;
    else result.kind = !view && out_.region.inputs[p].spec.wrap == r.wrap ? Result::ParamObject : Result::ParamNumber;
    const bool of_tensor = out_.region.inputs[p].spec.wrap == Wrap::Tensor;
    if (result.kind == Result::ParamView && of_tensor) return "a view of a Tensor";
    if (result.kind == Result::ParamObject && of_tensor && r.wrap == Wrap::NdArray) result.kind = Result::ParamArray;
    out_.result_of[recipe] = static_cast<int32_t>(out_.results.size());
    out_.results.push_back(std::move(result));
    return {};
  }

  const std::vector<ValueId>& fresh = out_.plan.program().result_roots;
  for (uint32_t k = 0; k < fresh.size(); ++k) {
    if (fresh[k] != root) continue;
    result.number = k;
    if (!is_array(r.wrap)) {
      result.kind = Result::RootNumber;
      if (view) out_.roots[k].storage = Storage::Array;
    } else {
      bool taken = false;  // two recipes are two objects, even where equal computations were joined
      for (const Result& other : out_.results) taken = taken || (other.kind == Result::RootObject && other.number == k);
      result.kind = view ? Result::RootView : taken ? Result::RootCopy : Result::RootObject;
      out_.roots[k].storage = Storage::Array;
    }
    out_.result_of[recipe] = static_cast<int32_t>(out_.results.size());
    out_.results.push_back(std::move(result));
    return {};
  }
  return "a result that the program does not give back";
}

// Steps are put in order once. Mutable containers exist before what they contain, so that they may contain themselves.

void ObjectPlanner::order(uint32_t recipe) {
  if (visited_[recipe] || out_.region.recipes[recipe].kind == Recipe::Kind::Null) return;
  visited_[recipe] = 1;
  const Recipe& r = out_.region.recipes[recipe];
  bool late = false;
  if (r.kind == Recipe::Kind::Result) {
    const Result& result = out_.results[out_.result_of[recipe]];
    late = result.kind == Result::RootNumber || result.kind == Result::ParamNumber || result.kind == Result::RootCopy ||
           is_measured(*out_.region.graph, out_.region.graph->results()[r.index]);
  } else if (r.kind == Recipe::Kind::Int) {
    late = out_.region.graph->shapes().is_measured(r.dim);
  } else if (!is_mutable(r)) {
    late = r.kind == Recipe::Kind::Text;
    for (const uint32_t item : r.items) {
      order(item);
      late = late || is_late_[item];
      if (r.kind == Recipe::Kind::Iterator && is_mutable(out_.region.recipes[item])) {
        order_fill(item);
        late = late || fill_late_[item];
      }
    }
  }
  is_late_[recipe] = late;
  (r.kind == Recipe::Kind::Fetch || r.kind == Recipe::Kind::Constant ? out_.first
   : late                                                            ? out_.late
                                                                     : out_.early)
      .push_back(step_of(recipe));
}

ObjectPlan::Step ObjectPlanner::step_of(uint32_t recipe) const {
  switch (out_.region.recipes[recipe].kind) {
    case Recipe::Kind::Fetch:
      return {Step::Fetch, recipe, 0, out_.guards.operand_of(out_.region.recipes[recipe].source)};
    case Recipe::Kind::Result: {
      const Result& result = out_.results[static_cast<std::size_t>(out_.result_of[recipe])];
      if (result.kind == Result::RootObject && result.wrap != Wrap::Tensor &&
          result.writing == capture::Writing::Allowed)
        return {Step::Root, recipe, result.number};
      if (result.kind == Result::ParamObject)
        return {Step::Fetch, recipe, 0, out_.guards.input_operands()[result.number]};
      break;
    }
    default: break;
  }
  return {Step::Make, recipe};
}

void ObjectPlanner::order_fill(uint32_t recipe) {
  if (filled_[recipe]) return;
  filled_[recipe] = 1;
  bool late = false;
  for (const uint32_t item : out_.region.recipes[recipe].items) {
    order(item);
    late = late || is_late_[item];
  }
  fill_late_[recipe] = late;
  (late ? out_.late : out_.early).push_back({Step::Fill, recipe});
}

}  // namespace

Expected<ObjectPlan, std::string> plan_objects(const capture::Region& region, const guards::GuardProgram& guards,
                                               const runtime::Plan& plan) {
  ObjectPlan out{region, guards, plan, {}, {}, {}, {}, {}, {}};
  if (std::string why = ObjectPlanner(out).analyse(); !why.empty()) return Unexpected<std::string>{std::move(why)};
  return out;
}

}  // namespace framejit::ext::region
