// Versions of CPython whose frames framejit does not know: nothing is spliced, no hook is installed, and it says so.
#include "capture/py/frame.h"

#include "capture/hook.h"
#include "capture/splice.h"

#if !FRAMEJIT_CAN_SPLICE

namespace framejit::capture {

Expected<std::unique_ptr<SplicedCode>, std::string> SplicedCode::make(std::shared_ptr<const CodeView>,
                                                                      std::shared_ptr<SiteHandler>,
                                                                      const SpliceOptions&) {
  return Unexpected{std::string("splicing is not supported on this version of CPython")};
}

bool tools_active() { return true; }  // so that nothing takes the place of bytecode
bool eval_breaker_set() { return false; }
bool signal_pending() { return false; }
uint64_t splice_internal_errors() { return 0; }

bool mark_code(PyCodeObject*, std::shared_ptr<FrameInterceptor>, bool) { return false; }
void unmark_code(PyCodeObject*) {}
bool has_reserved_stack(PyCodeObject*) { return false; }
void set_discover(Discover) {}
bool hook_installed() { return false; }
void mark_resumed(PyCodeObject*, uint64_t) {}
ReachScope::ReachScope(uint64_t) : id_before_(0), hooked_before_(false) {}
ReachScope::~ReachScope() = default;
uint64_t ReachScope::id() { return 0; }
void ReachScope::want_hook() {}

}  // namespace framejit::capture

#endif
