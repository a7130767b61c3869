// Machine code in files, for the next process. A file is taken only if it is whole, of this very build and processor,
// and cannot have been written by another user.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/kernel.h"

namespace framejit::runtime {

/// One file for each kernel, in a folder for each build and processor. Any number of processes may use it at once:
/// files are written under another name and renamed. No failure is an error, the code is then generated as without it.
class DiskCache final : public codegen::KernelStore {
 public:
  struct Options {
    std::string folder;    // made if it is missing
    std::string identity;  // of the build and the processor: code of another identity is not taken
    int64_t limit = 0;     // bytes of all files, beyond which the oldest are removed
  };
  explicit DiskCache(Options options);
  ~DiskCache() override;
  DiskCache(const DiskCache&) = delete;

  bool find(std::string_view key, codegen::KernelCode& out) override;
  void add(std::string_view key, const codegen::KernelCode& code) override;

  /// Why nothing is kept, or why nothing is read; once. Empty: there is nothing to say.
  std::string take_complaint();

  /// The bytes of a file, and back. Nothing is taken for granted about `file`.
  static std::string write(std::string_view identity, std::string_view key, const codegen::KernelCode& code);
  static void seal(std::string& file);  // puts in the checksum
  static bool read(std::string_view file, std::string_view identity, std::string_view key, codegen::KernelCode& out);

 private:
  bool open(bool for_writing);
  void close();
  bool save(const std::string& name, std::string_view bytes);
  void note_written(int64_t bytes);
  void remove_oldest();
  void complain(std::string what);

  const Options options_;
  std::mutex mutex_;
  int top_ = -1, folder_ = -1;  // file descriptors: of Options::folder, and of the folder in it
  bool refused_ = false;        // the folder is not safe
  bool writable_ = true;
  std::string complaint_;
  bool complained_ = false;
  int64_t unseen_bytes_ = 0;  // written since the sizes were added up
  unsigned writes_until_look_ = 0;
};

}  // namespace framejit::runtime
