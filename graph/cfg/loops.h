// Passes over the loops of a control-flow graph.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/cfg/cfg.h"

namespace framejit::cfg {

/// The blocks of the loop with this head, the head first.
std::vector<uint32_t> blocks_of_loop(const Cfg& cfg, const Shape& shape, uint32_t head);

/// The one block in front of a loop, which leads to its head only, or kNone.
uint32_t front_of(const Cfg& cfg, const Shape& shape, uint32_t head);

/// Which parameter of the head is the number of rounds that are left: the head asks whether it is 0, and each round
/// makes it smaller by 1. None: no parameter is.
std::optional<std::size_t> rounds_left(const Cfg& cfg, const Shape& shape, uint32_t head,
                                       const std::vector<uint32_t>& members);

// The passes need preheaders and exits of each block's own (edit.h). Some tell whether they changed anything.

/// An inner loop gets a version without the checks that hold in all of its rounds if some conditions hold in front of
/// it.
bool version_loops(Cfg& cfg);

/// An inner loop of a few rounds, whose number is a constant, becomes these rounds. Branches are folded afterwards.
bool unroll_short_loops(Cfg& cfg);

/// What counts in step with another count is computed from it.
void count_once(Cfg& cfg);

/// Loops that test whether they go on at their head test it at the end of a round, and once in front.
bool rotate_loops(Cfg& cfg);

/// Rounds that draw several numbers from one another wait for one product only.
bool compose_congruences(Cfg& cfg);

/// A loop that takes one bit after the other from a number (x &= x - 1) and counts them becomes their number.
bool count_bits(Cfg& cfg);
/// Is a choice the number of bits of x if x is not 0, else 0? It is the number of bits.
bool counts_bits_or_none(const Cfg& cfg, const Node& choice);

/// If a round of an inner loop loads a number that the round before has stored, and stores a number that depends on it,
/// it gets the number in a register.
bool carry_stores(Cfg& cfg);

/// Addresses that grow by one number in each round of an inner loop are sums instead of products.
void step_addresses(Cfg& cfg);

/// Loops that count up to an end compare the next count with the end of the one after it, so that both counts share a
/// register.
void compare_next_counts(Cfg& cfg);

/// A variable of a loop that only exits use is no longer set in each round. Exits compute it from the loop's count.
bool compute_at_exits(Cfg& cfg);

/// At O1: a product that is used in one sum or difference is computed with it, and rounded once.
void fuse_products(Cfg& cfg);
/// At O1: squares and roots that are called as powers become products and roots.
void drop_powers(Cfg& cfg);

/// Sums that are needed only behind a loop are computed there.
void sink_results(Cfg& cfg);

/// Branches that ask whether several bounds hold become a branch for each: they are foreseen.
void part_conditions(Cfg& cfg);

/// Numbers that only one block uses are computed there, if control does not always come to it.
void sink_into_branches(Cfg& cfg);

/// Drops what is known where it is asked: whether a sum with a constant overflows, and whether a number is below 0.
bool drop_checks(Cfg& cfg);

/// Drops checks of an index at the head of a loop that were made of it on every way there. Versions of the loop are
/// told by these checks what bounds the index, so they come first.
void drop_repeated_checks(Cfg& cfg);

/// Notes of sums and products that may not overflow that they are not negative. They stay so where versions of a loop
/// do without the check.
void note_naturals(Cfg& cfg);

/// Finds the dividends that are not negative. No pass that moves divisions may follow.
void find_naturals(Cfg& cfg);

/// Branches around a few cheap operations become choices between values.
void choose_values(Cfg& cfg);

/// A choice between 0 and 1 by a comparison becomes the comparison, or its opposite.
bool choose_by_comparisons(Cfg& cfg);

/// Inner loops get a loop in front that does several rounds at once: in vectors, if they do not depend on each other,
/// else one after the other.
bool widen_loops(Cfg& cfg, int vector_bytes);
/// An inner loop with one block in front: one that does vectors of rounds.
bool vectorize_loop(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front, int vector_bytes);
/// The same for rounds that depend on each other.
bool unroll_loop(Cfg& cfg, const Shape& shape, uint32_t head, uint32_t front);

/// Inner loops that may end in any round, and store nothing: the rounds of several in front.
bool unroll_searches(Cfg& cfg);

}  // namespace framejit::cfg
