// Stages of a step: terms in an order in which arguments come first, and for each the first stage that can compute it.
#include "codegen/lower_stage_order.h"

#include <algorithm>
#include <string>

namespace framejit::codegen::detail {

bool is_scalar(const Access& access) {
  return std::all_of(access.strides.begin(), access.strides.end(), [](const Dim& s) { return s == Dim(0); });
}

StageOrder::StageOrder(const StepSpec& of, Facts& facts) : spec(of), axes(loop_axes(of, facts)), terms(of.terms) {
  if (spec.fold) value = spec.fold->value;
  gather_for_runs();
  find_needed();
  number_stages();
  prepare_fold_scratch();
}

bool StageOrder::many_run_axes() const { return spec.fold && spec.fold->kind == ReduceKind::Pairwise && axes.run > 1; }

void StageOrder::gather_for_runs() {
  if (!many_run_axes()) return;
  const std::size_t count = terms.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!terms[i].numpy_loop) continue;
    for (std::size_t a = 0; a < terms[i].args.size(); ++a) {
      const Term& arg = terms[terms[i].args[a]];
      if (arg.kind != Term::kLoad || is_scalar(arg.access)) continue;
      const TermId copy = append_copy(terms[i].args[a]);
      terms[i].args[a] = copy;
    }
  }
  if (terms[value].kind != Term::kCopy) value = append_copy(value);
}

TermId StageOrder::append_copy(TermId of) {
  Term copy;
  copy.kind = Term::kCopy;
  copy.dtype = copy.operand_dtype = terms[of].dtype;
  copy.args = {of};
  terms.push_back(std::move(copy));
  return static_cast<TermId>(terms.size() - 1);
}

void StageOrder::find_needed() {
  visited_.assign(terms.size(), false);
  for (const StoreTerm& s : spec.stores) visit(s.value);
  for (TermId t : spec.kept) visit(t);
  if (spec.fold) visit(value);
}

void StageOrder::visit(TermId root) {
  if (visited_[root]) return;
  std::vector<std::pair<TermId, std::size_t>> stack{{root, 0}};
  visited_[root] = true;
  while (!stack.empty()) {
    auto& [term, next] = stack.back();
    if (next < terms[term].args.size()) {
      const TermId arg = terms[term].args[next++];
      if (!visited_[arg]) {
        visited_[arg] = true;
        stack.emplace_back(arg, 0);
      }
    } else {
      order.push_back(term);
      stack.pop_back();
    }
  }
}

bool StageOrder::computed(TermId t) const {
  const Term& term = terms[t];
  if (term.kind == Term::kPart) return computed(term.args[0]);
  return term.kind == Term::kApply || term.kind == Term::kCopy || term.kind == Term::kPair;
}

void StageOrder::number_stages() {
  stage_of.assign(terms.size(), 0);
  int highest = 0;
  for (TermId t : order) {
    const Term& term = terms[t];
    if (!computed(t)) continue;
    int stage = term.numpy_loop ? 1 : 0;
    for (TermId arg : term.args) {
      if (!computed(arg) && terms[arg].kind != Term::kIndex) continue;
      const int from = stage_of[arg];
      if (term.numpy_loop) stage = std::max(stage, terms[arg].numpy_loop ? from : from + 1);
      else stage = std::max(stage, terms[arg].numpy_loop ? from + 1 : from);
    }
    if (!term.numpy_loop && term.slot >= 0) {
      while (slot_of_stage(stage) >= 0 && slot_of_stage(stage) != term.slot) stage += 2;
      slot_by_stage[stage] = term.slot;
    }
    stage_of[t] = stage;
    highest = std::max(highest, stage);
  }
  // Late stores and the fold are in the last kernel.
  last_kernel = highest + highest % 2;
  store_stage.clear();
  for (const StoreTerm& s : spec.stores) {
    const bool numpy_loop = computed(s.value) && terms[s.value].numpy_loop;
    int stage = s.late ? last_kernel : numpy_loop ? stage_of[s.value] + 1 : stage_of[s.value];
    if (numpy_loop && s.direct && !direct.contains(s.value) && can_write_directly(s)) {
      direct[s.value] = &s;
      stage = -1;  // the loop itself
    }
    store_stage.push_back(stage);
  }
}

int32_t StageOrder::slot_of_stage(int stage) const {
  const auto it = slot_by_stage.find(stage);
  return it == slot_by_stage.end() ? -1 : it->second;
}

bool StageOrder::can_write_directly(const StoreTerm& s) const {
  const Dims strides = axes.strides(s.access);
  return strides.empty() || strides.back() == Dim(graph::size_of(s.access.dtype));
}

void StageOrder::prepare_fold_scratch() {
  if (!spec.fold) return;
  fold_stage = last_kernel;
  if (computed(value) && terms[value].numpy_loop) fold_stage = std::max(fold_stage, stage_of[value] + 1);
  if (many_run_axes()) fold_stage = std::max(fold_stage, stage_of[value] + 2);
}

void StageOrder::check_numpy_loop_operands() const {
  for (TermId t : order) {
    const Term& term = terms[t];
    if (!term.numpy_loop) continue;
    const std::string op(graph::name_of(term.op));
    if (term.dtype == DType::F16 && axes.extents.empty()) fail(op + " of a float16 scalar is left to NumPy");
    for (std::size_t a = 0; a < term.args.size(); ++a) {
      const Term& arg = terms[term.args[a]];
      if (arg.kind != Term::kLoad) continue;
      const Dims strides = axes.strides(arg.access);
      bool zero = false, moves = false;
      for (const Dim& s : strides) {
        if (s.is_const() && s.value() < 0) fail(op + " of an array with a negative stride is left to NumPy");
        zero = zero || s == Dim(0);
        moves = moves || !(s == Dim(0));
      }
      if (term.op == Op::Power && a == 1 && zero && moves)
        fail("power with an exponent that is broadcast along some axes only is left to NumPy");
      if (term.dtype == DType::F16 && moves && !(strides.back() == Dim(2)))
        fail(op + " of a float16 array that is not contiguous is left to NumPy");
    }
  }
}

int StageOrder::last_read(TermId t) const {
  int last = stage_of[t];
  for (TermId user : order)
    for (TermId arg : terms[user].args)
      if (arg == t) last = std::max(last, stage_of[user]);
  for (std::size_t i = 0; i < spec.stores.size(); ++i)
    if (spec.stores[i].value == t) last = std::max(last, store_stage[i]);
  if (spec.fold && value == t) last = std::max(last, fold_stage);
  return last;
}

}  // namespace framejit::codegen::detail
