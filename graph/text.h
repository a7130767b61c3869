// The text form: one syntax for dumps, tests, bug reports and the parser. print(parse(print(g))) is print(g).
//
//     graph @f(%x: f32[s0, 64] strides=[512, 8], %y: f32[64]) {
//       %2 = constant {value=1.5} : f32[]                          # a value in decimal; NaN, f16 and bf16 as hex bits
//       %3 = multiply %x, %2 : f32[s0, 64]                         # user.py:14
//       %4 = view %y : f32[32] strides=[8] root=%y offset=4        # byte strides, byte offset
//       write %4, %3                                               # has no name and no type of its own
//       %6 = reduce_sum %3 {axes=[1]} : f32[s0]
//       return %6, %y
//     }
//
// Blocks stand in braces behind their node and end with what they give; what has no type is no operand but of `output`:
//
//       %7 = if %c {                                               # of one 0-d bool
//         %8 = negative %x : f32[64]
//         yield %8
//       } else {
//         yield %x
//       }
//       %9 = output %7 {index=0} : f32[64]
//       %10 = loop %9 with %11: f32[64] {                          # carried values; the first result: another round?
//         ...
//         yield %13, %12
//       }
//
// What np.errstate around a call says about its floating-point flags stands with the attributes:
// {ignore=divide|invalid, trap=over}.
//
// A line `gradient` in the body: what comes behind it is the gradient of what stands before. {rematerialized} stands
// with what is computed a second time.
//
// Values are numbered in program order, params by their name where it is an identifier and unique. Strides are left out
// where they are those of C order. Comments run from '#' to the end of the line; locations are printed as comments
// only, hints and guards of the symbols not at all. A parsed graph has symbols s0 up to the largest one used, with
// hint 2.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/support/expected.h"

namespace framejit::graph {

/// Floating-point flags in a FlagRule: `{ignore=divide|invalid}`, `{trap=over}`.
struct FlagName {
  std::string_view name;
  uint8_t bit;
};
inline constexpr FlagName kFlagNames[] = {{"divide", 4}, {"over", 8}, {"under", 16}, {"invalid", 1}};

struct ParseError {
  int line, column;
  std::string message;
};

struct PrintOptions {
  bool locations = false;  // file and line behind each node
};

std::string print(const Graph& graph, const PrintOptions& options = {});
Expected<Graph, ParseError> parse(std::string_view text);

/// The name that each value has in the text ("%x", "%4"), by index; empty for values outside of the body.
std::vector<std::string> value_names(const Graph& graph);

/// "f32[s0, 64] strides=[512, 8]": a type without root and offset.
std::string str(const Type& type);

/// The text of a scalar, and back; parsing accepts any spelling of the number, or hex bits with 0x.
std::string scalar_str(DType dtype, const Scalar& value);
bool parse_scalar(std::string_view text, DType dtype, Scalar& out);

}  // namespace framejit::graph
