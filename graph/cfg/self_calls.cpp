// Calls of a graph by itself, as copies of the graph.
#include "graph/cfg/self_calls.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "graph/cfg/edit.h"

namespace framejit::cfg {

namespace {

class SelfCallInliner {
 public:
  SelfCallInliner(Cfg& cfg, const SelfCalls& self, uint32_t given_up) : cfg_(cfg), self_(self), given_up_(given_up) {
    original_ = shape_of(cfg).order;
    for (const auto& [of, copy] : copy_blocks(cfg, original_).blocks) {
      pattern_.push_back(copy);
      nodes_ += cfg.blocks[copy].nodes.size();
      if (of == 0) pattern_entry_ = copy;
    }
    total_ = nodes_;
    open_ = calls_in(original_);
  }

  /// Replaces the calls that there are. Those of the copies are the next ones.
  bool run_level(std::size_t most_nodes) {
    if (open_.empty() || total_ + open_.size() * nodes_ > most_nodes) return false;
    total_ += open_.size() * nodes_;
    std::vector<Call> made;
    // The last call of a block first: what stands behind a call moves to another block.
    while (!open_.empty()) {
      const Call call = open_.back();
      open_.pop_back();
      for (const Call& c : inline_call(call)) made.push_back(c);
    }
    open_ = std::move(made);
    return true;
  }

 private:
  struct Call {
    uint32_t block;
    Id id;
  };

  std::vector<Call> calls_in(const std::vector<uint32_t>& blocks) const {
    std::vector<Call> calls;
    for (const uint32_t b : blocks)
      for (const Id id : cfg_.blocks[b].nodes)
        if (cfg_.at(id).op == Op::CallItself) calls.push_back({b, id});
    return calls;
  }

  /// The value that an input has in a call, if it is an argument.
  std::optional<Id> argument(const Node& n, const Node& call) const {
    const bool is_float = n.op == Op::Load && cfg_.at(n.args[0]).op == Op::Pointer;
    if (!is_float && n.op != Op::Symbol) return std::nullopt;
    const int64_t input = is_float ? cfg_.at(n.args[0]).imm : n.imm;
    for (std::size_t k = 0; k < self_.arguments.size(); ++k) {
      if (self_.arguments[k].is_float != is_float || self_.arguments[k].input != input) continue;
      const Id given = call.args[1 + k];
      return is_float ? cfg_.at(given).args[0] : given;  // of the bits of a float
    }
    return std::nullopt;
  }

  std::vector<Call> inline_call(const Call& of) {
    const Node call = cfg_.at(of.id);
    const Copy copy = copy_blocks(cfg_, pattern_);
    std::vector<uint32_t> blocks;
    for (const uint32_t b : pattern_) blocks.push_back(copy.blocks.at(b));
    const auto behind = static_cast<uint32_t>(cfg_.blocks.size());
    cfg_.blocks.emplace_back();
    const Id result = cfg_.add_param_for(behind, of.id);
    split(of, behind, copy.blocks.at(pattern_entry_));
    Names names(cfg_.nodes.size());
    names.replace(of.id, result);
    for (const uint32_t b : blocks) {
      Block& block = cfg_.blocks[b];
      for (const Id id : block.nodes) {
        Node& n = cfg_.nodes[id];
        if (n.exit != kNone) give_up(n.exit);
        if (n.op == Op::CallItself) n.imm = call.imm + 1;
        if (const std::optional<Id> given = argument(n, call)) names.replace(id, *given);
      }
      if (block.end != Block::End::Leave) continue;
      const int32_t place = self_.results[cfg_.number_of(block.exit)];
      if (place >= 0) {
        block.end = Block::End::Jump;
        block.to[0] = {behind, {cfg_.exits[block.exit].values[static_cast<std::size_t>(place)]}};
        block.exit = kNone;
      } else {
        give_up(block.exit);
      }
    }
    rename(cfg_, names);
    return calls_in(blocks);
  }

  /// Moves the nodes after a call to another block, and leads control from the call to the copy.
  void split(const Call& of, uint32_t behind, uint32_t entry) {
    Block& block = cfg_.blocks[of.block];
    Block& rest = cfg_.blocks[behind];
    const auto at = std::find(block.nodes.begin(), block.nodes.end(), of.id);
    rest.nodes.assign(at + 1, block.nodes.end());
    block.nodes.erase(at, block.nodes.end());
    rest.end = std::exchange(block.end, Block::End::Jump);
    rest.condition = std::exchange(block.condition, kNone);
    rest.exit = std::exchange(block.exit, kNone);
    rest.level = block.level;
    rest.to[0] = std::exchange(block.to[0], Edge{entry, {}});
    rest.to[1] = std::exchange(block.to[1], Edge{});
  }

  void give_up(uint32_t exit) { cfg_.exits[exit] = {{}, given_up_}; }

  Cfg& cfg_;
  const SelfCalls& self_;
  const uint32_t given_up_;
  std::vector<uint32_t> original_, pattern_;
  uint32_t pattern_entry_ = 0;
  std::size_t nodes_ = 0, total_ = 0;
  std::vector<Call> open_;
};

}  // namespace

void inline_self_calls(Cfg& cfg, SelfCalls& self, uint32_t given_up) {
  constexpr std::size_t kMostNodes = 250;
  constexpr int kMostLevels = 4;
  separate_exits(cfg);
  SelfCallInliner inliner(cfg, self, given_up);
  while (self.inlined < kMostLevels && inliner.run_level(kMostNodes)) ++self.inlined;
  drop_unreached(cfg);
}

}  // namespace framejit::cfg
