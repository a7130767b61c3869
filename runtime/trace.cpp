// The spans of all threads stand in one list: a span is made by a compilation or a kernel, not by an element.
#include "runtime/trace.h"

#include <unistd.h>

#include <mutex>
#include <set>
#include <vector>

namespace framejit::runtime {

namespace {

constexpr std::size_t kMostSpans = 2'000'000;  // later ones are dropped

struct Span {
  const char* category;
  std::string name;
  int thread;
  int64_t begin, end;
};

std::mutex mutex;
std::vector<Span>& spans() {
  static std::vector<Span> list;
  return list;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

/// Microseconds with three places.
std::string microseconds(int64_t nanoseconds) {
  std::string rest = std::to_string(nanoseconds % 1000);
  return std::to_string(nanoseconds / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

}  // namespace

void trace_span(const char* category, std::string_view name, int64_t begin, int64_t end) {
  if (!tracing.load(std::memory_order_relaxed)) return;
  const std::lock_guard lock(mutex);
  if (spans().size() < kMostSpans) spans().push_back({category, std::string(name), gettid(), begin, end});
}

void trace_start() {
  const std::lock_guard lock(mutex);
  spans().clear();
  tracing = true;
}

std::string trace_stop() {
  const std::lock_guard lock(mutex);
  tracing = false;
  const std::string pid = std::to_string(getpid());
  std::set<int> threads;
  std::string out = "{\"displayTimeUnit\": \"ns\", \"traceEvents\": [";
  const char* separator = "\n";
  for (const Span& s : spans()) {
    threads.insert(s.thread);
    out += separator;
    separator = ",\n";
    out += "{\"ph\": \"X\", \"cat\": " + quoted(s.category) + ", \"name\": " + quoted(s.name) + ", \"pid\": " + pid +
           ", \"tid\": " + std::to_string(s.thread) + ", \"ts\": " + microseconds(s.begin) +
           ", \"dur\": " + microseconds(s.end - s.begin) + "}";
  }
  for (const int thread : threads) {
    const std::string name = thread == getpid() ? "main" : "thread " + std::to_string(thread);
    out += separator;
    separator = ",\n";
    out += "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": " + pid + ", \"tid\": " + std::to_string(thread) +
           ", \"args\": {\"name\": " + quoted(name) + "}}";
  }
  spans().clear();
  return out + "\n]}\n";
}

}  // namespace framejit::runtime
