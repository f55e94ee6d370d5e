#include "pipeline/compile.h"

#include <utility>

namespace lathe {
namespace {

const Target& no_target() {
  static const auto* target = new Target;
  return *target;
}

}  // namespace

Compile::Compile() : target(no_target()) {}
Compile::Compile(const Target& t) : target(t) {}
Compile::Compile(Target&& t) : kept(std::make_shared<const Target>(std::move(t))), target(*kept) {}

Compile Compile::quiet() const {
  Compile out = *this;
  out.sink = nullptr;
  out.checks = Checks::None;
  return out;
}

Compile Compile::with(const Target& other) const {
  Compile out(other);
  out.invariant = invariant;
  out.tf32 = tf32;
  out.checks = checks;
  out.rules = rules;
  out.sink = sink;
  out.blame = blame;
  return out;
}

}  // namespace lathe
