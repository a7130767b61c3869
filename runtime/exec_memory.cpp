// Executable memory: mmap, write, mprotect. Private anonymous pages: after a fork parent and child have their own
// copies.
#include "runtime/exec_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace framejit::runtime {
namespace {

constexpr std::size_t kEntryAlignment = 64;
constexpr unsigned char kInt3 = 0xcc;

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

std::string system_error(const char* what) { return std::string(what) + " failed (" + std::strerror(errno) + ")"; }

}  // namespace

Expected<CodeBlock, std::string> CodeBlock::seal(std::span<const std::span<const uint8_t>> pieces) {
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t code = 0;
  for (std::span<const uint8_t> piece : pieces) code += round_up(piece.size() + 1, kEntryAlignment);
  CodeBlock block;
  if (code == 0) return block;
  const std::size_t body = round_up(code, page);
  // The guard pages are what is left inaccessible of one larger mapping.
  void* map = mmap(nullptr, body + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return Unexpected{system_error("no memory for machine code: mmap")};
  block.map_ = map;
  block.map_size_ = body + 2 * page;
  block.size_ = code;
  auto* base = static_cast<uint8_t*>(map) + page;
  if (mprotect(base, body, PROT_READ | PROT_WRITE) != 0)
    return Unexpected{system_error("no memory for machine code: mprotect")};
  std::memset(base, kInt3, body);
  std::size_t at = 0;
  block.entries_.reserve(pieces.size());
  for (std::span<const uint8_t> piece : pieces) {
    if (!piece.empty()) std::memcpy(base + at, piece.data(), piece.size());
    block.entries_.push_back(base + at);
    at += round_up(piece.size() + 1, kEntryAlignment);  // at least one int3 behind each piece
  }
  if (mprotect(base, body, PROT_READ | PROT_EXEC) != 0)
    return Unexpected{system_error("this process may not have executable memory: mprotect(PROT_EXEC)") +
                      "; SELinux, seccomp or MemoryDenyWriteExecute forbids it"};
  return block;
}

CodeBlock::CodeBlock(CodeBlock&& other) noexcept
    : map_(std::exchange(other.map_, nullptr)),
      map_size_(std::exchange(other.map_size_, 0)),
      size_(std::exchange(other.size_, 0)),
      entries_(std::move(other.entries_)) {}

CodeBlock& CodeBlock::operator=(CodeBlock&& other) noexcept {
  std::swap(map_, other.map_);
  std::swap(map_size_, other.map_size_);
  std::swap(size_, other.size_);
  std::swap(entries_, other.entries_);
  return *this;
}

CodeBlock::~CodeBlock() {
  if (map_) munmap(map_, map_size_);
}

}  // namespace framejit::runtime
