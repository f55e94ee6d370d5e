// RNN, GRU and LSTM: both directions run over time together, with the inputs of all steps projected
// beforehand.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/onnx/ops/shared.h"

namespace lathe::onnx {
namespace {

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
  bool operator==(const Activation&) const = default;
};

// Directions of a layer that take each step together. Their number is axis 0 of all tensors.
struct Directions {
  Tensor weight, recurrent;               // with the gates stacked along axis 1
  Tensor bias, recurrent_bias, peephole;  // (directions, 1, ...)
  Tensor hidden, cell;                    // (directions, batch, hidden)
  std::vector<Activation> activations;
  std::vector<bool> reverse;
};

struct Layer {
  std::int64_t hidden = 0, length = 0, batch = 0;
  double clip = 0;
  bool batch_first = false;
  Tensor x;        // (time, batch, input)
  Tensor lengths;  // of each sequence; undefined where all are whole
  std::vector<Directions> directions;
};

// Sequences longer than this are computed in stretches, so that graphs stay small.
constexpr std::int64_t kStretch = 64;

Tensor activate(const Call& c, const Layer& layer, const Directions& d, std::size_t which, const Tensor& x) {
  const Activation& a = d.activations.at(which);
  const Tensor bounded = layer.clip > 0 ? x.clamp(-layer.clip, layer.clip) : x;
  return activation(c, a.name, bounded, a.alpha, a.beta);
}

Tensor last(const Tensor& t, std::int64_t begin, std::int64_t end) {
  return sliced(t, t.ndim() - 1, begin, end);
}
Tensor part(const Tensor& gates, std::int64_t which, std::int64_t hidden) {
  return last(gates, which * hidden, (which + 1) * hidden);
}
Tensor turned(const Tensor& weight) { return weight.transpose(-2, -1); }

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
  // Both directions at once, unless they differ in more than the order.
  const std::size_t own = usual.size();
  const bool together =
      count == 1 || std::equal(activations.begin(), activations.begin() + static_cast<std::ptrdiff_t>(own),
                               activations.begin() + static_cast<std::ptrdiff_t>(own));
  for (std::size_t i = 0; i < count; i += together ? count : 1) {
    const auto from = static_cast<std::int64_t>(i),
               to = together ? static_cast<std::int64_t>(count) : from + 1;
    const std::int64_t rows = gates * layer.hidden;
    Directions d;
    for (std::int64_t j = from; j < to; ++j) d.reverse.push_back(way == "reverse" || j == 1);
    d.weight = sliced(c.x(1), 0, from, to);
    d.recurrent = sliced(c.x(2), 0, from, to);
    if (!(d.weight.size(1) == rows))
      c.fail(fmt::format("the weight has shape {}, {} rows are needed", to_string(d.weight.shape()), rows));
    const Tensor none = Tensor::zeros({to - from, 1, rows}, {.dtype = dtype, .device = c.device()});
    const Tensor biases = c.has(3) ? sliced(c.x(3), 0, from, to).unsqueeze(1) : Tensor();
    d.bias = c.has(3) ? last(biases, 0, rows) : none;
    d.recurrent_bias = c.has(3) ? last(biases, rows, 2 * rows) : none;
    auto initial = [&](std::size_t input) {
      if (!c.has(input))
        return Tensor::zeros({to - from, layer.batch, layer.hidden}, {.dtype = dtype, .device = c.device()});
      return sliced(layer.batch_first ? c.x(input).permute({1, 0, 2}) : c.x(input), 0, from, to);
    };
    d.hidden = initial(5);
    if (c.node.op == "LSTM") {
      d.cell = initial(6);
      if (c.has(7)) d.peephole = sliced(c.x(7), 0, from, to).unsqueeze(1);
    }
    d.activations.assign(activations.begin() + static_cast<std::ptrdiff_t>(i * own),
                         activations.begin() + static_cast<std::ptrdiff_t>((i + 1) * own));
    layer.directions.push_back(d);
  }
  return layer;
}

// The input as each direction sees it, projected: (time, directions, batch, gates).
Tensor projected_input(const Layer& layer, const Directions& d) {
  std::vector<Tensor> seen;
  for (const bool reverse : d.reverse) seen.push_back(reverse ? layer.x.flip({0}) : layer.x);
  return (Tensor::stack(seen, 1).matmul(turned(d.weight)) + d.bias).contiguous();
}

// Runs `step` (projected input, directions with their state -> new state) over time. Gives the outputs of
// each direction in the order of time.
template <class Step>
std::vector<std::vector<Tensor>> run_directions(const Layer& layer, Directions& d, Step step) {
  std::vector<std::vector<Tensor>> out(d.reverse.size(),
                                       std::vector<Tensor>(static_cast<std::size_t>(layer.length)));
  if (layer.length == 0) return out;
  const Tensor projected = projected_input(layer, d);
  std::vector<Tensor> stretch;
  for (std::int64_t k = 0; k < layer.length; ++k) {
    const Tensor hidden_before = d.hidden, cell_before = d.cell;
    step(projected[k], d);
    Tensor shown = d.hidden;
    auto time = [&](bool reverse) { return reverse ? layer.length - 1 - k : k; };
    if (layer.lengths.defined()) {  // past the end of a sequence the state stays and the output is zero
      std::vector<Tensor> each;
      for (const bool reverse : d.reverse) each.push_back(layer.lengths.gt(time(reverse)));
      const Tensor inside = Tensor::stack(each);
      shown = inside.where(d.hidden, 0);
      d.hidden = inside.where(d.hidden, hidden_before);
      if (d.cell.defined()) d.cell = inside.where(d.cell, cell_before);
    }
    stretch.push_back(shown);
    for (std::size_t j = 0; j < out.size(); ++j)
      out[j][static_cast<std::size_t>(time(d.reverse[j]))] = shown[static_cast<std::int64_t>(j)];
    if ((k + 1) % kStretch == 0 && layer.length > kStretch) {
      stretch.push_back(d.hidden);
      if (d.cell.defined()) stretch.push_back(d.cell);
      Tensor::realize_all(stretch);
      stretch.clear();
    }
  }
  return out;
}

template <class Step>
Outputs run_layer(const Call& c, Layer& layer, Step step) {
  std::vector<Tensor> sequences, hidden, cells;
  for (Directions& d : layer.directions) {
    for (const std::vector<Tensor>& steps : run_directions(layer, d, step))
      sequences.push_back(steps.empty() ? Tensor::empty({0, layer.batch, layer.hidden},
                                                        {.dtype = layer.x.dtype(), .device = c.device()})
                                        : Tensor::stack(steps));
    for (std::size_t j = 0; j < d.reverse.size(); ++j) {
      hidden.push_back(d.hidden[static_cast<std::int64_t>(j)]);
      if (d.cell.defined()) cells.push_back(d.cell[static_cast<std::int64_t>(j)]);
    }
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
  return run_layer(c, layer, [&](const Tensor& x, Directions& d) {
    d.hidden = activate(c, layer, d, 0, x + d.hidden.matmul(turned(d.recurrent)) + d.recurrent_bias);
  });
}

Outputs gru(const Call& c) {
  Layer layer = layer_of(c, 3, {"Sigmoid", "Tanh"});
  const bool reset_after = c.integer("linear_before_reset", 0) != 0;
  const std::int64_t n = layer.hidden;
  return run_layer(c, layer, [&](const Tensor& x, Directions& d) {
    const Tensor gates =
        d.hidden.matmul(turned(sliced(d.recurrent, 1, 0, 2 * n))) + last(d.recurrent_bias, 0, 2 * n);
    const Tensor update = activate(c, layer, d, 0, part(x, 0, n) + part(gates, 0, n));
    const Tensor reset = activate(c, layer, d, 0, part(x, 1, n) + part(gates, 1, n));
    const Tensor weight = turned(sliced(d.recurrent, 1, 2 * n, 3 * n)),
                 bias = last(d.recurrent_bias, 2 * n, 3 * n);
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
  return run_layer(c, layer, [&](const Tensor& x, Directions& d) {
    const Tensor gates =
        x + d.hidden.matmul(turned(d.recurrent)) + d.recurrent_bias;  // input, output, forget, cell
    auto peeped = [&](std::int64_t gate, std::int64_t which, const Tensor& cell) {
      const Tensor own = part(gates, gate, n);
      return d.peephole.defined() ? own + part(d.peephole, which, n) * cell : own;
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
