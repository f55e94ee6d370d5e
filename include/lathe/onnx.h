// ONNX models: a file is read once and run with named inputs. Opening a file reports all operators that are
// not supported. A call with known input shapes replays captured kernels. docs/onnx.md lists what is
// supported and what a file may contain.
//
//   onnx::Runner model("model.onnx");
//   Tensor scores = model({{"image", image}}).at("scores").tensor();
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/state.h"
#include "lathe/tensor.h"

namespace lathe::onnx {

// A tensor of strings. It is passed through a model; no device computes with it.
struct Strings {
  std::vector<std::int64_t> shape;
  std::vector<std::string> values;
};

struct Known;  // elements known without running anything

// A value between the nodes of a model: a tensor, a tensor of strings, a sequence, or nothing (an optional
// without a value).
class Value {
 public:
  enum class Kind : std::uint8_t { None, Tensor, Strings, Sequence };
  using Items = std::vector<Value>;

  Value() = default;
  Value(Tensor tensor);                                                    // NOLINT: a tensor is a value
  Value(Strings strings) : value_(std::move(strings)) {}                   // NOLINT
  Value(Items items) : value_(std::move(items)) {}                         // NOLINT
  Value(std::shared_ptr<const Known> known) : known_(std::move(known)) {}  // NOLINT
  Value(Tensor tensor, std::shared_ptr<const Known> known);

  Kind kind() const;
  // Each throws UserError if the value has another kind.
  const Tensor& tensor() const;
  const Strings& strings() const;
  const Items& items() const;
  // The elements, if known without running anything; else null.
  const std::shared_ptr<const Known>& known() const { return known_; }
  // For a known value: whether its tensor was made, and how to set it.
  bool has_tensor() const { return std::holds_alternative<Tensor>(value_); }
  void stand_for(Tensor tensor) const { value_ = std::move(tensor); }

 private:
  mutable std::variant<std::monostate, Tensor, Strings, Items> value_;  // for a known value, set on demand
  std::shared_ptr<const Known> known_;  // shared: immutable, and values are copied
};

using Values = std::map<std::string, Value>;

// An input or output of a model.
struct Port {
  std::string name;
  std::string type;               // "float32", "string", "sequence of float32"
  std::vector<std::string> dims;  // "3", a name, or "?" if the file does not say
  bool has_shape = false;
  std::string str() const;  // "image float32 (N, 3, 224, 224)"
};

struct Options {
  std::string device = "";  // empty: the default device
  bool capture = true;      // capture kernels, and replay them for known input shapes
  // Named dimensions that stay symbolic, with their maximum. The graph is built over variables, with memory
  // for the maximum. Such calls are not captured. A call with a size above the maximum, and a model with an
  // operator that needs concrete sizes, run with the sizes of the inputs instead.
  std::map<std::string, std::int64_t> symbolic = {};
};

// The contents of a file, known before anything runs.
struct Summary {
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;  // "" is ai.onnx
  std::vector<Port> inputs, outputs;           // inputs without those that have an initializer
  std::map<std::string, std::int64_t> ops;     // node counts by operator, nested graphs included
  std::int64_t nodes = 0, parameters = 0, parameter_bytes = 0;
};

class Runner {
 public:
  // Throws NotSupported that lists every operator of the file that is not supported.
  explicit Runner(const state::Bytes& file, const Options& options = {});
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  const Summary& summary() const;
  // Runs the model and returns every output by name. Inputs with an initializer are optional.
  Values operator()(const Values& inputs);
  // The kernels that a call with these inputs would run. Runs only what the shape of the graph depends on.
  std::vector<ScheduledKernel> schedule(const Values& inputs);
  // Whether the last call replayed captured kernels.
  bool replayed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Reads a file with one serialized tensor or sequence, as in ONNX's test data.
Value load_value(const state::Bytes& file, std::string_view type = "tensor");

// A supported operator: its domain ("" is ai.onnx), and the first supported version of the operator set.
struct SupportedOp {
  std::string domain, name, topic;
  std::int64_t since = 1;
};
std::vector<SupportedOp> supported_ops();

}  // namespace lathe::onnx
