// DictVersion: has a dict changed since it was looked at?
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

namespace framejit::capture {

/// A number that changes with each change of a dict, which must outlive it.
class DictVersion {
 public:
  DictVersion() = default;
  explicit DictVersion(PyObject* dict);

  /// 0: changes cannot be noticed.
  uint64_t now() const { return *at_; }
  bool is(uint64_t seen) const { return now() == seen && seen != 0; }

 private:
  std::shared_ptr<const uint64_t> watched_;
  const uint64_t* at_ = nullptr;
};

}  // namespace framejit::capture
