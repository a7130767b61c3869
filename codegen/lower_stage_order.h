// Lowering, inside: which stage of a step computes each of its terms.
#pragma once

#include <map>
#include <vector>

#include "codegen/lower_step.h"

namespace framejit::codegen::detail {

/// The terms of a step in order, and the stage of each: even stages are kernels, odd ones NumPy loops
/// (lower_stages.cpp).
class StageOrder {
 public:
  StageOrder(const StepSpec& of, Facts& facts);

  bool computed(TermId t) const;
  /// Whose flags the kernel of a stage sets; -1: nobody's, or nobody asks.
  int32_t slot_of_stage(int stage) const;
  int last_read(TermId t) const;
  void check_numpy_loop_operands() const;

  const StepSpec& spec;
  const LoopAxes axes;
  std::vector<Term> terms;
  TermId value = 0;              // that is folded
  std::vector<TermId> order;     // of those that are needed
  std::vector<int> stage_of;     // by term
  std::vector<int> store_stage;  // by store of the step; -1: a NumPy loop itself stores
  std::map<int, int32_t> slot_by_stage;
  int last_kernel = 0, fold_stage = -1;
  std::map<TermId, const StoreTerm*> direct;  // what a NumPy loop writes into fresh memory

 private:
  bool many_run_axes() const;
  /// Where a run crosses rows, NumPy loops and the fold work on the linear tile: loads get a copy in scratch.
  void gather_for_runs();
  TermId append_copy(TermId of);
  /// Terms in an order in which arguments come first (copies were appended behind their users), and only those needed.
  void find_needed();
  void visit(TermId root);
  void number_stages();
  bool can_write_directly(const StoreTerm& s) const;
  /// A run of several axes is folded from scratch, by a kernel of its own.
  void prepare_fold_scratch();

  std::vector<bool> visited_;
};

/// The same element for the whole step.
bool is_scalar(const Access& access);

}  // namespace framejit::codegen::detail
