// Instructions and graph nodes are counted, so that a program is captured in the same way each time. Time is the last
// resort.
#include "capture/limits.h"

#include <time.h>

#include <algorithm>

#include "capture/splice.h"
#include "graph/support/interrupt.h"

namespace framejit::capture {

namespace {

constexpr uint64_t kPollEvery = 32;    // instructions: some 20 us
constexpr int64_t kWithoutArrays = 5;  // so much less time, where no array operation was found
constexpr int64_t kNanosecondsPerNode =
    100'000;  // layers of a network take a fifth, with the Python code between operations

int64_t now(clockid_t clock) {
  timespec at{};
  clock_gettime(clock, &at);
  return at.tv_sec * int64_t{1'000'000'000} + at.tv_nsec;
}

}  // namespace

/// Whether a library call reads one element of an array, at indices that are known only at run time.
static bool is_element_read(const graph::Graph& graph, const graph::Node& node) {
  const auto& inputs = node.inputs;
  if (node.op != graph::Op::LibraryCall || node.type.rank() > 0 || inputs.size() < 2) return false;
  return graph.type(inputs[0]).dtype == node.type.dtype &&
         std::all_of(inputs.begin() + 1, inputs.end(), [&](graph::ValueId input) {
           const graph::Type& type = graph.type(input);
           return type.rank() == 0 && type.dtype == graph::DType::I64;
         });
}

bool is_array_work(const graph::Graph& graph, graph::ValueId v) {
  const graph::Node& node = graph.node(v);
  if (is_element_read(graph, node)) return false;
  switch (graph::def(node.op).cls) {
    case graph::OpClass::Source:
    case graph::OpClass::View:
    case graph::OpClass::Control: return false;
    default:
      return node.type.rank() > 0 || std::any_of(node.inputs.begin(), node.inputs.end(),
                                                 [&](graph::ValueId input) { return graph.type(input).rank() > 0; });
  }
}

Limits::Limits(const CaptureOptions& options)
    : options_(options), started_(now(CLOCK_MONOTONIC)), started_cpu_(now(CLOCK_THREAD_CPUTIME_ID)) {}

bool Limits::out_of_time(std::size_t nodes) const {
  if (options_.time_limit_ns <= 0) return false;
  const int64_t more = std::min(static_cast<int64_t>(nodes) * kNanosecondsPerNode, options_.time_limit_ns);
  const int64_t limit = saw_array_work() ? options_.time_limit_ns + more : options_.time_limit_ns / kWithoutArrays;
  // Reading the thread's own time takes a system call.
  return now(CLOCK_MONOTONIC) - started_ > limit && now(CLOCK_THREAD_CPUTIME_ID) - started_cpu_ > limit;
}

std::optional<Break> Limits::exceeded(uint32_t steps, Session& session) {
  const graph::Graph& graph = session.graph();
  const std::size_t nodes = graph.value_count();
  const uint64_t work = steps + session.work().done();
  const bool whole = options_.fullgraph || session.tapes().any();
  if (interrupted_) return Break{BreakId::CaptureTime, "a signal"};
  uint64_t most = options_.instruction_limit + nodes * uint64_t{options_.instructions_per_node};
  if (work >= most) return Break{BreakId::CapturedTooMuch};
  if (nodes > (whole ? 4 * options_.most_nodes_of_loop() : options_.most_nodes()))
    return Break{BreakId::CapturedTooMuch, "graph nodes"};
  for (seen_nodes_ = std::min(seen_nodes_, nodes); seen_nodes_ < nodes; ++seen_nodes_)
    if (is_array_work(graph, graph::ValueId{static_cast<uint32_t>(seen_nodes_)}))
      last_array_work_ = std::max<uint64_t>(work, 1);
  if (!whole) most = std::min(most, last_array_work_ + options_.idle_limit);
  if (work > most) return Break{BreakId::CapturedTooMuch};
  session.work().set_limit(most - steps);
  if (work >= next_poll_) {
    next_poll_ = work + kPollEvery;
    interrupted_ = signal_pending() || is_interrupted();
    if (interrupted_) return Break{BreakId::CaptureTime, "a signal"};
    if (!whole && out_of_time(nodes)) return Break{BreakId::CaptureTime};
  }
  return std::nullopt;
}

}  // namespace framejit::capture
