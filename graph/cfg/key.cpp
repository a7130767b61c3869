// A control-flow graph as bytes by which its machine code is found again, in another process too.
#include <type_traits>
#include <unordered_map>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

namespace {

// A member that is added belongs into the key.
static_assert(sizeof(Node) == 64 && sizeof(Function) == 40 && sizeof(Block) == 136 && sizeof(Exit) == 32);

class Writer {
 public:
  explicit Writer(std::vector<const void*>& addresses) : addresses_(addresses) {}

  template <class T>
  void number(T value) {
    static_assert(std::is_integral_v<T> || std::is_enum_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void numbers(const std::vector<Id>& ids) {
    number(ids.size());
    for (const Id id : ids) number(id);
  }
  void address(const void* of) {
    const auto [at, first] = known_.emplace(of, static_cast<uint32_t>(addresses_.size()));
    if (first) addresses_.push_back(of);
    number(at->second);
  }
  void function(const Function* f) {
    number(f != nullptr);
    if (!f) return;
    address(f->address);
    number(f->result);
    number(f->operands);
    number(f->operand);
    number(f->is_power ? 1 + is_power_fused() : 0);
    number(f->in_lanes != nullptr);
    if (f->in_lanes) address(reinterpret_cast<const void*>(f->in_lanes));
  }
  void node(const Node& n, bool is_param) {
    number(n.op);
    number(n.type);
    number(n.mem);
    number(n.scale);
    number(n.lanes);
    for (const Id a : n.args) number(a);
    number(n.count);
    number(n.from_last);
    number(n.where);
    number(n.is_address);
    if (n.is_address) address(reinterpret_cast<const void*>(n.imm));
    else number(n.imm);
    number(n.exit);
    number(n.natural);
    number(n.of_natural);
    number(is_param);
    function(n.function);
  }
  void edge(const Edge& e) {
    number(e.block);
    numbers(e.args);
  }

  std::string bytes;

 private:
  std::vector<const void*>& addresses_;
  std::unordered_map<const void*, uint32_t> known_;
};

}  // namespace

std::string key_of(const Cfg& cfg, std::vector<const void*>& addresses) {
  addresses.clear();
  Writer out(addresses);
  out.number(cfg.fuses_products);
  out.number(cfg.nodes.size());
  for (Id id = 0; id < cfg.nodes.size(); ++id) out.node(cfg.nodes[id], cfg.is_param[id]);
  out.number(cfg.blocks.size());
  for (const Block& block : cfg.blocks) {
    out.numbers(block.params);
    out.numbers(block.nodes);
    out.number(block.end);
    out.number(block.condition);
    for (const Edge& e : block.to) out.edge(e);
    out.number(block.exit);
    out.number(block.level);
    out.number(block.begins_round);
  }
  out.number(cfg.exits.size());
  for (const Exit& exit : cfg.exits) {
    out.numbers(exit.values);
    out.number(exit.number);
  }
  return std::move(out.bytes);
}

}  // namespace framejit::cfg
