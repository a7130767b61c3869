#include "codegen/interleave.h"

#include <algorithm>
#include <map>
#include <vector>

namespace framejit::codegen {

namespace {

using asmjit::BaseNode;
namespace x86 = asmjit::x86;

constexpr std::size_t kTurn = 8;

const asmjit::Operand_* operands_of(const BaseNode* node, std::size_t least) {
  if (!node->isInst()) return nullptr;
  const auto* instruction = node->as<asmjit::InstNode>();
  return instruction->opCount() < least ? nullptr : instruction->operands();
}

/// An instruction on vectors alone. Moves of masks are none: see Vasm::branch.
bool is_straight(const BaseNode* node) {
  if (node->isInst() && node->as<asmjit::InstNode>()->id() == x86::Inst::kIdKmovq) return false;
  const auto in_vectors = [](const asmjit::Operand_& o) { return x86::Reg::isVec(o) || x86::Reg::isKReg(o); };
  const asmjit::Operand_ *one = operands_of(node, 1), *two = operands_of(node, 2);
  return one && (in_vectors(one[0]) || (two && one[0].isMem() && in_vectors(two[1])));
}

class Piece {
 public:
  Piece(BaseNode* first, const BaseNode* behind) {
    for (BaseNode* node = first; node != behind; node = node->next()) {
      const asmjit::Operand_* operands = operands_of(node, 1);
      if (node->isLabel()) labels_[node->as<asmjit::LabelNode>()->labelId()].push_back(nodes_.size());
      if (operands && operands[0].isLabel()) labels_[operands[0].id()].push_back(nodes_.size());
      nodes_.push_back(node);
    }
  }

  bool done() const { return at_ == nodes_.size(); }
  bool at_block() const { return done() || !is_straight(nodes_[at_]); }

  /// Visits up to `most` of the straight instructions that follow.
  template <class F>
  void take_turn(std::size_t most, F&& visit) {
    for (; !at_block() && most > 0; --most) visit(nodes_[at_++]);
  }

  /// Visits what follows that is not straight, with all that its jumps enclose.
  template <class F>
  void take_block(F&& visit) {
    for (std::size_t end = at_; !done() && (at_ <= end || at_block()); ++at_) {
      for (const auto& [label, places] : labels_)
        if (places.front() <= at_ && at_ <= places.back()) end = std::max(end, places.back());
      visit(nodes_[at_]);
    }
  }

 private:
  std::vector<BaseNode*> nodes_;
  std::map<uint32_t, std::vector<std::size_t>> labels_;  // where a label stands and where it is jumped to
  std::size_t at_ = 0;
};

}  // namespace

std::size_t straight_length(x86::Compiler& cc, BaseNode* before) {
  std::size_t length = 0;
  Piece piece(before->next(), cc.cursor()->next());
  while (!piece.done()) {
    piece.take_turn(SIZE_MAX, [&](BaseNode*) { ++length; });
    piece.take_block([](BaseNode*) {});
  }
  return length;
}

void interleave(x86::Compiler& cc, std::span<BaseNode* const> before) {
  BaseNode *const last = cc.cursor(), *const behind = last->next();
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < before.size(); ++i)
    pieces.emplace_back(before[i]->next(), i + 1 < before.size() ? before[i + 1]->next() : behind);
  cc.removeNodes(before[0]->next(), last);
  cc.setCursor(before[0]);
  const auto add = [&](BaseNode* node) { cc.addNode(node); };
  const auto all = [&](bool (Piece::*test)() const) {
    return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& p) { return (p.*test)(); });
  };
  while (!all(&Piece::done)) {
    while (!all(&Piece::at_block))
      for (Piece& piece : pieces) piece.take_turn(kTurn, add);
    for (Piece& piece : pieces) piece.take_block(add);
  }
}

}  // namespace framejit::codegen
