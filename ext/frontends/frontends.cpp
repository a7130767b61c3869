#include "ext/frontends/frontends.h"

#include "ext/frontends/batch.h"
#include "ext/frontends/custom_op_door.h"
#include "ext/frontends/gradient_door.h"
#include "ext/frontends/numpy/door.h"
#include "ext/frontends/tensor_door.h"

namespace framejit::ext {

namespace {

std::vector<capture::Door*>& added() {
  static std::vector<capture::Door*> all;
  return all;
}

}  // namespace

const std::vector<capture::Door*>& doors() {
  static const std::vector<capture::Door*> all = [] {
    std::vector<capture::Door*> made = {make_numpy_door().release(), make_tensor_door().release(),
                                        make_custom_op_door().release(), make_batch_door().release(),
                                        make_gradient_door().release()};
    made.insert(made.end(), added().begin(), added().end());
    return made;
  }();
  return all;
}

void add_door(std::unique_ptr<capture::Door> door) { added().push_back(door.release()); }

}  // namespace framejit::ext
