// See comparison.h. Medians, since other processes and rare ways through the code make single times long.
#include "ext/region/comparison.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <utility>

#include "capture/py/ref.h"
#include "ext/arrays/numpy_api.h"
#include "ext/module/module.h"
#include "graph/support/clock.h"

namespace framejit::ext::region {

namespace {

constexpr double kLeastGain = 0.97;  // of the bytecode's time: what takes more is not worth it
// Decide early, by the slowest of one side and the fastest of the other, behind the first and the second blocks of
// both.
constexpr std::array<double, 2> kClearGain = {0.7, 0.93}, kClearLoss = {1.25, 1.03};
constexpr int kMostRuns = 12;            // of a block behind the first
constexpr int64_t kEnough = 50000;       // ns of it
constexpr double kSure = 0.6;            // of an estimate
constexpr int64_t kTooLong = 200000000;  // the bytecode may take many times as long
// The bytecode does not run again for so long, where so much is gained. A longer time is disturbed by less.
struct LongRun {
  int64_t ns;
  double times;
};
constexpr std::array<LongRun, 2> kLongRuns = {{{300000, 3.0}, {3000000, 1.5}}};

PyObject* test_clock = nullptr;  // owned

}  // namespace

int64_t read_clock(Reading reading) {
  if (!test_clock && reading == Reading::Compiling) {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * int64_t{1'000'000'000} + at.tv_nsec;
  }
  if (!test_clock) [[likely]]
    return now_ns();
  constexpr const char* kNames[] = {"start", "compiled", "bytecode", "start"};
  PyObject *type, *value, *traceback;  // of a call that was timed
  PyErr_Fetch(&type, &value, &traceback);
  const capture::Ref<> time =
      capture::Ref<>::steal(PyObject_CallFunction(test_clock, "s", kNames[static_cast<int>(reading)]));
  const long long nanoseconds = time ? PyLong_AsLongLong(time.get()) : -1;
  if (PyErr_Occurred()) PyErr_WriteUnraisable(test_clock);
  PyErr_Restore(type, value, traceback);
  return nanoseconds;
}

constexpr long kLargestSize = 1L << 30;  // a larger number is none

int size_class(capture::py::Slots slots, int count) {
  uint64_t size = 0;
  for (int i = 0; i < count; ++i) {
    PyObject* object = slots[i];
    if (!object) continue;
    if (PyArray_Check(object)) size += static_cast<uint64_t>(PyArray_SIZE(reinterpret_cast<PyArrayObject*>(object)));
    else if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) size += static_cast<uint64_t>(Py_SIZE(object));
    else if (PyLong_CheckExact(object)) {
      int overflow = 0;
      const long number = PyLong_AsLongAndOverflow(object, &overflow);
      if (!overflow && std::abs(number) < kLargestSize) size += static_cast<uint64_t>(std::abs(number));
    }
  }
  return std::bit_width(size);
}

bool Comparison::is_block_over() const {
  if (block_ == 0) return runs_ >= kMostWarmUp || (runs_ >= warm_up_.least_runs && spent_ >= warm_up_.enough_ns);
  return runs_ >= kMostRuns || (runs_ > kCounted && spent_ >= kEnough);
}

void Comparison::add(int64_t nanoseconds, double least_bytecode) {
  const Side side = next();
  const int64_t before = std::exchange(before_, nanoseconds);
  ++runs_;
  spent_ += nanoseconds;
  // A long one need not come again where so much is gained.
  if (side == Side::Bytecode) {
    const auto compiled = times_[0].begin();
    const int64_t fastest = *std::min_element(compiled, compiled + (block_ + 1) / 2 * kCounted);
    const bool gains = std::any_of(kLongRuns.begin(), kLongRuns.end(), [&](const LongRun& run) {
      return nanoseconds > run.ns && static_cast<double>(nanoseconds) > run.times * static_cast<double>(fastest);
    });
    if (gains) {
      verdict_ = Verdict::Keep;
      gain_ = nanoseconds - fastest;
    }
  }
  if (!is_block_over() || !is_open()) return;
  auto& times = times_[static_cast<std::size_t>(side)];
  const auto at = static_cast<std::size_t>(block_ / 2 * kCounted);
  times[at] = before;
  times[at + 1] = nanoseconds;
  const int64_t most = std::max(before, nanoseconds);
  if (block_++ == 0 && (static_cast<double>(most) < kSure * least_bytecode || most > kTooLong))
    verdict_ = Verdict::Keep;
  runs_ = 0;
  spent_ = 0;
  if (side == Side::Bytecode) decide();
}

void Comparison::decide() {
  const int count = block_ / 2 * kCounted;
  auto sorted = times_;
  for (auto& times : sorted) std::sort(times.begin(), times.begin() + count);
  auto time = [&](Side side, int at) {
    return static_cast<double>(sorted[static_cast<std::size_t>(side)][static_cast<std::size_t>(at)]);
  };
  const double compiled = time(Side::Compiled, disturbed_ ? 0 : count / 2), bytecode = time(Side::Bytecode, count / 2);
  const std::size_t blocks = static_cast<std::size_t>(block_) / 2;
  if (blocks <= kClearGain.size()) {
    if (time(Side::Compiled, count - 1) < kClearGain[blocks - 1] * time(Side::Bytecode, 0)) verdict_ = Verdict::Keep;
    if (time(Side::Compiled, 0) > kClearLoss[blocks - 1] * time(Side::Bytecode, count - 1)) verdict_ = Verdict::Drop;
  }
  if (is_open() && block_ == 2 * kBlocks) verdict_ = compiled < kLeastGain * bytecode ? Verdict::Keep : Verdict::Drop;
  if (verdict_ == Verdict::Keep) gain_ = std::max<int64_t>(0, static_cast<int64_t>(bytecode - compiled));
}

void Comparison::discard() {
  if (++discarded_ == kMostDiscarded) verdict_ = Verdict::Keep;
}

namespace {

PyObject* set_clock(PyObject*, PyObject* callable) {
  PyObject* old = std::exchange(test_clock, callable == Py_None ? nullptr : Py_NewRef(callable));
  Py_XDECREF(old);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"set_clock", set_clock, METH_O,
     "set_clock(callable or None): what takes the place of the clock by which compiled code and bytecode are "
     "compared, for tests.\nCalled with 'start', 'compiled' or 'bytecode', at the end of a run that is that."},
    {nullptr, nullptr, 0, nullptr}};

const module::ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace
}  // namespace framejit::ext::region
