// Spans of time, as Chrome and Perfetto show them. Off, a span costs one load and one branch.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "graph/support/clock.h"

namespace framejit::runtime {

inline std::atomic<bool> tracing{false};

/// Notes a span of the calling thread; nothing where tracing is off.
void trace_span(const char* category, std::string_view name, int64_t begin, int64_t end);

/// From its construction to its destruction. A null category: no span.
class TraceSpan {
 public:
  TraceSpan(const char* category, std::string_view name) : category_(category), name_(name) {
    if (category && tracing.load(std::memory_order_relaxed)) [[unlikely]]
      begin_ = now_ns();
  }
  ~TraceSpan() {
    if (begin_) [[unlikely]]
      trace_span(category_, name_, begin_, now_ns());
  }
  TraceSpan(const TraceSpan&) = delete;

 private:
  const char* category_;
  std::string_view name_;  // outlives the span
  int64_t begin_ = 0;
};

void trace_start();
/// What was noted since, as the text of a JSON file.
std::string trace_stop();

}  // namespace framejit::runtime
