// Generators that are followed.
#pragma once

#include <string>

#include "capture/executor.h"

namespace framejit::capture {

Captured<Value*> resume_generator(Executor& x, Value* generator, Value* sent = nullptr, Value* thrown = nullptr);
Captured<Value*> generator_method(Executor& x, Value* generator, const std::string& name, const Values& args);
/// The StopIteration of an iterator that has ended.
Unexpected<Break> stops(Executor& x, const Value* iterator);

}  // namespace framejit::capture
