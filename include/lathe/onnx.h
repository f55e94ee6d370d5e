// ONNX models: a file is read once, and run with named inputs. Operators that are missing are all reported
// when the file is opened. A call with shapes that were seen before replays captured kernels; docs/onnx.md
// tells what is supported and what a file may hold.
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

// A tensor of strings: passed along and given back, never computed with on a device.
struct Strings {
  std::vector<std::int64_t> shape;
  std::vector<std::string> values;
};

struct Known;  // elements that are known without running anything

// What flows between the nodes of a model: a tensor, a tensor of strings, a sequence, or nothing (an optional
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
  // Each throws UserError where the value is of another kind.
  const Tensor& tensor() const;
  const Strings& strings() const;
  const Items& items() const;
  // Elements known without running anything; null where they are not.
  const std::shared_ptr<const Known>& known() const { return known_; }
  // Of a known value: whether its tensor was made, and the tensor that is to stand for it.
  bool has_tensor() const { return std::holds_alternative<Tensor>(value_); }
  void stand_for(Tensor tensor) const { value_ = std::move(tensor); }

 private:
  mutable std::variant<std::monostate, Tensor, Strings, Items> value_;  // a known value's tensor is made late
  std::shared_ptr<const Known> known_;  // shared: immutable, and values are copied
};

using Values = std::map<std::string, Value>;

// An input or output of a model.
struct Port {
  std::string name;
  std::string type;               // "float32", "string", "sequence of float32"
  std::vector<std::string> dims;  // "3", a name, or "?" where the file says nothing
  bool has_shape = false;
  std::string str() const;  // "image float32 (N, 3, 224, 224)"
};

struct Options {
  std::string device = "";  // the default device where empty
  bool capture = true;      // replay kernels where shapes were seen before
  // Named dimensions that stay symbolic, with their greatest size: the graph is built over variables, and
  // memory for the greatest. Such calls are not captured; other sizes, and models with an operator that needs
  // numbers, run as fed.
  std::map<std::string, std::int64_t> symbolic = {};
};

// What a file holds, known before anything runs.
struct Summary {
  std::string producer;
  std::int64_t ir_version = 0;
  std::map<std::string, std::int64_t> opsets;  // "" is ai.onnx
  std::vector<Port> inputs, outputs;           // inputs without those that have an initializer
  std::map<std::string, std::int64_t> ops;     // nodes by operator, with those of nested graphs
  std::int64_t nodes = 0, parameters = 0, parameter_bytes = 0;
};

class Runner {
 public:
  // Throws NotSupported that lists every operator of the file that is missing.
  explicit Runner(const state::Bytes& file, const Options& options = {});
  Runner(Runner&&) noexcept;
  Runner& operator=(Runner&&) noexcept;
  ~Runner();

  const Summary& summary() const;
  // Every output by name. Inputs with an initializer may be left out.
  Values operator()(const Values& inputs);
  // The kernels a call with these inputs runs; nothing is run but what the graph's own shape depends on.
  std::vector<ScheduledKernel> schedule(const Values& inputs);
  // Whether the last call replayed captured kernels.
  bool replayed() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A tensor, or a sequence, as ONNX's test data has it: a file with one serialized value.
Value load_value(const state::Bytes& file, std::string_view type = "tensor");

// The operators of a domain ("" is ai.onnx), each with the version of the operator set it is read from.
struct SupportedOp {
  std::string domain, name, topic;
  std::int64_t since = 1;
};
std::vector<SupportedOp> supported_ops();

}  // namespace lathe::onnx
