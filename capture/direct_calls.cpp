// Writing the copy, and the instruction with its inline cache.
#include "capture/py/frame.h"

#include <opcode.h>

#include "capture/direct_calls.h"

#include <iterator>
#include <optional>

#include "capture/code_writer.h"

namespace framejit::capture {

namespace {

constexpr uint16_t kNeverDue = 0xffff;  // of the inline cache's counter, which falls when another type is met

/// Stands among the names of the copy. A debugger that steps through a frame that has begun without it sees the name of
/// its type in a TypeError that the frame handles.
PyObject* no_name() {
  static PyObject* const object = [] {
    static PyType_Slot slots[] = {{0, nullptr}};
    // As long as a str, should the interpreter look for the hash of one.
    static PyType_Spec spec = {"framejit._core.no_name_as_this_is_no_error", sizeof(PyUnicodeObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    PyObject* type = PyType_FromSpec(&spec);
    return type ? PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type), 0) : nullptr;
  }();
  return object;
}

bool has_method_form() { return opcode_table()[LOAD_ATTR].form == ArgForm::Attribute; }

/// The call of positional arguments whose callable the instruction loads.
std::optional<uint32_t> call_of(const CodeView& view, uint32_t load) {
  const std::span<const Instr> instrs = view.instrs();
  const int base = instrs[load].depth + 2;
  for (uint32_t i = load + 1; i < instrs.size(); ++i) {
    const Instr& instr = instrs[i];
    if (instr.depth < 0) continue;
    if (instr.depth < base) return {};
    if (instr.op == Opcode::Call && instr.depth - instr.arg == base)
      return instr.kwnames < 0 ? std::optional(i) : std::nullopt;
  }
  return {};
}

Ref<> bytes_of(const std::string& s) {
  return Ref<>::steal(PyBytes_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size())));
}

/// The user's names, and one more that is made to be replaced: constructors of code objects want strings.
Ref<> extended_names(PyCodeObject* code) {
  const Py_ssize_t count = PyTuple_GET_SIZE(code->co_names);
  Ref<> names = Ref<>::steal(PyTuple_New(count + 1));
  PyObject* last = names ? PyUnicode_FromString("") : nullptr;
  if (!last) return {};
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(names.get(), i, Py_NewRef(PyTuple_GET_ITEM(code->co_names, i)));
  PyTuple_SET_ITEM(names.get(), count, last);
  return names;
}

}  // namespace

std::vector<GlobalCall> global_calls(const CodeView& view) {
  std::vector<GlobalCall> calls;
  for (uint32_t i = 0; i < view.instrs().size(); ++i) {
    const Instr& instr = view.instrs()[i];
    if (instr.op != Opcode::LoadGlobal || !instr.flag || instr.depth < 0) continue;
    if (const std::optional<uint32_t> call = call_of(view, i))
      calls.push_back({i, *call, view.name(instr.arg), view.instrs()[*call].arg});
  }
  return calls;
}

std::unique_ptr<DirectCalls> DirectCalls::make(const CodeView& view, const std::vector<GlobalCall>& calls) {
  PyCodeObject* user = view.code();
  const RawCode raw(user);
  const auto index = static_cast<uint32_t>(PyTuple_GET_SIZE(user->co_names));
  const uint32_t argument = has_method_form() ? index << 1 | 1 : index;
  if (calls.empty() || argument > 255 || !no_name()) return nullptr;
  auto made = std::make_unique<DirectCalls>();
  made->argument_ = static_cast<uint8_t>(argument);
  const auto raw_index = [&](uint32_t instr) {
    return static_cast<std::size_t>(raw.index_of[view.instrs()[instr].offset]);
  };
  std::vector<int> arguments(raw.instrs.size(), -1);
  std::vector<bool> left_out(raw.instrs.size());
  for (const GlobalCall& call : calls) {
    arguments[raw_index(call.instr)] = call.arguments;
    left_out[raw_index(call.call)] = raw.instrs[raw_index(call.call)].op == kRaw.precall;
  }
  CodeWriter writer;
  std::vector<uint32_t> item_of(raw.instrs.size()), loads;  // loads: items
  const auto add = [&](const RawInstr& like, int op, uint32_t arg, int32_t target, int32_t handler) {
    writer.items.push_back({static_cast<uint8_t>(op), arg, target, handler, like.position, 0});
    return static_cast<uint32_t>(writer.items.size() - 1);
  };
  const auto user_handlers = static_cast<int32_t>(raw.handlers.size());
  for (uint32_t i = 0; i < raw.instrs.size(); ++i) {
    const RawInstr& instr = raw.instrs[i];
    item_of[i] = static_cast<uint32_t>(writer.items.size());
    if (left_out[i]) continue;
    writer.items.push_back({instr.op, instr.arg, instr.target, instr.handler, instr.position, instr.prefixes});
    if (arguments[i] < 0) continue;
    const int32_t handler = user_handlers + static_cast<int32_t>(loads.size());
    if (has_method_form()) {
      writer.items.back().arg &= ~1u;  // the next one pushes NULL
      loads.push_back(add(instr, LOAD_ATTR, argument, -1, handler));
    } else {
      // The interpreter would take the caches for instructions when it prepares the code: room for now.
      const int caches = opcode_table()[LOAD_ATTR].caches;
      const auto behind = static_cast<int32_t>(writer.items.size()) + 1 + caches;
      loads.push_back(add(instr, kRaw.jump_forward, 0, behind, handler));
      for (int k = 0; k < caches; ++k) add(instr, kRaw.nop, 0, -1, handler);
    }
    made->loads_.push_back({0, arguments[i]});
  }
  for (uint32_t i = 0; i < raw.instrs.size(); ++i)
    if (raw.instrs[i].target >= 0)
      writer.items[item_of[i]].target = static_cast<int32_t>(item_of[static_cast<std::size_t>(raw.instrs[i].target)]);
  for (const RawHandler& handler : raw.handlers)
    writer.handlers.push_back({item_of[handler.target], handler.depth, handler.lasti});
  for (uint32_t i = 0; i < raw.instrs.size(); ++i) {
    if (arguments[i] < 0) continue;
    const RawInstr& instr = raw.instrs[i];
    const uint32_t first = add(instr, kRaw.pop_top, 0, -1, instr.handler);
    add(instr, instr.op, instr.arg, -1, instr.handler);
    add(instr, kRaw.jump_backward, 0, static_cast<int32_t>(item_of[i + 1]), instr.handler);
    writer.handlers.push_back({first, static_cast<uint16_t>(instr.depth), false});
  }
  const WrittenCode written = writer.write(user->co_firstlineno);
  const Ref<> bytecode = bytes_of(written.code), lines = bytes_of(written.linetable),
              handlers = bytes_of(written.exceptiontable), names = extended_names(user);
  if (bytecode && lines && handlers && names)
    made->code_ =
        Ref<PyCodeObject>::steal(py::code_like(user, bytecode.get(), lines.get(), handlers.get(), user->co_consts,
                                               user->co_stacksize, user->co_flags, names.get()));
  if (!made->code_) return PyErr_Clear(), nullptr;
  // CPython keeps the bytes that it gives here: whoever asks sees an attribute.
  Ref<> last = Ref<>::steal(PyTuple_GET_ITEM(made->code_->co_names, index));
  PyTuple_SET_ITEM(made->code_->co_names, index, Py_NewRef(no_name()));
  for (std::size_t k = 0; k < loads.size(); ++k) made->loads_[k].unit = written.offsets[loads[k]];
  return made;
}

bool DirectCalls::arm(PyTypeObject* type, std::size_t first_slot) {
  if (!py::is_prepared(code_.get())) return false;
  const uint32_t version = type->tp_version_tag;
  if (version == 0) return false;
  for (const Load& load : loads_) {
    const std::size_t slot = first_slot + static_cast<std::size_t>(load.arguments) * sizeof(PyObject*);
    const uint16_t cache[] = {kNeverDue, static_cast<uint16_t>(version), static_cast<uint16_t>(version >> 16),
                              static_cast<uint16_t>(slot)};
    for (uint32_t k = 0; k < std::size(cache); ++k)
      py::set_unit(code_.get(), load.unit + 1 + k, cache[k] & 0xff, static_cast<uint8_t>(cache[k] >> 8));
    py::set_unit(code_.get(), load.unit, LOAD_ATTR_SLOT, argument_);
  }
  return true;
}

}  // namespace framejit::capture
