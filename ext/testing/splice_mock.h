// A stand-in for compiled regions in the tests of splicing: executes a random stretch of effect-free instructions on
// copies of the frame's values and leaves at a random boundary.
#pragma once

#include <cstdint>
#include <memory>

#include "capture/splice.h"

namespace framejit::ext::testing {

struct MockCounters {
  uint64_t asked = 0;         // questions of sites
  uint64_t exits = 0;         // stretches that ran
  uint64_t instructions = 0;  // executed in them
  uint64_t moves = 0;         // exits at another stack depth than the site's
};

/// `share` of 256 questions try to run a stretch. 0: every site falls through.
std::shared_ptr<capture::SiteHandler> make_mock_handler(std::shared_ptr<const capture::CodeView> view, uint64_t seed,
                                                        unsigned share, MockCounters* counters);

}  // namespace framejit::ext::testing
