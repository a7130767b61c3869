// The text of a LoopNest.
#include "codegen/loop_nest.h"

#include <cinttypes>
#include <cstdio>

namespace framejit::codegen {

namespace {

constexpr const char* kAccess[] = {"contiguous", "broadcast", "strided"};
constexpr const char* kFold[] = {"none", "pairwise", "rows", "any", "blocks", "left"};

}  // namespace

std::string LoopNest::str() const {
  // The name is left out: nests that compute the same share their code.
  std::string text = o1 ? "nest o1" : "nest";
  if (fold != Fold::None) {
    text += std::string(" fold=") + kFold[static_cast<int>(fold)] + ":";
    text += graph::name_of(combine);
  }
  if (shares_divisors) text += " shared";
  if (guarded) text += guards_together ? " guarded together" : " guarded";
  text += "\n";
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const NestOperand& o = operands[i];
    text += "  op" + std::to_string(i) + " ";
    text += graph::name_of(o.dtype);
    text += std::string(" ") + kAccess[static_cast<int>(o.access)] + (o.written ? " written\n" : "\n");
  }
  for (std::size_t i = 0; i < body.size(); ++i) {
    const Expr& e = body[i];
    text += "  e" + std::to_string(i) + " = ";
    switch (e.kind) {
      case ExprKind::Load:
        text += "load op" + std::to_string(e.args[0]);
        if (graph::is_complex(operands[e.args[0]].dtype)) text += e.args[1] ? ".imag" : ".real";
        break;
      case ExprKind::Constant: {
        char bits[64];
        std::snprintf(bits, sizeof bits, "constant 0x%" PRIx64, e.constant.lo);
        text += bits;
        if (e.constant.hi) {
          std::snprintf(bits, sizeof bits, ":0x%" PRIx64, e.constant.hi);
          text += bits;
        }
        break;
      }
      case ExprKind::InnerIndex: text += "index"; break;
      case ExprKind::Apply:
        text += graph::name_of(e.op);
        text += " ";
        text += graph::name_of(e.operand_dtype);
        for (int a = 0; a < graph::def(e.op).operands; ++a) text += " e" + std::to_string(e.args[a]);
        break;
    }
    text += " : ";
    text += graph::name_of(e.dtype);
    text += "\n";
  }
  for (const NestStore& s : stores) {
    text += "  store op" + std::to_string(s.operand) + " <- e" + std::to_string(s.expr);
    if (graph::is_complex(operands[s.operand].dtype)) text += " e" + std::to_string(s.imaginary);
    text += s.non_temporal ? " streaming\n" : "\n";
  }
  return text;
}

}  // namespace framejit::codegen
