// Events: what happened, told to a Python handler as (channel, record). Off costs one predictable branch.
#pragma once

#include <cstdint>
#include <string>

#include "capture/break.h"
#include "capture/py/ref.h"

namespace framejit::ext::module {

enum class Channel : uint8_t { GraphBreaks, Recompiles, Guards, Graph, Kernels, Asm, Perf };

inline unsigned enabled_channels = 0;
inline bool events_on(Channel channel) { return (enabled_channels >> static_cast<unsigned>(channel)) & 1; }

/// A dict under construction; failures (out of memory) leave it short, never raise.
class Record {
 public:
  Record() : dict_(capture::Ref<>::steal(PyDict_New())) {}
  Record& put(const char* key, const std::string& text);
  Record& put(const char* key, int64_t number);
  Record& put(const char* key, PyObject* object);  // borrowed
  PyObject* get() const { return dict_.get(); }
  capture::Ref<> take() { return std::move(dict_); }

 private:
  capture::Ref<> dict_;
};

/// Calls the handler if the channel is on. A Python exception that is set stays set; one that the handler raises is
/// reported as unraisable.
void emit(Channel channel, Record record);

/// {id, name, what, why, way_out, detail, function, file, line, column, end_column}
Record break_record(const capture::Break& b);

}  // namespace framejit::ext::module
