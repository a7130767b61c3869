// Finds the note among the segments of the library.
#include "runtime/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <string_view>

namespace framejit::runtime {

namespace {

struct Search {
  uintptr_t inside;
  std::string found;
};

constexpr std::size_t padded(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

/// Of the notes of a segment.
std::string id_among(const char* notes, std::size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes, sizeof note);
    const std::size_t whole = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (whole > size) break;
    const std::string_view name(notes + sizeof note, note.n_namesz);
    if (note.n_type == NT_GNU_BUILD_ID && name == std::string_view("GNU", 4)) {
      std::string digits;
      const char* id = notes + sizeof note + padded(note.n_namesz);
      for (std::size_t i = 0; i < note.n_descsz; ++i) {
        const auto byte = static_cast<unsigned char>(id[i]);
        digits += "0123456789abcdef"[byte >> 4];
        digits += "0123456789abcdef"[byte & 15];
      }
      return digits;
    }
    notes += whole;
    size -= whole;
  }
  return {};
}

int look(dl_phdr_info* info, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool contains = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    const uintptr_t first = info->dlpi_addr + segment.p_vaddr;
    contains =
        contains || (segment.p_type == PT_LOAD && search.inside >= first && search.inside - first < segment.p_memsz);
  }
  if (!contains) return 0;
  for (int i = 0; i < info->dlpi_phnum && search.found.empty(); ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type == PT_NOTE)
      search.found = id_among(reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

}  // namespace

std::string build_id() {
  Search search{reinterpret_cast<uintptr_t>(&look), {}};
  dl_iterate_phdr(look, &search);
  return search.found;
}

}  // namespace framejit::runtime
