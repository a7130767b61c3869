// What follows from the settings.
#include "ext/dispatch/code_unit.h"

#include <cstdint>

#include "capture/py/repr.h"
#include "ext/arrays/numpy_api.h"
#include "ext/module/config.h"

namespace framejit::ext::dispatch {

using capture::Ref;
using module::Profitability;

CodeUnit::CodeUnit(PyCodeObject* code, const JitSettings& settings, capture::CodeView::Keep keep)
    : code_(code), keep_(keep), settings_(settings) {
  if (keep == capture::CodeView::Keep::Code) kept_ = Ref<PyCodeObject>::share(code);
}

const std::shared_ptr<const capture::CodeView>& CodeUnit::view() {
  if (!view_) view_ = capture::CodeView::decode(code_, keep_);
  return view_;
}

std::string CodeUnit::name() const { return capture::text_of(code_->co_qualname); }

bool CodeUnit::estimates() const {
  return module::config().profitable_by != Profitability::Off && !settings_.fullgraph && !settings_.ignore_fp_flags &&
         !settings_.stress.any();
}

bool CodeUnit::compares() const {
  return module::config().profitable_by == Profitability::Measure && estimates() && settings_.plan.resident < INT64_MAX;
}

/// NumPy 1 has other types for its scalars beside Python numbers.
bool CodeUnit::compiles_loops() const {
  return !settings_.fullgraph && !settings_.ignore_fp_flags && arrays::numpy_version().major >= 2;
}

// The frame of a generator is others' to resume: only what stands between its yields compiles.
bool CodeUnit::starts_broken() const { return !settings_.fullgraph && (is_generator() || settings_.stress.splices()); }

}  // namespace framejit::ext::dispatch
