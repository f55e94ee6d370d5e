// `lathe bench models`: language models of a published shape with random weights, in the types people keep
// them in, and ONNX models beside ONNX Runtime. A token reads every weight once, so decoding is measured in
// shares of how fast memory can be read, and reading a prompt in shares of its products alone; roofs and
// peers have their turns between ours.
#include "tools/lathe/bench_models.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "lathe/error.h"
#include "tools/lathe/commands.h"

#if LATHE_HAVE_LLM
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include "lathe/dev/child_process.h"
#include "lathe/dev/terminal.h"
#include "lathe/jit.h"
#include "lathe/llm/model.h"
#include "lathe/state.h"
#include "tools/lathe/bench_cpu.h"
#include "tools/lathe/scratch_folder.h"
#endif

namespace lathe::tool {

#if LATHE_HAVE_LLM
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// LLaMA 3.2 with one billion parameters.
constexpr std::int64_t kVocabulary = 128256, kDim = 2048, kFeed = 8192, kHeads = 32, kKeyHeads = 8,
                       kKeys = kDim / kHeads * kKeyHeads;

struct Matrix {
  const char* name;
  std::int64_t rows, columns;
};
constexpr Matrix kOfALayer[] = {
    {"attn_q", kDim, kDim},    {"attn_k", kKeys, kDim}, {"attn_v", kKeys, kDim},  {"attn_output", kDim, kDim},
    {"ffn_gate", kFeed, kDim}, {"ffn_up", kFeed, kDim}, {"ffn_down", kDim, kFeed}};

// Blocks of a few random rows, again and again: what is packed does not change how long it takes to read.
class Rows {
 public:
  Rows(std::string type, const fs::path& scratch) : type_(std::move(type)), scratch_(scratch) {}

  state::GgufTensor tensor(const std::string& name, std::int64_t rows, std::int64_t columns) {
    const auto known = some_.find(columns);
    const Tensor& some =
        known != some_.end() ? known->second : some_.emplace(columns, made(columns)).first->second;
    const bool packed = state::gguf_is_packed(type_);
    return {name + ".weight", type_, some.repeat({rows / kRows, 1}), packed};
  }

 private:
  static constexpr std::int64_t kRows = 64;
  Tensor made(std::int64_t columns) const {
    const Tensor numbers = (Tensor::randn({kRows, columns}) * 0.02).realize();
    state::gguf_save(Object::Entries{}, {{"x", type_, numbers}}, scratch_);
    const state::Gguf file = state::gguf_load(scratch_);
    return file.stored.at("x").stored.to("CPU").realize();
  }
  std::string type_;
  fs::path scratch_;
  std::map<std::int64_t, Tensor> some_;
};

// A tokenizer as large as the vocabulary: bytes, then made-up words.
Object::Entries tokenizer_keys() {
  Object::Items tokens = {"<unk>", "<s>", "</s>"}, scores(3, 0.0), kinds = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    tokens.emplace_back(fmt::format("<0x{:02X}>", byte));
    scores.emplace_back(0.0);
    kinds.emplace_back(6);
  }
  for (auto i = std::ssize(tokens); i < kVocabulary; ++i) {
    tokens.emplace_back(fmt::format("<word {}>", i));
    scores.emplace_back(-static_cast<double>(i));
    kinds.emplace_back(1);
  }
  return {{"tokenizer.ggml.model", "llama"},  {"tokenizer.ggml.tokens", tokens},
          {"tokenizer.ggml.scores", scores},  {"tokenizer.ggml.token_type", kinds},
          {"tokenizer.ggml.bos_token_id", 1}, {"tokenizer.ggml.eos_token_id", 2}};
}

void write_model(const fs::path& file, const std::string& type, std::int64_t layers) {
  Object::Entries keys = {{"general.architecture", "llama"},
                          {"llama.context_length", 2048},
                          {"llama.embedding_length", kDim},
                          {"llama.block_count", layers},
                          {"llama.feed_forward_length", kFeed},
                          {"llama.attention.head_count", kHeads},
                          {"llama.attention.head_count_kv", kKeyHeads},
                          {"llama.attention.layer_norm_rms_epsilon", 1e-5},
                          {"llama.rope.freq_base", 500000.0}};
  for (auto& entry : tokenizer_keys()) keys.push_back(std::move(entry));
  Rows rows(type, file.string() + ".rows");
  std::vector<state::GgufTensor> tensors = {rows.tensor("token_embd", kVocabulary, kDim),
                                            {"output_norm.weight", "F32", Tensor::ones({kDim})}};
  for (std::int64_t i = 0; i < layers; ++i) {
    const std::string block = fmt::format("blk.{}.", i);
    for (const char* norm : {"attn_norm", "ffn_norm"})
      tensors.push_back({block + norm + ".weight", "F32", Tensor::ones({kDim})});
    for (const Matrix& m : kOfALayer) tensors.push_back(rows.tensor(block + m.name, m.rows, m.columns));
  }
  state::gguf_save(keys, tensors, file);
}

int threads_here() { return static_cast<int>(std::max(1U, std::thread::hardware_concurrency())); }

class Sequence {
 public:
  explicit Sequence(llm::Model& model)
      : model_(model), pages_(static_cast<std::size_t>(model.options().pages)) {
    std::iota(pages_.begin(), pages_.end(), 0);
  }
  void read(std::int64_t tokens) {
    const std::vector<llm::TokenId> text(static_cast<std::size_t>(tokens), 5);
    model_.step(std::vector{llm::StepSequence{text, position_, pages_}});
    position_ += tokens;
  }
  void forget() { position_ = 0; }

 private:
  llm::Model& model_;
  std::vector<llm::PageId> pages_;
  std::int64_t position_ = 0;
};

constexpr std::int64_t kPrompt = 512, kTurnTokens = 4;

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + std::ssize(x) / 2, x.end());
  return x[x.size() / 2];
}

// Tokens and walks over memory in turn, about as long each. The best of each count: others use the machine,
// too. The medians are reported beside them.
ModelRow decode_row(llm::Model& model, const std::string& type, double seconds) {
  const auto bytes = static_cast<double>(model.checkpoint().bytes());
  ModelRow row{.name = "decode " + type, .unit = "tokens/s", .ratio_of = "read roof"};
  row.reach = type == "F32" || type == "F16" ? 0.85 : type == "Q8_0" ? 0.7 : 0.45;
  Sequence sequence(model);
  for (int i = 0; i < 3; ++i) sequence.read(1);
  constexpr double kWalk = 256e6;
  constexpr int kWalks = 3;  // of one, two and four streams
  std::vector<double> tokens, roofs;
  for (const auto begin = Clock::now(); seconds_since(begin) < seconds || tokens.empty();) {
    sequence.forget();
    const auto turn = Clock::now();
    for (std::int64_t i = 0; i < kTurnTokens; ++i) {
      const auto token = Clock::now();
      sequence.read(1);
      tokens.push_back(seconds_since(token));
    }
    const double taken = seconds_since(turn);
    const auto walks = Clock::now();
    do
      for (int i = 0; i < kWalks; ++i) roofs.push_back(probe_roof(RoofKind::Read, threads_here(), kWalk));
    while (seconds_since(walks) < taken);
  }
  const double best = *std::min_element(tokens.begin(), tokens.end()),
               roof = *std::max_element(roofs.begin(), roofs.end());
  row.value = 1 / best;
  row.ratio = bytes / best / roof;
  row.more["gigabytes"] = bytes * 1e-9;
  row.more["roof_gb_per_s"] = roof * 1e-9;
  row.more["median_tokens_per_s"] = 1 / median(tokens);
  row.more["median_roof_gb_per_s"] = median(roofs) * 1e-9;
  return row;
}

// The products of a prompt, with nothing between them.
class Products {
 public:
  Products(const llm::Checkpoint& c, std::int64_t tokens) {
    for (const Matrix& m : kOfALayer) {
      const Tensor weight = c.weight(fmt::format("blk.0.{}.weight", m.name)).transpose();
      inputs_.push_back(Tensor::randn({tokens, m.columns}).realize());
      runs_.push_back(jit(Jit::Function([weight](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        return {in[0].linear(weight)};
      })));
    }
  }
  void run() {
    for (std::size_t i = 0; i < runs_.size(); ++i) runs_[i]({inputs_[i]})[0].host_data();
  }

 private:
  std::vector<Tensor> inputs_;
  std::vector<Jit> runs_;
};

ModelRow prefill_row(llm::Model& model, const std::string& type, double seconds) {
  const NoGradScope plain;
  ModelRow row{.name = fmt::format("prefill {} {}", kPrompt, type),
               .unit = "tokens/s",
               .ratio_of = "products",
               .reach = 0.8};
  Sequence sequence(model);
  Products products(model.checkpoint(), kPrompt);
  const auto read = [&] {
    sequence.forget();
    for (std::int64_t left = kPrompt; left > 0; left -= model.options().chunk)
      sequence.read(std::min(left, model.options().chunk));
  };
  for (int i = 0; i < 3; ++i) {
    read();
    products.run();
  }
  double best = 1e30, alone = 1e30;
  for (const auto begin = Clock::now(); seconds_since(begin) < seconds || best > 1e29;) {
    auto turn = Clock::now();
    read();
    best = std::min(best, seconds_since(turn));
    turn = Clock::now();
    products.run();
    alone = std::min(alone, seconds_since(turn));
  }
  row.value = kPrompt / best;
  row.ratio = alone * static_cast<double>(model.config().layers) / best;
  row.more["seconds"] = best;
  return row;
}

// From the start of the process to the end of one that writes a single token.
ModelRow start_row(const fs::path& file) {
  constexpr double kPatience = 300;
  ModelRow row{.name = "start of chat", .unit = "ms", .ratio_of = "500 ms", .reach = 1};
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  row.value = 1e30;
  for (int i = 0; i < 4; ++i) {
    const auto begin = Clock::now();
    dev::ChildProcess child(
        {program, "chat", file.string(), "--prompt", "a", "--max-tokens", "1", "--raw", "--context", "512"});
    child.next_line(kPatience);
    if (i > 0) row.value = std::min(row.value, 1e3 * seconds_since(begin));
  }
  row.ratio = 500 / row.value;
  row.more["gigabytes"] = static_cast<double>(fs::file_size(file)) * 1e-9;
  return row;
}

}  // namespace

std::vector<ModelRow> bench_language(const LanguageBench& o) {
  std::vector<ModelRow> rows;
  for (const std::string& type : o.types) {
    // On the disk: five gigabytes are not for a folder in memory.
    const fs::path file = fs::temp_directory_path() / fmt::format("lathe-bench-{}-{}.gguf", type, ::getpid());
    struct Remove {
      const fs::path& file;
      ~Remove() {
        std::error_code ignored;
        fs::remove(file, ignored);
        fs::remove(file.string() + ".rows", ignored);
      }
    } const remove{file};
    write_model(file, type, o.layers);
    {
      llm::Model model(llm::load_checkpoint(file),
                       {.context = 1024, .sequences = 1, .byte_activations = true});
      rows.push_back(decode_row(model, type, o.seconds));
      rows.push_back(prefill_row(model, type, o.seconds));
    }
    {
      llm::Model model(llm::load_checkpoint(file),
                       {.context = 1024, .sequences = 1, .invariant = false, .byte_activations = true});
      rows.push_back(decode_row(model, type, o.seconds));
      rows.back().name += " fast";
    }
    if (o.start && type == "Q8_0") rows.push_back(start_row(file));
  }
  return rows;
}

#else

std::vector<ModelRow> bench_language(const LanguageBench&) { return {}; }

#endif

namespace {

struct Options {
  LanguageBench language;
  OnnxBench onnx;
  std::string peers = ".venv-peers";
  bool json = false, no_language = false, no_onnx = false;
};

int run_models(Options& o) {
  std::vector<ModelRow> rows;
  if (!o.no_onnx) {
    const std::string python = o.peers + "/bin/python";
    if (std::filesystem::exists(python))
      o.onnx.python = python;
    else
      fmt::print(stderr,
                 "bench models: {} is not there, so nothing is compared with onnxruntime; make peers\n",
                 python);
    for (ModelRow& row : bench_onnx(o.onnx)) rows.push_back(std::move(row));
  }
  if (!o.no_language)
    for (ModelRow& row : bench_language(o.language)) rows.push_back(std::move(row));
  if (o.json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const ModelRow& r : rows)
      out.push_back({{"name", r.name},
                     {"unit", r.unit},
                     {"value", r.value},
                     {"ratio", r.ratio},
                     {"ratio_of", r.ratio_of},
                     {"reach", r.reach},
                     {"more", r.more}});
    fmt::print("{}\n", out.dump(2));
    return 0;
  }
  std::vector<std::vector<std::string>> table{{"model", "value", "unit", "ratio", "of", "reach"}};
  for (const ModelRow& r : rows)
    table.push_back({r.name, fmt::format("{:.4g}", r.value), r.unit,
                     r.ratio > 0 ? fmt::format("{:.3f}", r.ratio) : "-", r.ratio_of,
                     r.reach > 0 ? fmt::format("{}", r.reach) : "-"});
  print_table(table);
  return 0;
}

}  // namespace

std::vector<Command> add_bench_models(CLI::App& bench) {
  const auto o = std::make_shared<Options>();
  o->onnx.folder = "../shared/data/onnx";
  CLI::App* command = bench.add_subcommand(
      "models", "language models relative to memory bandwidth, ONNX models relative to ONNX Runtime");
  command->add_flag("--json", o->json, "print an array of objects");
  command->add_option("--types", o->language.types,
                      "weight types of the language model: F32 F16 Q8_0 Q4_0 Q4_K ...");
  command
      ->add_option("--layers", o->language.layers,
                   "layers of the language model (16 have one billion parameters)")
      ->check(between(1, 64));
  command->add_option("--seconds", o->language.seconds, "seconds per measurement (4)")
      ->check(between(1, 600));
  command->add_option("--onnx", o->onnx.folder,
                      "a folder with subfolders that hold model.onnx and test_data_set_0");
  command->add_option("--models", o->onnx.names, "only ONNX models whose names contain one of these");
  command->add_option("--peers", o->peers, "a Python environment with onnxruntime (.venv-peers)");
  command->add_flag("--no-language", o->no_language, "only ONNX models");
  command->add_flag("--no-onnx", o->no_onnx, "only language models");
  return {{command, [o] { return run_models(*o); }}};
}

}  // namespace lathe::tool
