// An ONNX file as plain data, with ONNX's own names for its parts. Reading one refuses what is damaged; what
// the operators mean is the business of the op tables.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/wire.h"

namespace lathe::onnx {

// ONNX's numbers of element types.
// clang-format off
enum class Element : int {
  Undefined = 0, Float = 1, Uint8 = 2, Int8 = 3, Uint16 = 4, Int16 = 5, Int32 = 6, Int64 = 7, String = 8,
  Bool = 9, Float16 = 10, Double = 11, Uint32 = 12, Uint64 = 13, Complex64 = 14, Complex128 = 15,
  Bfloat16 = 16, Float8E4M3FN = 17, Float8E4M3FNUZ = 18, Float8E5M2 = 19, Float8E5M2FNUZ = 20, Uint4 = 21,
  Int4 = 22, Float4E2M1 = 23, Float8E8M0 = 24, Uint2 = 25, Int2 = 26,
};
// clang-format on

struct TensorProto {
  std::string name;
  std::vector<std::int64_t> dims;
  Element element = Element::Undefined;
  // One of these holds the elements.
  FileRange raw;
  bool has_raw = false;
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<std::int64_t> integers;
  std::vector<std::string> strings;
  std::map<std::string, std::string> external;  // location, offset, length
  bool is_external = false;
};

struct SparseTensorProto {
  TensorProto values, indices;
  std::vector<std::int64_t> dims;
};

// A dimension: a number, a name, or neither.
struct Dimension {
  std::int64_t value = -1;
  std::string name;
};

struct TypeProto {
  enum class Kind : std::uint8_t { None, Tensor, Sequence, Optional, Map, SparseTensor };
  Kind kind = Kind::None;
  Element element = Element::Undefined;
  bool has_shape = false;
  std::vector<Dimension> shape;
  std::shared_ptr<const TypeProto> inner;  // of a sequence or an optional; shared: types are copied as values
};

struct ValueInfo {
  std::string name;
  TypeProto type;
};

struct GraphProto;

struct Attribute {
  enum class Kind : int {
    Undefined,
    Float,
    Int,
    String,
    Tensor,
    Graph,
    Floats,
    Ints,
    Strings,
    Tensors,
    Graphs,
    SparseTensor,
    SparseTensors,
    Type,
    Types
  };
  std::string name, refers_to;  // to an attribute of the function around the node
  Kind kind = Kind::Undefined;
  float f = 0;
  std::int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::string> strings;
  // Shared, because nodes are copied as values and these are large.
  std::shared_ptr<const TensorProto> tensor;
  std::shared_ptr<const SparseTensorProto> sparse;
  std::shared_ptr<const GraphProto> graph;
  std::shared_ptr<const TypeProto> type;
};

struct NodeProto {
  std::string name, op, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> attributes;

  const Attribute* attribute(std::string_view attribute_name) const;
};

struct GraphProto {
  std::string name;
  std::vector<NodeProto> nodes;
  std::vector<TensorProto> initializers;
  std::vector<SparseTensorProto> sparse_initializers;
  std::vector<ValueInfo> inputs, outputs;
};

using OpsetImports = std::map<std::string, std::int64_t>;  // version by domain; "" is ai.onnx

struct FunctionProto {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs, attribute_names;
  std::vector<Attribute> defaults;
  std::vector<NodeProto> nodes;
  OpsetImports opsets;
};

struct ModelProto {
  std::int64_t ir_version = 0;
  std::string producer, producer_version;
  OpsetImports opsets;
  GraphProto graph;
  std::vector<FunctionProto> functions;
  std::map<std::string, std::string> metadata;
};

ModelProto read_model(const formats::Source& source);
TensorProto read_tensor(const formats::Source& source);  // a file that holds one TensorProto
// The same for the other kinds of value, as ONNX's test data has them.
struct StoredValue {
  TypeProto::Kind kind = TypeProto::Kind::None;  // a tensor, a sequence of tensors, or nothing
  std::vector<TensorProto> tensors;
};
StoredValue read_sequence(const formats::Source& source);
StoredValue read_optional(const formats::Source& source);

// The domain as it is looked up: ai.onnx has two names.
std::string_view plain_domain(std::string_view domain);

}  // namespace lathe::onnx
