// RNN, GRU and LSTM: each direction runs over time with the inputs projected beforehand, all steps at once.
#include <fmt/format.h>

#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

// One direction of a layer.
struct Direction {
  Tensor weight, recurrent, bias, recurrent_bias, peephole;  // weights with the gates stacked along axis 0
  Tensor hidden, cell;
  std::vector<Activation> activations;
  bool reverse = false;
};

struct Layer {
  std::int64_t hidden = 0, length = 0, batch = 0;
  double clip = 0;
  bool batch_first = false;
  Tensor x;        // (time, batch, input)
  Tensor lengths;  // of each sequence; undefined where all are whole
  std::vector<Direction> directions;
};

// Sequences longer than this are computed in stretches, so that graphs stay small.
constexpr std::int64_t kStretch = 64;

Tensor activate(const Call& c, const Layer& layer, const Direction& d, std::size_t which, const Tensor& x) {
  const Activation& a = d.activations.at(which);
  const Tensor bounded = layer.clip > 0 ? x.clamp(-layer.clip, layer.clip) : x;
  return activation(c, a.name, bounded, a.alpha, a.beta);
}

Tensor part(const Tensor& gates, std::int64_t which, std::int64_t hidden) {
  return sliced(gates, gates.ndim() - 1, which * hidden, (which + 1) * hidden);
}

std::vector<Activation> activations_of(const Call& c, std::size_t directions,
                                       const std::vector<std::string>& usual) {
  std::vector<std::string> names = c.texts("activations");
  if (names.empty())
    for (std::size_t d = 0; d < directions; ++d) names.insert(names.end(), usual.begin(), usual.end());
  if (names.size() != directions * usual.size())
    c.fail(fmt::format("{} activations, {} are needed", names.size(), directions * usual.size()));
  // Parameters are listed for those activations that take them, in order.
  const std::vector<double> alphas = c.floats("activation_alpha"), betas = c.floats("activation_beta");
  std::size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> all;
  for (const std::string& name : names) {
    const auto [alpha, beta] = activation_defaults(name);
    Activation a{name, alpha, beta};
    const bool takes_alpha = alpha != 0, takes_beta = beta != 0 || name == "Affine";
    if (takes_alpha && next_alpha < alphas.size()) a.alpha = alphas[next_alpha++];
    if (takes_beta && next_beta < betas.size()) a.beta = betas[next_beta++];
    all.push_back(a);
  }
  return all;
}

// Inputs in ONNX's order: X, W, R, B, lengths, initial h, and for LSTM initial c and P.
Layer layer_of(const Call& c, std::int64_t gates, const std::vector<std::string>& usual) {
  Layer layer;
  layer.batch_first = c.integer("layout", 0) != 0;
  layer.x = layer.batch_first ? c.x(0).permute({1, 0, 2}) : c.x(0);
  if (layer.x.ndim() != 3) c.fail("the input needs three axes");
  layer.length = concrete(layer.x.size(0), c, "the length");
  layer.batch = concrete(layer.x.size(1), c, "the batch");
  const std::string way = c.text("direction", "forward");
  const std::size_t count = way == "bidirectional" ? 2 : 1;
  if (way != "forward" && way != "reverse" && way != "bidirectional")
    c.fail(fmt::format("there is no direction '{}'", formats::shown(way)));
  layer.hidden = c.x(2).size(-1).value();
  layer.clip = c.number("clip", 0.0);
  if (c.has(4)) layer.lengths = c.x(4).cast(dtypes::int64).reshape({layer.batch, 1});
  const std::vector<Activation> activations = activations_of(c, count, usual);
  const DataType dtype = layer.x.dtype();
  for (std::size_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::int64_t>(i);
    Direction d;
    d.reverse = way == "reverse" || i == 1;
    d.weight = c.x(1)[at];
    d.recurrent = c.x(2)[at];
    if (!(d.weight.size(0) == gates * layer.hidden))
      c.fail(fmt::format("the weight has shape {}, {} rows are needed", to_string(d.weight.shape()),
                         gates * layer.hidden));
    const Tensor none = Tensor::zeros({gates * layer.hidden}, {.dtype = dtype, .device = c.device()});
    d.bias = c.has(3) ? sliced(c.x(3)[at], 0, 0, gates * layer.hidden) : none;
    d.recurrent_bias =
        c.has(3) ? sliced(c.x(3)[at], 0, gates * layer.hidden, 2 * gates * layer.hidden) : none;
    auto initial = [&](std::size_t input) {
      if (!c.has(input))
        return Tensor::zeros({layer.batch, layer.hidden}, {.dtype = dtype, .device = c.device()});
      return layer.batch_first ? c.x(input).getitem({Slice{}, at}) : c.x(input)[at];
    };
    d.hidden = initial(5);
    if (c.node.op == "LSTM") {
      d.cell = initial(6);
      if (c.has(7)) d.peephole = c.x(7)[at];
    }
    d.activations.assign(activations.begin() + at * static_cast<std::int64_t>(usual.size()),
                         activations.begin() + (at + 1) * static_cast<std::int64_t>(usual.size()));
    layer.directions.push_back(d);
  }
  return layer;
}

// Runs `step` (projected input, direction with its state -> new state) over time.
template <class Step>
std::vector<Tensor> run_direction(const Layer& layer, Direction& d, Step step) {
  const Tensor projected = (layer.x.matmul(d.weight.T()) + d.bias).contiguous();
  std::vector<Tensor> out(static_cast<std::size_t>(layer.length));
  for (std::int64_t k = 0; k < layer.length; ++k) {
    const std::int64_t t = d.reverse ? layer.length - 1 - k : k;
    const Tensor hidden_before = d.hidden, cell_before = d.cell;
    step(projected[t], d);
    out[static_cast<std::size_t>(t)] = d.hidden;
    if (layer.lengths.defined()) {  // past the end of a sequence the state stays and the output is zero
      const Tensor inside = layer.lengths.gt(t);
      out[static_cast<std::size_t>(t)] = inside.where(d.hidden, 0);
      d.hidden = inside.where(d.hidden, hidden_before);
      if (d.cell.defined()) d.cell = inside.where(d.cell, cell_before);
    }
    if ((k + 1) % kStretch == 0 && layer.length > kStretch) {
      std::vector<Tensor> state = {d.hidden};
      if (d.cell.defined()) state.push_back(d.cell);
      for (std::int64_t j = k + 1 - kStretch; j <= k; ++j)
        state.push_back(out[static_cast<std::size_t>(d.reverse ? layer.length - 1 - j : j)]);
      Tensor::realize_all(state);
    }
  }
  return out;
}

template <class Step>
Outputs run_layer(const Call& c, Layer& layer, Step step) {
  std::vector<Tensor> sequences, hidden, cells;
  for (Direction& d : layer.directions) {
    const std::vector<Tensor> steps = run_direction(layer, d, step);
    sequences.push_back(steps.empty() ? Tensor::empty({0, layer.batch, layer.hidden},
                                                      {.dtype = layer.x.dtype(), .device = c.device()})
                                      : Tensor::stack(steps));
    hidden.push_back(d.hidden);
    if (d.cell.defined()) cells.push_back(d.cell);
  }
  const std::int64_t axis = layer.batch_first ? 1 : 0;
  Tensor all = Tensor::stack(sequences, 1);  // (time, directions, batch, hidden)
  if (layer.batch_first) all = all.permute({2, 0, 1, 3});
  Outputs out = {all, Tensor::stack(hidden, axis)};
  if (!cells.empty()) out.emplace_back(Tensor::stack(cells, axis));
  return out;
}

Outputs rnn(const Call& c) {
  Layer layer = layer_of(c, 1, {"Tanh"});
  return run_layer(c, layer, [&](const Tensor& x, Direction& d) {
    d.hidden = activate(c, layer, d, 0, x + d.hidden.matmul(d.recurrent.T()) + d.recurrent_bias);
  });
}

Outputs gru(const Call& c) {
  Layer layer = layer_of(c, 3, {"Sigmoid", "Tanh"});
  const bool reset_after = c.integer("linear_before_reset", 0) != 0;
  const std::int64_t n = layer.hidden;
  return run_layer(c, layer, [&](const Tensor& x, Direction& d) {
    const Tensor gates =
        d.hidden.matmul(sliced(d.recurrent, 0, 0, 2 * n).T()) + sliced(d.recurrent_bias, 0, 0, 2 * n);
    const Tensor update = activate(c, layer, d, 0, part(x, 0, n) + part(gates, 0, n));
    const Tensor reset = activate(c, layer, d, 0, part(x, 1, n) + part(gates, 1, n));
    const Tensor weight = sliced(d.recurrent, 0, 2 * n, 3 * n).T(),
                 bias = sliced(d.recurrent_bias, 0, 2 * n, 3 * n);
    const Tensor inner =
        reset_after ? reset * (d.hidden.matmul(weight) + bias) : (reset * d.hidden).matmul(weight) + bias;
    const Tensor candidate = activate(c, layer, d, 1, part(x, 2, n) + inner);
    d.hidden = (1.0 - update) * candidate + update * d.hidden;
  });
}

Outputs lstm(const Call& c) {
  Layer layer = layer_of(c, 4, {"Sigmoid", "Tanh", "Tanh"});
  const bool coupled = c.integer("input_forget", 0) != 0;
  const std::int64_t n = layer.hidden;
  return run_layer(c, layer, [&](const Tensor& x, Direction& d) {
    const Tensor gates =
        x + d.hidden.matmul(d.recurrent.T()) + d.recurrent_bias;  // input, output, forget, cell
    auto peeped = [&](std::int64_t gate, std::int64_t which, const Tensor& cell) {
      const Tensor own = part(gates, gate, n);
      return d.peephole.defined() ? own + sliced(d.peephole, 0, which * n, (which + 1) * n) * cell : own;
    };
    const Tensor input = activate(c, layer, d, 0, peeped(0, 0, d.cell));
    const Tensor forget = coupled ? 1.0 - input : activate(c, layer, d, 0, peeped(2, 2, d.cell));
    const Tensor candidate = activate(c, layer, d, 1, part(gates, 3, n));
    d.cell = forget * d.cell + input * candidate;
    const Tensor output = activate(c, layer, d, 0, peeped(1, 1, d.cell));
    d.hidden = output * activate(c, layer, d, 2, d.cell);
  });
}

// clang-format off
const OpRow kRows[] = {{"RNN", 1, rnn}, {"GRU", 1, gru}, {"LSTM", 1, lstm}};
// clang-format on

}  // namespace

OpTable recurrent_ops() { return {"", "recurrent", kRows}; }

}  // namespace lathe::onnx
