// Archives: plain values as bytes, and back. One function `fields(archive, value)` for each struct names its members
// for both directions. Bytes that are read may be anything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "graph/dim.h"

namespace framejit::ext::region {

/// A function of this process and its context. In an archive it is a number, the place in a list.
struct External {
  void* function = nullptr;
  void* data = nullptr;
  friend bool operator==(const External&, const External&) = default;
};

/// Appends to `bytes`. A value that cannot be kept in a file clears `ok`.
class ArchiveWriter {
 public:
  static constexpr bool kReads = false;
  std::string bytes;
  std::vector<External> externals;  // that were written, each once
  bool ok = true;

  void external(const External& value) {
    const auto known = std::find(externals.begin(), externals.end(), value);
    size(static_cast<std::size_t>(known - externals.begin()));
    if (known == externals.end()) externals.push_back(value);
  }

  void raw(const void* from, std::size_t size) { bytes.append(static_cast<const char*>(from), size); }
  void text(std::string_view value) {
    size(value.size());
    raw(value.data(), value.size());
  }
  void size(std::size_t count) {
    const auto narrow = static_cast<uint32_t>(count);
    ok = ok && narrow == count;
    raw(&narrow, sizeof narrow);
  }
  template <class T>
  void put(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    raw(&value, sizeof value);
  }
  template <class... T>
  void operator()(const T&... values);
};

/// Reads bytes of an ArchiveWriter. Other bytes clear `ok`, and give zeros.
class ArchiveReader {
 public:
  static constexpr bool kReads = true;
  std::string_view rest;
  std::vector<External> externals;  // what the numbers mean
  bool ok = true;

  External external() {
    const auto number = get<uint32_t>();
    if (number < externals.size()) return externals[number];
    ok = false;
    return {};
  }

  explicit ArchiveReader(std::string_view bytes) : rest(bytes) {}
  std::string_view take(std::size_t size) {
    if (size > rest.size()) {
      ok = false;
      return {};
    }
    const std::string_view part = rest.substr(0, size);
    rest.remove_prefix(size);
    return part;
  }
  std::string_view text() { return take(size()); }
  /// The size of a list. An element takes at least one byte, so larger sizes are wrong.
  std::size_t size() {
    const auto count = get<uint32_t>();
    if (count <= rest.size()) return count;
    ok = false;
    return 0;
  }
  template <class T>
  T get() {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    const std::string_view part = take(sizeof(T));
    if (part.empty()) return T{};
    if constexpr (std::is_same_v<T, bool>) {
      return part[0] != 0;
    } else {
      T value;
      std::memcpy(&value, part.data(), sizeof value);
      return value;
    }
  }
  /// Numbers, one after the other.
  template <class T>
  void numbers(T* to, std::size_t count) {
    static_assert((std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T>);
    const std::string_view part = take(count * sizeof(T));
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
  }
  /// The same as reading each value, with one test of the size.
  template <class... T>
  void plain(T&... values) {
    const std::string_view part = take((sizeof(T) + ...));
    if (part.empty()) return;
    const char* at = part.data();
    const auto copy = [&at]<class V>(V& value) {
      static_assert(std::is_arithmetic_v<V> || std::is_enum_v<V>);
      if constexpr (std::is_same_v<V, bool>) value = *at != 0;
      else std::memcpy(&value, at, sizeof(V));
      at += sizeof(V);
    };
    (copy(values), ...);
  }
  template <class... T>
  void operator()(T&... values);
};

namespace archive {

enum class DimForm : uint8_t { Constant, Symbol, Text };

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsPair : std::false_type {};
template <class A, class B>
struct IsPair<std::pair<A, B>> : std::true_type {};
template <class T>
struct IsVariant : std::false_type {};
template <class... T>
struct IsVariant<std::variant<T...>> : std::true_type {};

template <std::size_t kAt = 0, class Reader, class... T>
void read_alternative(Reader& a, std::size_t index, std::variant<T...>& out) {
  if constexpr (kAt < sizeof...(T)) {
    if (index != kAt) return read_alternative<kAt + 1>(a, index, out);
    std::variant_alternative_t<kAt, std::variant<T...>> value{};
    a(value);
    out = std::move(value);
  } else {
    a.ok = false;
  }
}

template <class Archive, class T>
void one(Archive& a, T& value) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::is_arithmetic_v<Plain> || std::is_enum_v<Plain>) {
    if constexpr (Archive::kReads) value = a.template get<Plain>();
    else a.put(value);
  } else if constexpr (std::is_same_v<Plain, std::string>) {
    if constexpr (Archive::kReads) value = a.text();
    else a.text(value);
  } else if constexpr (std::is_same_v<Plain, graph::Dim>) {
    if constexpr (Archive::kReads) {
      switch (a.template get<archive::DimForm>()) {
        case archive::DimForm::Constant: value = graph::Dim(a.template get<int64_t>()); break;
        case archive::DimForm::Symbol: value = graph::Dim::symbol(a.template get<graph::SymbolId>()); break;
        default: {
          std::string_view text = a.text();
          a.ok = a.ok && graph::parse_dim(text, value) && text.empty();
        }
      }
    } else {
      std::vector<graph::SymbolId> used;
      value.collect_symbols(used);
      if (value.is_const()) {
        a.put(archive::DimForm::Constant);
        a.put(value.value());
      } else if (used.size() == 1 && value == graph::Dim::symbol(used[0])) {
        a.put(archive::DimForm::Symbol);
        a.put(used[0]);
      } else {
        a.put(archive::DimForm::Text);
        a.text(value.str());
      }
    }
  } else if constexpr (std::is_same_v<Plain, graph::Dims>) {
    if constexpr (Archive::kReads) {
      const std::size_t count = a.size();
      const std::string_view constants = a.template get<bool>() ? a.take(count * sizeof(int64_t)) : std::string_view();
      value.clear();
      value.reserve(count);
      for (std::size_t i = 0; i < count && a.ok; ++i) {
        int64_t constant = 0;
        if (!constants.empty()) std::memcpy(&constant, constants.data() + i * sizeof constant, sizeof constant);
        value.emplace_back(constant);
        if (constants.empty()) one(a, value.back());
      }
    } else {
      const bool constants = std::all_of(value.begin(), value.end(), [](const auto& dim) { return dim.is_const(); });
      a.size(value.size());
      a.put(constants);
      for (const graph::Dim& dim : value) {
        if (constants) a.put(dim.value());
        else one(a, dim);
      }
    }
  } else if constexpr (IsVector<Plain>::value) {
    using Element = typename Plain::value_type;
    if constexpr (Archive::kReads && (std::is_arithmetic_v<Element> || std::is_enum_v<Element>) &&
                  !std::is_same_v<Element, bool>) {
      value.resize(a.size());
      a.numbers(value.data(), value.size());
    } else if constexpr (Archive::kReads) {
      value.resize(a.size());
      for (std::size_t i = 0; i < value.size() && a.ok; ++i) one(a, value[i]);
    } else {
      a.size(value.size());
      if constexpr (sizeof(Element) == 1 && !std::is_same_v<Element, bool>) a.raw(value.data(), value.size());
      else
        for (const auto& each : value) one(a, each);
    }
  } else if constexpr (IsOptional<Plain>::value) {
    if constexpr (Archive::kReads) {
      value.reset();
      if (a.template get<bool>()) one(a, value.emplace());
    } else {
      a.put(value.has_value());
      if (value) one(a, *value);
    }
  } else if constexpr (IsPair<Plain>::value) {
    one(a, value.first);
    one(a, value.second);
  } else if constexpr (IsVariant<Plain>::value) {
    if constexpr (Archive::kReads) {
      read_alternative(a, a.template get<uint8_t>(), value);
    } else {
      a.put(static_cast<uint8_t>(value.index()));
      std::visit([&a](const auto& held) { one(a, held); }, value);
    }
  } else {
    fields(a, value);
  }
}

}  // namespace archive

template <class... T>
void ArchiveWriter::operator()(const T&... values) {
  (archive::one(*this, values), ...);
}

template <class... T>
void ArchiveReader::operator()(T&... values) {
  (archive::one(*this, values), ...);
}

/// The members of a struct, for both directions. In the namespace of the struct.
#define FRAMEJIT_FIELDS(type, ...)                        \
  template <class A, class T>                             \
    requires std::is_same_v<std::remove_const_t<T>, type> \
  void fields(A& a, T& x) {                               \
    a(__VA_ARGS__);                                       \
  }

}  // namespace framejit::ext::region
