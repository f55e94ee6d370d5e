// Operators that run graphs of their own.
#include <fmt/format.h>

#include <algorithm>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

// Loops past this many rounds compute what they carry as they go, so that graphs stay small.
constexpr std::int64_t kUnrolled = 32;
constexpr std::int64_t kMostRounds = std::int64_t(1) << 32;

Outputs branch(const Call& c) {
  return c.evaluator.run_graph(c.graph(c.truth(0) ? "then_branch" : "else_branch"), {}, c.scope);
}

void settle(std::vector<Value>& values) {
  std::vector<Tensor> tensors;
  for (const Value& v : values)
    if (v.has_tensor()) tensors.push_back(v.tensor());
  Tensor::realize_all(tensors);
}

bool truth_of(const Call& c, const Value& v) {
  const std::shared_ptr<const Known> known = c.evaluator.known_of(v);
  if (known->count() != 1 || known->is_float()) c.fail("the condition of a loop is not one bool");
  return known->sizes[0].value() != 0;
}

Value scalar(std::int64_t v, DataType dtype) { return make_known(dtype, {}, {Size(v)}); }

// What a scan output has where no round was run: no rows, of the shape the body declares.
Value no_rows(const Call& c, const ValueInfo& info) {
  Shape shape = {0};
  for (const Dimension& d : info.type.shape) shape.emplace_back(std::max<std::int64_t>(d.value, 0));
  return Tensor::empty(shape, {.dtype = dtype_for(info.type.element, c), .device = c.device()});
}

Value stacked(const Call& c, const std::vector<Value>& rounds, const ValueInfo& info, std::int64_t axis = 0) {
  if (rounds.empty()) return no_rows(c, info);
  std::vector<Tensor> tensors;
  for (const Value& v : rounds) tensors.push_back(v.tensor());
  return Tensor::stack(tensors, axis);
}

Outputs loop(const Call& c) {
  const GraphProto& body = c.graph("body");
  const std::int64_t rounds = c.has(0) ? c.integer(std::size_t(0)) : kMostRounds;
  bool go_on = c.has(1) ? c.truth(1) : true;
  std::vector<Value> carried(
      c.inputs.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(c.inputs.size())),
      c.inputs.end());
  if (body.outputs.size() < carried.size() + 1) c.fail("the body gives fewer values than the loop carries");
  const std::size_t scans = body.outputs.size() - 1 - carried.size();
  std::vector<std::vector<Value>> rows(scans);
  for (std::int64_t i = 0; i < rounds && go_on; ++i) {
    std::vector<Value> inputs = {scalar(i, dtypes::int64), scalar(1, dtypes::bool_)};
    inputs.insert(inputs.end(), carried.begin(), carried.end());
    Outputs out = c.evaluator.run_graph(body, inputs, c.scope);
    go_on = truth_of(c, out[0]);
    std::copy_n(out.begin() + 1, carried.size(), carried.begin());
    for (std::size_t k = 0; k < scans; ++k) rows[k].push_back(out[1 + carried.size() + k]);
    if (i + 1 >= kUnrolled) {
      settle(carried);
      for (auto& r : rows) settle(r);
    }
  }
  Outputs result(carried.begin(), carried.end());
  for (std::size_t k = 0; k < scans; ++k)
    result.push_back(stacked(c, rows[k], body.outputs[1 + carried.size() + k]));
  return result;
}

// Scan of versions 9 and later: no batch axis, an axis and a direction per input and output.
Outputs scan(const Call& c) {
  const GraphProto& body = c.graph("body");
  const std::int64_t given = c.integer("num_scan_inputs");
  if (given < 1 || given > static_cast<std::int64_t>(c.inputs.size()))
    c.fail("num_scan_inputs is out of range");
  const auto scanned = static_cast<std::size_t>(given);
  const std::size_t states = c.inputs.size() - scanned;
  if (body.outputs.size() < states) c.fail("the body gives fewer values than the scan carries");
  const std::size_t outputs = body.outputs.size() - states;
  const Numbers axes = c.ints("scan_input_axes", Numbers(scanned, 0)),
                ways = c.ints("scan_input_directions", Numbers(scanned, 0));
  const Numbers out_axes = c.ints("scan_output_axes", Numbers(outputs, 0)),
                out_ways = c.ints("scan_output_directions", Numbers(outputs, 0));
  if (axes.size() != scanned || ways.size() != scanned || out_axes.size() != outputs ||
      out_ways.size() != outputs)
    c.fail("axes or directions of a scan do not fit its inputs and outputs");
  std::vector<Value> carried(c.inputs.begin(), c.inputs.begin() + static_cast<std::ptrdiff_t>(states));
  std::vector<std::vector<Value>> rows(outputs);
  std::int64_t length = -1;
  std::vector<Tensor> sequences;
  for (std::size_t i = 0; i < scanned; ++i) {
    const Tensor& x = c.x(states + i);
    Tensor t = x.movedim(c.axis(axes[i], x.ndim()), 0);
    if (ways[i] != 0) t = t.flip(0);
    const std::int64_t own = concrete(t.size(0), c, "a scanned axis");
    if (length >= 0 && own != length)
      c.fail(fmt::format("scanned inputs have lengths {} and {}", length, own));
    length = own;
    sequences.push_back(t);
  }
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<Value> inputs = carried;
    for (const Tensor& t : sequences) inputs.emplace_back(t[i]);
    const Outputs out = c.evaluator.run_graph(body, inputs, c.scope);
    std::copy_n(out.begin(), states, carried.begin());
    for (std::size_t k = 0; k < outputs; ++k) {
      if (out_ways[k] != 0)
        rows[k].insert(rows[k].begin(), out[states + k]);
      else
        rows[k].push_back(out[states + k]);
    }
    if (i + 1 >= kUnrolled) {
      settle(carried);
      for (auto& r : rows) settle(r);
    }
  }
  Outputs result(carried.begin(), carried.end());
  for (std::size_t k = 0; k < outputs; ++k) {
    const auto rank =
        static_cast<std::int64_t>(rows[k].empty() ? body.outputs[states + k].type.shape.size()
                                                  : static_cast<std::size_t>(rows[k][0].tensor().ndim())) +
        1;
    result.push_back(stacked(c, rows[k], body.outputs[states + k], c.axis(out_axes[k], rank)));
  }
  return result;
}

// Scan of version 8: every input has a batch axis first, scanned ones a sequence axis second.
Outputs scan_batches(const Call& c) {
  const GraphProto& body = c.graph("body");
  const std::int64_t scanned = c.integer("num_scan_inputs"),
                     states = static_cast<std::int64_t>(c.inputs.size()) - 1 - scanned;
  if (scanned < 1 || states < 0) c.fail("num_scan_inputs is out of range");
  if (c.has(0)) c.not_supported("lengths of sequences are not read");
  const std::int64_t batch = concrete(c.x(static_cast<std::size_t>(states) + 1).size(0), c, "the batch");
  const std::int64_t length = concrete(c.x(static_cast<std::size_t>(states) + 1).size(1), c, "the length");
  std::vector<std::vector<Tensor>> all(body.outputs.size());
  for (std::int64_t b = 0; b < batch; ++b) {
    std::vector<Value> carried;
    for (std::int64_t k = 0; k < states; ++k) carried.emplace_back(c.x(static_cast<std::size_t>(k) + 1)[b]);
    std::vector<std::vector<Tensor>> rows(body.outputs.size());
    for (std::int64_t t = 0; t < length; ++t) {
      std::vector<Value> inputs = carried;
      for (std::int64_t k = 0; k < scanned; ++k)
        inputs.emplace_back(c.x(static_cast<std::size_t>(states + k) + 1).getitem({b, t}));
      const Outputs out = c.evaluator.run_graph(body, inputs, c.scope);
      std::copy_n(out.begin(), states, carried.begin());
      for (std::size_t k = static_cast<std::size_t>(states); k < out.size(); ++k)
        rows[k].push_back(out[k].tensor());
    }
    for (std::size_t k = 0; k < all.size(); ++k)
      all[k].push_back(k < static_cast<std::size_t>(states) ? carried[k].tensor() : Tensor::stack(rows[k]));
  }
  Outputs result;
  for (const auto& tensors : all) {
    if (tensors.empty()) c.not_supported("an empty batch is not scanned");
    result.emplace_back(Tensor::stack(tensors));
  }
  return result;
}

Outputs sequence_map(const Call& c) {
  const GraphProto& body = c.graph("body");
  const std::size_t count = c.value(0).items().size();
  std::vector<Value::Items> out(body.outputs.size());
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Value> inputs;
    for (std::size_t k = 0; k < c.inputs.size(); ++k) {
      const Value& v = c.value(k);
      if (v.kind() == Value::Kind::Sequence && v.items().size() <= i)
        c.fail("the sequences have different lengths");
      inputs.push_back(v.kind() == Value::Kind::Sequence ? v.items()[i] : v);
    }
    const Outputs results = c.evaluator.run_graph(body, inputs, c.scope);
    for (std::size_t k = 0; k < out.size(); ++k) out[k].push_back(results[k]);
  }
  Outputs all;
  for (auto& items : out) all.emplace_back(std::move(items));
  return all;
}

// clang-format off
const OpRow kRows[] = {
    {"If", 1, branch}, {"Loop", 1, loop}, {"Scan", 8, scan_batches}, {"Scan", 9, scan}, {"SequenceMap", 17, sequence_map},
};
// clang-format on

}  // namespace

OpTable control_ops() { return {"", "control flow", kRows}; }

}  // namespace lathe::onnx
