// Why a kernel refuses an option. Choosing and searching options meet many refusals, so a refusal is a value;
// code that applies a list that must fit throws it.
#pragma once

#include <string>
#include <utility>
#include <variant>

#include "lathe/error.h"

namespace lathe {

struct Refusal {
  std::string option, reason;
  std::string note{};

  KernelOptError error() const {
    KernelOptError error(option, reason);
    if (!note.empty()) error.note(note);
    return error;
  }
};

// What was asked for, or why there is none.
template <class T>
class OrRefusal {
 public:
  OrRefusal(T value) : answer_(std::move(value)) {}
  OrRefusal(Refusal why) : answer_(std::move(why)) {}

  explicit operator bool() const { return answer_.index() == 0; }
  T& operator*() { return std::get<0>(answer_); }
  const T& operator*() const { return std::get<0>(answer_); }
  const T* operator->() const { return &std::get<0>(answer_); }
  const Refusal& refusal() const { return std::get<1>(answer_); }
  // Throws KernelOptError where there is none.
  T value() && {
    if (!*this) throw refusal().error();
    return std::move(**this);
  }

 private:
  std::variant<T, Refusal> answer_;
};

}  // namespace lathe
