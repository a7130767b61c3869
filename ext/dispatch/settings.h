// What jit() was asked for.
#pragma once

#include <Python.h>

#include "ext/module/stress.h"
#include "graph/pass.h"
#include "runtime/plan.h"

namespace framejit::ext::dispatch {

struct JitSettings {
  bool fullgraph = false;
  bool ast = false, trace = false;  // capture_mode
  bool dynamic = false;
  bool o1 = false;  // or above
  bool o2 = false;
  bool ignore_fp_flags = false;  // floating-point flags are nobody's: gradients do not warn
  bool constant_parameters = false, keep_layouts = false;
  bool cached = false;
  graph::ExecOrder order = graph::ExecOrder::Program;
  runtime::PlanOptions plan;
  module::Stress stress;  // those of config.stress included
};
/// From the dict that the Python side made; false with an exception set where it is malformed.
bool read_settings(PyObject* dict, JitSettings& out);

}  // namespace framejit::ext::dispatch
