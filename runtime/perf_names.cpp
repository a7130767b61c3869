// The formats are those of the kernel's tools/perf/Documentation/jit-interface.txt and jitdump-specification.txt.
#include "runtime/perf_names.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <mutex>
#include <string>

namespace framejit::runtime {

namespace {

std::atomic<PerfNames> names{PerfNames::Off};
std::mutex mutex;

struct DumpHeader {
  uint32_t magic = 0x4A695444, version = 1, size = sizeof(DumpHeader), machine = 62, reserved = 0;  // 62: x86-64
  uint32_t pid = static_cast<uint32_t>(getpid());
  uint64_t timestamp = 0, flags = 0;
};
static_assert(sizeof(DumpHeader) == 40);

struct CodeLoad {
  uint32_t id = 0, size = 0;
  uint64_t timestamp = 0;
  uint32_t pid = 0, tid = 0;
  uint64_t vma = 0, address = 0, code_size = 0, index = 0;
};
static_assert(sizeof(CodeLoad) == 56);

uint64_t monotonic() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}

/// A file of this process; a forked child has one of its own.
struct Output {
  std::FILE* file = nullptr;
  pid_t pid = 0;
  uint64_t count = 0;

  bool open(const std::string& path) {
    if (file && pid == getpid()) return true;
    if (file) std::fclose(file);
    pid = getpid();
    file = std::fopen(path.c_str(), "w+");
    count = 0;
    return file != nullptr;
  }
};

void add_to_map(const void* code, std::size_t size, const std::string& name) {
  static Output map;
  if (!map.open("/tmp/perf-" + std::to_string(getpid()) + ".map")) return;
  std::fprintf(map.file, "%zx %zx %s\n", reinterpret_cast<std::size_t>(code), size, name.c_str());
  std::fflush(map.file);
}

void add_to_dump(const void* code, std::size_t size, const std::string& name) {
  static Output dump;
  if (!dump.open("jit-" + std::to_string(getpid()) + ".dump")) return;
  if (dump.count == 0) {
    DumpHeader header;
    header.timestamp = monotonic();
    std::fwrite(&header, sizeof(header), 1, dump.file);
    std::fflush(dump.file);
    // perf record finds the file by this mapping, which is not used.
    (void)mmap(nullptr, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_READ | PROT_EXEC, MAP_PRIVATE,
               fileno(dump.file), 0);
  }
  CodeLoad load;
  load.size = static_cast<uint32_t>(sizeof(load) + name.size() + 1 + size);
  load.timestamp = monotonic();
  load.pid = static_cast<uint32_t>(getpid());
  load.tid = static_cast<uint32_t>(gettid());
  load.vma = load.address = reinterpret_cast<uint64_t>(code);
  load.code_size = size;
  load.index = dump.count++;
  std::fwrite(&load, sizeof(load), 1, dump.file);
  std::fwrite(name.c_str(), name.size() + 1, 1, dump.file);
  std::fwrite(code, size, 1, dump.file);
  std::fflush(dump.file);
}

}  // namespace

void set_perf_names(PerfNames where) { names = where; }

void name_for_perf(const void* code, std::size_t size, std::string_view name) {
  const PerfNames where = names;
  if (where == PerfNames::Off) return;
  const std::lock_guard lock(mutex);
  const std::string full = "framejit::" + std::string(name);
  where == PerfNames::Map ? add_to_map(code, size, full) : add_to_dump(code, size, full);
}

}  // namespace framejit::runtime
