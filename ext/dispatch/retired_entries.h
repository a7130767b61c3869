// RetiredEntries: entries that were removed while something ran. They stay alive until nothing runs.
#pragma once

#include <Python.h>

#include <memory>
#include <utility>
#include <vector>

#include "ext/region/compiled_region.h"

namespace framejit::ext::dispatch {

class RetiredEntries {
 public:
  /// Something of the code object runs, from here to the end of the scope.
  class Busy {
   public:
    explicit Busy(RetiredEntries& retired) : retired_(retired) { ++retired_.running_; }
    ~Busy() {
      if (--retired_.running_ == 0 && (!retired_.entries_.empty() || retired_.owner_)) [[unlikely]]
        retired_.release();
    }
    Busy(const Busy&) = delete;

   private:
    RetiredEntries& retired_;
  };

  /// They are added here.
  std::vector<std::shared_ptr<region::Entry>>& entries() { return entries_; }
  bool is_running() const { return running_ > 0; }
  /// `owner`, of which this is a part, stays alive too.
  void keep_alive(std::shared_ptr<void> owner) { owner_ = std::move(owner); }
  int traverse(visitproc visit, void* arg) const;

 private:
  void release();

  int running_ = 0;
  std::vector<std::shared_ptr<region::Entry>> entries_;
  std::shared_ptr<void> owner_;
};

}  // namespace framejit::ext::dispatch
