#include "graph/cfg/inner_variables.h"

#include <algorithm>
#include <set>

#include "graph/cfg/intervals.h"
#include "graph/cfg/loops.h"

namespace framejit::cfg {

namespace {

class InnerVariables {
 public:
  InnerVariables(const Cfg& cfg, const Shape& shape, uint32_t head, const std::map<Id, Id>& flags)
      : cfg_(cfg), shape_(shape), head_(head), front_(front_of(cfg, shape, head)), flags_(flags) {
    for (uint32_t b : blocks_of_loop(cfg, shape, head)) members_.insert(b);
    for (uint32_t b : members_) {
      inside_.insert(cfg.blocks[b].params.begin(), cfg.blocks[b].params.end());
      inside_.insert(cfg.blocks[b].nodes.begin(), cfg.blocks[b].nodes.end());
    }
  }

  std::optional<std::vector<OuterVariable>> find() const {
    if (front_ == kNone || !is_left_at_head()) return std::nullopt;
    const std::vector<Id>& params = cfg_.blocks[head_].params;
    std::vector<OuterVariable> out(params.size());
    std::set<Id> flags;
    for (const auto& [value, flag] : flags_) flags.insert(flag);
    bool counts = false;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const Id p = params[i], step = step_of(i);
      if (step != kNone) {
        out[i] = {OuterVariable::Counts, step};
        out[i].is_left = p == cfg_.at(cfg_.blocks[head_].condition).args[0] && number(cfg_, step) == -1;
        counts = counts || out[i].is_left;
        continue;
      }
      if (flags.count(p)) continue;
      out[i].kind = OuterVariable::HandedOn;
      if (const auto flag = flags_.find(p); flag != flags_.end()) {
        const auto at = std::find(params.begin(), params.end(), flag->second);
        if (at == params.end() || is_read(p)) return std::nullopt;
        out[i].flag = static_cast<std::size_t>(at - params.begin());
      } else if (is_used(p)) {
        return std::nullopt;
      }
    }
    return counts ? std::optional(out) : std::nullopt;
  }

 private:
  bool is_left_at_head() const {
    const Block& head = cfg_.blocks[head_];
    if (head.end != Block::End::Branch || cfg_.is_param[head.condition]) return false;
    const Node& c = cfg_.at(head.condition);
    if (c.op != Op::Ne || number(cfg_, c.args[1]) != 0 || !members_.count(head.to[0].block) ||
        members_.count(head.to[1].block))
      return false;
    for (uint32_t b : members_)
      for (int k = 0; b != head_ && k < cfg_.blocks[b].successors(); ++k)
        if (const uint32_t to = cfg_.blocks[b].to[k].block;
            !members_.count(to) && cfg_.blocks[to].end != Block::End::Leave)
          return false;
    return true;
  }

  template <class F>
  void for_each_back(F f) const {
    for (uint32_t b : members_)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k)
        if (cfg_.blocks[b].to[k].block == head_) f(cfg_.blocks[b].to[k]);
  }

  Id step_of(std::size_t i) const {
    const Id p = cfg_.blocks[head_].params[i];
    Id step = kNone;
    bool counts = cfg_.at(p).type == Type::I64;
    for_each_back([&](const Edge& e) {
      const Id given = e.args[i];
      const Node& n = cfg_.at(given);
      counts = counts && !cfg_.is_param[given] && (n.op == Op::Add || n.op == Op::AddExact) && n.args[0] == p &&
               !inside_.count(n.args[1]) && (step == kNone || step == n.args[1]);
      if (counts) step = n.args[1];
    });
    return counts ? step : kNone;
  }

  /// Does a node or a condition depend on it, or on what it is handed on as?
  bool is_read(Id p) const {
    std::set<Id> values{p};
    for (bool more = true; more;) {
      more = false;
      for (uint32_t b : members_)
        for (int k = 0; k < cfg_.blocks[b].successors(); ++k) {
          const Edge& e = cfg_.blocks[b].to[k];
          for (std::size_t i = 0; members_.count(e.block) && i < e.args.size(); ++i)
            if (values.count(e.args[i])) more = values.insert(cfg_.blocks[e.block].params[i]).second || more;
        }
    }
    for (uint32_t b : members_) {
      if (values.count(cfg_.blocks[b].condition)) return true;
      for (Id id : cfg_.blocks[b].nodes)
        for (Id a : cfg_.at(id).args)
          if (values.count(a)) return true;
    }
    return false;
  }

  bool is_used(Id p) const {
    for (uint32_t b : members_)
      for (int k = 0; k < cfg_.blocks[b].successors(); ++k) {
        const Edge& e = cfg_.blocks[b].to[k];
        if (members_.count(e.block) && std::find(e.args.begin(), e.args.end(), p) != e.args.end()) return true;
      }
    return is_read(p);
  }

  const Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_, front_;
  const std::map<Id, Id>& flags_;
  std::set<uint32_t> members_;
  std::set<Id> inside_;
};

}  // namespace

std::optional<std::vector<OuterVariable>> inner_variables(const Cfg& cfg, const Shape& shape, uint32_t head,
                                                          const std::map<Id, Id>& flags) {
  return InnerVariables(cfg, shape, head, flags).find();
}

}  // namespace framejit::cfg
