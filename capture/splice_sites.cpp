// Where sites stand by default, and copies of functions: what splicing needs and no version of CPython decides.
#include "capture/py/cpython/objects.h"

#include <set>

#include "capture/splice.h"

namespace framejit::capture {

namespace {

bool is_conditional_jump(Opcode op) {
  switch (op) {
    case Opcode::PopJumpIfFalse:
    case Opcode::PopJumpIfTrue:
    case Opcode::PopJumpIfNone:
    case Opcode::PopJumpIfNotNone:
    case Opcode::JumpIfFalseOrPop:
    case Opcode::JumpIfTrueOrPop: return true;
    default: return false;
  }
}

bool is_jump(Opcode op) {
  return is_conditional_jump(op) || op == Opcode::Jump || op == Opcode::ForIter || op == Opcode::Send;
}

/// Capture ends in front of these or looks at the frame anew behind them.
bool breaks_flow(Opcode op) {
  switch (op) {
    case Opcode::Call:
    case Opcode::CallFunctionEx:
    case Opcode::PushExcInfo:
    case Opcode::Resume:
    case Opcode::ForIter:
    case Opcode::BeforeWith: return true;
    default: return is_conditional_jump(op);
  }
}

/// Nothing that a region could do begins with these.
bool leads_away(Opcode op) {
  return op == Opcode::ReturnValue || op == Opcode::ReturnConst || op == Opcode::Reraise || op == Opcode::Jump;
}

}  // namespace

std::vector<uint32_t> default_sites(const CodeView& view) {
  const std::span<const Instr> instrs = view.instrs();
  std::set<uint32_t> wanted;
  for (uint32_t i = 0; i < instrs.size(); ++i) {
    if (instrs[i].depth < 0) continue;
    if (is_jump(instrs[i].op)) wanted.insert(static_cast<uint32_t>(instrs[i].arg));
    if (view.calls_comprehension(i)) wanted.insert(i);
    // The copies of the end of the function stand where paths joined.
    if (view.merged(i) != i && i > 0 && view.merged(i - 1) == i - 1) wanted.insert({i, view.merged(i)});
    if (!breaks_flow(instrs[i].op)) continue;
    uint32_t next = i + 1;  // past what nothing may stand in front of
    while (next < instrs.size() && instrs[next].op == Opcode::Nop && !instrs[next].boundary) ++next;
    wanted.insert(next);
  }
  std::vector<uint32_t> sites;
  for (uint32_t i : wanted)
    if (i < instrs.size() && instrs[i].boundary && !leads_away(instrs[i].op)) sites.push_back(i);
  return sites;
}

Ref<> function_with_code(PyFunctionObject* function, PyCodeObject* code) {
  Ref<> copy = Ref<>::steal(
      PyFunction_NewWithQualName(reinterpret_cast<PyObject*>(code), function->func_globals, function->func_qualname));
  if (!copy) return {};
  auto* to = reinterpret_cast<PyFunctionObject*>(copy.get());
  auto share = [](PyObject*& slot, PyObject* value) {
    Ref<> old = Ref<>::steal(slot);
    slot = Ref<>::share(value).release();
  };
  share(to->func_builtins, function->func_builtins);
  share(to->func_name, function->func_name);
  share(to->func_defaults, function->func_defaults);
  share(to->func_kwdefaults, function->func_kwdefaults);
  share(to->func_closure, function->func_closure);
  share(to->func_doc, function->func_doc);
  share(to->func_dict, function->func_dict);
  share(to->func_module, function->func_module);
  share(to->func_annotations, function->func_annotations);
  py::copy_later_fields(to, function);
  return copy;
}

}  // namespace framejit::capture
