// The text of scalars: shortest decimal that reads back to the same bits, or the bits themselves.
#include <bit>
#include <charconv>
#include <cmath>
#include <system_error>

#include "graph/text.h"

namespace framejit::graph {

namespace {

std::string hex(uint64_t bits) {
  char text[24] = "0x";
  const auto end = std::to_chars(text + 2, text + sizeof(text), bits, 16).ptr;
  return {text, end};
}

template <class T>
std::string float_str(T value, uint64_t bits) {
  if (std::isnan(value)) return hex(bits);
  char text[40];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  return {text, end};
}

std::string real_str(DType dtype, uint64_t bits) {
  switch (dtype) {
    case DType::Bool: return bits ? "true" : "false";
    case DType::F32: return float_str(std::bit_cast<float>(static_cast<uint32_t>(bits)), bits);
    case DType::F64: return float_str(std::bit_cast<double>(bits), bits);
    case DType::F16:
    case DType::BF16: return hex(bits);
    default: break;
  }
  if (is_unsigned_int(dtype)) return std::to_string(bits);
  const int unused = 64 - 8 * size_of(dtype);
  return std::to_string(static_cast<int64_t>(bits << unused) >> unused);
}

template <class T>
bool parse_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

uint64_t mask_of(DType dtype) { return size_of(dtype) >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * size_of(dtype)) - 1; }

bool parse_real(std::string_view text, DType dtype, uint64_t& out) {
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, 16);
    return error == std::errc() && end == text.data() + text.size() && (out & ~mask_of(dtype)) == 0;
  }
  if (dtype == DType::Bool) {
    out = text == "true";
    return text == "true" || text == "false";
  }
  if (dtype == DType::F32) {
    float value = 0;
    if (!parse_number(text, value)) return false;
    out = std::bit_cast<uint32_t>(value);
    return true;
  }
  if (dtype == DType::F64) {
    double value = 0;
    if (!parse_number(text, value)) return false;
    out = std::bit_cast<uint64_t>(value);
    return true;
  }
  if (is_unsigned_int(dtype)) return parse_number(text, out) && (out & ~mask_of(dtype)) == 0;
  int64_t value = 0;
  if (!is_signed_int(dtype) || !parse_number(text, value)) return false;
  out = static_cast<uint64_t>(value) & mask_of(dtype);
  const int unused = 64 - 8 * size_of(dtype);
  return static_cast<int64_t>(out << unused) >> unused == value;
}

}  // namespace

std::string scalar_str(DType dtype, const Scalar& value) {
  if (!is_complex(dtype)) return real_str(dtype, value.lo);
  std::string out = "(";
  out += real_str(part_of(dtype), value.lo);
  out += ", ";
  out += real_str(part_of(dtype), value.hi);
  out += ")";
  return out;
}

bool parse_scalar(std::string_view text, DType dtype, Scalar& out) {
  out = {};
  if (!is_complex(dtype)) return parse_real(text, dtype, out.lo);
  const std::size_t comma = text.find(", ");
  if (!text.starts_with("(") || !text.ends_with(")") || comma == std::string_view::npos) return false;
  const std::string_view real = text.substr(1, comma - 1), imaginary = text.substr(comma + 2, text.size() - comma - 3);
  return parse_real(real, part_of(dtype), out.lo) && parse_real(imaginary, part_of(dtype), out.hi);
}

}  // namespace framejit::graph
