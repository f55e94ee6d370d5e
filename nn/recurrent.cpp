#include "lathe/nn/recurrent.h"

#include <fmt/format.h>

#include "nn/initial.h"

namespace lathe::nn {
namespace {

const Tensor* or_null(const Tensor& t) { return t.defined() ? &t : nullptr; }

Tensor zero_state(const Tensor& x, const Tensor& weight_hh) {
  return Tensor::zeros({x.size(0), weight_hh.size(1)}, {.dtype = x.dtype(), .device = x.device()});
}

template <class Cell>
void make_cell(Cell& cell, std::string_view name, std::int64_t gates, std::int64_t input, std::int64_t hidden,
               bool with_bias) {
  check_positive(name, "the input size", input);
  check_positive(name, "the hidden size", hidden);
  const double bound = fan_in_bound(hidden);
  cell.weight_ih = uniform_parameter({gates * hidden, input}, bound);
  cell.weight_hh = uniform_parameter({gates * hidden, hidden}, bound);
  if (!with_bias) return;
  cell.bias_ih = uniform_parameter({gates * hidden}, bound);
  cell.bias_hh = uniform_parameter({gates * hidden}, bound);
}

template <class Cell>
std::vector<Cell> make_cells(std::string_view name, std::int64_t input, std::int64_t hidden,
                             std::int64_t layers) {
  check_positive(name, "the number of layers", layers);
  std::vector<Cell> cells;
  for (std::int64_t i = 0; i < layers; ++i) cells.emplace_back(i == 0 ? input : hidden, hidden);
  return cells;
}

// PyTorch puts the layer's number behind the name: weight_ih_l0.
template <class Cell>
void name_cells(Parts& p, std::vector<Cell>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    p(fmt::format("weight_ih_l{}", i), cells[i].weight_ih)(fmt::format("weight_hh_l{}", i),
                                                           cells[i].weight_hh);
    p(fmt::format("bias_ih_l{}", i), cells[i].bias_ih)(fmt::format("bias_hh_l{}", i), cells[i].bias_hh);
  }
}

const Tensor& hidden_of(const LSTMState& state) { return state.hidden; }
const Tensor& hidden_of(const Tensor& state) { return state; }

// Runs layer after layer over the whole sequence.
template <class State, class Layer>
std::pair<Tensor, std::vector<State>> run(std::string_view name, const Layer& layer, const Tensor& x,
                                          const std::vector<State>& start) {
  if (x.ndim() != 3)
    throw UserError(name, fmt::format("the input has shape {}, three axes are needed", to_string(x.shape())))
        .help(layer.batch_first ? "give (batch, time, input)" : "give (time, batch, input)");
  if (!start.empty() && start.size() != layer.cells.size())
    throw UserError(name, fmt::format("{} states for {} layers", start.size(), layer.cells.size()));
  const std::int64_t time_axis = layer.batch_first ? 1 : 0, length = x.size(time_axis).value();
  if (length == 0) throw UserError(name, "the sequence is empty");
  std::vector<Tensor> moments;
  for (std::int64_t t = 0; t < length; ++t)
    moments.push_back(layer.batch_first ? x.getitem({Slice{}, t}) : x[t]);
  std::vector<State> last;
  for (std::size_t i = 0; i < layer.cells.size(); ++i) {
    std::optional<State> state = start.empty() ? std::nullopt : std::optional<State>(start[i]);
    for (Tensor& moment : moments) {
      state = layer.cells[i](i == 0 ? moment : moment.dropout(layer.dropout), state);
      moment = hidden_of(*state);
    }
    last.push_back(*state);
  }
  return {Tensor::stack(moments, time_axis), last};
}

}  // namespace

LSTMCell::LSTMCell(std::int64_t input, std::int64_t hidden, bool with_bias) {
  make_cell(*this, "LSTMCell", 4, input, hidden, with_bias);
}

void LSTMCell::parts(Parts& p) {
  p("weight_ih", weight_ih)("weight_hh", weight_hh)("bias_ih", bias_ih)("bias_hh", bias_hh);
}

LSTMState LSTMCell::operator()(const Tensor& x, const std::optional<LSTMState>& state) const {
  const Tensor hidden = state ? state->hidden : zero_state(x, weight_hh);
  const Tensor cell = state ? state->cell : zero_state(x, weight_hh);
  const Tensor gates = x.linear(weight_ih.transpose(), or_null(bias_ih)) +
                       hidden.linear(weight_hh.transpose(), or_null(bias_hh));
  const std::vector<Tensor> gate = gates.chunk(4, 1);
  const Tensor next = gate[1].sigmoid() * cell + gate[0].sigmoid() * gate[2].tanh();
  return {gate[3].sigmoid() * next.tanh(), next};
}

GRUCell::GRUCell(std::int64_t input, std::int64_t hidden, bool with_bias) {
  make_cell(*this, "GRUCell", 3, input, hidden, with_bias);
}

void GRUCell::parts(Parts& p) {
  p("weight_ih", weight_ih)("weight_hh", weight_hh)("bias_ih", bias_ih)("bias_hh", bias_hh);
}

Tensor GRUCell::operator()(const Tensor& x, const std::optional<Tensor>& state) const {
  const Tensor hidden = state ? *state : zero_state(x, weight_hh);
  const std::vector<Tensor> in = x.linear(weight_ih.transpose(), or_null(bias_ih)).chunk(3, 1);
  const std::vector<Tensor> back = hidden.linear(weight_hh.transpose(), or_null(bias_hh)).chunk(3, 1);
  const Tensor reset = (in[0] + back[0]).sigmoid(), update = (in[1] + back[1]).sigmoid();
  const Tensor candidate = (in[2] + reset * back[2]).tanh();
  return candidate + update * (hidden - candidate);
}

LSTM::LSTM(std::int64_t input, std::int64_t hidden, std::int64_t layers, bool first, double p)
    : cells(make_cells<LSTMCell>("LSTM", input, hidden, layers)), batch_first(first), dropout(p) {}

std::pair<Tensor, std::vector<LSTMState>> LSTM::operator()(const Tensor& x,
                                                           const std::vector<LSTMState>& state) const {
  const ModeScope mode(*this);
  return run("LSTM", *this, x, state);
}

void LSTM::parts(Parts& p) { name_cells(p, cells); }

GRU::GRU(std::int64_t input, std::int64_t hidden, std::int64_t layers, bool first, double p)
    : cells(make_cells<GRUCell>("GRU", input, hidden, layers)), batch_first(first), dropout(p) {}

std::pair<Tensor, std::vector<Tensor>> GRU::operator()(const Tensor& x,
                                                       const std::vector<Tensor>& state) const {
  const ModeScope mode(*this);
  return run("GRU", *this, x, state);
}

void GRU::parts(Parts& p) { name_cells(p, cells); }

}  // namespace lathe::nn
