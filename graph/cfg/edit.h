// What passes over control-flow graphs share: renaming, copies of blocks, blocks in front of loops.
#pragma once

#include <unordered_map>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

/// Which value stands for another one.
class Names {
 public:
  explicit Names(std::size_t count) : of_(count) {
    for (Id i = 0; i < count; ++i) of_[i] = i;
  }
  Id operator()(Id v) {
    while (v < of_.size() && of_[v] != v) {
      if (of_[v] < of_.size()) of_[v] = of_[of_[v]];
      v = of_[v];
    }
    return v;
  }
  void replace(Id v, Id by) { of_[(*this)(v)] = (*this)(by); }

 private:
  std::vector<Id> of_;
};

/// Is the number at most that far from 0? Right for the least number too.
inline bool is_within(int64_t number, int64_t most) { return -most <= number && number <= most; }

/// Do two loads or stores have one address in each round, and one type of numbers in memory?
inline bool is_same_place(const Node& a, const Node& b) {
  return a.args[0] == b.args[0] && a.args[1] == b.args[1] && a.scale == b.scale && a.imm == b.imm && a.mem == b.mem;
}

void rename(Cfg& cfg, Names& names);

/// Takes out the blocks that are not reached.
void drop_unreached(Cfg& cfg);
/// Each block has exits of its own, so that they can be renamed with it.
void separate_exits(Cfg& cfg);
/// Joins blocks of which the first always leads to the second, and nothing else does.
void join_blocks(Cfg& cfg);
/// Loops that are entered at several blocks get copies of some of them in front, so that one block is the head.
void separate_entries(Cfg& cfg);
/// Loops of the program that have the same head, because the first round of an inner one is a block of its own, get
/// heads of their own.
void separate_loops(Cfg& cfg);
/// Each loop gets one block in front, which leads to its head only.
void add_preheaders(Cfg& cfg);

struct Copy {
  std::unordered_map<uint32_t, uint32_t> blocks;
  std::unordered_map<Id, Id> values;
};

/// Copies blocks with their values and exits. Edges between them lead to copies; whoever calls leads some others there.
Copy copy_blocks(Cfg& cfg, const std::vector<uint32_t>& blocks);
/// Then: values of the blocks that are used elsewhere come from where control came from. `owner`: by value, the block
/// of one that was copied, or kNone.
void mend(Cfg& cfg, const Copy& copy, const std::vector<uint32_t>& owner);

}  // namespace framejit::cfg
