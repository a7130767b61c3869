// A nest of loops, and which of its values are the same in rounds of the outer loop that are done at once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "graph/cfg/intervals.h"
#include "graph/cfg/outer_vectors.h"

namespace framejit::cfg {

/// See outer_vectors.cpp.
class OuterNest {
 public:
  OuterNest(Cfg& cfg, const Shape& shape, uint32_t head, const std::vector<OuterVariable>& variables, int bytes)
      : cfg_(cfg), shape_(shape), head_(head), variables_(variables), bytes_(bytes), lanes_(bytes / 8) {}

  /// Can its rounds be done in vectors, and does that pay?
  bool is_suited() { return find_loops() && find_orders() && find_forms() && pays(); }

  /// Loads and stores of single lanes: in inner loops, and all.
  std::pair<int, int> gathers() const;
  /// Accesses, of which one stores, that must be apart; none: some rounds depend on each other in any case.
  std::optional<std::vector<std::pair<Id, Id>>> must_be_apart(bool is_outer) const;

 protected:
  static constexpr int64_t kFar = int64_t{1} << 24;

  struct Form {
    enum Kind : uint8_t { Unknown, Uniform, Linear, Lanes } kind = Unknown;
    int64_t times = 0;  // Linear: from lane to lane, times `by` if there is one
    Id by = kNone;
    bool operator==(const Form&) const = default;
  };

  struct ExitEdge {
    uint32_t block;
    int which;
  };

  /// A loop of the nest; the first one is the outer loop. Its places are its own blocks, and the heads of loops in it,
  /// each of which stands for all of that loop.
  struct Loop {
    uint32_t head = kNone, front = kNone;
    std::size_t parent = 0;
    std::vector<uint32_t> blocks;  // with those of inner loops
    std::vector<uint32_t> order;   // places
    std::map<uint32_t, std::size_t> place;
    std::vector<uint64_t> behind;  // by place: places that each way from there to the end of the round comes to
    std::vector<ExitEdge> exits;   // to blocks of loops around it, in the order of their numbers
    // The exits that all lanes reach which are still in the loop. A lane that leaves there is in it no longer.
    std::set<std::pair<uint32_t, int>> common;
    std::vector<Id> outs;  // its values that blocks behind the loop use
    bool masked = false;   // lanes leave it in different rounds
  };

  bool is_member(uint32_t b) const { return b < loop_of_.size() && loop_of_[b] != kNone; }
  bool is_inside(Id v) const { return v < block_of_.size() && block_of_[v] != kNone; }
  bool is_in(uint32_t b, std::size_t loop) const;
  /// The place of a loop that a block belongs to.
  uint32_t place_of(uint32_t b, std::size_t loop) const;
  bool is_loop_place(uint32_t place, std::size_t loop) const { return loop_of_[place] != loop; }
  /// Does the end of a block lead out of the outer loop there, or is it the end of the outer loop?
  bool leads_out(uint32_t b, int k) const { return !is_member(cfg_.blocks[b].to[k].block); }
  const std::vector<Id>& args_of(const ExitEdge& e) const { return cfg_.blocks[e.block].to[e.which].args; }
  /// Edges of a place of a loop; `which` of the block's.
  std::vector<ExitEdge> edges_from(uint32_t place, std::size_t l) const;
  std::size_t child_at(uint32_t head) const;
  uint32_t target(const ExitEdge& e) const { return cfg_.blocks[e.block].to[e.which].block; }
  /// Do all lanes come to a way out that are in the loop? Then the code branches there.
  bool is_common_exit(const ExitEdge& e, std::size_t l) const {
    return loops_[l].common.count({e.block, e.which}) != 0;
  }
  /// Does each round of the loop come to the place?
  bool always(uint32_t place, std::size_t l) const;
  uint32_t over(uint32_t place, std::size_t l) const { return place_of(shape_.dominator[place], l); }
  /// In the order of their places.
  std::vector<ExitEdge> edges_to(uint32_t place, std::size_t l) const;
  /// Edges to the next round, in the order of their places.
  std::vector<ExitEdge> edges_back(std::size_t l) const;

  Form form(Id v) const;
  /// Where a block uses it: lanes may have left the loop of the value in different rounds.
  Form form_in(Id v, uint32_t b) const;
  std::optional<int64_t> number(Id v) const { return cfg::number(cfg_, v); }
  bool is_wide() const { return bytes_ == 64; }
  /// By how many bytes an address grows from lane to lane, if that is a constant.
  std::optional<int64_t> stride_of(const Node& n, uint32_t b) const;
  bool is_innermost(std::size_t l) const;
  bool divides_by_natural(const Node& n) const { return number(n.args[1]).value_or(0) > 0; }
  bool is_fixed(Id v, std::size_t l) const;
  /// Is a value that a block uses the same in all rounds of the loops around the block, but for the outer loop?
  bool is_fixed_in_round(Id v, uint32_t b) const;
  bool depends_on(Id v, Id on) const;
  /// The gathers, and the checks in front of them.
  std::vector<std::pair<Id, uint32_t>> find_hoisted(std::size_t l) const;

  Cfg& cfg_;
  const Shape& shape_;
  const uint32_t head_;
  const std::vector<OuterVariable>& variables_;
  const int bytes_, lanes_;
  std::vector<Loop> loops_;
  std::vector<uint32_t> loop_of_;   // by block: the innermost loop of the nest, or kNone
  std::vector<uint32_t> block_of_;  // by value, kNone: it is not of the nest
  std::vector<Form> forms_;
  std::vector<std::pair<Id, uint32_t>> accesses_;  // with their blocks
  bool masks_ = true;                              // can all be done in some of the lanes only?

 private:
  bool find_loops();
  bool find_orders();
  void find_ways(std::size_t l);
  /// For each place, those that every way to the end of the round comes to. Common ways out, and those that fail, do
  /// not count.
  void find_places_behind(std::size_t l);
  static Form joined(const Form& a, const Form& b);
  void meet(Id v, const Form& with);
  bool find_forms();
  Form first_form(std::size_t i) const;
  /// May lanes go on from a place by different ways?
  bool parts_lanes(uint32_t place, std::size_t l) const;
  /// May lanes come to a place by different ways from the one that is always before it, or to the next round?
  bool is_divergent(uint32_t place, std::size_t l) const;
  void find_param_forms(uint32_t b);
  Form form_of(Id id, uint32_t b) const;
  static Form linear(int64_t times, Id by) { return times == 0 ? Form{Form::Uniform} : Form{Form::Linear, times, by}; }
  void find_mask(std::size_t l);
  /// Finds the values of a loop that blocks after it use.
  void find_outs(std::size_t l);
  bool compares_f32(Id v) const;
  bool can_be_done(Id id, uint32_t b);
  /// Do the rounds of all innermost loops wait for each other, and does none gather much?
  bool pays();

  std::map<std::size_t, int> gathers_;  // by loop
  bool changed_ = false;
};

}  // namespace framejit::cfg
