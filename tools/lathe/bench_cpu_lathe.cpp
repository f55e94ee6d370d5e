// Lathe as a contender of `lathe bench cpu`: each kind of row in ordinary tensor calls, captured once and
// replayed.
#include <fmt/format.h>

#include <optional>

#include "lathe/context.h"
#include "lathe/dev/machine.h"
#include "lathe/jit.h"
#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

using Tensors = std::vector<Tensor>;
using Formula = Tensor (*)(const CpuRow& row, const Tensors& in);

Tensor gemm(const CpuRow& row, const Tensors& in) {
  const bool one = row.sizes[0] == 1;
  auto side = [&](std::size_t i) {
    Tensor t = in[i];
    if (row.variant[i] == 't') t = t.transpose(1, 2);
    return one ? t.squeeze(0) : t;
  };
  if (row.dtype == "e4m3") return side(0).matmul(side(1), dtypes::float32).cast(dtypes::bfloat16);
  return side(0).matmul(side(1), row.dtype == "s8" ? std::optional(dtypes::int32) : std::nullopt);
}

Tensor conv(const CpuRow& row, const Tensors& in) {
  ConvOptions options;
  options.stride = row.sizes[6];
  options.padding = row.sizes[7];
  return in[0].conv2d(in[1], nullptr, options);
}

// Of the input (0) or of the weights (1), by the rules of autograd.
Tensor conv_gradient(const CpuRow& row, const Tensors& in, std::size_t which) {
  return (conv(row, in) * in[2]).sum().gradient({in[which]})[0];
}

Tensor chain(const CpuRow&, const Tensors& in) {
  return ((in[0] * 1.5f + 0.5f) * in[0] - 0.25f).maximum(0.0f);
}

// Weights of 4 bits: the low halves of a block's 16 bytes come first, then the high ones. For floats, bytes
// are widened once and then taken apart.
Tensor matvec(const CpuRow& row, const Tensors& in) {
  if (row.dtype != "q4") return in[0].cast(dtypes::float32).matmul(in[1]);
  const Tensor wide = in[0].cast(dtypes::int32), low = ((wide & 15) - 8).cast(dtypes::float32),
               high = ((wide >> 4) - 8).cast(dtypes::float32);
  const Tensor x = in[2].reshape({1, row.sizes[1] / 32, 2, 16});
  const Tensor products = low * x.getitem({Slice{}, Slice{}, 0}) + high * x.getitem({Slice{}, Slice{}, 1});
  return (products * in[1].cast(dtypes::float32)).sum({1, 2});
}

// Activations of 8 bits with a scale for each block: products and their sums within a block are integers.
Tensor matvec_q4q8(const CpuRow& row, const Tensors& in) {
  const Tensor shifts = (Tensor::arange(2) * 4).cast(dtypes::uint8).reshape({2, 1});
  const Tensor weights = ((in[0].unsqueeze(2) >> shifts) & 15).cast(dtypes::int8) - 8;
  const Tensor x = in[2].reshape({1, row.sizes[1] / 32, 2, 16});
  const Tensor sums = (weights.cast(dtypes::int32) * x.cast(dtypes::int32)).sum({2, 3});
  const Tensor scale = in[1].squeeze(2).cast(dtypes::float32) * in[3].unsqueeze(0);
  return (sums.cast(dtypes::float32) * scale).sum(1);
}

Tensor attention(const CpuRow& row, const Tensors& in) {
  AttentionOptions options;
  options.causal = row.variant != "full";
  return in[0].unsqueeze(0).scaled_dot_product_attention(in[1].unsqueeze(0), in[2].unsqueeze(0), options);
}

// A kernel for each step: what is turned round cannot be part of the kernel that reads it.
Tensor tiny(const CpuRow& row, const Tensors& in) {
  Tensor x = in[0];
  for (std::int64_t i = 0; i < row.sizes[2]; ++i) x = (x.flip({1}) + 1.0f).contiguous();
  return x;
}

// Of the result and the gradient that comes in, as sums of float32.
Tensor softmax_backward(const CpuRow&, const Tensors& in) {
  const Tensor y = in[0].cast(dtypes::float32), g = in[1].cast(dtypes::float32);
  return (y * (g - (y * g).sum(-1, true))).cast(in[0].dtype());
}

Tensor layernorm_backward(const CpuRow&, const Tensors& in) {
  const Tensor x = in[0].cast(dtypes::float32), g = in[1].cast(dtypes::float32);
  const Tensor off = x - x.mean(-1, true);
  const Tensor scale = (off.square().mean(-1, true) + 1e-5f).rsqrt();
  const Tensor normal = off * scale;
  return (scale * (g - g.mean(-1, true) - normal * (g * normal).mean(-1, true))).cast(in[0].dtype());
}

struct Kind {
  const char* name;
  Formula formula;
};
// clang-format off
constexpr Kind kKinds[] = {
    {"gemm", gemm},
    {"tiny", tiny},
    {"conv", conv},
    {"conv_input_gradient", [](const CpuRow& row, const Tensors& in) { return conv_gradient(row, in, 0); }},
    {"conv_weight_gradient", [](const CpuRow& row, const Tensors& in) { return conv_gradient(row, in, 1); }},
    {"chain", chain},
    {"sum_all", [](const CpuRow&, const Tensors& in) { return in[0].sum(); }},
    {"sum_rows", [](const CpuRow&, const Tensors& in) { return in[0].sum(1); }},
    {"sum_columns", [](const CpuRow&, const Tensors& in) { return in[0].sum(0); }},
    {"layernorm", [](const CpuRow&, const Tensors& in) { return in[0].layernorm(); }},
    {"softmax", [](const CpuRow&, const Tensors& in) { return in[0].softmax(); }},
    {"softmax_backward", softmax_backward},
    {"layernorm_backward", layernorm_backward},
    {"matvec", matvec},
    {"matvec_q4q8", matvec_q4q8},
    {"attention", attention},
};
// clang-format on

DataType dtype_named(const std::string& name) {
  return name == "s8"     ? dtypes::int8
         : name == "u8"   ? dtypes::uint8
         : name == "e4m3" ? dtypes::fp8e4m3
         : name == "tf32" ? dtypes::float32
                          : dtypes::parse(name);
}

class LatheContender : public Contender {
 public:
  std::string version() const override { return dev::versions().front().second; }

  std::string prepare(const CpuRow& row, const std::string& folder) override {
    captured_.reset();
    tf32_.emplace("TF32", row.dtype == "tf32" ? "1" : "0");
    net_ = {};
    copies_.clear();
    turn_ = 0;
    if (row.net) {
      net_ = make_net(row, folder);
      return "";
    }
    const std::vector<RowInput> inputs = inputs_of(row);
    const Kind* kind =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& k) { return row.kind == k.name; });
    if (kind == std::end(kKinds)) return "no such kind of row: " + row.kind;
    read_inputs(inputs, folder);
    captured_.emplace(jit([row, formula = kind->formula](const Tensors& in) -> Tensors {
      Tensor out = formula(row, in);
      return {out.realize()};
    }));
    for (int i = 0; i < 3; ++i) run();  // traced, compared, replayed
    return "";
  }

  void run() override {
    start();
    wait();
  }
  void start() override {
    if (net_.start) return net_.start();
    out_.clear();  // as peers do, which write the same result again
    out_ = (*captured_)(copies_[turn_++ % copies_.size()]);
  }
  void wait() override { synchronize(); }

  std::vector<double> result(const std::vector<std::int64_t>& places) override {
    if (net_.start) return net_.values;
    turn_ = 0;
    run();
    const std::vector<double> all = out_[0].data<double>();
    std::vector<double> values;
    for (const std::int64_t place : places) values.push_back(all.at(static_cast<std::size_t>(place)));
    return values;
  }

 private:
  void read_inputs(const std::vector<RowInput>& inputs, const std::string& folder) {
    copies_.resize(static_cast<std::size_t>(inputs[0].copies));
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const MappedFile file(fmt::format("{}/in{}", folder, i));
      const auto bytes = static_cast<std::size_t>(inputs[i].bytes());
      Shape shape;
      for (const std::int64_t size : inputs[i].shape) shape.push_back(size);
      Tensor made;
      for (std::size_t copy = 0; copy < copies_.size(); ++copy) {
        if (copy < static_cast<std::size_t>(inputs[i].copies))
          made = Tensor::from_bytes(file.data() + copy * bytes, bytes, shape, dtype_named(inputs[i].dtype));
        copies_[copy].push_back(made);
      }
    }
  }

  std::optional<FlagOverride> tf32_;
  std::optional<Jit> captured_;
  Net net_;
  std::vector<Tensors> copies_;
  Tensors out_;
  std::size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<Contender> make_lathe_contender() { return std::make_unique<LatheContender>(); }

}  // namespace lathe::tool
