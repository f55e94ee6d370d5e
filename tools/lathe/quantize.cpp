// `lathe quantize`: a model file as one GGUF file whose matrices are packed, and what that changed.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "lathe/error.h"
#include "tools/lathe/commands.h"

#if LATHE_HAVE_LLM
#include "lathe/llm/checkpoint.h"
#endif

namespace lathe::tool {

#if LATHE_HAVE_LLM
namespace {

struct Options {
  std::string from, to;
  llm::QuantizeOptions quantize;
  bool all = false;
};

std::string share(const llm::Quantized& q) {
  return q.size == 0 || q.error == 0 ? "0" : fmt::format("{:.3g} %", 100 * q.error / q.size);
}

int run(const Options& options) {
  const std::vector<llm::Quantized> written = llm::quantize(options.from, options.to, options.quantize);
  // One line for all tensors of a type.
  struct Sum {
    std::int64_t tensors = 0, numbers = 0, bytes = 0;
    double square_error = 0, square_size = 0;
  };
  std::map<std::string, Sum> sums;
  std::int64_t numbers = 0, bytes = 0;
  for (const llm::Quantized& q : written) {
    Sum& sum = sums[q.type];
    const auto count = static_cast<double>(q.numbers);
    ++sum.tensors;
    sum.numbers += q.numbers;
    sum.bytes += q.bytes;
    sum.square_error += q.error * q.error * count;
    sum.square_size += q.size * q.size * count;
    numbers += q.numbers;
    bytes += q.bytes;
    if (!q.note.empty()) fmt::print("{}: {}, because {}\n", q.name, q.type, q.note);
  }
  std::vector<std::vector<std::string>> rows;
  if (options.all) {
    rows.push_back({"tensor", "type", "numbers", "bytes", "error"});
    for (const llm::Quantized& q : written)
      rows.push_back({q.name, q.type, std::to_string(q.numbers), std::to_string(q.bytes), share(q)});
    print_table(rows);
    rows.clear();
  }
  rows.push_back({"type", "tensors", "numbers", "bytes", "error"});
  for (const auto& [type, sum] : sums) {
    const double error = sum.square_size == 0 ? 0 : std::sqrt(sum.square_error / sum.square_size);
    rows.push_back({type, std::to_string(sum.tensors), std::to_string(sum.numbers), std::to_string(sum.bytes),
                    error == 0 ? "0" : fmt::format("{:.3g} %", 100 * error)});
  }
  print_table(rows);
  fmt::print("errors are root mean squares, relative to those of the weights\n");
  fmt::print("{}: {} bytes, {:.3f} bits per number\n", options.to, bytes,
             numbers == 0 ? 0 : 8 * static_cast<double>(bytes) / static_cast<double>(numbers));
  return 0;
}

}  // namespace

std::vector<Command> add_quantize(CLI::App& app) {
  auto options = std::make_shared<Options>();  // shared: the parser's options and the command both hold it
  CLI::App* command = app.add_subcommand("quantize", "write a model as one GGUF file with quantized weights");
  command
      ->add_option("in", options->from,
                   "a GGUF file, a folder with config.json and safetensors, or a llama2.c file")
      ->required()
      ->check(existing_path());
  command->add_option("out", options->to, "the GGUF file to write")->required();
  command->add_option(
      "--type", options->quantize.type,
      "type of matrices: F32, F16, BF16, Q4_0 to Q8_0, Q2_K to Q6_K, IQ4_NL, IQ4_XS, MXFP4, TQ1_0, TQ2_0");
  command->add_option("--output-type", options->quantize.output_type,
                      "type of the token table and the output layer");
  command->add_flag("--all", options->all, "print a line for every tensor");
  return {{command, [options] { return run(*options); }}};
}

#else

std::vector<Command> add_quantize(CLI::App&) { return {}; }

#endif

}  // namespace lathe::tool
