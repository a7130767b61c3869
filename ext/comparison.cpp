// See comparison.h. Medians, since other processes and rare ways through the code make single times long.
#include "ext/comparison.h"

#include <algorithm>

#include "capture/py/ref.h"
#include "ext/compile.h"
#include "ext/module.h"

namespace framejit::ext {

namespace {

constexpr double kLeastGain = 0.97;   // of the bytecode's time: what takes more is not worth it
constexpr double kClearGain = 0.5, kClearLoss = 2;  // decide early
constexpr double kSure = 0.6;         // of an estimate
constexpr int64_t kLong = 1000000, kManyTimes = 5;  // the bytecode does not run again for so long, where so much is gained

PyObject* test_clock = nullptr;  // owned

}  // namespace

int64_t read_clock(Reading reading) {
  if (!test_clock) [[likely]]
    return now_ns();
  constexpr const char* kNames[] = {"start", "compiled", "bytecode"};
  const capture::Ref<> time = capture::Ref<>::steal(PyObject_CallFunction(test_clock, "s", kNames[static_cast<int>(reading)]));
  const long long nanoseconds = time ? PyLong_AsLongLong(time.get()) : -1;
  if (PyErr_Occurred()) PyErr_WriteUnraisable(test_clock);
  return nanoseconds;
}

void Comparison::add(int64_t nanoseconds, double least_bytecode) {
  const auto side = static_cast<std::size_t>(next());
  const bool warms_up = turn_ % kBlock == 0;
  ++turn_;
  if (!warms_up) times_[side][static_cast<std::size_t>(counts_[side]++)] = nanoseconds;
  const bool of_compiled = side == static_cast<std::size_t>(Side::Compiled);
  if (!warms_up && of_compiled && counts_[1] == 0 && static_cast<double>(nanoseconds) < kSure * least_bytecode)
    verdict_ = Verdict::Keep;
  else if (!of_compiled && nanoseconds > kLong && nanoseconds > kManyTimes * *std::max_element(times_[0].begin(), times_[0].end()))
    verdict_ = Verdict::Keep;
  else if (turn_ % kBlock == 0)
    decide();
}

void Comparison::decide() {
  if (counts_[1] == 0) return;
  auto sorted = times_;
  for (std::size_t side = 0; side < 2; ++side) std::sort(sorted[side].begin(), sorted[side].begin() + counts_[side]);
  auto time = [&](std::size_t side, int at) { return static_cast<double>(sorted[side][static_cast<std::size_t>(at)]); };
  if (counts_[0] == counts_[1]) {
    if (time(0, counts_[0] - 1) < kClearGain * time(1, 0)) verdict_ = Verdict::Keep;
    if (time(0, 0) > kClearLoss * time(1, counts_[1] - 1)) verdict_ = Verdict::Drop;
  }
  if (!is_open() || turn_ < 2 * kBlock * kBlocks) return;
  verdict_ = time(0, kRuns / 2) < kLeastGain * time(1, kRuns / 2) ? Verdict::Keep : Verdict::Drop;
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

PyMethodDef methods[] = {{"set_clock", set_clock, METH_O,
                          "set_clock(callable or None): what takes the place of the clock by which compiled code and bytecode are "
                          "compared, for tests.\nCalled with 'start', 'compiled' or 'bytecode', at the end of a run that is that."},
                         {nullptr, nullptr, 0, nullptr}};

const ModulePart part(20, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace
}  // namespace framejit::ext
