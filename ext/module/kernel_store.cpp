// The disk cache of a folder and processor, with counters; _core.cache_folder().
#include "ext/module/kernel_store.h"

#include <Python.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <tuple>

#include "ext/module/config.h"
#include "ext/module/module.h"
#include "ext/module/stats.h"
#include "runtime/build_id.h"
#include "runtime/disk_cache.h"

namespace framejit::ext::module {

namespace {

class CountingStore final : public codegen::KernelStore {
 public:
  explicit CountingStore(runtime::DiskCache::Options options) : disk(std::move(options)) {}

  bool find(std::string_view key, codegen::KernelCode& out) override {
    const bool found = disk.find(key, out);
    ++(found ? stats.disk_cache_hits : stats.disk_cache_misses);
    return found;
  }
  void add(std::string_view key, const codegen::KernelCode& code) override { disk.add(key, code); }

  runtime::DiskCache disk;
};

/// By folder, identity and limit. They stay, because kernels in memory know where they are kept.
auto& stores() {
  static auto* const all = new std::map<std::tuple<std::string, std::string, int64_t>, std::unique_ptr<CountingStore>>;
  return *all;
}

std::string default_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache && cache[0] == '/') return std::string(cache) + "/framejit";
  const char* const home = std::getenv("HOME");
  return home && home[0] == '/' ? std::string(home) + "/.cache/framejit" : std::string();
}

std::string folder() { return config().cache_dir.empty() ? default_folder() : config().cache_dir; }

std::string features(const codegen::Cpu& cpu) {
  std::string text = cpu.isa == codegen::Isa::Avx512 ? "avx512" : cpu.isa == codegen::Isa::Avx2 ? "avx2" : "none";
  for (const auto& [name, has] : {std::pair("amx_bf16", cpu.amx_bf16), std::pair("amx_int8", cpu.amx_int8),
                                  std::pair("avx512_bf16", cpu.avx512_bf16), std::pair("avx512_fp16", cpu.avx512_fp16),
                                  std::pair("vnni", cpu.vnni)})
    if (has) text += std::string(" ") + name;
  return text;
}

PyObject* cache_folder(PyObject*, PyObject*) {
  const std::string path = folder();
  return PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()));
}

PyMethodDef methods[] = {
    {"cache_folder", cache_folder, METH_NOARGS, "cache_folder(): where machine code is kept, if it is kept."},
    {nullptr, nullptr, 0, nullptr}};

const ModulePart part(10, [](PyObject* module) { return PyModule_AddFunctions(module, methods) == 0; });

}  // namespace

codegen::KernelStore* kernel_store(bool asked) {
  if (config().cache_dir.empty() && !asked) return nullptr;
  static const std::string build = runtime::build_id();
  const codegen::Cpu& cpu = target_cpu();
  std::string path = folder();
  if (build.empty() || path.empty() || cpu.isa == codegen::Isa::None) return nullptr;
  // What the processor has, and what code is generated for.
  const std::string identity =
      "build " + build + ", processor " + features(codegen::detected_cpu()) + ", code for " + features(cpu);
  const int64_t limit = config().cache_bytes_limit;
  std::unique_ptr<CountingStore>& store = stores()[{path, identity, limit}];
  if (!store) store = std::make_unique<CountingStore>(runtime::DiskCache::Options{std::move(path), identity, limit});
  return store.get();
}

bool find_captures(codegen::KernelStore& store, std::string_view key, codegen::KernelCode& out) {
  const bool found = static_cast<CountingStore&>(store).disk.find(key, out);
  stats.disk_cache_hits += found;
  return found;
}

void add_captures(codegen::KernelStore& store, std::string_view key, const codegen::KernelCode& captures, bool is_new) {
  stats.disk_cache_misses += is_new;
  store.add(key, captures);
}

std::string take_store_complaint() {
  for (const auto& [of, store] : stores())
    if (std::string complaint = store->disk.take_complaint(); !complaint.empty()) return complaint;
  return {};
}

}  // namespace framejit::ext::module
