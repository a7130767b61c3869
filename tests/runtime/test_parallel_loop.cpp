// Loops whose rounds threads do, beside the reference interpreter of the graph as it was.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "cfg_graphs.h"
#include "graph/cfg/outer_vectors.h"
#include "graph/cfg/parallel.h"
#include "graph/support/clock.h"
#include "runtime/parallel_loop.h"
#include "runtime/scheduler.h"

namespace framejit::codegen {
namespace {

/// A graph whose loops run on threads: interpreted, or as machine code.
class Threaded {
 public:
  Threaded(Cfg graph, std::optional<Isa> isa)
      : Threaded(std::move(graph), isa,
                 !isa                  ? 0
                 : *isa == Isa::Avx512 ? 64
                                       : 32) {}
  /// Interpreted, with vectors of so many bytes.
  Threaded(Cfg graph, int bytes) : Threaded(std::move(graph), std::nullopt, bytes) {}
  Threaded(Cfg graph, std::optional<Isa> isa, int bytes) : graph_(std::move(graph)) {
    cfg::ParallelLoops loops;
    cfg::optimize(graph_, bytes, &loops);
    loops_ = std::move(loops.found);
    EXPECT_EQ(cfg::verify(graph_), "") << cfg::print(graph_);
    for (const auto& loop : loops_) {
      EXPECT_EQ(loop->checks ? cfg::verify(*loop->checks) : "", "") << cfg::print(*loop->checks);
      cfg::optimize(loop->body, bytes);
      EXPECT_EQ(cfg::verify(loop->body), "") << cfg::print(loop->body);
      if (!isa) {
        runners_.push_back(std::make_unique<runtime::ParallelLoop>(
            *loop,
            [at = loop.get()](const int64_t* symbols, char* const* pointers, int64_t* out, const unsigned char*) {
              return cfg::interpret(at->body, {symbols, pointers, nullptr}, out, INT64_MAX);
            }));
        continue;
      }
      bodies_.push_back(std::make_unique<Kernel>(loop->body, *isa));
      runners_.push_back(std::make_unique<runtime::ParallelLoop>(
          *loop, [this, at = bodies_.back().get()](const int64_t* symbols, char* const* pointers, int64_t* out,
                                                   const unsigned char* poll) {
            if (before_piece) before_piece();
            return at->function()(symbols, pointers, nullptr, out, poll);
          }));
    }
    if (isa) kernel_ = std::make_unique<Kernel>(graph_, *isa);
  }

  Result run(const std::vector<int64_t>& symbols, char* const* pointers) const {
    return kernel_ ? kernel_->run(symbols, pointers) : interpreted(graph_, symbols, pointers);
  }
  const Cfg& graph() const { return graph_; }
  std::function<void()> before_piece;  // of rounds, as machine code
  std::size_t loops() const { return loops_.size(); }
  const runtime::ParallelLoop& runner(std::size_t k) const { return *runners_[k]; }
  const cfg::ParallelLoop& loop(std::size_t k) const { return *loops_[k]; }
  /// May rounds store what plain code stores only after a warning?
  void set_unseen_warnings(bool (*asked)()) const {
    for (const auto& runner : runners_) runner->set_unseen_warnings(asked);
  }
  void set_poll(const unsigned char* poll) {
    for (const auto& runner : runners_) runner->set_poll(poll);
  }

 private:
  Cfg graph_;
  std::vector<std::unique_ptr<cfg::ParallelLoop>> loops_;
  std::vector<std::unique_ptr<Kernel>> bodies_;
  std::vector<std::unique_ptr<runtime::ParallelLoop>> runners_;
  std::unique_ptr<Kernel> kernel_;
};

class Eager {
 public:
  Eager() {
    cfg::set_outer_vectors_always(true);
    runtime::ParallelLoop::set_eager(true);
    runtime::set_num_threads(2);
  }
  ~Eager() {
    cfg::set_outer_vectors_always(false);
    runtime::ParallelLoop::set_eager(false);
    runtime::set_num_threads(0);
  }
};

/// A graph without its checks that numbers are finite, and that sums have 64 bits.
Cfg never_warns(Cfg graph) {
  for (cfg::Node& n : graph.nodes)
    if (n.op == Op::AddExact) {
      n.op = Op::Add;
      n.exit = cfg::kNone;
    }
  for (cfg::Block& block : graph.blocks)
    std::erase_if(block.nodes, [&](cfg::Id id) { return graph.at(id).op == Op::CheckFinite; });
  return graph;
}

/// Random nests over rows and columns of two matrices. Symbols: rows, columns, bytes from row to row of each; pointers:
/// the matrices. Variables: a row, a column, a number; two floats; a sum, a count; a row
/// that some rounds set.
class RowNest : RandomGraph {
 public:
  explicit RowNest(uint64_t seed) : RandomGraph(seed) {}

  Cfg make() {
    g_.blocks.emplace_back();
    for (int64_t k = 0; k < 4; ++k) symbols_.push_back(input_of(Op::Symbol, k));
    for (int64_t k = 0; k < 2; ++k) matrices_.push_back(input_of(Op::Pointer, k));
    for (int64_t k = 0; k < 3; ++k) vars_.push_back(constant(g_, 0, 7 + k));
    for (int k = 0; k < 3; ++k) vars_.push_back(number(0, 0.5 + k));
    vars_.push_back(constant(g_, 0, below(4) == 0 ? std::numeric_limits<int64_t>::max() - 40 : 3));
    vars_.push_back(constant(g_, 0, 77));
    at_ = block();
    g_.blocks[0].end = cfg::Block::End::Jump;
    g_.blocks[0].to[0] = {at_, {}};
    loop(kRow, [&] {
      // Most rounds set what they add to.
      for (const std::size_t v : {kNumber, kFirst, kSecond})
        if (below(12) != 0) vars_[v] = v == kNumber ? constant(g_, at_, below(5)) : number(at_, 0.25);
      for (int64_t k = 1 + below(3); k > 0; --k) {
        if (below(3) == 0) statement();
        else if (below(4) == 0)
          guarded(below(2) ? make(Op::Lt, Type::I64, constant(g_, at_, 4), symbols_[1])
                           : make(Op::Lt, Type::I64, vars_[kNumber], constant(g_, at_, 3)),
                  [&] { loop(kColumn, [&] { statement(); }); });
        else
          loop(kColumn, [&] {
            for (int64_t n = 1 + below(3); n > 0; --n) statement();
            if (below(4) == 0)
              loop(kColumn, [&] {
                for (int64_t n = 1 + below(2); n > 0; --n) statement();
              });
            if (below(2)) statement();
          });
      }
      if (below(3) != 0) store(0);
      if (below(2)) {
        vars_[kSum] = make(Op::Add, Type::F64, vars_[kSum], vars_[kFirst + static_cast<std::size_t>(below(2))]);
        if (below(2)) check(Op::CheckFinite, vars_[kSum]);
      }
    });
    g_.blocks[at_].end = cfg::Block::End::Leave;
    g_.blocks[at_].exit = exit();
    shuffle_blocks();
    return std::move(g_);
  }

 private:
  /// Gives blocks other numbers, but the first one.
  void shuffle_blocks() {
    std::vector<uint32_t> place;
    for (uint32_t b = 0; b < g_.blocks.size(); ++b) place.push_back(b);
    for (std::size_t b = place.size() - 1; b > 1; --b)
      std::swap(place[b], place[1 + static_cast<std::size_t>(below(static_cast<int64_t>(b)))]);
    std::vector<cfg::Block> blocks(g_.blocks.size());
    for (uint32_t b = 0; b < g_.blocks.size(); ++b) {
      for (cfg::Edge& e : g_.blocks[b].to)
        if (e.block != cfg::kNone) e.block = place[e.block];
      blocks[place[b]] = std::move(g_.blocks[b]);
    }
    g_.blocks = std::move(blocks);
  }

  using RandomGraph::make;
  static constexpr std::size_t kRow = 0, kColumn = 1, kNumber = 2, kFirst = 3, kSecond = 4, kSum = 5, kCount = 6,
                               kLast = 7;

  Id number(uint32_t b, double value) {
    Node n;
    n.type = Type::F64;
    n.imm = std::bit_cast<int64_t>(value);
    return add(g_, b, n);
  }

  Id index(Id v, Id length) {
    if (below(6) == 0) v = exact(below(2) ? Op::AddExact : Op::SubExact, v, constant(g_, at_, 1));
    if (below(3) == 0)
      v = make(Op::Select, Type::I64, make(Op::Lt, Type::I64, v, constant(g_, at_, 0)),
               make(Op::Add, Type::I64, v, length), v);
    check(Op::Check, make(Op::Below, Type::I64, v, length));
    return v;
  }

  /// An element of a matrix: mostly in the row of the round.
  Node element(std::size_t which, bool of_row) {
    const Id other = below(2) ? vars_[kColumn] : constant(g_, at_, below(3));
    const Id row = index(of_row || below(3) ? vars_[kRow] : other, symbols_[0]);
    const Id column = index(below(3) ? vars_[kColumn] : constant(g_, at_, below(3)), symbols_[1]);
    Node n;
    n.mem = cfg::Mem::F64;
    n.type = Type::F64;
    n.args[0] = make(Op::Add, Type::I64, matrices_[which], make(Op::Mul, Type::I64, row, symbols_[2 + which]));
    n.args[1] = column;
    n.scale = 8;
    return n;
  }

  void store(std::size_t which) {
    Node n = element(which, below(8) != 0);
    n.op = Op::Store;
    n.type = Type::None;
    n.args[2] = vars_[kFirst + static_cast<std::size_t>(below(2))];
    add(g_, at_, n);
  }

  void statement() {
    Id& f = vars_[kFirst + static_cast<std::size_t>(below(2))];
    switch (below(9)) {
      case 8: return divide();
      case 7: return leave();
      case 6: vars_[kCount] = exact(Op::AddExact, vars_[kCount], constant(g_, at_, below(3))); return;
      case 0: vars_[kNumber] = exact(Op::AddExact, vars_[kNumber], vars_[static_cast<std::size_t>(below(3))]); return;
      case 1:
      case 2: {
        Node n = element(static_cast<std::size_t>(below(2)), false);
        n.op = Op::Load;
        f = make(below(2) ? Op::Add : Op::Mul, Type::F64, f, add(g_, at_, n));
        if (below(8) != 0) check(Op::CheckFinite, f);
        return;
      }
      case 3: {
        return guarded(make(Op::Lt, Type::I64, vars_[kFirst], vars_[kSecond]), [&] {
          if (below(2)) vars_[kLast] = make(Op::Mul, Type::I64, vars_[kRow], constant(g_, at_, 3));
          else statement();
        });
      }
      default: store(static_cast<std::size_t>(below(2)));
    }
  }

  template <class F>
  void guarded(Id condition, F body_of) {
    const uint32_t from = at_, yes = block(), join = block();
    g_.blocks[from].end = cfg::Block::End::Branch;
    g_.blocks[from].condition = condition;
    g_.blocks[from].to[0] = {yes, {}};
    g_.blocks[from].to[1] = {join, vars_};
    at_ = yes;
    body_of();
    g_.blocks[at_].end = cfg::Block::End::Jump;
    g_.blocks[at_].to[0] = {join, vars_};
    for (Id& v : vars_) v = g_.add_param(join, g_.at(v).type);
    at_ = join;
  }

  /// A quotient or a remainder, by a constant or by a number that is checked not to be 0.
  void divide() {
    const Id by_row = exact(Op::SubExact, vars_[kRow], constant(g_, at_, 3));
    const bool by_constant = below(2) != 0;
    const Id by = by_constant ? constant(g_, at_, 1 + below(9)) : by_row;
    if (!by_constant) check(Op::Check, make(Op::Ne, Type::I64, by, constant(g_, at_, 0)));
    const Id number =
        make(Op::Sub, Type::I64, make(Op::Mul, Type::I64, vars_[kColumn], constant(g_, at_, 5)),
             make(Op::Mul, Type::I64, vars_[kNumber], constant(g_, at_, below(12) ? 3 : int64_t{1} << 51)));
    vars_[kNumber] = make(below(2) ? Op::FloorDiv : Op::FloorMod, Type::I64, number, by);
  }

  /// Leaves the innermost loop, but not that over the rows.
  void leave() {
    if (!behind_) return;
    const Id condition = below(2) ? make(Op::Lt, Type::I64, vars_[kSecond], vars_[kFirst])
                                  : make(Op::Lt, Type::I64, constant(g_, at_, 3), vars_[below(2) ? kNumber : kColumn]);
    const uint32_t on = block();
    g_.blocks[at_].end = cfg::Block::End::Branch;
    g_.blocks[at_].condition = condition;
    g_.blocks[at_].to[0] = {*behind_, vars_};
    g_.blocks[at_].to[1] = {on, {}};
    at_ = on;
  }

  /// for v in range(start, length, step), as the translator writes it.
  template <class F>
  void loop(std::size_t variable, F body_of) {
    const Id zero = constant(g_, at_, 0), start = constant(g_, at_, below(2)),
             step = constant(g_, at_, 1 + below(8) / 7);
    const Id span = make(Op::Sub, Type::I64, symbols_[variable], start);
    const Id rounds = make(Op::FloorDiv, Type::I64,
                           make(Op::Add, Type::I64, span, make(Op::Sub, Type::I64, step, constant(g_, at_, 1))), step);
    const Id left = make(Op::Select, Type::I64, make(Op::Lt, Type::I64, zero, rounds), rounds, zero);
    ++level_;
    const uint32_t head = block(), body = block();
    std::vector<Id> given = vars_;
    given.insert(given.end(), {start, left});
    g_.blocks[at_].end = cfg::Block::End::Jump;
    g_.blocks[at_].to[0] = {head, given};
    for (Id& v : vars_) v = g_.add_param(head, g_.at(v).type);
    const Id next = g_.add_param(head, Type::I64), more = g_.add_param(head, Type::I64);
    const std::vector<Id> at_head = vars_;
    at_ = head;
    g_.blocks[head].condition = make(Op::Ne, Type::I64, more, constant(g_, head, 0));
    g_.blocks[head].end = cfg::Block::End::Branch;
    g_.blocks[head].to[0] = {body, {}};
    const uint32_t behind = block();
    std::vector<Id> handed_on;
    const bool can_be_left = variable != kRow && below(2);
    if (can_be_left)
      for (const Id v : vars_) handed_on.push_back(g_.add_param(behind, g_.at(v).type));
    const std::optional<uint32_t> outer = std::exchange(behind_, can_be_left ? std::optional(behind) : std::nullopt);
    at_ = body;
    vars_[variable] = next;
    body_of();
    behind_ = outer;
    check(Op::Poll, cfg::kNone);
    given = vars_;
    given.push_back(make(Op::Add, Type::I64, next, step));
    given.push_back(make(Op::Sub, Type::I64, more, constant(g_, at_, 1)));
    g_.blocks[at_].end = cfg::Block::End::Jump;
    g_.blocks[at_].to[0] = {head, given};
    --level_;
    g_.blocks[head].to[1] = {behind, can_be_left ? at_head : std::vector<Id>{}};
    at_ = behind;
    vars_ = can_be_left ? handed_on : at_head;
  }

  std::vector<Id> symbols_, matrices_;
  std::optional<uint32_t> behind_;  // the block behind the innermost loop, if it may be left before its last round
};

TEST(ParallelLoop, RandomNestsOfRowsKeepTheirMeaning) {
  const char* const first = std::getenv("FRAMEJIT_SEED");
  const char* const count = std::getenv("FRAMEJIT_SEEDS");
  const int64_t from = first ? std::atoll(first) : 0, seeds = count ? std::atoll(count) : 600;
  const Eager eager;
  int64_t rounds = 0, failures = 0, float_sums = 0, integer_sums = 0, vectors = 0, kept = 0, kept_early = 0;
  for (int64_t seed = from; seed < from + seeds; ++seed) {
    const Cfg plain = RowNest(static_cast<uint64_t>(seed)).make();
    ASSERT_EQ(cfg::verify(plain), "") << cfg::print(plain);
    const Threaded ways[] = {Threaded(plain, std::nullopt), Threaded(plain, seed % 2 ? 64 : 32),
                             Threaded(plain, seed % 2 ? Isa::Avx2 : std::min(Isa::Avx512, detected_cpu().isa))};
    const Cfg unchecked = never_warns(plain);
    const bool is_seen = seed % 3 != 0;
    for (const Threaded& way : ways) way.set_unseen_warnings(is_seen ? [] { return false; } : [] { return true; });
    for (const int64_t rows : {0, 4, 5, 13, 60}) {
      // Rows behind each other, apart, in the other order, into one another; matrices apart and into one another.
      const int64_t columns = 1 + (seed + rows) % 9;
      const int64_t strides[] = {8 * columns, 8 * columns + 16, -8 * columns, 8};
      const int64_t a = strides[static_cast<std::size_t>(seed / 3 % 4)],
                    b = strides[static_cast<std::size_t>(seed % 4)];
      const int64_t apart = std::vector<int64_t>{1600, 0, 8 * columns, 8}[static_cast<std::size_t>(seed / 5 % 4)];
      std::vector<double> memory[5];
      Result results[5];
      for (int way = 0; way < 5; ++way) {
        for (int64_t k = 0; k < 6000; ++k) memory[way].push_back(0.25 * static_cast<double>(k * 5 % 11));
        // Somewhere behind the middle of the rounds a result is not finite.
        if (seed % 4 < 2)
          memory[way][static_cast<std::size_t>(2500 + a / 8 * (rows * 2 / 3) + seed % columns)] =
              std::numeric_limits<double>::infinity();
        char* const middle = reinterpret_cast<char*>(memory[way].data() + 2500);
        char* const pointers[] = {middle, middle + 8 * apart};
        const std::vector<int64_t> symbols{rows, columns, a, b};
        if (way == 4) {
          interpreted(unchecked, symbols, pointers);
          continue;
        }
        results[way] = way == 0 ? interpreted(plain, symbols, pointers) : ways[way - 1].run(symbols, pointers);
        EXPECT_EQ(results[way].exit, results[0].exit) << "seed " << seed << ", way " << way << ", rows " << rows;
        EXPECT_EQ(results[way].values, results[0].values) << "seed " << seed << ", way " << way << ", rows " << rows;
      }
      // Each number is that of the plain run. If warnings are unseen, it may also be that of a run that goes on.
      for (int way = 1; way < 4; ++way)
        for (std::size_t k = 0; k < memory[0].size(); ++k) {
          const auto is_that_of = [&](int other) {
            return std::memcmp(&memory[way][k], &memory[other][k], sizeof(double)) == 0;
          };
          kept_early += !is_that_of(0);
          EXPECT_TRUE(is_that_of(0) || (!is_seen && is_that_of(4)))
              << "seed " << seed << ", way " << way << ", rows " << rows << ", number " << k;
        }
    }
    if (HasFailure()) FAIL() << cfg::print(plain) << "\n" << cfg::print(ways[0].graph());
    for (const Threaded& way : ways)
      for (std::size_t k = 0; k < way.loops(); ++k) {
        rounds += way.runner(k).rounds_done();
        failures += way.runner(k).failures();
        kept += way.runner(k).rounds_kept();
        vectors += way.loop(k).has_vectors && way.runner(k).rounds_done() > 0;
        for (const cfg::ParallelLoop::Sum& sum : way.loop(k).sums)
          (sum.is_float ? float_sums : integer_sums) += way.runner(k).rounds_done() > 0;
      }
  }
  EXPECT_GT(rounds, 20 * seeds);
  EXPECT_GT(failures, seeds / 20);
  EXPECT_GT(kept, seeds);
  // Few programs keep such numbers: among those of other seeds there may be none.
  EXPECT_TRUE(first || kept_early > 0);
  EXPECT_GT(float_sums, seeds / 20);
  EXPECT_GT(integer_sums, seeds / 20);
  EXPECT_GT(vectors, seeds / 20);
}

TEST(ParallelLoop, AnInterpreterThatWaitsDoesNotStopVectorsOfCallsToCome) {
  cfg::set_outer_vectors_always(true);
  runtime::set_num_threads(1);
  int64_t compared = 0;
  for (uint64_t seed = 0; seed < 60 && compared < 5; ++seed) {
    Threaded way(RowNest(seed).make(), std::min(Isa::Avx512, detected_cpu().isa));
    const auto rounds_alone = [&] {
      int64_t rounds = 0;
      for (std::size_t k = 0; k < way.loops(); ++k) rounds += way.runner(k).rounds_alone();
      return rounds;
    };
    const auto run = [&](bool is_awaited) {
      // It begins to wait while rounds are done.
      unsigned char waits = 0;
      way.before_piece = [&] { waits = is_awaited; };
      std::vector<double> memory(6000, 0.5);
      char* const middle = reinterpret_cast<char*>(memory.data() + 2500);
      char* const pointers[] = {middle, middle + 8 * 1600};
      way.set_poll(&waits);
      const int64_t before = rounds_alone();
      way.run({60, 5, 40, 40}, pointers);
      return rounds_alone() - before;
    };
    const int64_t rounds = run(false);
    if (rounds == 0 || run(false) != rounds) continue;  // a check fails
    if (run(true) == rounds) continue;                  // no round asks
    for (int call = 0; call < 5; ++call) EXPECT_LT(run(true), rounds);
    EXPECT_EQ(run(false), rounds) << seed;
    ++compared;
  }
  EXPECT_EQ(compared, 5);
  cfg::set_outer_vectors_always(false);
  runtime::set_num_threads(0);
}

// The memory of a round is all that may be copied for one piece.
TEST(ParallelLoop, RoundsThatStoreMuchAreMeasuredByPiecesOfOne) {
  constexpr int64_t kRounds = 400, kNumbers = 10'000;
  cfg::ParallelLoop loop;
  loop.body.exits.resize(2);
  loop.body.blocks.emplace_back();
  loop.body.blocks[0].end = cfg::Block::End::Leave;
  loop.body.blocks[0].exit = 1;  // so a round may fail
  std::vector<double> memory(kRounds * kNumbers);
  loop.frame = {std::bit_cast<int64_t>(memory.data()), kNumbers};
  loop.accesses.push_back({true, 8, 0, {{8 * kNumbers}}, {{1, {8}}}});
  runtime::set_num_threads(2);
  std::mutex seen;
  std::vector<int> times(kRounds, 0);
  runtime::ParallelLoop runner(loop, [&](const int64_t* symbols, char* const*, int64_t*, const unsigned char*) {
    const std::lock_guard lock(seen);
    EXPECT_EQ(symbols[1], 1);
    ++times[static_cast<std::size_t>(symbols[0])];
    return int64_t{0};
  });
  const int64_t done = loop.run(kRounds);
  EXPECT_GT(done, 0);
  for (int64_t k = 0; k < kRounds; ++k) EXPECT_EQ(times[static_cast<std::size_t>(k)], k < done) << k;
  runtime::set_num_threads(0);
}

// As if another process had the other processors: threads wait for each other.
TEST(ParallelLoop, VectorsStayWhereThreadsDoNotPay) {
  constexpr int64_t kRounds = 4000;
  cfg::ParallelLoop loop;
  loop.body.exits.resize(1);
  loop.body.blocks.emplace_back();
  loop.body.blocks[0].end = cfg::Block::End::Leave;
  loop.body.blocks[0].exit = 0;
  loop.has_vectors = true;
  runtime::set_num_threads(2);
  std::mutex processor;
  runtime::ParallelLoop runner(loop, [&](const int64_t* symbols, char* const*, int64_t*, const unsigned char*) {
    const std::lock_guard lock(processor);
    for (const int64_t end = thread_ns() + symbols[1] * 5000; thread_ns() < end;) continue;
    return int64_t{0};
  });
  for (int call = 0; call < 5; ++call) EXPECT_EQ(loop.run(kRounds), kRounds - 1);
  EXPECT_GT(runner.rounds_alone(), 3 * kRounds);
  runtime::set_num_threads(0);
}

// The additions are made by whichever thread comes by, in the order of the rounds.
TEST(ParallelLoop, SumsAreThoseOfTheOrderOfTheRounds) {
  constexpr int64_t kRounds = 3000;
  const auto addend = [](int64_t round) { return round % 7 == 0 ? 1e16 : -0.1 * static_cast<double>(round); };
  double expected = 0.25;
  for (int64_t k = 0; k + 1 < kRounds; ++k) expected += addend(k);
  const Eager eager;
  for (int call = 0; call < 20; ++call) {
    cfg::ParallelLoop loop;
    loop.body.exits.resize(1);
    loop.body.blocks.emplace_back();
    loop.body.blocks[0].end = cfg::Block::End::Leave;
    loop.body.blocks[0].exit = 0;
    loop.frame = {std::bit_cast<int64_t>(0.25)};
    loop.sums.push_back({0, true});
    runtime::ParallelLoop runner(loop,
                                 [&](const int64_t* symbols, char* const* pointers, int64_t*, const unsigned char*) {
                                   auto* const added = reinterpret_cast<double*>(pointers[1]);
                                   for (int64_t k = 0; k < symbols[1]; ++k)
                                     added[symbols[1] - 1 - k] = addend(symbols[0] + k);
                                   return int64_t{0};
                                 });
    EXPECT_EQ(loop.run(kRounds), kRounds - 1);
    EXPECT_EQ(std::bit_cast<double>(loop.frame[0]), expected);
  }
}

}  // namespace
}  // namespace framejit::codegen
