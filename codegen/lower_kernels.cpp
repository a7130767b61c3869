// Kernels of a program: emitted once for each text of a loop nest, in the program and in the process.
#include <list>
#include <mutex>

#include "codegen/attention.h"
#include "codegen/emit.h"
#include "codegen/lower_step.h"
#include "codegen/matmul.h"
#include "graph/support/interrupt.h"

namespace framejit::codegen::detail {

namespace {

/// Machine code by key, the least recently used dropped beyond a limit. Position-independent, so any program may copy
/// it.
class KernelCache {
 public:
  /// `store`: where the code has been put or found.
  bool find(const std::string& key, KernelCode& out, const KernelStore*& store) {
    std::lock_guard lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end()) return false;
    recent_.splice(recent_.begin(), recent_, it->second);
    out = it->second->code;
    store = it->second->store;
    return true;
  }

  void add(const std::string& key, const KernelCode& code, const KernelStore* store) {
    std::lock_guard lock(mutex_);
    if (const auto it = entries_.find(key); it != entries_.end()) return void(it->second->store = store);
    recent_.push_front({key, code, store});
    entries_[key] = recent_.begin();
    if (entries_.size() <= kLimit) return;
    entries_.erase(recent_.back().key);
    recent_.pop_back();
  }

 private:
  static constexpr std::size_t kLimit = 4096;
  struct Entry {
    std::string key;
    KernelCode code;
    const KernelStore* store;
  };
  std::mutex mutex_;
  std::list<Entry> recent_;
  std::unordered_map<std::string, std::list<Entry>::iterator> entries_;
};

KernelCache& cache() {
  static KernelCache* const instance = new KernelCache;
  return *instance;
}

}  // namespace

KernelIndex KernelPool::add(std::string key,
                            Expected<KernelCode, std::string> (*emit_code)(const void*, const LowerOptions&),
                            const void* what) {
  key += options_.cpu.isa == Isa::Avx512 ? " avx512" : " avx2";
  if (options_.listing) key += " listing";
  if (const auto it = known_.find(key); it != known_.end()) return it->second;
  KernelCode code;
  poll_interrupt();
  KernelStore* const store = options_.listing ? nullptr : options_.store;
  const KernelStore* stored = nullptr;
  if (!cache().find(key, code, stored)) {
    if (store && store->find(key, code)) {
      stored = store;
    } else {
      Expected<KernelCode, std::string> emitted = emit_code(what, options_);
      if (!emitted) fail(std::move(emitted.error()));
      code = std::move(*emitted);
    }
    cache().add(key, code, stored);
  }
  if (store && stored != store) {
    store->add(key, code);
    cache().add(key, code, store);
  }
  program_.kernels.push_back(std::move(code));
  return known_[key] = static_cast<KernelIndex>(program_.kernels.size() - 1);
}

KernelIndex KernelPool::add(const LoopNest& nest) {
  return add(
      nest.str(),
      [](const void* what, const LowerOptions& options) {
        return emit(*static_cast<const LoopNest*>(what), options.cpu.isa, options.listing);
      },
      &nest);
}

KernelIndex KernelPool::add_matmul(DType dtype) {
  if (graph::is_unsigned_int(dtype)) dtype = graph::size_of(dtype) == 4 ? DType::I32 : DType::I64;  // the same code
  return add(
      "matmul " + std::string(graph::name_of(dtype)),
      [](const void* what, const LowerOptions& options) {
        return emit_matmul(*static_cast<const DType*>(what), options.cpu.isa, options.listing);
      },
      &dtype);
}

namespace {

const char* name_of(NarrowProduct kind) {
  return kind == NarrowProduct::BFloat16 ? "matmul bf16" : kind == NarrowProduct::Int16 ? "matmul s16" : "matmul u8 s8";
}

}  // namespace

KernelIndex KernelPool::add_narrow_matmul(NarrowProduct kind) {
  return add(
      name_of(kind),
      [](const void* what, const LowerOptions& options) {
        return emit_narrow_matmul(*static_cast<const NarrowProduct*>(what), options.cpu);
      },
      &kind);
}

KernelIndex KernelPool::add_amx_matmul(NarrowProduct kind) {
  return add(
      name_of(kind) + std::string(" in tile registers"),
      [](const void* what, const LowerOptions& options) {
        return emit_amx_matmul(*static_cast<const NarrowProduct*>(what), options.cpu);
      },
      &kind);
}

KernelIndex KernelPool::add_softmax() {
  return add(
      "softmax",
      [](const void*, const LowerOptions& options) { return emit_softmax(options.cpu.isa, options.listing); }, nullptr);
}

}  // namespace framejit::codegen::detail
