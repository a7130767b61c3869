// Attention, block by block. For each block of queries of a head:
//
//     for each block of keys that one of them sees:   scores = q k^T        a product
//                                                     softmax, row by row   what is masked becomes 0
//                                                     out = out * decay + scores v
//     out /= sums of the softmax
#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/attention.h"
#include "runtime/execute.h"

namespace framejit::runtime {

using namespace codegen;

namespace {

constexpr int64_t kItem = sizeof(float), kLine = 64;

int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/// Where a task keeps what it works on, as offsets.
struct Layout {
  int64_t scores, part, largest, sums, decay, mask, product, bytes;

  explicit Layout(const Attention& a) {
    const int64_t queries = std::min(a.queries, Attention::kQueries), keys = std::min(a.keys, Attention::kKeys);
    int64_t at = 0;
    const auto take = [&](int64_t floats) {
      const int64_t begin = at;
      at += round_up(floats * kItem, kLine) + kLine;
      return begin;
    };
    scores = take(queries * keys);
    part = take(queries * a.width);
    largest = take(queries), sums = take(queries), decay = take(queries);
    mask = take(keys);
    product = at;
    for (const auto& products : {a.scores, a.sums})
      for (int i = 0; i < 4; ++i) at = std::max(at, product + products[i / 2][i % 2].scratch_bytes);
    bytes = at;
  }
};

class Task {
 public:
  Task(const Attention& attention, const AttentionData& data, char* scratch)
      : a_(attention), d_(data), layout_(attention), scratch_(scratch) {}

  void run(int64_t number) const {
    const int64_t blocks = a_.query_blocks(), first = number % blocks * Attention::kQueries;
    const int64_t head = number / blocks % a_.heads, batch = number / blocks / a_.heads;
    const int64_t rows = std::min(Attention::kQueries, a_.queries - first), key_head = head / (a_.heads / a_.key_heads);
    const char* q = d_.q + batch * a_.q.batch + head * a_.q.head + first * a_.q.row;
    const char* mask = d_.mask + batch * a_.mask.batch + head * a_.mask.head + first * a_.mask.row;
    char* const out = d_.out + batch * a_.out.batch + head * a_.out.head + first * a_.out.row;
    float *const largest = at(layout_.largest), *const sums = at(layout_.sums);
    std::fill_n(largest, rows, -HUGE_VALF);
    std::fill_n(sums, rows, 0.0f);
    const int64_t seen = a_.causal ? std::clamp<int64_t>(first + rows + a_.ahead, 0, a_.keys) : a_.keys;
    if (seen == 0)
      for (int64_t row = 0; row < rows; ++row) std::memset(out + row * a_.out.row, 0, static_cast<std::size_t>(a_.width * kItem));
    for (int64_t key = 0; key < seen; key += Attention::kKeys) {
      const char* k = d_.k + batch * a_.k.batch + key_head * a_.k.head + key * a_.k.row;
      const char* v = d_.v + batch * a_.v.batch + key_head * a_.v.head + key * a_.v.row;
      const bool last_rows = first + Attention::kQueries >= a_.queries, last_keys = key + Attention::kKeys >= a_.keys;
      const int64_t keys = std::min(Attention::kKeys, a_.keys - key);
      product(a_.scores[last_rows][last_keys], q, k, scratch_ + layout_.scores);
      softmax(rows, keys, first - key, mask + key * a_.mask.column);
      const Product& sum = a_.sums[last_rows][last_keys];
      if (key == 0) {
        product(sum, scratch_ + layout_.scores, v, out);
        continue;
      }
      product(sum, scratch_ + layout_.scores, v, scratch_ + layout_.part);
      for (int64_t row = 0; row < rows; ++row) {
        SoftmaxArgs args;
        args.row = reinterpret_cast<float*>(out + row * a_.out.row);
        args.other = at(layout_.part) + row * a_.width;
        args.width = a_.width;
        args.decay = at(layout_.decay)[row];
        call(SoftmaxCore::kMerge, args);
      }
    }
    for (int64_t row = 0; row < rows; ++row) {
      SoftmaxArgs args;
      args.row = reinterpret_cast<float*>(out + row * a_.out.row);
      args.width = a_.width;
      args.sum = sums[row];
      call(SoftmaxCore::kDivide, args);
    }
  }

 private:
  float* at(int64_t offset) const { return reinterpret_cast<float*>(scratch_ + offset); }
  void call(int part, SoftmaxArgs& args) const { SoftmaxCore::part(a_.softmax_code, part)(&args); }
  void product(const Product& p, const char* a, const char* b, char* c) const {
    run_product_here(p, a, b, c, scratch_ + layout_.product);
  }

  void softmax(int64_t rows, int64_t keys, int64_t before, const char* mask) const {
    for (int64_t row = 0; row < rows; ++row, mask += a_.mask.row) {
      SoftmaxArgs args;
      args.row = at(layout_.scores) + row * keys;
      args.other = a_.masked ? mask_row(mask, keys) : nullptr;
      args.live = a_.causal ? std::clamp<int64_t>(before + row + a_.ahead + 1, 0, keys) : keys;
      args.width = keys;
      args.scale = d_.scale;
      args.largest = at(layout_.largest)[row];
      args.sum = at(layout_.sums)[row];
      call(SoftmaxCore::kSoftmax, args);
      at(layout_.largest)[row] = args.largest;
      at(layout_.sums)[row] = args.sum;
      at(layout_.decay)[row] = args.decay;
    }
  }

  const float* mask_row(const char* mask, int64_t keys) const {
    if (a_.mask.column == kItem) return reinterpret_cast<const float*>(mask);
    for (int64_t i = 0; i < keys; ++i) std::memcpy(at(layout_.mask) + i, mask + i * a_.mask.column, kItem);
    return at(layout_.mask);
  }

  const Attention& a_;
  const AttentionData& d_;
  const Layout layout_;
  char* const scratch_;
};

}  // namespace

void Attention::plan() {
  for (int rest_of_queries : {0, 1})
    for (int rest_of_keys : {0, 1}) {
      const int64_t rows = rest_of_queries ? queries - (query_blocks() - 1) * kQueries : kQueries;
      const int64_t some = rest_of_keys ? keys - (std::max<int64_t>(keys, 1) - 1) / kKeys * kKeys : kKeys;
      Product& s = scores[rest_of_queries][rest_of_keys];
      Product& t = sums[rest_of_queries][rest_of_keys];
      s = t = Product();
      s.core = t.core = core;
      s.code = t.code = product_code;
      s.l2_bytes = t.l2_bytes = l2_bytes;
      s.m = rows, s.n = some, s.k = depth;
      s.a_row = q.row, s.a_k = q.column, s.b_k = k.column, s.b_column = k.row, s.c_row = some * kItem;
      t.m = rows, t.n = width, t.k = some;
      t.a_row = some * kItem, t.a_k = kItem, t.b_k = v.row, t.b_column = v.column, t.c_row = width * kItem;
      s.plan();
      t.plan();
    }
  scratch_bytes = Layout(*this).bytes;
  const auto scores_count = static_cast<double>(batch * heads * queries) * static_cast<double>(keys) * (causal ? 0.6 : 1.0);
  nanoseconds = scores_count * (static_cast<double>(depth + width) / 50 + 0.3);
}

void run_attention(const Attention& attention, const AttentionData& data, RunState& state) {
  if (attention.batch * attention.heads * attention.queries * attention.width == 0) return;
  const int64_t tasks = attention.batch * attention.heads * attention.query_blocks();
  run_pieces(tasks, 1, attention.nanoseconds, true, state, [&](int64_t begin, int64_t end) {
    const Scratch scratch(attention.scratch_bytes, state);
    const Task task(attention, data, scratch.data());
    for (int64_t number = begin; number < end; ++number) task.run(number);
  });
}

void execute_attention(const BoundAttention& step, RunState& state) {
  const auto at = [&](const BoundOperand& o) { return state.buffers[o.buffer] + o.offset; };
  AttentionData data;
  data.q = at(step.q), data.k = at(step.k), data.v = at(step.v), data.out = at(step.out);
  if (step.attention.masked) data.mask = at(step.mask);
  std::memcpy(&data.scale, at(step.scale), sizeof data.scale);
  run_attention(step.attention, data, state);
}

}  // namespace framejit::runtime
