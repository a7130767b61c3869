#include "ext/frontends/frontends.h"

#include "ext/frontends/batch.h"
#include "ext/frontends/custom_op_frontend.h"
#include "ext/frontends/gradient_frontend.h"
#include "ext/frontends/numpy/frontend.h"
#include "ext/frontends/tensor_frontend.h"

namespace framejit::ext::frontends {

namespace {

std::vector<capture::Frontend*>& added() {
  static std::vector<capture::Frontend*> all;
  return all;
}

}  // namespace

const std::vector<capture::Frontend*>& frontends() {
  static const std::vector<capture::Frontend*> all = [] {
    std::vector<capture::Frontend*> made = {make_numpy_frontend().release(), make_tensor_frontend().release(),
                                            make_custom_op_frontend().release(), make_batch_frontend().release(),
                                            make_gradient_frontend().release()};
    made.insert(made.end(), added().begin(), added().end());
    return made;
  }();
  return all;
}

void add_frontend(std::unique_ptr<capture::Frontend> frontend) { added().push_back(frontend.release()); }

}  // namespace framejit::ext::frontends
