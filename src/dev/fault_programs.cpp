#include "dev/fault_programs.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "ir/build.h"
#include "ir/text.h"
#include "lathe/context.h"
#include "lathe/jit.h"
#include "lathe/tensor.h"
#include "runtime/executor.h"
#include "runtime/race_check.h"

namespace lathe::dev {
namespace {

Tensor numbers(const Shape& shape, std::uint64_t seed) {
  Tensor::manual_seed(seed);
  return Tensor::randn(shape).contiguous().realize();
}
Tensor integers(const Shape& shape, std::int64_t low, std::int64_t high, DataType dtype = dtypes::int32) {
  return Tensor::randint(shape, low, high).cast(dtype).contiguous().realize();
}

const std::function<Tensor()> kPrograms[] = {
    [] { return numbers({1000}, 1) * numbers({1000}, 2) + numbers({1000}, 3); },
    [] { return numbers({777}, 1) - numbers({777}, 2); },
    [] { return numbers({300}, 1) * numbers({300}, 2) + numbers({300}, 3) * numbers({300}, 4); },
    [] { return numbers({33, 29}, 1).matmul(numbers({29, 47}, 2)); },
    [] { return numbers({64, 64}, 1).matmul(numbers({64, 64}, 2)); },
    [] { return numbers({40, 130}, 1).matmul(numbers({130, 72}, 2)) + numbers({72}, 3); },
    [] {
      return numbers({128, 64}, 1).cast(dtypes::float16).matmul(numbers({64, 128}, 2).cast(dtypes::float16));
    },
    [] {
      return numbers({32, 64}, 1).cast(dtypes::bfloat16).matmul(numbers({64, 48}, 2).cast(dtypes::bfloat16));
    },
    [] {
      return integers({24, 60}, -9, 9, dtypes::int8)
          .cast(dtypes::int32)
          .matmul(integers({60, 40}, -9, 9, dtypes::int8).cast(dtypes::int32));
    },
    [] { return numbers({40, 53}, 1).sum({1}); },
    [] { return numbers({40, 53}, 1).sum({0}); },
    [] { return numbers({999}, 1).sum(); },
    [] { return numbers({37, 41}, 1).max({1}); },
    [] { return (numbers({37, 41}, 1) - 9).max({1}); },
    [] { return numbers({37, 41}, 1).min({0}); },
    [] { return numbers({20, 30}, 1).softmax(); },
    [] { return numbers({20, 300}, 1).logsumexp({1}); },
    [] { return numbers({24, 36}, 1).layernorm(); },
    [] { return numbers({20, 50}, 1).var({1}); },
    [] { return numbers({30, 50}, 1).T() + numbers({50, 30}, 2); },
    [] { return numbers({30, 50}, 1).flip({1}) * 2; },
    [] { return numbers({30, 50}, 1).pad({{1, 2}, {3, 4}}) + 1; },
    [] { return Tensor::cat({numbers({7, 9}, 1), numbers({5, 9}, 2)}, 0) * 3; },
    [] { return numbers({64, 20}, 1).getitem({Slice{{}, {}, 2}}) + 1; },
    [] { return numbers({12, 35}, 1).reshape({35, 12}).T().contiguous() * 2; },
    [] { return numbers({6, 4, 5}, 1).permute({2, 0, 1}).reshape({5, 24}) + 1; },
    [] { return numbers({30, 7}, 1).roll({2, 3}, {0, 1}) + 1; },
    [] { return numbers({1, 3, 12, 12}, 1).conv2d(numbers({4, 3, 3, 3}, 2)); },
    [] {
      ConvOptions options;
      options.padding = {1, 1};
      return numbers({2, 4, 9, 9}, 1).conv2d(numbers({5, 4, 3, 3}, 2), nullptr, options);
    },
    [] {
      ConvOptions options;
      options.padding = {1, 1};
      return numbers({1, 16, 12, 12}, 1).conv2d(numbers({8, 16, 3, 3}, 2), nullptr, options);
    },
    [] { return numbers({1, 2, 12, 12}, 1).max_pool2d(); },
    [] { return numbers({50, 8}, 1).embedding(integers({13}, 0, 50)); },
    [] { return numbers({20, 8}, 1).gather(1, integers({20, 3}, 0, 8)); },
    [] { return integers({40}, 0, 10).one_hot(10); },
    [] { return numbers({20, 30}, 1).argmax(1); },
    [] { return numbers({20, 30}, 1).cumsum(1); },
    [] { return numbers({10, 10}, 1).triu() + 1; },
    [] { return numbers({500}, 1).exp2(); },
    [] { return (numbers({500}, 1).abs() + 0.1).log2(); },
    [] { return numbers({500}, 1).sin(); },
    [] { return (numbers({500}, 1).abs() + 0.1).sqrt(); },
    [] { return (numbers({500}, 1) * 5).floor() + numbers({500}, 2); },
    [] { return numbers({500}, 1).clamp(-0.5, 0.7); },
    [] { return numbers({500}, 1).maximum(numbers({500}, 2)); },
    [] { return numbers({500}, 1).gelu(); },
    [] { return (numbers({500}, 1) < numbers({500}, 2)).where(numbers({500}, 3), numbers({500}, 4)); },
    [] { return (numbers({500}, 1) < numbers({500}, 2)).cast(dtypes::float32) * 2; },
    [] { return integers({500}, -50, 50).div(integers({500}, 1, 9), "floor"); },
    [] { return integers({500}, -50, 50) % 7; },
    [] {
      return (integers({500}, 0, 90, dtypes::uint32) * 100000007) <
             integers({500}, 0, 90, dtypes::uint32) * 77777777;
    },
    [] { return integers({500}, 1, 90) << integers({500}, 0, 40); },
    [] { return integers({500}, -90, 90) ^ integers({500}, 0, 40); },
    [] { return numbers({500}, 1).cast(dtypes::float16) + numbers({500}, 2).cast(dtypes::float16); },
    [] { return numbers({500}, 1).cast(dtypes::bfloat16) * 3; },
    [] { return (numbers({500}, 1) * 50).cast(dtypes::int8); },
    [] { return integers({40, 30}, -5, 5).sum({1}); },
    [] { return Tensor::rand({333}) + 1; },
    [] {
      return numbers({2, 2, 16, 8}, 1)
          .scaled_dot_product_attention(numbers({2, 2, 16, 8}, 2), numbers({2, 2, 16, 8}, 3));
    },
};

// Each step reads the one before across its rows, so that none may write over what it reads.
bool plan_is_right() {
  constexpr std::int64_t n = 96, kSteps = 6;
  Tensor x = Tensor::arange(n * n).cast(dtypes::float32).reshape({n, n});
  std::vector<float> want(n * n);
  for (std::int64_t i = 0; i < n * n; ++i) want[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (std::int64_t step = 0; step < kSteps; ++step) {
    x = (x.T() + x.flip({0}) * 0.5).contiguous();
    std::vector<float> next(want.size());
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        next[static_cast<std::size_t>(i * n + j)] =
            want[static_cast<std::size_t>(j * n + i)] +
            want[static_cast<std::size_t>((n - 1 - i) * n + j)] * 0.5F;
    want = std::move(next);
  }
  return (x + 0).data<float>() == want;
}

// What one device computes is copied to the next.
bool waits_are_right() {
  constexpr std::int64_t n = 256;
  Tensor x = Tensor::ones({n, n}).contiguous().realize();
  double want = 1;
  for (const char* device : {"CPU:1", "CPU:2", "CPU:3", "CPU:0"}) {
    x = (x.to(device).matmul(Tensor::ones({n, n}).to(device)) * (1.0 / n) + 1).contiguous();
    want += 1;
  }
  const std::vector<float> got = x.data<float>();
  return std::ranges::all_of(got, [&](float value) { return value == static_cast<float>(want); });
}

// Four devices pass a value on and on. Work that begins late (LATHE_DELAY) shows a wait that is over too
// early.
bool devices_agree() {
  constexpr std::int64_t n = 64;
  Tensor x = Tensor::ones({n, n}).contiguous().realize();
  double want = 1;
  for (int round = 0; round < 3; ++round)
    for (const char* device : {"CPU:1", "CPU:2", "CPU:3", "CPU:0"}) {
      x = (x.to(device) * 2 + 1).contiguous().realize();
      want = 2 * want + 1;
    }
  const std::vector<float> got = x.data<float>();
  return std::ranges::all_of(got, [&](float value) { return value == static_cast<float>(want); });
}

// Another argument at every call.
bool replays_are_right() {
  Jit step = jit([](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    return {(in[0] * 3 + in[1]).contiguous().realize()};
  });
  for (int call = 1; call <= 5; ++call) {
    const auto number = static_cast<double>(call);
    const Tensor x = Tensor::full({33}, number).contiguous().realize(),
                 y = Tensor::full({33}, 10 * number).contiguous().realize();
    const std::vector<float> got = step({x, y})[0].data<float>();
    if (!std::ranges::all_of(got, [&](float value) { return value == static_cast<float>(13 * number); }))
      return false;
  }
  return true;
}

// Where the CPU runs work on the thread that gives it, a missing wait changes no value: one of the programs
// fails because of what the executor's log shows, too.
enum class Log : std::uint8_t { Shown, Counts };

struct CheckedProgram {
  const char* name;
  bool (*run)();
  Log log;
};
constexpr CheckedProgram kChecked[] = {{"plan", plan_is_right, Log::Shown},
                                       {"devices", devices_agree, Log::Shown},
                                       {"wait", waits_are_right, Log::Counts},
                                       {"replay", replays_are_right, Log::Shown}};

}  // namespace

std::vector<std::string> checked_programs() {
  std::vector<std::string> out;
  for (const CheckedProgram& program : kChecked) out.emplace_back(program.name);
  return out;
}

CheckedRun run_checked_program(const std::string& name) {
  for (const CheckedProgram& program : kChecked) {
    if (name != program.name) continue;
    executor().set_log(true);
    CheckedRun run{program.run(), ""};
    executor().set_log(false);
    const std::vector<WorkRecord> log = executor().take_log();
    if (const std::vector<Race> races = find_races(log); !races.empty()) run.race = to_string(races[0], log);
    if (program.log == Log::Counts) run.right &= run.race.empty();
    return run;
  }
  throw UserError("faults", "no program is named '" + name + "'");
}

void run_fault_programs() {
  for (const std::function<Tensor()>& program : kPrograms) program().realize();
}

std::vector<std::string> fault_kernels() {
  const Scope scope;
  std::vector<std::string> out;
  const Node r = range(index_const(40), 0, RangeKind::Global);
  const auto c = [](std::int64_t v) { return index_const(v); };
  const auto add = [&](DType dtype, Node value) {
    const Node effect = end(store(param(dtype, 0, 40), r, value), {&r, 1});
    out.push_back(print_graph(sink({&effect, 1})));
  };
  const auto read = [&](Node index) { add(dtypes::Float32, load(param(dtypes::Float32, 1, 2048), index)); };
  const auto number = [&](std::int64_t slot) { return load(param(dtypes::Int32, slot, 40), r); };
  read(floor_mod(r * c(3000000019), c(61)));
  read(floor_mod(floor_div(r + c(-17), c(3)) + c(8), c(31)));
  read(floor_mod(r + c(-17), c(7)));
  // Divisors that are no constants, so that no rule makes anything smaller of it.
  read(floor_div(r * c(3000000019), r + c(100000007)));
  read(floor_div(r + c(-17), r + c(3)) + c(10));
  add(dtypes::Int32, apply(Op::Shl, number(1), number(2)));
  add(dtypes::Int32, apply(Op::TruncDiv, number(1), number(2)));
  return out;
}

std::string nested_group_kernel() {
  constexpr std::int64_t kRows = 16, kColumns = 250;
  const Scope scope;
  const Node i = range(index_const(kRows), 0, RangeKind::Global),
             j = range(index_const(kColumns), 1, RangeKind::Reduce),
             k = range(index_const(kColumns), 2, RangeKind::Reduce);
  const auto number = [](std::int64_t v) { return int_const(dtypes::Int32, v); };
  const Node count =
      reduce_ranges(Op::Add, where(less(k, j + index_const(1)), number(1), number(0)), {&k, 1});
  const Node hit = equal(load(param(dtypes::Int32, 2, kRows), i), count + number(-1));
  const Node element = where(hit, load(param(dtypes::UInt8, 1, kColumns), j), int_const(dtypes::UInt8, 0));
  const Node effect =
      end(store(param(dtypes::UInt8, 0, kRows), i, reduce_ranges(Op::Add, element, {&j, 1})), {&i, 1});
  return print_graph(sink({&effect, 1}));
}

std::string staged_product_kernel() {
  constexpr std::int64_t kRows = 64, kSteps = 128;
  const Scope scope;
  const Node i = range(index_const(kRows), 0, RangeKind::Global),
             j = range(index_const(kRows), 1, RangeKind::Global),
             k = range(index_const(kSteps), 2, RangeKind::Reduce);
  const Node x = load(param(dtypes::BFloat16, 1, kRows * kSteps), i * index_const(kSteps) + k),
             y = load(param(dtypes::BFloat16, 2, kRows * kSteps), k * index_const(kRows) + j);
  const Node sum = reduce_ranges(Op::Add, cast(x, dtypes::Float32) * cast(y, dtypes::Float32), {&k, 1});
  const Node ranges[] = {i, j};
  const Node effect =
      end(store(param(dtypes::Float32, 0, kRows * kRows), i * index_const(kRows) + j, sum), ranges);
  return print_graph(sink({&effect, 1}));
}

}  // namespace lathe::dev
