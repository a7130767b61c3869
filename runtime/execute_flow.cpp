// Control flow between steps: conditions are bools in memory, branches change the number of the next step, and what a
// loop carries changes place by its pointer.
#include <utility>

#include "runtime/execute.h"

namespace framejit::runtime {

using codegen::FlowStep;

namespace {

constexpr uint32_t kPollEvery = 16;  // rounds of a loop

}  // namespace

std::size_t execute_flow(const BoundFlow& flow, std::size_t at, char** buffers, RunState& state) {
  const FlowStep& step = *flow.step;
  const auto is_true = [&] { return buffers[step.a][flow.offset] != 0; };
  switch (step.kind) {
    case FlowStep::Jump: return step.target;
    case FlowStep::BranchIfFalse: return is_true() ? at + 1 : step.target;
    case FlowStep::BranchBack:
      if (!is_true()) return at + 1;
      if (state.poller && ++state.rounds % kPollEvery == 0) state.poller->check();
      return step.target;
    case FlowStep::SetSymbol: break;  // the plan's
    case FlowStep::MoveBuffer: buffers[step.a] = buffers[step.b] + flow.offset; break;
    case FlowStep::RotateBuffers:
      buffers[step.a] = buffers[step.b];
      std::swap(buffers[step.b], buffers[step.c]);
      break;
    case FlowStep::Expect:
      if (!is_true()) {
        state.redo = state.unexpected = true;
        state.location = step.target;
      }
      break;
  }
  return at + 1;
}

}  // namespace framejit::runtime
