// The loops around a nest's body.
#include <algorithm>
#include <iterator>

#include "codegen/emit_nest.h"
#include "codegen/interleave.h"
#include "codegen/kernel.h"

namespace framejit::codegen {

using graph::Op;
namespace x86 = asmjit::x86;

namespace {

/// Bodies above this weight are emitted once, masked throughout: compile time counts more than the masks, which are
/// dearer on AVX2. A heavy operator weighs as many simple ones as it has instructions, about.
constexpr std::ptrdiff_t kSingleBody[2] = {100, 200}, kHeavyWeight = 40;
/// Of elementary functions up to this weight there is a main loop all the same, with several bodies by turns: a
/// processor looks a few hundred instructions ahead, which are one body of a long chain, and waits.
constexpr std::ptrdiff_t kMostWeight = 600;
constexpr std::size_t kShortBody = 48, kLongBody = 400;  // instructions
/// Larger expressions have chains enough of their own, and need all registers. With AVX2 what does not fit them costs
/// less than the wait for chains, of which a body of half as many lanes has no more.
constexpr std::size_t kMostInterleaved[2] = {500, 150};
/// Bodies without such functions of which one vector has to wait for itself, by the number of their expressions: those
/// that are so long that a processor does not see the next one.
constexpr std::size_t kShortChain = 120, kLongChain = 2500;
constexpr int kAhead = 2048;  // bytes

/// One instruction for integers too.
bool is_choice(Op op) {
  switch (op) {
    case Op::Where:
    case Op::Equal:
    case Op::NotEqual:
    case Op::Less:
    case Op::LessEqual:
    case Op::Greater:
    case Op::GreaterEqual: return true;
    default: return false;
  }
}

}  // namespace

void NestEmitter::set_tail() {
  const bool loads_parts = std::any_of(operands_.begin(), operands_.end(), [](const OperandState& o) {
    return graph::is_complex(o.dtype) && o.access == Access::Contiguous;
  });
  // count = min(n - index, lanes)
  count_ = v_.gp();
  const Gp all = v_.gp();
  cc_.mov(count_, n_inner_);
  cc_.sub(count_, index_);
  cc_.mov(all.r32(), v_.lanes);
  cc_.cmp(count_, all);
  cc_.cmova(count_, all);
  if (v_.avx512) {
    const Gp bits = v_.gp();
    cc_.mov(bits, -1);
    cc_.bzhi(bits, bits, count_);
    tail_k_ = cc_.newKq();
    cc_.kmovq(tail_k_, bits);
    if (!loads_parts) return;
    const Gp twice = v_.gp();
    cc_.lea(twice, x86::ptr(count_, count_));
    cc_.mov(bits, -1);
    cc_.bzhi(bits, bits, twice);
    for (int half = 0; half < 2; ++half) {
      tail_parts_k_[half] = cc_.newKq();
      cc_.kmovq(tail_parts_k_[half], bits);
      if (half == 0) cc_.shr(bits, v_.lanes);
    }
    return;
  }
  bool wide[2] = {false, false};
  for (const OperandState& o : operands_)
    if (o.part >= 4) wide[o.part == 8] = true;
  for (const Expr& e : nest_.body)
    if (e.kind == ExprKind::InnerIndex && graph::size_of(e.dtype) >= 4) wide[graph::size_of(e.dtype) == 8] = true;
  if (nest_.fold != Fold::None && fold_size() >= 4) wide[fold_size() == 8] = true;
  for (int i = 0; i < 2; ++i) {
    if (!wide[i]) continue;
    const int size = 4 << i;
    tail_lanes_[i] = v_.icmp(size, true, Cmp::Gt, v_.broadcast_gp(size, count_), iota(size)).v;
    if (!loads_parts) continue;
    const Gp left = v_.gp();
    cc_.lea(left, x86::ptr(count_, count_));
    for (int half = 0; half < 2; ++half) {
      tail_parts_lanes_[i][half] = v_.icmp(size, true, Cmp::Gt, v_.broadcast_gp(size, left), iota(size)).v;
      if (half == 0) cc_.sub(left, v_.lanes);
    }
  }
}

/// Bodies of which nothing stands in memory between two instructions, where that of another one could stand too.
bool NestEmitter::is_in_registers() const {
  const auto number = [](DType t) { return graph::is_float(t) || t == DType::Bool; };
  return std::all_of(operands_.begin(), operands_.end(),
                     [](const OperandState& o) { return o.access != Access::Strided; }) &&
         std::all_of(nest_.stores.begin(), nest_.stores.end(),
                     [&](const NestStore& s) { return operands_[s.operand].access == Access::Contiguous; }) &&
         std::all_of(nest_.body.begin(), nest_.body.end(), [&](const Expr& e) {
           if (e.kind != ExprKind::Apply) return e.kind != ExprKind::InnerIndex;
           if (is_choice(e.op) && graph::size_of(e.operand_dtype) >= 4) return true;
           return number(e.dtype) && number(e.operand_dtype) && e.op != Op::FloorDivide && e.op != Op::Remainder &&
                  e.op != Op::Fmod;
         });
}

/// Is the longest way through the body longer than it takes to start all its instructions?
bool NestEmitter::is_chain() const {
  if (heavy_ops() > 0 || nest_.body.size() < kShortChain || nest_.body.size() > kLongChain || !is_in_registers())
    return false;
  const auto cycles = [](Op op) {
    switch (op) {
      case Op::Divide: return 13;
      case Op::Sqrt: return 19;
      case Op::Add:
      case Op::Subtract:
      case Op::Multiply:
      case Op::MultiplyAdd: return 4;
      default: return 2;
    }
  };
  std::vector<int> done(nest_.body.size(), 0);
  for (std::size_t i = 0; i < nest_.body.size(); ++i) {
    const Expr& e = nest_.body[i];
    if (e.kind != ExprKind::Apply) continue;
    for (const uint16_t arg : e.args)
      if (arg < i) done[i] = std::max(done[i], done[arg]);
    done[i] += cycles(e.op);
  }
  return *std::max_element(done.begin(), done.end()) > std::ssize(nest_.body) * 3 / 2;
}

/// Bodies that take turns with others.
bool NestEmitter::may_interleave() const {
  if (heavy_ops() == 0) return is_chain();
  return nest_.body.size() <= kMostInterleaved[v_.avx512] && is_in_registers() &&
         std::none_of(operands_.begin(), operands_.end(),
                      [](const OperandState& o) { return graph::is_complex(o.dtype); });
}

/// How often the body, which stands behind `before` once, is to stand there.
int NestEmitter::unroll_factor(asmjit::BaseNode* before, bool streaming) const {
  // Loop overhead shows in small bodies, and latency: a processor sees the next ones by itself.
  if (heavy_ops() == 0) return (nest_.body.size() <= 10 && !streaming) || is_chain() ? 2 : 1;
  const std::size_t length = may_interleave() ? straight_length(cc_, before) : 0;
  return length > kLongBody ? 2 : static_cast<int>(std::min<std::size_t>(4, 1 + length / kShortBody));
}

void NestEmitter::main_loop(bool streaming, bool non_temporal) {
  if (rare_) return;
  const Label again = cc_.newLabel(), done = cc_.newLabel();
  asmjit::BaseNode* const entry = cc_.cursor();
  cc_.align(asmjit::AlignMode::kCode, 32);
  cc_.bind(again);
  std::vector<asmjit::BaseNode*> before;
  std::size_t unroll = 1;
  bodies_take_turns_ = may_interleave();
  for (int u = 0; before.size() < unroll; ++u) {
    before.push_back(cc_.cursor());
    prefetch(u);
    eval_body(u);
    for (const NestStore& s : nest_.stores) store(s, u, non_temporal && s.non_temporal);
    advance_strided();
    if (u == 0) unroll = static_cast<std::size_t>(unroll_factor(before[0], streaming));
  }
  if (unroll > 1 && bodies_take_turns_) interleave(cc_, before);
  bodies_take_turns_ = false;
  const int step = static_cast<int>(unroll) * v_.lanes;
  const Gp limit = v_.gp();
  cc_.add(index_, step);
  cc_.cmp(index_, limit);
  cc_.jle(again);
  cc_.bind(done);
  asmjit::BaseNode* const end = cc_.setCursor(entry);
  cc_.lea(limit, x86::ptr(n_inner_, -step));
  cc_.cmp(index_, limit);
  cc_.jg(done);
  cc_.setCursor(end);
}

bool NestEmitter::may_bypass(const NestStore& s) const {
  const OperandState& o = operands_[s.operand];
  return s.non_temporal && o.access == Access::Contiguous && v_.bytes(o.part) >= 16;
}

bool NestEmitter::may_bypass() const {
  return std::any_of(nest_.stores.begin(), nest_.stores.end(), [&](const NestStore& s) { return may_bypass(s); });
}

void NestEmitter::emit_row() {
  hoist_row();
  cc_.xor_(index_.r32(), index_.r32());
  const bool any_non_temporal = may_bypass();
  const bool narrow_access = std::any_of(operands_.begin(), operands_.end(), [&](const OperandState& o) {
    return o.size < 4 && o.access != Access::Broadcast;
  });
  const std::ptrdiff_t weight = std::ssize(nest_.body) + kHeavyWeight * heavy_ops();
  const bool single_body = weight > (may_interleave() ? kMostWeight : kSingleBody[v_.avx512]) && !is_chain() &&
                           !any_non_temporal && (v_.avx512 || !narrow_access);
  if (any_non_temporal) {
    // Streaming stores want whole aligned vectors; one run-time check picks the loop.
    const Gp low_bits = v_.gp(), address_bits = v_.gp();
    cc_.xor_(low_bits.r32(), low_bits.r32());
    for (const NestStore& s : nest_.stores) {
      if (!may_bypass(s)) continue;
      const OperandState& o = operands_[s.operand];
      cc_.mov(address_bits, o.row);
      cc_.and_(address_bits, v_.bytes(o.part) - 1);
      cc_.or_(low_bits, address_bits);
    }
    const Label plain = cc_.newLabel(), tail = cc_.newLabel();
    cc_.test(low_bits.r32(), low_bits.r32());
    cc_.jnz(plain);
    main_loop(true, true);
    cc_.jmp(tail);
    cc_.bind(plain);
    main_loop(true, false);
    cc_.bind(tail);
  } else if (!single_body) {
    main_loop(false, false);
  }
  tail_loop([&] {
    if (single_body) prefetch(0);
    eval_body(0);
    for (const NestStore& s : nest_.stores) store(s, 0, false);
  });
}

/// Long arithmetic fills the processor's window, so that the loads of the next vectors come late; not all machines
/// fetch ahead by themselves.
void NestEmitter::prefetch(int u) {
  if (heavy_ops() == 0) return;
  std::vector<bool> loaded(operands_.size(), false);
  for (const Expr& e : nest_.body)
    if (e.kind == ExprKind::Load) loaded[e.args[0]] = true;
  for (std::size_t i = 0; i < operands_.size(); ++i)
    if (loaded[i] && operands_[i].access == Access::Contiguous)
      cc_.prefetcht0(address(operands_[i], u).cloneAdjusted(kAhead));
}

void NestEmitter::emit_fold_or_row() {
  switch (nest_.fold) {
    case Fold::None: emit_row(); break;
    case Fold::PairwiseLeaf: fold_pairwise(); break;
    case Fold::AnyOrder:
      if (fold_dtype() == DType::Bool) fold_any_order_bool();
      else fold_any_order();
      break;
    case Fold::Blocks: fold_blocks(); break;
    case Fold::LeftFold: fold_left(); break;
    case Fold::Rows: break;
  }
}

void NestEmitter::emit_rows_of_elements(const Label& exit) {
  const Label outer = cc_.newLabel();
  const std::vector<Value> constants = hoisted_;
  const bool leaves = nest_.fold == Fold::PairwiseLeaf;
  const Label flagged = cc_.newLabel();
  const Gp elements = v_.gp(), left = v_.gp();  // guards_together: since it has looked, and rows then
  if (nest_.guards_together) {
    cc_.xor_(elements.r32(), elements.r32());
    cc_.mov(left, n_outer_);
  }
  cc_.bind(outer);
  if (leaves) cc_.mov(n_inner_, x86::qword_ptr(lengths_));
  for (OperandState& o : operands_)
    if (o.access == Access::Strided) cc_.mov(o.at, o.row);
  const Label exact = cc_.newLabel(), done = cc_.newLabel();
  const bool shares = share_divisors(exact);
  emit_fold_or_row();
  if (shares) {
    cc_.jmp(done);
    cc_.bind(exact);
    reciprocals_.clear();
    rare_ = true;
    emit_fold_or_row();
    rare_ = false;
    cc_.bind(done);
  }
  for (std::size_t i = 0; i < operands_.size(); ++i) {
    const OperandState& o = operands_[i];
    if (leaves && o.access != Access::Broadcast) {  // behind the row's last element
      const Gp bytes = v_.gp();
      if (o.access == Access::Contiguous) cc_.imul(bytes, n_inner_, asmjit::Imm(o.size));
      else cc_.mov(bytes, n_inner_), cc_.imul(bytes, o.stride);
      cc_.add(o.row, bytes);
    }
    cc_.add(o.row, x86::qword_ptr(strides_, static_cast<int>(16 * i + 8)));
  }
  if (leaves) cc_.add(lengths_, 8);
  if (nest_.guarded) {
    const Label good = cc_.newLabel(), look = cc_.newLabel();
    if (nest_.guards_together) {
      cc_.add(elements, n_inner_);
      cc_.cmp(elements, asmjit::Imm(kGuardedElements));
      cc_.jge(look);
      cc_.cmp(n_outer_, 1);
      cc_.jne(good);
      cc_.bind(look);
    }
    Mem status = cc_.newStack(4, 4);
    status.setSize(4);
    cc_.stmxcsr(status);
    cc_.test(status, kGuardedFlags);
    cc_.jnz(nest_.guards_together ? flagged : exit);
    if (nest_.guards_together) {
      cc_.xor_(elements.r32(), elements.r32());
      cc_.lea(left, x86::ptr(n_outer_, -1));
      cc_.bind(good);
    }
  }
  cc_.dec(n_outer_);
  cc_.jnz(outer);
  if (nest_.guards_together) {
    cc_.jmp(exit);
    cc_.bind(flagged);
    cc_.mov(n_outer_, left);
  }
  hoisted_ = constants;
}

void NestEmitter::emit_function() {
  cc_.endbr64();
  asmjit::FuncNode* function =
      cc_.addFunc(asmjit::FuncSignatureT<int64_t, const void*, const void*, int64_t, int64_t>());
  function->frame().setAvxEnabled();
  function->frame().setAvxCleanup();
  if (v_.avx512) function->frame().setAvx512Enabled();
  ptrs_ = cc_.newIntPtr();
  strides_ = cc_.newIntPtr();
  n_inner_ = cc_.newInt64();
  n_outer_ = cc_.newInt64();
  index_ = cc_.newInt64();
  function->setArg(0, ptrs_);
  function->setArg(1, strides_);
  if (nest_.fold == Fold::PairwiseLeaf) lengths_ = cc_.newIntPtr();
  function->setArg(2, nest_.fold == Fold::PairwiseLeaf ? lengths_ : n_inner_);
  function->setArg(3, n_outer_);

  const Label exit = cc_.newLabel();
  rows_ = nest_.fold == Fold::Rows;
  cc_.test(n_outer_, n_outer_);
  cc_.jle(exit);
  if (nest_.fold != Fold::PairwiseLeaf) {  // an empty leaf stores its start value
    cc_.test(n_inner_, n_inner_);
    cc_.jle(exit);
  }
  analyse();
  load_arguments();
  hoist_constants();
  v_.share_constants();
  if (rows_) fold_rows();
  else emit_rows_of_elements(exit);
  cc_.bind(exit);
  if (may_bypass()) cc_.sfence();  // once: it takes as long as a row of hundreds of elements
  if (nest_.guarded) cc_.ret(n_outer_);
  else cc_.ret();
  cc_.endFunc();
  v_.emit_tables();
}

}  // namespace framejit::codegen
