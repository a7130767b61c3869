// Control-flow graphs: what a loop over scalars and array elements computes, as typed SSA over basic blocks.
//
// The sibling of graph::Graph for code whose work is in its control flow. A value is an integer of 64 bits (addresses
// and truths are integers too) or a float of 64 or 32 bits; blocks have parameters, and edges pass arguments to them.
// Memory is reached by loads and stores at addresses. What the compiled code cannot do, it leaves to the interpreter: a
// check, or the end of a block, names an exit, which lists the values that the interpreter's state is made of. No node
// has an effect but stores and calls of functions that are marked so; a check may therefore lead to an exit whose state
// is older than the check, as long as no store lies between.
//
// A value may be a vector of such numbers, one in each lane, for as many rounds of a loop at once. Operators take and
// give vectors of equally many lanes, and work on each lane. Vectors do not leave the graph: exits list numbers only.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace framejit::cfg {

using Id = uint32_t;
inline constexpr Id kNone = 0xffffffffu;

enum class Type : uint8_t { None, I64, F64, F32 };

/// What lies in memory. Integers narrower than 64 bits are extended when they are loaded and cut off when stored.
enum class Mem : uint8_t { I8, U8, I16, U16, I32, U32, I64, F32, F64 };
int size_of(Mem mem);
Type type_of(Mem mem);

/// How a node may be moved: Pure anywhere, Reads not across stores, Checks not before stores and not removed, Writes
/// not at all.
enum class Effect : uint8_t { Pure, Reads, Checks, Writes };

// X(name, text, operands, effect). Operands of one node have one type, but for conversions, addresses and Select.
// Ones: how many bits of an integer are 1.
// Of vectors: Splat, one number in all lanes; Ramp, first operand + lane * second operand; Reverse,
// the lanes in the other order; Finite, are the numbers of all lanes finite; AllOf, are they all not 0; SumOf,
// of integers; AddLanes, of floats, one after the other, to the second operand; Lane, the one that the second operand
// counts. Waits: does the interpreter wait, as Poll asks.
// MulAdd, MulSub and SubMul: a * b + c, a * b - c and c - a * b, rounded once.
// clang-format off: one line for each family
#define FRAMEJIT_CFG_OPS(X)                                                                                              \
  X(Const, "const", 0, Pure)                                                                                            \
  X(Symbol, "symbol", 0, Pure) X(Pointer, "pointer", 0, Pure) X(Object, "object", 0, Pure)                              \
  X(Add, "add", 2, Pure) X(Sub, "sub", 2, Pure) X(Mul, "mul", 2, Pure) X(Div, "div", 2, Pure) X(Neg, "neg", 1, Pure)    \
  X(AddExact, "add.exact", 2, Checks) X(SubExact, "sub.exact", 2, Checks) X(MulExact, "mul.exact", 2, Checks)           \
  X(FloorDiv, "floordiv", 2, Pure) X(FloorMod, "floormod", 2, Pure)                                                     \
  X(And, "and", 2, Pure) X(Or, "or", 2, Pure) X(Xor, "xor", 2, Pure) X(Shl, "shl", 2, Pure) X(Shr, "shr", 2, Pure)      \
  X(Ones, "ones", 1, Pure)                                                                                              \
  X(Eq, "eq", 2, Pure) X(Ne, "ne", 2, Pure) X(Lt, "lt", 2, Pure) X(Le, "le", 2, Pure) X(Below, "below", 2, Pure)        \
  X(Abs, "abs", 1, Pure) X(Sqrt, "sqrt", 1, Pure) X(Floor, "floor", 1, Pure) X(Ceil, "ceil", 1, Pure)                   \
  X(Trunc, "trunc", 1, Pure) X(Rint, "rint", 1, Pure)                                                                   \
  X(ToF64, "to.f64", 1, Pure) X(ToF32, "to.f32", 1, Pure) X(ToI64, "to.i64", 1, Pure) X(Extend, "extend", 1, Pure)      \
  X(Select, "select", 3, Pure)                                                                                          \
  X(Load, "load", 2, Reads) X(Store, "store", 3, Writes)                                                                \
  X(Check, "check", 1, Checks) X(CheckFinite, "check.finite", 1, Checks) X(Poll, "poll", 0, Checks)                     \
  X(Call, "call", 3, Pure) X(Update, "update", 3, Writes) X(Bits, "bits", 1, Pure)                                      \
  X(Waits, "waits", 0, Reads) X(Splat, "splat", 1, Pure) X(Ramp, "ramp", 2, Pure) X(Reverse, "reverse", 1, Pure)        \
  X(Finite, "finite", 1, Pure) X(AllOf, "all", 1, Pure) X(SumOf, "sum", 1, Pure) X(AddLanes, "add.lanes", 2, Pure)          \
  X(Lane, "lane", 2, Pure) X(MulAdd, "mul.add", 3, Pure) X(MulSub, "mul.sub", 3, Pure)                                  \
  X(SubMul, "sub.mul", 3, Pure) X(CallReads, "call.reads", 3, Reads) X(CallItself, "call.itself", 5, Checks)
// clang-format on

enum class Op : uint8_t {
#define FRAMEJIT_CFG_ENUM(name, text, operands, effect) name,
  FRAMEJIT_CFG_OPS(FRAMEJIT_CFG_ENUM)
#undef FRAMEJIT_CFG_ENUM
};

struct OpInfo {
  const char* text;
  int operands;
  Effect effect;
};
const OpInfo& info(Op op);

/// A function in C that a node calls: of one to three floats or integers, or of five. That of a Call has no effects;
/// that of a CallReads reads memory; that of a CallItself may raise or not end. That of an Update gives 0 where it has
/// done nothing.
struct Function {
  const char* name;
  const void* address;
  Type result;
  int operands;
  Type operand;
  bool is_power = false;  // pow of the C library
  bool prepared = false;  // by the capture of a call: it cannot be called in a process that has captured none
  /// For calls with a constant and a number: calls the function for each of `count` numbers in memory. Null: there is
  /// none.
  void (*in_lanes)(int64_t first, const void* numbers, void* results, int64_t count) = nullptr;
};

/// As it is, but `prepared`.
inline Function prepared(Function f) {
  f.prepared = true;
  return f;
}

struct Node {
  Op op = Op::Const;
  Type type = Type::None;
  Mem mem = Mem::I64;       // Load, Store; Extend: the integer is cut off to it and extended again
  uint8_t scale = 1;        // Load, Store: of the index (1, 2, 4 or 8)
  uint8_t lanes = 1;        // of the result, or of what is stored
  bool from_last = false;   // see `count`
  bool is_address = false;  // Const: of what is somewhere else in another process
  bool natural = false;     // a parameter, a length, a sum or a product: known never to be negative
  // FloorDiv, FloorMod by a constant: the dividend is known not to be negative. Mul, Shr: the operands are known to be
  // natural numbers, those of Mul of 32 bits.
  bool of_natural = false;
  static constexpr int kMostOperands = 5;
  // Load: base, index or none. Store: base, index or none, value. The index may be a vector, if the result or the value
  // is one: each lane has an address of its own. Else lanes are neighbours in memory.
  Id args[kMostOperands] = {kNone, kNone, kNone, kNone, kNone};
  // How many lanes of a vector take part, from the first one on or up to the last one. The others are 0 if they are
  // loaded, and they are not stored.
  Id count = kNone;
  Id where = kNone;       // of vectors: only the lanes in which this is not 0 take part
  uint32_t exit = kNone;  // Checks
  // Const: the integer, or the bits of the float; inputs: which; Load, Store: displacement; CheckFinite: 1, if plain
  // Python raises an error where the number is not finite; else NumPy warns at most.
  int64_t imm = 0;
  const Function* function = nullptr;
};

struct Edge {
  uint32_t block = kNone;
  std::vector<Id> args;  // one for each of its parameters
};

struct Block {
  enum class End : uint8_t { Open, Jump, Branch, Leave };
  std::vector<Id> params;
  std::vector<Id> nodes;
  End end = End::Open;
  Id condition = kNone;  // Branch: to[0] if it is not 0, else to[1]
  Edge to[2];
  uint32_t exit = kNone;      // Leave
  uint32_t level = 0;         // how many loops of the program it is in, if known: tells loops of one head apart
  bool begins_round = false;  // of a loop of the program: until loops have one entry each

  int successors() const { return end == End::Jump ? 1 : end == End::Branch ? 2 : 0; }
};

/// Where the interpreter goes on; the kernel writes these values out and gives the number of the exit.
struct Exit {
  std::vector<Id> values;
  uint32_t number = kNone;  // of a copy of an exit: which one it is to the caller; else its place is its number
};

/// Block 0 is the entry, which has no parameters and is no target.
struct Cfg {
  std::vector<Node> nodes;  // parameters of blocks are among them, as Const without a block: see is_param
  std::vector<bool> is_param;
  std::vector<Block> blocks;
  std::vector<Exit> exits;
  bool fuses_products = false;  // optimize() is to do what fuse_products() does

  Id add(Node node) {
    nodes.push_back(node);
    is_param.push_back(false);
    return static_cast<Id>(nodes.size() - 1);
  }
  Id add_param(uint32_t block, Type type, uint8_t lanes = 1);
  /// That is given what another value is.
  Id add_param_for(uint32_t block, Id value);
  const Node& at(Id id) const { return nodes[id]; }
  bool is_const(Id id) const { return nodes[id].op == Op::Const && !is_param[id]; }
  uint32_t number_of(uint32_t exit) const { return exits[exit].number == kNone ? exit : exits[exit].number; }
};

/// Can this call be done in lanes?
bool calls_in_lanes(const Cfg& cfg, const Node& n);
/// Is this a call of pow with a constant exponent that code generation has products and roots for, also in lanes?
bool calls_quick_power(const Cfg& cfg, const Node& n);
/// Does the C library's pow round fewer times, because its products and sums are fused? Found out once.
bool is_power_fused();

std::string print(const Cfg& cfg);
/// All that machine code depends on, as bytes: the same in each process. Addresses are numbers, in the order in which
/// they are met first; `addresses` lists them.
std::string key_of(const Cfg& cfg, std::vector<const void*>& addresses);
/// The first thing that is wrong, or "".
std::string verify(const Cfg& cfg);

/// Immediate dominators (block 0: itself; kNone: not reached) and how many loops each block is in.
struct Shape {
  /// By block: the blocks that lead to it, one that does so by both of its edges twice.
  class Predecessors {
   public:
    std::span<const uint32_t> operator[](uint32_t block) const {
      return std::span(all).subspan(first[block], first[block + 1] - first[block]);
    }
    std::vector<uint32_t> first, all;
  };
  std::vector<uint32_t> order;  // reached blocks, in reverse postorder
  std::vector<uint32_t> dominator, depth;
  Predecessors before;
  bool dominates(uint32_t a, uint32_t b) const { return a == b || (enters[a] < enters[b] && enters[b] < leaves[a]); }
  std::vector<uint32_t> enters, leaves;  // by block: the interval of its subtree of dominators; 0: not reached
  bool goes_round = false;               // may control come back to a block?
  bool has_loop = false;                 // with one head: a loop that is entered at several places has none
  std::vector<uint32_t> loop;            // by block: the head of its innermost loop, or kNone
};
Shape shape_of(const Cfg& cfg);

struct ParallelLoops;  // parallel.h

/// Fewer parameters, one node for one value, and no branch on a constant.
void simplify(Cfg& cfg);
/// Takes out what nothing uses.
void drop_unused(Cfg& cfg);

/// Fewer parameters, one node for one value, what does not change in front of loops, and nothing that is not used.
/// Inner loops get vectors of `vector_bytes` (32 or 64), if it is not 0. Loops whose rounds threads may do are added to
/// `parallel`, if there is one; their bodies are not optimized.
void optimize(Cfg& cfg, int vector_bytes = 0, ParallelLoops* parallel = nullptr);

/// The reference interpreter: the number of the exit, whose values are in `out`. -1: more than `most` nodes were
/// executed.
struct Inputs {
  const int64_t* symbols;
  char* const* pointers;
  void* const* objects;
};
int64_t interpret(const Cfg& cfg, const Inputs& inputs, int64_t* out, int64_t most);

}  // namespace framejit::cfg
