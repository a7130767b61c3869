// Element types. Every operator states the dtypes that it takes and gives; promotion belongs to the frontends.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace framejit::graph {

enum class DType : uint8_t { Bool, I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64, C64, C128 };

inline constexpr int kDTypeCount = 15;

struct DTypeInfo {
  std::string_view name;  // in the text form: bool, i8 ... u64, f16, bf16, f32, f64, c64, c128
  uint8_t size;           // bytes
  char kind;              // 'b' bool, 'i' signed, 'u' unsigned, 'f' float, 'c' complex
};

inline constexpr DTypeInfo kDTypes[kDTypeCount] = {{"bool", 1, 'b'}, {"i8", 1, 'i'},  {"i16", 2, 'i'},  {"i32", 4, 'i'},
                                                   {"i64", 8, 'i'},  {"u8", 1, 'u'},  {"u16", 2, 'u'},  {"u32", 4, 'u'},
                                                   {"u64", 8, 'u'},  {"f16", 2, 'f'}, {"bf16", 2, 'f'}, {"f32", 4, 'f'},
                                                   {"f64", 8, 'f'},  {"c64", 8, 'c'}, {"c128", 16, 'c'}};

constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<int>(t)]; }
constexpr int size_of(DType t) { return info(t).size; }
constexpr std::string_view name_of(DType t) { return info(t).name; }
constexpr bool is_float(DType t) { return info(t).kind == 'f'; }
constexpr bool is_complex(DType t) { return info(t).kind == 'c'; }
/// The dtype of the parts of a complex number; a real one is its own part.
constexpr DType part_of(DType t) { return t == DType::C64 ? DType::F32 : t == DType::C128 ? DType::F64 : t; }
constexpr bool is_signed_int(DType t) { return info(t).kind == 'i'; }
constexpr bool is_unsigned_int(DType t) { return info(t).kind == 'u'; }
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

constexpr std::optional<DType> dtype_from_name(std::string_view name) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (kDTypes[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace framejit::graph
