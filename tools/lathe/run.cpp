// `lathe run`: an ONNX model with inputs from files: what it holds first, then its results or its time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "lathe/context.h"
#include "lathe/dev/terminal.h"
#include "lathe/error.h"
#include "lathe/onnx.h"
#include "tools/lathe/commands.h"

namespace lathe::tool {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string file, device, output;
  std::vector<std::string> inputs, dims;
  bool bench = false, random = false, json = false;
  int seconds = 3;
};

// "name=text", split at the last '=' that leaves a name: names of tensors may hold one.
std::pair<std::string, std::string> split_pair(const std::string& given, const char* flag, const char* form) {
  const std::size_t at = given.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == given.size())
    throw UserError("run", fmt::format("{} {} is not {}", flag, given, form))
        .help(fmt::format("write {} {}", flag, form));
  return {given.substr(0, at), given.substr(at + 1)};
}

onnx::Value load_input(const std::string& file) {
  if (file.ends_with(".pb")) return onnx::load_value(std::filesystem::path(file));
  return state::load_npy(std::filesystem::path(file));
}

const onnx::Port& port_named(const onnx::Summary& summary, const std::string& name) {
  std::vector<std::string> names;
  for (const onnx::Port& port : summary.inputs) {
    if (port.name == name) return port;
    names.push_back(port.name);
  }
  UserError error("run", fmt::format("the model has no input '{}'", name));
  if (const auto meant = dev::nearest_word(name, names)) error.help(fmt::format("did you mean {}?", *meant));
  throw error.help(fmt::format("its inputs are {}", fmt::join(names, ", ")));
}

// A tensor of the port's dtype and shape; dimensions without a number take it from --dim, or are 1.
Tensor random_input(const onnx::Port& port, const std::map<std::string, std::int64_t>& dims) {
  Shape shape;
  for (const std::string& dim : port.dims) {
    const auto given = dims.find(dim);
    const bool number = dim.find_first_not_of("0123456789") == std::string::npos;
    shape.emplace_back(given != dims.end() ? given->second : number ? std::stoll(dim) : 1);
  }
  const DataType dtype = dtypes::parse(port.type);
  if (dtype.is_float()) return Tensor::randn(shape, {.dtype = dtypes::float32}).cast(dtype).realize();
  return Tensor::randint(shape, 0, dtype.is_bool() ? 2 : 100).cast(dtype).realize();
}

onnx::Values inputs_of(const Options& options, const onnx::Summary& summary) {
  std::map<std::string, std::int64_t> dims;
  for (const std::string& given : options.dims) {
    const auto [name, text] = split_pair(given, "--dim", "name=size");
    if (text.size() > 12 || text.find_first_not_of("0123456789") != std::string::npos)
      throw UserError("run", fmt::format("--dim {}: {} is not a size", given, text));
    dims[name] = std::stoll(text);
  }
  onnx::Values inputs;
  for (const std::string& given : options.inputs) {
    const auto [name, file] = split_pair(given, "--input", "name=file.npy");
    port_named(summary, name);
    inputs[name] = load_input(file);
  }
  for (const onnx::Port& port : summary.inputs) {
    if (inputs.contains(port.name) || port.type.rfind("optional", 0) == 0) continue;
    if (!options.bench && !options.random)
      throw UserError("run", fmt::format("input '{}' is missing: the model takes {}", port.name, port.str()))
          .help(fmt::format("--input {}=file.npy, or --random", port.name));
    inputs[port.name] = random_input(port, dims);
  }
  return inputs;
}

std::string opsets_text(const onnx::Summary& s) {
  std::vector<std::string> parts;
  for (const auto& [domain, version] : s.opsets)
    parts.push_back(fmt::format("{} {}", domain.empty() ? "ai.onnx" : domain, version));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::vector<std::pair<std::string, std::int64_t>> ops_by_count(const onnx::Summary& s) {
  std::vector<std::pair<std::string, std::int64_t>> ops(s.ops.begin(), s.ops.end());
  std::stable_sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return ops;
}

struct Plan {
  std::size_t kernels = 0, copies = 0;
  double flops = 0, bytes = 0;
};

Plan plan_of(const std::vector<ScheduledKernel>& kernels) {
  Plan plan;
  for (const ScheduledKernel& k : kernels) {
    ++(k.is_copy() ? plan.copies : plan.kernels);
    plan.flops += k.flops;
    plan.bytes += k.bytes;
  }
  return plan;
}

void print_summary(const Options& options, const onnx::Summary& s) {
  fmt::print("{}: {}, {}, {} nodes, {} parameters ({})\n", options.file,
             s.producer.empty() ? "unknown producer" : s.producer, opsets_text(s), s.nodes, s.parameters,
             dev::human_bytes(static_cast<std::uint64_t>(s.parameter_bytes)));
  for (const onnx::Port& port : s.inputs) fmt::print("input    {}\n", port.str());
  for (const onnx::Port& port : s.outputs) fmt::print("output   {}\n", port.str());
  std::vector<std::string> ops;
  for (const auto& [name, count] : ops_by_count(s)) ops.push_back(fmt::format("{} {}", count, name));
  fmt::print("ops      {}\n", fmt::join(ops, ", "));
}

void print_plan(const Plan& plan, std::size_t held, std::size_t peak) {
  fmt::print("kernels  {} ({:.4g} operations, {} moved)\n", plan.kernels, plan.flops,
             dev::human_bytes(static_cast<std::uint64_t>(plan.bytes)));
  fmt::print("memory   {} held, {} at the peak of a call\n", dev::human_bytes(held), dev::human_bytes(peak));
}

std::string numbers_text(const Tensor& t) {
  constexpr std::size_t kShown = 6;
  const std::vector<double> values = t.tolist();
  if (values.empty()) return "empty";
  std::vector<std::string> first;
  for (std::size_t i = 0; i < std::min(values.size(), kShown); ++i)
    first.push_back(fmt::format("{:.5g}", values[i]));
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const auto best = std::max_element(values.begin(), values.end()) - values.begin();
  return fmt::format("{}{}; least {:.5g}, greatest {:.5g} at {}", fmt::join(first, " "),
                     values.size() > kShown ? " ..." : "", *low, *high, best);
}

std::string value_text(const onnx::Value& value) {
  switch (value.kind()) {
    case onnx::Value::Kind::None: return "nothing";
    case onnx::Value::Kind::Strings: return fmt::format("{}", fmt::join(value.strings().values, " "));
    case onnx::Value::Kind::Sequence: return fmt::format("a sequence of {}", value.items().size());
    case onnx::Value::Kind::Tensor:
      return fmt::format("{} {}: {}", value.tensor().dtype().name(), to_string(value.tensor().shape()),
                         numbers_text(value.tensor()));
  }
  return "";
}

Json json_of(const onnx::Value& value) {
  if (value.kind() == onnx::Value::Kind::Strings) return value.strings().values;
  if (value.kind() == onnx::Value::Kind::None) return nullptr;
  if (value.kind() == onnx::Value::Kind::Sequence) {
    Json items = Json::array();
    for (const onnx::Value& v : value.items()) items.push_back(json_of(v));
    return items;
  }
  const Tensor& t = value.tensor();
  Json shape = Json::array();
  for (const Size& s : t.shape()) shape.push_back(s.value());
  Json values = Json::array();
  for (double v : t.tolist()) std::isfinite(v) ? values.push_back(v) : values.push_back(fmt::format("{}", v));
  return {{"dtype", t.dtype().name()}, {"shape", shape}, {"data", values}};
}

// A file's name for an output: its own, without what leads to other folders.
std::string file_name(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '_';
  return name + ".npy";
}

void save_outputs(const std::string& folder, const onnx::Values& outputs) {
  std::filesystem::create_directories(folder);
  for (const auto& [name, value] : outputs)
    if (value.kind() == onnx::Value::Kind::Tensor)
      state::save_npy(value.tensor(), std::filesystem::path(folder) / file_name(name));
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct Times {
  double first = 0, median = 0, best = 0;
  std::size_t calls = 0;
  bool replayed = false;
};

// The first call compiles; the next ones capture; the rest are measured until the time is over.
Times measured(onnx::Runner& runner, const onnx::Values& inputs, int seconds) {
  const auto call = [&] {
    for (const auto& [name, value] : runner(inputs))
      if (value.kind() == onnx::Value::Kind::Tensor) value.tensor().host_data();
  };
  Times times;
  times.first = seconds_of(call);
  for (int i = 0; i < 4; ++i) call();
  std::vector<double> all;
  double spent = 0;
  while (all.size() < 3 || (spent < seconds && all.size() < 100000)) {
    all.push_back(seconds_of(call));
    spent += all.back();
  }
  std::sort(all.begin(), all.end());
  times.median = all[all.size() / 2];
  times.best = all.front();
  times.calls = all.size();
  times.replayed = runner.replayed();
  return times;
}

Json json_of(const onnx::Summary& s) {
  Json ports = Json::object();
  for (const auto* list : {&s.inputs, &s.outputs}) {
    Json all = Json::array();
    for (const onnx::Port& port : *list)
      all.push_back({{"name", port.name}, {"type", port.type}, {"dims", port.dims}});
    ports[list == &s.inputs ? "inputs" : "outputs"] = all;
  }
  Json ops = Json::object();
  for (const auto& [name, count] : ops_by_count(s)) ops[name] = count;
  return {{"producer", s.producer},
          {"opsets", s.opsets},
          {"nodes", s.nodes},
          {"parameters", s.parameters},
          {"parameter_bytes", s.parameter_bytes},
          {"inputs", ports["inputs"]},
          {"outputs", ports["outputs"]},
          {"ops", ops}};
}

int run(const Options& options) {
  onnx::Runner runner(std::filesystem::path(options.file), {.device = options.device});
  if (!options.json) print_summary(options, runner.summary());
  const onnx::Values inputs = inputs_of(options, runner.summary());
  const Plan plan = plan_of(runner.schedule(inputs));
  const std::size_t held = counters().memory_used;
  reset_counters();
  const onnx::Values outputs = runner(inputs);
  const std::size_t peak = counters().memory_peak;
  if (!options.output.empty()) save_outputs(options.output, outputs);
  Json report = json_of(runner.summary());
  report["kernels"] = plan.kernels;
  report["operations"] = plan.flops;
  report["memory"] = {{"held", held}, {"peak", peak}};
  if (!options.json) print_plan(plan, held, peak);
  if (options.bench) {
    const Times times = measured(runner, inputs, options.seconds);
    report["bench"] = {{"first", times.first},
                       {"median", times.median},
                       {"best", times.best},
                       {"calls", times.calls},
                       {"replayed", times.replayed}};
    if (!options.json)
      fmt::print("time     {} median, {} best of {} calls{}; the first took {}\n",
                 dev::human_seconds(times.median), dev::human_seconds(times.best), times.calls,
                 times.replayed ? ", replayed" : ", not captured", dev::human_seconds(times.first));
  } else {
    for (const auto& [name, value] : outputs) {
      report["results"][name] = options.json ? json_of(value) : Json();
      if (!options.json) fmt::print("result   {} {}\n", name, value_text(value));
    }
  }
  if (options.json) fmt::print("{}\n", report.dump());
  return 0;
}

}  // namespace

std::vector<Command> add_run(CLI::App& app) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = app.add_subcommand("run", "run an ONNX model");
  command->add_option("file", options->file, "the model, an .onnx file")->required()->check(existing_file());
  command->add_option("--input", options->inputs,
                      "name=file.npy (or .pb, as in ONNX's test data); once per input");
  command->add_option("--dim", options->dims, "name=size: a named dimension of random inputs");
  command->add_flag("--random", options->random, "use random values for missing inputs");
  command->add_option("--output", options->output, "folder to write the results to, as name.npy");
  command->add_flag("--bench", options->bench,
                    "measure calls instead of printing results; missing inputs are random");
  command->add_option("--seconds", options->seconds, "seconds that --bench measures")->check(between(1, 600));
  command->add_option("--device", options->device, "device to run on");
  command->add_flag("--json", options->json, "print an object");
  return {{command, [options] { return run(*options); }}};
}

}  // namespace lathe::tool
