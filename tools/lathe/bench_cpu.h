// `lathe bench cpu`: the parts its files share. A row is data; every contender (Lathe itself and each peer)
// is a child process that prepares a row, runs it when it is told to and gives sampled results; the parent
// lets them take turns, runs the probe of the machine's roof in between and compares what they computed. So a
// contender that crashes, hangs or keeps its threads spinning harms only itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/dev/child_process.h"
#include "lathe/jit.h"
#include "lathe/nn.h"

namespace lathe::tool {

using Json = nlohmann::ordered_json;

// ---- rows (bench_cpu_rows.cpp)

// What bounds a row from above, measured beside it.
enum class RoofKind : std::uint8_t { Float, BFloat16, Int8, Read, Copy };

struct CpuRow {
  std::string device = "CPU";  // or CUDA: rows of `lathe bench cuda`
  std::string name;
  std::string kind;                 // what contenders know how to do: "gemm", "conv", "softmax", ...
  std::string dtype = "f32";        // of the large operand: f32, bf16, s8 or q4
  std::vector<std::int64_t> sizes;  // by kind, as in rows_of
  std::string variant;              // "nt" (which operands of a product are transposed), "compiled", ...
  int threads = 2;
  RoofKind roof = RoofKind::Float;
  double work = 0;                    // operations or bytes of one run
  std::string unit;                   // "GFLOP/s", "GB/s" or "ms"
  double reach = 0, tuned_reach = 0;  // what is wanted: a ratio, or a share of the roof
  bool reach_is_roof = false;
  double tolerance = 1e-4;  // largest difference over the largest value
  bool quick = false;       // part of --quick
  bool net = false;         // weights and inputs are made by Lathe and handed to the peers
  double value(double seconds) const { return unit == "ms" ? seconds * 1e3 : work / seconds * 1e-9; }
};
std::vector<CpuRow> cpu_rows();
// Rows of the CUDA device (bench_cuda_rows.cpp): by section, each short enough for one visit to a machine.
struct CudaSection {
  std::string name;
  std::vector<CpuRow> rows;
};
std::vector<CudaSection> cuda_sections();
// What is wanted there and has no row yet, with the reason.
std::vector<std::pair<std::string, std::string>> cuda_missing();

// ---- what goes in (bench_cpu_inputs.cpp)

struct RowInput {
  std::string dtype;                // f32, f16, bf16, s8, u8 or i64
  std::vector<std::int64_t> shape;  // of one copy
  double low = -1, high = 1;
  std::int64_t copies = 1;  // runs take turns with them, so that none finds its data in a cache
  std::int64_t elements() const;
  std::int64_t bytes() const;  // of one copy
};
// Nets have none: there Lathe writes its weights and inputs and the peers read them.
std::vector<RowInput> inputs_of(const CpuRow& row);
// Fills folder/in0, in1, ... with numbers that depend on nothing but the row.
void write_inputs(const CpuRow& row, const std::string& folder);
// A file's bytes, mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};
float half_to_float(std::uint16_t bits);
float fp8_to_float(std::uint8_t bits);  // e4m3, of a normal number or 0
float bfloat_to_float(std::uint16_t bits);

// ---- what comes out (bench_cpu_check.cpp)

// Places in the row's result that are compared: first, last and some in between.
std::vector<std::int64_t> sample_places(std::int64_t elements, std::int64_t most = 512);
std::int64_t output_elements(const CpuRow& row);  // 0 for nets, which give what they are compared by
// The values there by the plain formula in double, from the first copy of the inputs; empty for nets.
std::vector<double> reference_values(const CpuRow& row, const std::string& folder,
                                     const std::vector<std::int64_t>& places);
// Largest difference over the largest magnitude; infinite where the sizes differ or a value is not a number.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

// ---- the roof (bench_cpu_probe.cpp)

// Work a second of the fastest instructions this machine has for it, on so many threads: operations for the
// first three, bytes for the last two. One turn, some milliseconds: so many bytes (`work`) for the last two.
double probe_roof(RoofKind kind, int threads, double work);

// ---- contenders

// One that runs inside a child of this program (lathe, openblas, mkl, onednn).
class Contender {
 public:
  virtual ~Contender() = default;
  virtual std::string version() const = 0;
  // Reads inputs and gets ready to run the first time. Returns why it cannot, or "".
  virtual std::string prepare(const CpuRow& row, const std::string& folder) = 0;
  virtual void run() = 0;
  // The same in two halves, where work is queued: several runs may have started before they are waited for.
  virtual void start() { run(); }
  virtual void wait() {}
  // Runs with the first copy of the inputs and gives the values at these places of the result.
  virtual std::vector<double> result(const std::vector<std::int64_t>& places) = 0;
};
std::unique_ptr<Contender> make_lathe_contender();
std::unique_ptr<Contender> make_blas_contender(const std::string& library, const std::string& prefix);
std::unique_ptr<Contender> make_onednn_contender(const std::string& library);
// The net of a row that has no plain inputs (bench_cpu_nets.cpp). Its weights and inputs are in the folder
// for the peers: `state`, float32 and int32 in the order of the names and shapes in `state.json`.
struct Net {
  std::function<void()> start;  // of one step, which synchronize() waits for
  std::vector<double> values;   // what peers are compared by: losses of the first steps, or some outputs
};
// Without a folder nothing is written.
Net make_net(const CpuRow& row, const std::string& folder);

// What the nets share (bench_cpu_nets.cpp).
inline constexpr int kStepsCompared = 3;  // traced, compared, replayed
inline constexpr std::int64_t kValuesCompared = 64;
void write_state(const nn::StateDict& state, const std::string& folder);
// The last values of a forward pass, after which the net is ready to be replayed.
Net forward_net(Jit captured, const std::vector<Tensor>& inputs);
// Those of `lathe bench cuda` (bench_cuda_nets.cpp). A cold one takes a single step.
inline constexpr const char* kColdNet = "cold";
Net gpt2_train(const CpuRow& row, const std::string& folder);
Net resnet_train(const CpuRow& row, const std::string& folder);
Net resnet_forward(const CpuRow& row, const std::string& folder);
Net llama_decode(const CpuRow& row, const std::string& folder);

Json to_json(const CpuRow& row);
CpuRow row_from_json(const Json& json);

// Answers the parent's lines on standard input until it ends (bench_cpu_child.cpp).
int serve_contender(Contender& contender);

// A contender in a process of its own; every failure is an answer.
class ContenderProcess {
 public:
  ContenderProcess(std::string name, std::vector<std::string> command,
                   const std::vector<std::pair<std::string, std::string>>& variables)
      : name_(std::move(name)), child_(std::move(command), variables) {}

  // The answer, or {"error": why}. After a crash or a silence of that many seconds the child is gone.
  Json ask(const Json& question, double seconds);
  bool alive() const { return child_.alive(); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  dev::ChildProcess child_;
};

}  // namespace lathe::tool
