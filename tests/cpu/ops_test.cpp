// Every scalar op on every dtype it is defined on, and every cast, on edge values, as scalars and as vectors
// of even and odd lanes: both compilers against ir/value.h, bit for bit.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include <fmt/format.h>

#include "cpu/harness.h"

namespace lathe::test {
namespace {

struct Case {
  std::string name;
  Op op;
  DType operand, result;
  std::uint16_t lanes;
};

bool defined_on(Op op, DType dtype) {
  const OpInfo& i = info(op);
  return dtype.is_bool() ? i.on_bool : dtype.is_float() ? i.on_float : i.on_int;
}

// Operands of every combination of edge values, padded to a multiple of the lanes.
struct Operands {
  std::vector<Element> x, y, z;
};
Operands operands_of(Op op, DType dtype, std::uint16_t lanes) {
  Operands out;
  std::vector<Element> edge = edge_values(dtype), flags = edge_values(dtypes::Bool);
  int args = info(op).args;
  const std::vector<Element>& first = op == Op::Where ? flags : edge;
  std::size_t n = 0;
  for (Element x : first)
    for (std::size_t j = 0; j < (args > 1 ? edge.size() : 1); ++j, ++n) {
      out.x.push_back(x);
      out.y.push_back(edge[j]);
      out.z.push_back(edge[(j * 7 + n) % edge.size()]);
    }
  while (out.x.size() % lanes != 0) {
    out.x.push_back(out.x[0]);
    out.y.push_back(out.y[0]);
    out.z.push_back(out.z[0]);
  }
  return out;
}

Program op_program(const Case& c, std::int64_t n) {
  ProgramBuilder b(c.name);
  DType x_dtype = c.op == Op::Where ? dtypes::Bool : c.operand;
  Node out = b.buffer(c.result, n), x = b.buffer(x_dtype, n), y = b.buffer(c.operand, n),
       z = b.buffer(c.operand, n);
  Node i = b.loop(int_const(dtypes::Int64, n / c.lanes)) * int_const(dtypes::Int64, c.lanes);
  std::vector<Node> args{load(x, i, Node(), c.lanes)};
  if (info(c.op).args > 1) args.push_back(load(y, i, Node(), c.lanes));
  if (info(c.op).args > 2) args.push_back(load(z, i, Node(), c.lanes));
  // Not `apply`: it may exchange operands, and maximum tells its operands apart by the sign of zero.
  Node value = intern(c.op, c.result.vec(c.lanes), std::span<const Node>(args.data(), args.size()));
  b.add(store(out, i, value));
  b.close();
  return b.take();
}

std::vector<Case> op_cases() {
  std::vector<Case> out;
  for (int o = 0; o < kScalarOps; ++o) {
    Op op = static_cast<Op>(o);
    for (DType dtype : value_dtypes()) {
      if (!defined_on(op, dtype)) continue;
      DType result = info(op).result == ResultKind::Boolean ? dtypes::Bool : dtype;
      for (std::uint16_t lanes : {1, 3, 8})
        out.push_back({fmt::format("{}_{}_{}", info(op).name, dtype.str(), lanes), op, dtype, result, lanes});
    }
  }
  return out;
}

// The distance between a test's cases of one compiler run: see LATHE_TEST_EVERY below.
void check_ops(const Compiler& compiler, std::size_t every) {
  Scope scope;
  std::vector<Case> cases;
  std::vector<Program> programs;
  std::vector<Operands> operands;
  std::size_t number = 0;
  for (Case& c : op_cases()) {
    if (number++ % every != 0) continue;
    operands.push_back(operands_of(c.op, c.operand, c.lanes));
    programs.push_back(op_program(c, static_cast<std::int64_t>(operands.back().x.size())));
    cases.push_back(std::move(c));
  }
  std::vector<Binary> binaries = compiler.compile_all(programs);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const Operands& in = operands[i];
    DType x_dtype = c.op == Op::Where ? dtypes::Bool : c.operand;
    auto size = static_cast<std::size_t>(c.result.bytes());
    Bytes buffers[] = {Bytes(in.x.size() * size), elements(x_dtype, in.x), elements(c.operand, in.y),
                       elements(c.operand, in.z)};
    run(binaries[i], buffers);
    int shown = 0;
    for (std::size_t k = 0; k < in.x.size() && shown < 3; ++k) {
      Element want = evaluate(c.op, c.operand, in.x[k], in.y[k], in.z[k]);
      Element got = read_element(c.result, buffers[0].data() + k * size);
      if (same(c.result, want, got)) continue;
      ADD_FAILURE() << c.name << "(" << text_of(x_dtype, in.x[k]) << ", " << text_of(c.operand, in.y[k])
                    << ", " << text_of(c.operand, in.z[k]) << ") is " << text_of(c.result, want) << ", got "
                    << text_of(c.result, got) << "\n"
                    << (shown == 0 ? binaries[i].source : "");
      ++shown;
    }
  }
}

TEST(CpuOps, EveryOpOnEveryDtypeByLlvm) {
  SKIP_WITHOUT_LLVM();
  check_ops(*llvm_compiler(), 1);
}
TEST(CpuOps, EveryOpOnEveryDtypeByTheCCompiler) { check_ops(*c_compiler(), 1); }

struct CastCase {
  std::string name;
  DType to, from;
  std::uint16_t lanes;
  bool bits;
};

std::vector<CastCase> cast_cases() {
  std::vector<CastCase> out;
  for (DType from : value_dtypes())
    for (DType to : value_dtypes()) {
      if (to == from) continue;
      for (std::uint16_t lanes : {1, 8}) {
        out.push_back({fmt::format("cast_{}_{}_{}", to.str(), from.str(), lanes), to, from, lanes, false});
        if (to.bits() == from.bits())
          out.push_back({fmt::format("bits_{}_{}_{}", to.str(), from.str(), lanes), to, from, lanes, true});
      }
    }
  return out;
}

void check_casts(const Compiler& compiler) {
  Scope scope;
  std::vector<CastCase> cases = cast_cases();
  std::vector<Program> programs;
  std::map<std::string, std::vector<Element>> inputs;
  for (const CastCase& c : cases) {
    std::vector<Element>& x = inputs[c.from.str()];
    if (x.empty()) {
      x = all_values(c.from);
      while (x.size() % 8 != 0) x.push_back(x[0]);
    }
    auto n = static_cast<std::int64_t>(x.size());
    ProgramBuilder b(c.name);
    Node out = b.buffer(c.to, n), in = b.buffer(c.from, n);
    Node i = b.loop(int_const(dtypes::Int64, n / c.lanes)) * int_const(dtypes::Int64, c.lanes);
    Node value = load(in, i, Node(), c.lanes);
    b.add(store(out, i, intern(c.bits ? Op::Bitcast : Op::Cast, c.to.vec(c.lanes), {value})));
    b.close();
    programs.push_back(b.take());
  }
  std::vector<Binary> binaries = compiler.compile_all(programs);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const CastCase& c = cases[i];
    const std::vector<Element>& x = inputs[c.from.str()];
    auto size = static_cast<std::size_t>(c.to.bytes());
    Bytes buffers[] = {Bytes(x.size() * size), elements(c.from, x)};
    run(binaries[i], buffers);
    int shown = 0;
    for (std::size_t k = 0; k < x.size() && shown < 3; ++k) {
      // What memory holds is what is converted: a bool of any byte is 0 or 1.
      Element in = read_element(c.from, buffers[1].data() + k * static_cast<std::size_t>(c.from.bytes()));
      Element want = c.bits ? reinterpret(c.to, c.from, in) : convert(c.to, c.from, in);
      Element got = read_element(c.to, buffers[0].data() + k * size);
      // A signalling NaN may become quiet on the way, which only its bits tell.
      if (c.bits && c.from.is_float() && std::isnan(in.f)) continue;
      if (same(c.to, want, got)) continue;
      ADD_FAILURE() << c.name << "(" << text_of(c.from, in) << ") is " << text_of(c.to, want) << ", got "
                    << text_of(c.to, got) << "\n"
                    << (shown == 0 ? binaries[i].source : "");
      ++shown;
    }
  }
}

TEST(CpuOps, EveryCastByLlvm) {
  SKIP_WITHOUT_LLVM();
  check_casts(*llvm_compiler());
}
TEST(CpuOps, EveryCastByTheCCompiler) { check_casts(*c_compiler()); }

}  // namespace
}  // namespace lathe::test
