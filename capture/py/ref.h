// Ownership of Python objects: Ref owns one reference, Borrowed none. The GIL is held wherever these appear.
#pragma once

#include <Python.h>

#include <utility>

namespace framejit::capture {

template <class T = PyObject>
class Ref {
 public:
  Ref() = default;
  static Ref steal(T* p) { return Ref(p); }
  static Ref share(T* p) {
    Py_XINCREF(reinterpret_cast<PyObject*>(p));
    return Ref(p);
  }
  Ref(const Ref& o) : p_(o.p_) { Py_XINCREF(reinterpret_cast<PyObject*>(p_)); }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { Py_XDECREF(reinterpret_cast<PyObject*>(p_)); }

  T* get() const { return p_; }
  T* operator->() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  [[nodiscard]] T* release() { return std::exchange(p_, nullptr); }
  void reset() { *this = Ref(); }

 private:
  explicit Ref(T* p) : p_(p) {}
  T* p_ = nullptr;
};

/// A reference of a region. After weaken() it names an object that others keep alive; whoever made it weak calls
/// forget() when that object dies. Both are for the owner of all, which has no other access to the region.
class HeldRef {
 public:
  HeldRef() = default;
  HeldRef(Ref<> ref) : object_(ref.release()) {}  // NOLINT(google-explicit-constructor): a Ref that may be weak
  HeldRef(const HeldRef& o) : object_(o.object_), weak_(o.weak_) {
    if (!weak_) Py_XINCREF(object_);
  }
  HeldRef(HeldRef&& o) noexcept : object_(std::exchange(o.object_, nullptr)), weak_(o.weak_) {}
  HeldRef& operator=(HeldRef o) noexcept {
    std::swap(object_, o.object_);
    std::swap(weak_, o.weak_);
    return *this;
  }
  ~HeldRef() {
    if (!weak_) Py_XDECREF(object_);
  }

  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  bool is_weak() const { return weak_; }
  void weaken() const {
    if (std::exchange(weak_, true)) return;
    Py_XDECREF(object_);
  }
  void forget() const {
    if (weak_) object_ = nullptr;
  }

 private:
  mutable PyObject* object_ = nullptr;
  mutable bool weak_ = false;
};

/// An object that is looked up once and kept for ever. In place of a static with an initializer: looking up may run
/// Python code, which may come to the same place again, or let another thread come there.
class Once {
 public:
  /// Borrowed. `make` gives a new reference, or null with the exception set; then it is called again the next time.
  template <class F>
  PyObject* get(F&& make) {
    if (!kept_) {
      PyObject* made = make();
      if (kept_) Py_XDECREF(made);
      else kept_ = made;
    }
    return kept_;
  }

 private:
  PyObject* kept_ = nullptr;
};

/// A view of an object that something else keeps alive.
template <class T = PyObject>
using Borrowed = T*;

}  // namespace framejit::capture
