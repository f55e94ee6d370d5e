// Programs with planted faults, and what REF finds wrong in them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/build.h"
#include "ir/program.h"
#include "ir/walk.h"
#include "reference/array.h"
#include "reference/reference.h"

namespace lathe::test {

inline int count(const Program& program, Op op) {
  int n = 0;
  for (const NodeRef& node : program.code) n += node->is(op);
  return n;
}

// What REF finds wrong in a program, with small whole numbers as inputs.
inline std::string faults_of(const Program& program) {
  std::vector<reference::Array> arrays;
  std::vector<reference::View> views;
  for (const ProgramParam& p : program.params) {
    arrays.emplace_back(p.dtype, p.size);
    for (std::int64_t i = 0; i < p.size; ++i) arrays.back().set(i, {0, static_cast<double>(i % 7) - 3});
  }
  for (reference::Array& array : arrays) views.push_back(array.view());
  std::string all;
  for (const std::string& fault : reference::program_eval(program, views).faults) all += fault + "\n";
  return all;
}

// The program without the instructions of an op, or with others in their place.
inline Program changed(Program program, Op op, const std::function<Node(Node)>& to) {
  std::vector<NodeRef> code;
  for (const NodeRef& n : program.code) {
    if (!n->is(op)) {
      code.push_back(n);
    } else if (Node now = to(n)) {
      code.emplace_back(now);
    }
  }
  program.code = std::move(code);
  return program;
}

// The same for values, in all that uses them.
inline Program renamed(Program program, Op op, const std::function<Node(Node)>& to) {
  NodeMap<Node> map;
  for (const NodeRef& n : program.code)
    if (n->is(op)) map.try_emplace(n, to(n));
  for (NodeRef& n : program.code) n = substitute(n, map);
  return program;
}

}  // namespace lathe::test
