// Attention, block by block. For each block of queries of a head:
//
//     for each block of keys that one of them sees:   scores = q k^T        a product
//                                                     softmax, row by row   what is masked becomes 0
//                                                     out = out * decay + scores v
//     out /= sums of the softmax
//
// Backward, for each head of keys, the block of queries of each of its heads:
//
//     for each such block of keys:   weights = softmax, relative to the largest score so far, and kept
//     for each such block of keys:   weights *= what is missing to the softmax of the row
//                                    scores' = scale * weights * (g v^T - sum(g y))
//                                    dq += scores' k,  dk += scores'^T q,  dv += weights^T g
//
// Where weights are dropped, those that count are drawn when a row of a block is there: of the weights before their
// product with v, and with g, and of g v^T.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "graph/random.h"
#include "runtime/attention.h"
#include "runtime/execute.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kItem = sizeof(float), kLine = 64;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Which weights of a row are kept, from number `first` of all on: all bits, or none.
struct Draw {
  uint64_t state, least;
  float share;  // what a kept one is multiplied with

  explicit Draw(const AttentionData& data)
      : state(data.state),
        least(graph::SplitMix64::least(data.probability)),
        share(data.probability < 1 ? 1 / (1 - data.probability) : 0) {}

  /// Whole vectors: `kept` has room for a line more.
  [[gnu::target("avx512f,avx512dq,avx512vl")]] void draw_avx512(uint64_t first, int64_t count, int32_t* kept) const {
    draw<Lanes8>(first, count, kept);
  }
  [[gnu::target("avx2")]] void draw_avx2(uint64_t first, int64_t count, int32_t* kept) const {
    draw<Lanes4>(first, count, kept);
  }

  void keep(float* row, int64_t count, const int32_t* kept) const {
    for (int64_t i = 0; i < count; ++i) row[i] = std::bit_cast<float>(std::bit_cast<int32_t>(row[i]) & kept[i]) * share;
  }

 private:
  struct Lanes4 {
    typedef uint64_t Words [[gnu::vector_size(32)]];
    typedef int32_t Bits [[gnu::vector_size(16)]];
    static constexpr int kCount = 4;
  };
  struct Lanes8 {
    typedef uint64_t Words [[gnu::vector_size(64)]];
    typedef int32_t Bits [[gnu::vector_size(32)]];
    static constexpr int kCount = 8;
  };

  template <class Lanes>
  [[gnu::always_inline]] void draw(uint64_t first, int64_t count, int32_t* kept) const {
    using Random = graph::SplitMix64;
    typename Lanes::Words next;
    for (int lane = 0; lane < Lanes::kCount; ++lane)
      next[lane] = state + (first + static_cast<uint64_t>(lane) + 1) * Random::kGamma;
    for (int64_t i = 0; i < count; i += Lanes::kCount, next += Lanes::kCount * Random::kGamma) {
      typename Lanes::Words word = next;
      Random::mix(word);
      const auto drawn = __builtin_convertvector((word >> Random::kShift) >= least, typename Lanes::Bits);
      std::memcpy(kept + i, &drawn, sizeof drawn);
    }
  }
};

/// Where a task keeps what it works on, as offsets.
struct Layout {
  int64_t scores, block, part, largest, sums, decay, dots, mask, kept, product, bytes;

  explicit Layout(const Attention& a) {
    const int64_t queries = std::min(a.queries, Attention::kQueries), keys = std::min(a.keys, Attention::kKeys);
    const int64_t blocks = a.backward ? a.key_blocks() : 1;
    int64_t at = 0;
    const auto take = [&](int64_t floats) {
      const int64_t begin = at;
      at += round_up(floats * kItem, kLine) + kLine;
      return begin;
    };
    block = queries * Attention::score_row(keys);
    scores = take(blocks * block / kItem);
    part = take(a.backward ? block / kItem : queries * a.width);
    largest = take(queries * blocks), sums = take(queries), decay = take(queries), dots = take(queries);
    mask = take(keys), kept = take(a.drops ? keys : 0);
    product = at;
    for (const auto& row : a.products)
      for (const Attention::Products& p : row)
        for (const Product* one : {&p.scores, &p.sums, &p.towards, &p.of_q, &p.of_k, &p.of_v})
          at = std::max(at, product + one->scratch_bytes);
    bytes = at;
  }
};

class Task {
 public:
  Task(const Attention& attention, const AttentionData& data, char* scratch)
      : a_(attention), d_(data), draw_(data), layout_(attention), scratch_(scratch) {}

  void forward(int64_t number) const {
    const int64_t blocks = a_.query_blocks();
    const Queries at = queries(number / blocks / a_.heads, number / blocks % a_.heads, number % blocks);
    char* const out = d_.out + at.batch * a_.out.batch + at.head * a_.out.head + at.first * a_.out.row;
    if (at.seen == 0)
      for (int64_t row = 0; row < at.rows; ++row)
        std::memset(out + row * a_.out.row, 0, static_cast<std::size_t>(a_.width * kItem));
    begin(at);
    for (int64_t key = 0; key < at.seen; key += Attention::kKeys) {
      const Attention::Products& p = products(at, key);
      weights(at, key, layout_.scores, at_float(layout_.largest));
      if (a_.drops) drop(at, key);
      const char* v = values(at, key);
      if (key == 0) {
        product(p.sums, scratch_ + layout_.scores, v, out);
        continue;
      }
      product(p.sums, scratch_ + layout_.scores, v, scratch_ + layout_.part);
      for (int64_t row = 0; row < at.rows; ++row) {
        SoftmaxArgs args;
        args.row = reinterpret_cast<float*>(out + row * a_.out.row);
        args.other = at_float(layout_.part) + row * a_.width;
        args.width = a_.width;
        args.decay = at_float(layout_.decay)[row];
        call(SoftmaxCore::kMerge, args);
      }
    }
    for (int64_t row = 0; row < at.rows; ++row) {
      SoftmaxArgs args;
      args.row = reinterpret_cast<float*>(out + row * a_.out.row);
      args.width = a_.width;
      args.sum = at_float(layout_.sums)[row];
      call(SoftmaxCore::kDivide, args);
    }
  }

  /// Of a head of keys.
  void backward(int64_t number) const {
    const int64_t batch = number / a_.key_heads, key_head = number % a_.key_heads, repeats = a_.heads / a_.key_heads;
    const int64_t q_head = a_.queries * a_.depth * kItem, k_head = a_.keys * a_.depth * kItem,
                  v_head = a_.keys * a_.width * kItem;
    char* const of_q = d_.out + (batch * a_.heads + key_head * repeats) * q_head;
    char* const all_of_k = d_.out + a_.batch * a_.heads * q_head;
    char* const of_k = all_of_k + number * k_head;
    char* const of_v = all_of_k + a_.batch * a_.key_heads * k_head + number * v_head;
    std::memset(of_q, 0, static_cast<std::size_t>(repeats * q_head));
    std::memset(of_k, 0, static_cast<std::size_t>(k_head));
    std::memset(of_v, 0, static_cast<std::size_t>(v_head));
    for (int64_t head = 0; head < repeats; ++head)
      for (int64_t block = 0; block < a_.query_blocks(); ++block)
        block_backward(queries(batch, key_head * repeats + head, block), of_q + head * q_head, of_k, of_v);
  }

 private:
  /// A block of queries, and how many keys one of them sees.
  struct Queries {
    int64_t batch, head, first, rows, seen;
  };

  Queries queries(int64_t batch, int64_t head, int64_t block) const {
    const int64_t first = block * Attention::kQueries, rows = std::min(Attention::kQueries, a_.queries - first);
    return {batch, head, first, rows, a_.causal ? std::clamp<int64_t>(first + rows + a_.ahead, 0, a_.keys) : a_.keys};
  }

  float* at_float(int64_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }
  void call(int part, SoftmaxArgs& args) const { SoftmaxCore::part(a_.softmax_code, part)(&args); }
  void product(const Product& p, const char* a, const char* b, char* c) const {
    run_product_here(p, a, b, c, scratch_ + layout_.product);
  }
  static const char* matrix(const char* data, const Attention::Matrix& m, int64_t batch, int64_t head, int64_t row) {
    return data + batch * m.batch + head * m.head + row * m.row;
  }
  const char* keys(const Queries& at, int64_t key) const {
    return matrix(d_.k, a_.k, at.batch, at.head / (a_.heads / a_.key_heads), key);
  }
  const char* values(const Queries& at, int64_t key) const {
    return matrix(d_.v, a_.v, at.batch, at.head / (a_.heads / a_.key_heads), key);
  }
  const Attention::Products& products(const Queries& at, int64_t key) const {
    return a_.products[at.first + Attention::kQueries >= a_.queries][key + Attention::kKeys >= a_.keys];
  }

  void begin(const Queries& at) const {
    std::fill_n(at_float(layout_.largest), at.rows, -HUGE_VALF);
    std::fill_n(at_float(layout_.sums), at.rows, 0.0f);
  }

  /// The softmax of a block of keys, as far as it is known; `largest` of each row is what it is relative to, and was
  /// before.
  void weights(const Queries& at, int64_t key, int64_t scores, float* largest) const {
    const int64_t count = std::min(Attention::kKeys, a_.keys - key), pitch = Attention::score_row(count);
    product(products(at, key).scores, matrix(d_.q, a_.q, at.batch, at.head, at.first), keys(at, key),
            scratch_ + scores);
    const char* mask = matrix(d_.mask, a_.mask, at.batch, at.head, at.first) + key * a_.mask.column;
    for (int64_t row = 0; row < at.rows; ++row, mask += a_.mask.row) {
      SoftmaxArgs args;
      args.row = at_float(scores + row * pitch);
      args.other = a_.masked ? mask_row(mask, count) : nullptr;
      args.live = a_.causal ? std::clamp<int64_t>(at.first - key + row + a_.ahead + 1, 0, count) : count;
      args.width = count;
      args.scale = d_.scale;
      args.largest = largest[row];
      args.sum = at_float(layout_.sums)[row];
      call(SoftmaxCore::kSoftmax, args);
      largest[row] = args.largest;
      at_float(layout_.sums)[row] = args.sum;
      at_float(layout_.decay)[row] = args.decay;
    }
  }

  /// Draws for a row of a block: see `keep`.
  void draw(const Queries& at, int64_t key, int64_t row, int64_t count) const {
    const int64_t first = ((at.batch * a_.heads + at.head) * a_.queries + at.first + row) * a_.keys + key;
    auto* const kept = reinterpret_cast<int32_t*>(scratch_ + layout_.kept);
    if (a_.core.avx512) draw_.draw_avx512(static_cast<uint64_t>(first), count, kept);
    else draw_.draw_avx2(static_cast<uint64_t>(first), count, kept);
  }

  /// A row times what was drawn for it.
  void keep(float* row, int64_t count) const {
    draw_.keep(row, count, reinterpret_cast<const int32_t*>(scratch_ + layout_.kept));
  }

  void drop(const Queries& at, int64_t key) const {
    const int64_t count = std::min(Attention::kKeys, a_.keys - key), pitch = Attention::score_row(count);
    for (int64_t row = 0; row < at.rows; ++row) {
      draw(at, key, row, count);
      keep(at_float(layout_.scores + row * pitch), count);
    }
  }

  const float* mask_row(const char* mask, int64_t keys) const {
    if (a_.mask.column == kItem) return reinterpret_cast<const float*>(mask);
    for (int64_t i = 0; i < keys; ++i) std::memcpy(at_float(layout_.mask) + i, mask + i * a_.mask.column, kItem);
    return at_float(layout_.mask);
  }

  void block_backward(const Queries& at, char* of_q, char* of_k, char* of_v) const {
    begin(at);
    for (int64_t key = 0, block = 0; key < at.seen; key += Attention::kKeys, ++block) {
      float* const largest = at_float(layout_.largest) + block * at.rows;
      if (block > 0) std::copy_n(largest - at.rows, at.rows, largest);
      weights(at, key, layout_.scores + block * layout_.block, largest);
    }
    const char* const q = matrix(d_.q, a_.q, at.batch, at.head, at.first);
    const char* const g = matrix(d_.g, a_.g, at.batch, at.head, at.first);
    const char* const y = matrix(d_.y, a_.y, at.batch, at.head, at.first);
    for (int64_t row = 0; row < at.rows; ++row)
      at_float(layout_.dots)[row] = dot(g + row * a_.g.row, y + row * a_.y.row);
    const int64_t blocks = (at.seen + Attention::kKeys - 1) / Attention::kKeys;
    for (int64_t block = 0; block < blocks; ++block) {
      const int64_t key = block * Attention::kKeys, scores = layout_.scores + block * layout_.block;
      const int64_t count = std::min(Attention::kKeys, a_.keys - key), pitch = Attention::score_row(count);
      const Attention::Products& p = products(at, key);
      product(p.towards, g, values(at, key), scratch_ + layout_.part);
      for (int64_t row = 0; row < at.rows; ++row) {
        // A query that sees nothing has no weights.
        const float sum = at_float(layout_.sums)[row], here = at_float(layout_.largest)[block * at.rows + row];
        const float largest = at_float(layout_.largest)[(blocks - 1) * at.rows + row];
        SoftmaxArgs args;
        args.row = at_float(scores + row * pitch);
        args.towards = at_float(layout_.part + row * pitch);
        args.width = count;
        args.decay = sum == 0 ? 0 : std::exp(here - largest) / sum;
        args.sum = sum == 0 ? 0 : at_float(layout_.dots)[row];
        args.scale = d_.scale;
        if (a_.drops) {
          draw(at, key, row, count);
          keep(args.towards, count);
        }
        call(SoftmaxCore::kGradient, args);
        if (a_.drops) keep(args.row, count);
      }
      product(p.of_q, scratch_ + layout_.part, keys(at, key), of_q + at.first * a_.depth * kItem);
      product(p.of_k, scratch_ + layout_.part, q, of_k + key * a_.depth * kItem);
      product(p.of_v, scratch_ + scores, g, of_v + key * a_.width * kItem);
    }
  }

  float dot(const char* g, const char* y) const {
    float sum = 0;
    for (int64_t i = 0; i < a_.width; ++i) {
      float a, b;
      std::memcpy(&a, g + i * a_.g.column, kItem);
      std::memcpy(&b, y + i * a_.y.column, kItem);
      sum += a * b;
    }
    return sum;
  }

  const Attention& a_;
  const AttentionData& d_;
  const Draw draw_;
  const Layout layout_;
  char* const scratch_;
};

}  // namespace

void Attention::plan() {
  for (int rest_of_queries : {0, 1})
    for (int rest_of_keys : {0, 1}) {
      const int64_t rows = rest_of_queries ? queries - (query_blocks() - 1) * kQueries : kQueries;
      const int64_t some = rest_of_keys ? keys - (std::max<int64_t>(keys, 1) - 1) / kKeys * kKeys : kKeys;
      const int64_t score = score_row(some);
      const auto planned = [&](int64_t m, int64_t n, int64_t inner, Matrix a, Matrix b, int64_t c_row, bool added) {
        Product p;
        p.core = core;
        p.code = product_code;
        p.l2_bytes = l2_bytes;
        p.m = m, p.n = n, p.k = inner;
        p.a_row = a.row, p.a_k = a.column, p.b_k = b.row, p.b_column = b.column, p.c_row = c_row;
        p.added = added;
        p.plan();
        return p;
      };
      const auto turned = [](Matrix m) {
        std::swap(m.row, m.column);
        return m;
      };
      const Matrix block = {0, 0, score, kItem};
      Products& p = products[rest_of_queries][rest_of_keys];
      p = Products();
      p.scores = planned(rows, some, depth, q, turned(k), score, false);
      if (backward) {
        p.towards = planned(rows, some, width, g, turned(v), score, false);
        p.of_q = planned(rows, depth, some, block, k, depth * kItem, true);
        p.of_k = planned(some, depth, rows, turned(block), q, depth * kItem, true);
        p.of_v = planned(some, width, rows, turned(block), g, width * kItem, true);
      } else {
        p.sums = planned(rows, width, some, block, v, width * kItem, false);
      }
    }
  scratch_bytes = Layout(*this).bytes;
  const auto count = static_cast<double>(batch * heads * queries) * static_cast<double>(keys) * (causal ? 0.6 : 1.0);
  nanoseconds = count * (drops ? 0.5 : 0.0) + count * (backward ? static_cast<double>(3 * depth + 2 * width) / 50 + 0.6
                                                                : static_cast<double>(depth + width) / 50 + 0.3);
}

void run_attention(const Attention& attention, const AttentionData& data, RunState& state) {
  const bool backward = attention.backward;
  const int64_t size = attention.queries * attention.width, cotangents = attention.depth + attention.width;
  if (attention.batch * attention.heads * (backward ? cotangents : size) == 0) return;
  const int64_t tasks = attention.batch * (backward ? attention.key_heads : attention.heads * attention.query_blocks());
  run_pieces(tasks, 1, attention.nanoseconds, true, state, [&](int64_t begin, int64_t end) {
    const Scratch scratch(attention.scratch_bytes, state);
    const Task task(attention, data, scratch.data());
    for (int64_t number = begin; number < end; ++number) backward ? task.backward(number) : task.forward(number);
  });
}

void execute_attention(const BoundAttention& step, RunState& state) {
  const auto at = [&](const BoundOperand& o) { return state.buffers[o.buffer] + o.offset; };
  AttentionData data;
  data.q = at(step.q), data.k = at(step.k), data.v = at(step.v), data.out = at(step.out);
  if (step.attention.masked) data.mask = at(step.mask);
  if (step.attention.backward) data.g = at(step.g), data.y = at(step.y);
  std::memcpy(&data.scale, at(step.scale), sizeof data.scale);
  if (step.attention.drops) {
    std::memcpy(&data.probability, at(step.probability), sizeof data.probability);
    std::memcpy(&data.state, at(step.state), sizeof data.state);
  }
  run_attention(step.attention, data, state);
}

}  // namespace framejit::runtime
