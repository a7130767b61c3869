// Direct calls: a copy of a code object that calls marked functions by their globals without entering the callables.
//
// The interpreter runs a call of a Python function without leaving its loop; a call of another callable costs a C call
// and a new loop. Where nothing is compiled, a recursive function pays that for each level. The copy loads what it
// calls from a slot of the callable instead, with the instruction that the interpreter itself uses for attributes in
// slots: LOAD_ATTR_SLOT compares the type and reads at an offset.
//
//     LOAD_GLOBAL f            LOAD_GLOBAL f                         a callable of the type: what its slot holds
//     args               ->    LOAD_ATTR_SLOT no_name  else handler
//     PRECALL n                args
//     CALL n                   CALL n
//     handler:                 POP_TOP, LOAD_GLOBAL f, JUMP behind   another object: that one, untouched
//
// For an object of another type the instruction looks an attribute up whose name is no string, which raises TypeError
// before the object is asked. PRECALL (3.11) prepares calls of methods and of builtins, which CALL can make without it:
// what is left out makes up for what is added.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/code_view.h"
#include "capture/py/ref.h"

namespace framejit::capture {

/// A call of a global with positional arguments only.
struct GlobalCall {
  uint32_t instr;  // LoadGlobal
  uint32_t call;   // Call
  PyObject* name;  // borrowed from the view
  int arguments;
};

std::vector<GlobalCall> global_calls(const CodeView& view);

class DirectCalls {
 public:
  /// Null without an exception: not possible for this code.
  static std::unique_ptr<DirectCalls> make(const CodeView& view, const std::vector<GlobalCall>& calls);

  PyCodeObject* code() const { return code_.get(); }
  /// Lets each call of n arguments read the slot at `first_slot` + n pointers of callables of this type, which are not
  /// null. False: the interpreter has yet to run the code some times.
  bool arm(PyTypeObject* type, std::size_t first_slot);

 private:
  struct Load {
    uint32_t unit;
    int arguments;
  };
  Ref<PyCodeObject> code_;
  std::vector<Load> loads_;
  uint8_t argument_ = 0;  // of the instruction
};

}  // namespace framejit::capture
