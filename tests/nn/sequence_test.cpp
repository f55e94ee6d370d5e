// Recurrent layers and attention against their formulas.
#include "nn/support.h"

namespace lathe::nn {
namespace {

constexpr std::size_t kInput = 3, kHidden = 2, kBatch = 2;

// One gate's sums for a sample: w_ih x + b_ih and w_hh h + b_hh, for row `row` of the stacked weights.
struct Cell {
  Values wi, wh, bi, bh;
  double in(std::size_t row, const double* x) const { return sum(wi, bi, row, x, kInput); }
  double back(std::size_t row, const double* h) const { return sum(wh, bh, row, h, kHidden); }

 private:
  static double sum(const Values& w, const Values& b, std::size_t row, const double* x, std::size_t n) {
    double s = b[row];
    for (std::size_t i = 0; i < n; ++i) s += w[row * n + i] * x[i];
    return s;
  }
};

template <class Layer>
Cell values_of(const Layer& l) {
  return {l.weight_ih.tolist(), l.weight_hh.tolist(), l.bias_ih.tolist(), l.bias_hh.tolist()};
}

// Advances h and c (batch, hidden) by one step.
void lstm_step(const Cell& cell, const Values& x, Values& h, Values& c) {
  Values next_h = h, next_c = c;
  for (std::size_t n = 0; n < kBatch; ++n)
    for (std::size_t j = 0; j < kHidden; ++j) {
      auto gate = [&](std::size_t g) {
        return cell.in(g * kHidden + j, &x[n * kInput]) + cell.back(g * kHidden + j, &h[n * kHidden]);
      };
      const std::size_t at = n * kHidden + j;
      next_c[at] = sigmoid(gate(1)) * c[at] + sigmoid(gate(0)) * std::tanh(gate(2));
      next_h[at] = sigmoid(gate(3)) * std::tanh(next_c[at]);
    }
  h = next_h;
  c = next_c;
}

TEST(Recurrent, LstmCellIsItsFormula) {
  LSTMCell layer(kInput, kHidden);
  const Values x = random_values(kBatch * kInput, 1);
  Values h = random_values(kBatch * kHidden, 2), c = random_values(kBatch * kHidden, 3);
  const LSTMState state = layer(tensor_of(x, {2, 3}), LSTMState{tensor_of(h, {2, 2}), tensor_of(c, {2, 2})});
  lstm_step(values_of(layer), x, h, c);
  expect_near(state.hidden, h);
  expect_near(state.cell, c);
}

TEST(Recurrent, LstmRunsItsCellOverTime) {
  LSTM layer(kInput, kHidden);
  constexpr std::size_t kTime = 4;
  const Values x = random_values(kTime * kBatch * kInput, 4);
  const auto [out, last] = layer(tensor_of(x, {4, 2, 3}));
  Values h(kBatch * kHidden), c(kBatch * kHidden), wanted;
  for (std::size_t t = 0; t < kTime; ++t) {
    const auto at = x.begin() + static_cast<std::ptrdiff_t>(t * kBatch * kInput);
    lstm_step(values_of(layer.cells[0]), Values(at, at + kBatch * kInput), h, c);
    wanted.insert(wanted.end(), h.begin(), h.end());
  }
  expect_near(out, wanted);
  expect_near(last[0].cell, c);
}

TEST(Recurrent, LayersOfTheSameWeightsAgreeOnBatchFirst) {
  LSTM layer(kInput, kHidden, 2);
  LSTM turned = layer;
  turned.batch_first = true;
  const Tensor x = tensor_of(random_values(4 * 2 * 3, 5), {4, 2, 3});
  expect_near(turned(x.transpose(0, 1)).first.transpose(0, 1), layer(x).first.tolist(), 1e-6);
  EXPECT_EQ(names_of(get_state_dict(layer)).back(), "bias_hh_l1");
}

TEST(Recurrent, GruCellIsItsFormula) {
  GRUCell layer(kInput, kHidden);
  const Values x = random_values(kBatch * kInput, 6), h = random_values(kBatch * kHidden, 7);
  const Cell cell = values_of(layer);
  Values wanted;
  for (std::size_t n = 0; n < kBatch; ++n)
    for (std::size_t j = 0; j < kHidden; ++j) {
      auto in = [&](std::size_t g) { return cell.in(g * kHidden + j, &x[n * kInput]); };
      auto back = [&](std::size_t g) { return cell.back(g * kHidden + j, &h[n * kHidden]); };
      const double r = sigmoid(in(0) + back(0)), z = sigmoid(in(1) + back(1)),
                   g = std::tanh(in(2) + r * back(2));
      wanted.push_back((1 - z) * g + z * h[n * kHidden + j]);
    }
  expect_near(layer(tensor_of(x, {2, 3}), tensor_of(h, {2, 2})), wanted);
}

TEST(Recurrent, RefusesInputsOfTwoAxesAndTheWrongNumberOfStates) {
  GRU layer(3, 2, 2);
  EXPECT_EQ(
      refusal([&] { layer(Tensor::zeros({4, 3})); }),
      "lathe: GRU: the input has shape (4, 3), three axes are needed\n  help: give (time, batch, input)");
  EXPECT_EQ(refusal([&] { layer(Tensor::zeros({4, 1, 3}), {Tensor::zeros({1, 2})}); }),
            "lathe: GRU: 1 states for 2 layers");
}

TEST(Attention, HeadsAreSplitAndJoinedAgain) {
  const Tensor x = tensor_of(random_values(2 * 3 * 4, 8), {2, 3, 4});
  EXPECT_EQ(to_string(split_heads(x, 2).shape()), "(2, 2, 3, 2)");
  expect_near(join_heads(split_heads(x, 2)), x.tolist(), 0);
}

TEST(Attention, IsASoftmaxOverWhatEachPositionMaySee) {
  constexpr std::size_t kTime = 3, kDim = 4, kHeads = 2, kWide = kDim / kHeads;
  MultiHeadAttention layer(kDim, kHeads);
  const Tensor x = tensor_of(random_values(kTime * kDim, 9), {1, 3, 4});
  const Values q = layer.query(x).tolist(), k = layer.key(x).tolist(), v = layer.value(x).tolist();
  for (bool causal : {false, true}) {
    Values mixed(kTime * kDim);
    for (std::size_t head = 0; head < kHeads; ++head)
      for (std::size_t t = 0; t < kTime; ++t) {
        Values weight;
        double total = 0;
        for (std::size_t s = 0; s < kTime; ++s) {
          double score = 0;
          for (std::size_t d = 0; d < kWide; ++d)
            score += q[t * kDim + head * kWide + d] * k[s * kDim + head * kWide + d];
          weight.push_back(causal && s > t ? 0 : std::exp(score / std::sqrt(double{kWide})));
          total += weight.back();
        }
        for (std::size_t s = 0; s < kTime; ++s)
          for (std::size_t d = 0; d < kWide; ++d)
            mixed[t * kDim + head * kWide + d] += weight[s] / total * v[s * kDim + head * kWide + d];
      }
    expect_near(layer(x, causal), layer.out(tensor_of(mixed, {1, 3, 4})).tolist());
  }
}

TEST(Attention, ATransformerBlockKeepsTheShapeAndTrainsEveryParameter) {
  for (bool norm_first : {true, false}) {
    TransformerBlock block(4, 2, 8, {.norm_first = norm_first, .causal = true});
    const Tensor y = block(tensor_of(random_values(24, 10), {2, 3, 4}));
    EXPECT_EQ(to_string(y.shape()), "(2, 3, 4)");
    y.square().sum().backward();
    for (const auto& [name, tensor] : get_state_dict(block)) EXPECT_TRUE(tensor.grad().has_value()) << name;
  }
}

}  // namespace
}  // namespace lathe::nn
