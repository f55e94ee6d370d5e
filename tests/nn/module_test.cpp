#include "lathe/nn/module.h"

#include "nn/support.h"

namespace lathe::nn {
namespace {

struct Pair : Module {
  Linear first{3, 4}, second{4, 2, false};
  std::vector<LayerNorm> norms{LayerNorm(4), LayerNorm(2)};
  void parts(Parts& p) override { p("first", first)("second", second)("norms", norms); }
};

TEST(Module, NamesAreJoinedByDotsInTheOrderOfTheParts) {
  Pair net;
  EXPECT_EQ(names_of(get_state_dict(net)),
            (std::vector<std::string>{"first.weight", "first.bias", "second.weight", "norms.0.weight",
                                      "norms.0.bias", "norms.1.weight", "norms.1.bias"}));
}

TEST(Module, AStateDictSharesMemoryWithItsModule) {
  Pair net;
  StateDict dict = get_state_dict(net);
  dict[1].second.assign(7.0);
  expect_near(net.first.bias, {7, 7, 7, 7});
}

TEST(Module, EqualInitialValuesDoNotShareMemory) {
  Tensor a = parameter(Tensor::ones({3})), b = parameter(Tensor::ones({3}));
  std::vector<Tensor> both = {a, b};
  Tensor::realize_all(both);
  a.assign(2.0).realize();
  expect_near(a, {2, 2, 2});
  expect_near(b, {1, 1, 1});
}

TEST(Module, LoadingCopiesEveryValueByName) {
  Pair from, to;
  load_state_dict(to, get_state_dict(from));
  for (const auto& [name, tensor] : get_state_dict(from))
    expect_near(*find(get_state_dict(to), name), tensor.tolist(), 0);
  from.first.bias.assign(9.0).realize();
  EXPECT_NE(to.first.bias.tolist()[0], 9.0) << "the copy must not share memory";
}

TEST(Module, LoadingRefusesMissingAndUnknownNames) {
  Pair net;
  StateDict dict = get_state_dict(net);
  dict[0].first = "elsewhere";
  EXPECT_EQ(refusal([&] { load_state_dict(net, dict); }),
            "lathe: load_state_dict: the names differ: 1 of the module's 7 have no value, 1 of the 7 given "
            "are unknown\n"
            "  note: without a value: first.weight\n"
            "  note: unknown: elsewhere\n"
            "  help: pass strict = false to load only the names both have");
  EXPECT_NO_THROW(load_state_dict(net, dict, false));
}

TEST(Module, LoadingRefusesAnotherShapeBeforeItChangesAnything) {
  Pair net;
  StateDict dict = {{"first.bias", Tensor::full({4}, 5.0)}, {"second.weight", Tensor::zeros({4, 2})}};
  EXPECT_EQ(refusal([&] { load_state_dict(net, dict, false); }),
            "lathe: load_state_dict: second.weight has shape (2, 4), the value given (4, 2)\n"
            "  help: the file belongs to a net of another size, or the tensor is stored transposed");
  EXPECT_NE(net.first.bias.tolist()[0], 5.0);
}

TEST(Module, ParametersRequireGradientsAndBuffersDoNot) {
  BatchNorm norm(3);
  EXPECT_TRUE(norm.weight.requires_grad());
  EXPECT_FALSE(norm.running_mean.requires_grad());
  EXPECT_EQ(get_parameters(norm).size(), 5U);
}

TEST(Module, AParameterUsedOnlyThroughABroadcastGetsItsGradient) {
  Tensor w = parameter(Tensor::ones({2, 3}));
  Tensor::ones({4, 2, 3}).add(w).sum().backward();
  ASSERT_TRUE(w.grad().has_value());
  expect_near(*w.grad(), Values(6, 4));
}

TEST(Module, UninitializedParametersKeepShapeAndDtype) {
  UninitializedScope uninitialized;
  Linear layer(3, 4);
  EXPECT_EQ(to_string(layer.weight.shape()), "(4, 3)");
  EXPECT_TRUE(layer.weight.requires_grad());
  EXPECT_TRUE(layer.weight.is_realized());
}

struct Trained : Module {
  Linear fc;
  BatchNorm norm;
  Dropout drop;
  Trained() : fc(3, 2), norm(2), drop(0.5) {}
  void parts(Parts& p) override { p("fc", fc)("norm", norm)("drop", drop); }
  Tensor operator()(const Tensor& x) { return drop(norm(fc(x))); }
};

TEST(Module, ItsParametersAreWhatIsTrainedAndItsStateIsAll) {
  Trained net;
  EXPECT_EQ(names_of(net.named_parameters()),
            (std::vector<std::string>{"fc.weight", "fc.bias", "norm.weight", "norm.bias"}));
  EXPECT_EQ(net.parameters().size(), 4U);
  EXPECT_EQ(net.state_dict().size(), 7U);
  Trained other;
  other.load_state_dict(net.state_dict());
  expect_near(other.fc.weight, net.fc.weight.tolist(), 0);
}

TEST(Module, ModeIsTheModulesOnceItWasTold) {
  Trained net;
  EXPECT_FALSE(net.training());
  {
    const TrainingScope training;
    EXPECT_TRUE(net.drop.training());
    net.eval();
    EXPECT_FALSE(net.drop.training()) << "told by the net";
    const Tensor x = Tensor::ones({4, 3});
    expect_near(net(x), net(x).tolist(), 0);
  }
  net.train();
  EXPECT_TRUE(net.training() && net.norm.training());
  const Tensor before = net.norm.running_mean.clone().realize();
  net(Tensor::randn({8, 3})).realize();
  net.norm.running_mean.realize();
  EXPECT_NE(net.norm.running_mean.tolist(), before.tolist()) << "statistics are kept in training";
}

TEST(Module, EveryModuleInsideIsVisitedTheNetLast) {
  Trained net;
  std::vector<std::string> names;
  for (const auto& [name, module] : net.named_modules()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"", "fc", "norm", "drop"}));
  std::vector<Module*> seen;
  net.apply([&](Module& m) { seen.push_back(&m); });
  EXPECT_EQ(seen, (std::vector<Module*>{&net.drop, &net.norm, &net.fc, &net}));
}

TEST(Module, FloatsAreCastInPlaceAndGradientsForgotten) {
  Trained net;
  const Tensor held = net.fc.weight;
  net.to(dtypes::float16);
  EXPECT_EQ(net.fc.weight.dtype(), dtypes::float16);
  EXPECT_EQ(held.dtype(), dtypes::float16) << "whoever holds the tensor sees it";
  EXPECT_EQ(net.parameters().size(), 4U) << "what was trained still is";
  net.to(dtypes::float32).to("CPU").train();
  net(Tensor::randn({4, 3})).sum().backward();
  EXPECT_TRUE(net.fc.weight.grad().has_value());
  net.zero_grad();
  EXPECT_FALSE(net.fc.weight.grad().has_value());
}

}  // namespace
}  // namespace lathe::nn
