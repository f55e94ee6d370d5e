#include "codegen/lower/relist.h"

#include <algorithm>

#include "base/small_vector.h"
#include "ir/build.h"

namespace lathe {

Relist::Relist(Program program) : program_(std::move(program)) {
  before_ = std::move(program_.code);
  program_.code.clear();
  program_.code.reserve(before_.size());
}

Node Relist::named(Node node) const {
  if (const Node* now = names_.find(node)) return *now;
  if (!node.is(Op::After)) return node;
  SmallVector<Node, 8> args{named(node.arg(0))};
  for (Node effect : node.args().subspan(1))
    if (!gone_.contains(effect)) args.push_back(named(effect));
  return args.size() == 1 ? args[0] : node.with_args(args);
}

void Relist::keep(Node node) { replace(node, node); }

void Relist::replace(Node node, Node by) {
  SmallVector<Node, 8> args;
  for (Node a : by.args()) args.push_back(named(a));
  Node now = by.arg_count() == 0 ? by : by.with_args(args);
  if (now != node) names_[node] = now;
  put(now);
}

bool Relist::is_known(Node value) const {
  return value.is_const() || value.is(Op::Param) || value.is(Op::Var) || value.is(Op::Define) ||
         is_listed(value);
}

bool Relist::is_listed(Node value) const {
  return std::any_of(known_.begin(), known_.end(),
                     [&](const NodeMap<char>& scope) { return scope.contains(value); });
}

Node Relist::put(Node node) {
  if (node.is_const() || (node.dtype() != dtypes::Void && is_listed(node))) return node;
  program_.code.emplace_back(node);
  if (node.is(Op::End) || node.is(Op::EndIf)) known_.pop_back();
  if (node.is(Op::Range) || node.is(Op::If)) known_.emplace_back();
  if (node.dtype() != dtypes::Void) known_.back().try_emplace(node);
  return node;
}

Node Relist::sized(Node value, DType dtype) {
  return value.dtype() == dtype ? value : put(cast(value, dtype));
}

EarlyValues::EarlyValues(const Program& program) : values_(1) {
  for (Node n : program.code) {
    if (!n.is(Op::Range) && !n.is(Op::Special) && !n.is(Op::Load)) continue;
    places_[n] = values_.size();
    values_.emplace_back();
  }
}

Node EarlyValues::want(Node value) {
  place(value);
  return value;
}

std::size_t EarlyValues::place(Node value) {
  if (const std::size_t* known = places_.find(value)) return *known;
  if (value.is_const() || value.is(Op::Var)) return 0;
  std::size_t last = 0;
  for (Node a : value.args()) last = std::max(last, place(a));
  values_[last].push_back(value);
  places_[value] = last;
  return last;
}

void EarlyValues::put_first(Relist& list) const {
  for (Node value : values_[0]) list.keep(value);
}

void EarlyValues::put_after(Node instruction, Relist& list) const {
  if (!instruction.is(Op::Range) && !instruction.is(Op::Special) && !instruction.is(Op::Load)) return;
  if (const std::size_t* place = places_.find(instruction))
    for (Node value : values_[*place]) list.keep(value);
}

}  // namespace lathe
