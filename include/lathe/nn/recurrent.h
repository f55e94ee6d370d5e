// Recurrent layers, LSTM and GRU, as single steps and as whole layers. Weights are named and stacked as in
// PyTorch (gates i f g o; r z n), so that its model files can be loaded.
#pragma once

#include <optional>

#include "lathe/nn/module.h"

namespace lathe::nn {

struct LSTMState {
  Tensor hidden, cell;  // (batch, hidden)
};

struct LSTMCell : Module {
  LSTMCell(std::int64_t input, std::int64_t hidden, bool with_bias = true);
  // One step: x is (batch, input). Without a state it starts from zeros.
  LSTMState operator()(const Tensor& x, const std::optional<LSTMState>& state = std::nullopt) const;
  void parts(Parts& p) override;

  Tensor weight_ih, weight_hh;  // (4 * hidden, input), (4 * hidden, hidden)
  Tensor bias_ih, bias_hh;      // (4 * hidden), or not defined
};

struct GRUCell : Module {
  GRUCell(std::int64_t input, std::int64_t hidden, bool with_bias = true);
  // One step: x is (batch, input), the state (batch, hidden).
  Tensor operator()(const Tensor& x, const std::optional<Tensor>& state = std::nullopt) const;
  void parts(Parts& p) override;

  Tensor weight_ih, weight_hh;  // (3 * hidden, input), (3 * hidden, hidden)
  Tensor bias_ih, bias_hh;      // (3 * hidden), or not defined
};

// Runs whole sequences of (time, batch, input), or (batch, time, input) if batch_first. The graph grows with
// the length of the sequence: it has one step of every layer per time step.
struct LSTM : Module {
  LSTM(std::int64_t input, std::int64_t hidden, std::int64_t layers = 1, bool batch_first = false,
       double dropout = 0);
  // The last layer's hidden states over time, and every layer's final state.
  std::pair<Tensor, std::vector<LSTMState>> operator()(const Tensor& x,
                                                       const std::vector<LSTMState>& state = {}) const;
  void parts(Parts& p) override;

  std::vector<LSTMCell> cells;
  bool batch_first;
  double dropout;  // between layers
};

struct GRU : Module {
  GRU(std::int64_t input, std::int64_t hidden, std::int64_t layers = 1, bool batch_first = false,
      double dropout = 0);
  std::pair<Tensor, std::vector<Tensor>> operator()(const Tensor& x,
                                                    const std::vector<Tensor>& state = {}) const;
  void parts(Parts& p) override;

  std::vector<GRUCell> cells;
  bool batch_first;
  double dropout;
};

}  // namespace lathe::nn
