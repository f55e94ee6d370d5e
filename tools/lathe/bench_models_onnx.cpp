// ONNX models beside ONNX Runtime: a child process has the peer, and both take turns over the same inputs. A
// model that is loaded again has its kernels from the cache; cold, from none.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "lathe/context.h"
#include "lathe/dev/child_process.h"
#include "lathe/error.h"
#include "lathe/onnx.h"
#include "lathe/state.h"
#include "tools/lathe/bench_models.h"
#include "tools/lathe/scratch_folder.h"

namespace lathe::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kPeerProgram = "bench/peers/onnx_rows.py";
constexpr double kPatience = 120, kTurn = 0.06;  // seconds

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void run(onnx::Runner& runner, const onnx::Values& inputs) {
  for (const auto& [name, value] : runner(inputs))
    if (value.kind() == onnx::Value::Kind::Tensor) value.tensor().host_data();
}

// The inputs that lie beside the model, in the order of its ports.
onnx::Values inputs_beside(const fs::path& folder, const onnx::Summary& summary) {
  onnx::Values inputs;
  for (std::size_t i = 0; i < summary.inputs.size(); ++i) {
    const fs::path file = folder / "test_data_set_0" / fmt::format("input_{}.pb", i);
    if (fs::exists(file)) inputs[summary.inputs[i].name] = onnx::load_value(file);
  }
  return inputs;
}

class Peer {
 public:
  Peer(const std::string& python, const fs::path& model, const onnx::Values& inputs,
       const std::string& scratch)
      : child_({python, kPeerProgram}) {
    Json files = Json::object();
    for (const auto& [name, value] : inputs) {
      const fs::path file = fs::path(scratch) / fmt::format("in{}.npy", files.size());
      state::save_npy(value.tensor(), file);
      files[name] = file.string();
    }
    loaded_ = ask({{"model", model.string()}, {"inputs", files}});
  }
  const Json& loaded() const { return loaded_; }
  // The best of a turn, in milliseconds.
  double turn() { return ask({{"seconds", kTurn}}).value("ms", 0.0); }

 private:
  Json ask(const Json& question) {
    const dev::ChildProcess::Answer answer = child_.ask(question.dump(), kPatience);
    if (!answer.ok) throw UserError("bench models", fmt::format("onnxruntime's process {}", answer.text));
    return Json::parse(answer.text);
  }
  dev::ChildProcess child_;
  Json loaded_;
};

double turn_of(onnx::Runner& runner, const onnx::Values& inputs) {
  double best = 1e30;
  for (const auto begin = Clock::now(); ms_since(begin) < 1e3 * kTurn;) {
    const auto one = Clock::now();
    run(runner, inputs);
    best = std::min(best, ms_since(one));
  }
  return best;
}

// What a new process would take until its first results are there: opening the file and the first call.
double ms_to_load(const fs::path& model, const onnx::Values& inputs) {
  const auto begin = Clock::now();
  onnx::Runner runner(model);
  run(runner, inputs);
  return ms_since(begin);
}

ModelRow measured(const fs::path& folder, const OnnxBench& o) {
  ModelRow row{
      .name = "onnx " + folder.filename().string(), .unit = "ms", .ratio_of = "onnxruntime", .reach = 0.7};
  const fs::path model = folder / "model.onnx";
  onnx::Runner runner(model);
  const onnx::Values inputs = inputs_beside(folder, runner.summary());
  const ScratchFolder scratch("bench-models");
  row.more["load_first_ms"] = ms_to_load(model, inputs);
  row.more["load_again_ms"] = ms_to_load(model, inputs);
  constexpr int kUntilReplayed = 4;
  for (int i = 0; i < kUntilReplayed; ++i) run(runner, inputs);
  row.more["replayed"] = runner.replayed();
  std::optional<Peer> peer;
  if (!o.python.empty()) peer.emplace(o.python, model, inputs, scratch.path());
  row.value = 1e30;
  double other = 1e30;
  for (const auto begin = Clock::now(); ms_since(begin) < 1e3 * o.seconds;) {
    row.value = std::min(row.value, turn_of(runner, inputs));
    if (peer) other = std::min(other, peer->turn());
  }
  if (!peer) return row;
  row.more["peer_ms"] = other;
  row.more["peer_load_ms"] = peer->loaded()["load_ms"];
  row.ratio = other / row.value;
  return row;
}

}  // namespace

std::vector<ModelRow> bench_onnx(const OnnxBench& o) {
  std::vector<fs::path> folders;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(o.folder, absent)) {
    const std::string name = entry.path().filename().string();
    const bool wanted =
        o.names.empty() || std::any_of(o.names.begin(), o.names.end(), [&](const std::string& part) {
          return name.find(part) != std::string::npos;
        });
    if (wanted && fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  std::vector<ModelRow> rows;
  for (const fs::path& folder : folders) rows.push_back(measured(folder, o));
  return rows;
}

}  // namespace lathe::tool
