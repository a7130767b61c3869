// CalleeRegistry of a function that capture could not follow to their end. The interpreter calls them; their frames go
// through the hook to what is compiled for them here, while the function runs and nowhere else, with the settings of
// the function.
#pragma once

#include <memory>
#include <vector>

#include "ext/dispatch/marking.h"

namespace framejit::ext::dispatch {

class CalleeInterceptor;
struct CallSite;

class CalleeRegistry {
 public:
  /// Compiles the code's frames from now on, where nothing forbids it.
  /// `called_from`: the line of the program's code that had it called, as far as that is known.
  void add(PyCodeObject* code, const std::shared_ptr<CodeState>& owner, const CallSite& called_from);
  /// Is something compiled for one of them, or may it be?
  bool any_awake() const;
  /// Those whose code is alive, oldest first.
  std::vector<CodeState*> states() const;
  int traverse(visitproc visit, void* arg) const;

 private:
  struct Callee {
    std::weak_ptr<CalleeInterceptor> code;  // what hangs on the code object
    std::shared_ptr<MarkedCode> compiled;
  };
  std::vector<Callee> all_;
};

}  // namespace framejit::ext::dispatch
