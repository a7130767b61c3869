// Python objects in files of the disk cache: see stored_captures.h.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "capture/guard.h"
#include "capture/splice.h"
#include "ext/region/stored_plan.h"

namespace framejit::capture {

FRAMEJIT_FIELDS(ArraySpec, x.wrap, x.dtype, x.shape, x.strides, x.writeable, x.aligned)

}  // namespace framejit::capture

namespace framejit::ext::dispatch {

/// All that a code object, a Python function, a marked function or a class consists of, as bytes; false: it may not be
/// all. Of a function this is its code.
bool add_content(PyObject* object, std::string& out);

/// Is it a type of Python or NumPy that files have a number for?
bool is_known_type(const PyObject* object);

/// Where an object that has no name is found: by an object that a source leads to.
enum class FoundBy : uint8_t {
  Itself,
  Type,            // its type
  Lookup,          // what its type has under a key
  LookupFunction,  // the function behind the property, static method or class method that its type has there
  Unwrapped,       // the function behind a marked one
  Implementation,  // the one that a dispatching function of NumPy's comes to
  Explained,       // the one that is run by what explains its errors
  Polyfill,        // the one that is followed in its place
};

/// The object, borrowed, or null. `key`: of a Lookup.
PyObject* find_by(FoundBy how, PyObject* from, PyObject* key);

class ObjectWriter {
 public:
  /// `constants`: those of the code that was captured, a tuple.
  ObjectWriter(region::ArchiveWriter& archive, const capture::FrameView& frame, PyObject* constants)
      : a_(archive), frame_(frame), constants_(constants) {}

  /// Null has a form too.
  void object(PyObject* object);
  /// An object that the program gets to see: an equal one will not do.
  void very_object(PyObject* object);
  void source(const capture::SourceRef& source);
  /// With what it expects. Later objects may be found by what it guards.
  void guard(const capture::Guard& guard);

 private:
  struct Place {
    FoundBy how;
    uint32_t source;
    PyObject* key;
  };
  bool by_value(PyObject* object);
  bool by_name(PyObject* object);
  void remember(PyObject* object, FoundBy how, const capture::SourceRef& source, PyObject* key = nullptr);
  void content(PyObject* object);

  region::ArchiveWriter& a_;
  const capture::FrameView& frame_;
  PyObject* const constants_;
  capture::SourceMap<uint32_t> sources_;
  std::unordered_map<PyObject*, Place> places_;
  std::vector<PyCodeObject*> callees_;  // code that was followed
  std::unordered_set<uint32_t> typed_;  // sources of which the type is guarded
};

class ObjectReader {
 public:
  ObjectReader(region::ArchiveReader& archive, const capture::FrameView& frame, PyObject* constants)
      : a_(archive), frame_(frame), constants_(constants) {}

  capture::Ref<> object();
  capture::SourceRef source();
  capture::Guard guard();

 private:
  PyObject* fetch(const capture::SourceRef& source);
  bool has_content(PyObject* object);

  region::ArchiveReader& a_;
  const capture::FrameView& frame_;
  PyObject* const constants_;
  std::vector<capture::SourceRef> sources_;
};

}  // namespace framejit::ext::dispatch
