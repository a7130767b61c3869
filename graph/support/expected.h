// A value or the reason why there is none; for outcomes that are expected, such as "this cannot be captured".
#pragma once

#include <utility>
#include <variant>

namespace framejit {

template <class E>
struct Unexpected {
  E error;
};
template <class E>
Unexpected(E) -> Unexpected<E>;

template <class T, class E>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  template <class U>
  Expected(Unexpected<U> u) : state_(std::in_place_index<1>, std::move(u.error)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }
  T& value() { return *std::get_if<0>(&state_); }
  const T& value() const { return *std::get_if<0>(&state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  E& error() { return *std::get_if<1>(&state_); }
  const E& error() const { return *std::get_if<1>(&state_); }
  Unexpected<E> failure() { return {std::move(error())}; }

 private:
  std::variant<T, E> state_;
};

/// `FRAMEJIT_TRY(name, expression)`: declares `name` as the value, or returns the failure from the enclosing function.
#define FRAMEJIT_TRY(name, expression)        \
  auto name##_or = (expression);              \
  if (!name##_or) return name##_or.failure(); \
  auto name = std::move(*name##_or)

/// `FRAMEJIT_REQUIRE(expression)`: returns the failure from the enclosing function. The value, which only says that
/// there is none, is dropped.
#define FRAMEJIT_REQUIRE(expression)                                                 \
  do {                                                                               \
    if (auto required_or = (expression); !required_or) return required_or.failure(); \
  } while (false)

}  // namespace framejit
