#include "formats/onnx/model.h"

#include <fmt/format.h>

namespace lathe::onnx {
namespace {

// A file of a few bytes per part could ask for parts that take a hundred times the memory.
constexpr std::size_t kMostParts = 4'000'000;

template <class T>
T& grown(std::vector<T>& list, const Wire& wire) {
  if (list.size() >= kMostParts) wire.refuse(fmt::format("a list has more than {} entries", kMostParts));
  return list.emplace_back();
}

void read_entry(Wire wire, std::map<std::string, std::string>& to) {
  std::string key, value;
  while (wire.next()) {
    if (wire.field() == 1) key = wire.text();
    if (wire.field() == 2) value = wire.text();
  }
  to[key] = value;
}

void read(Wire wire, TensorProto& t) {
  while (wire.next()) switch (wire.field()) {
      case 1: wire.append_integers(t.dims); break;
      case 2: t.element = static_cast<Element>(wire.integer()); break;
      case 4: wire.append_floats(t.floats); break;
      case 5:
      case 7:
      case 11: wire.append_integers(t.integers); break;
      case 6: grown(t.strings, wire) = wire.text(); break;
      case 8: t.name = wire.text(); break;
      case 9:
        t.raw = wire.range();
        t.has_raw = true;
        break;
      case 10: wire.append_doubles(t.doubles); break;
      case 13: read_entry(wire.message(), t.external); break;
      case 14: t.is_external = wire.integer() == 1; break;
      default: break;
    }
}

void read(Wire wire, SparseTensorProto& t) {
  while (wire.next()) switch (wire.field()) {
      case 1: read(wire.message(), t.values); break;
      case 2: read(wire.message(), t.indices); break;
      case 3: wire.append_integers(t.dims); break;
      default: break;
    }
}

void read_shape(Wire wire, TypeProto& type) {
  type.has_shape = true;
  while (wire.next()) {
    if (wire.field() != 1) continue;
    Dimension& dimension = grown(type.shape, wire);
    Wire inner = wire.message();
    while (inner.next()) {
      if (inner.field() == 1) dimension.value = inner.integer();
      if (inner.field() == 2) dimension.name = inner.text();
    }
  }
}

void read(Wire wire, TypeProto& type);

void read_tensor_type(Wire wire, TypeProto& type, TypeProto::Kind kind) {
  type.kind = kind;
  while (wire.next()) {
    if (wire.field() == 1) type.element = static_cast<Element>(wire.integer());
    if (wire.field() == 2) read_shape(wire.message(), type);
  }
}

void read_container_type(Wire wire, TypeProto& type, TypeProto::Kind kind) {
  type.kind = kind;
  TypeProto inner;
  while (wire.next())
    if (wire.field() == 1 && kind != TypeProto::Kind::Map) read(wire.message(), inner);
  type.inner = std::make_shared<const TypeProto>(std::move(inner));
}

void read(Wire wire, TypeProto& type) {
  while (wire.next()) switch (wire.field()) {
      case 1: read_tensor_type(wire.message(), type, TypeProto::Kind::Tensor); break;
      case 4: read_container_type(wire.message(), type, TypeProto::Kind::Sequence); break;
      case 5: read_container_type(wire.message(), type, TypeProto::Kind::Map); break;
      case 8: read_tensor_type(wire.message(), type, TypeProto::Kind::SparseTensor); break;
      case 9: read_container_type(wire.message(), type, TypeProto::Kind::Optional); break;
      default: break;
    }
}

void read(Wire wire, ValueInfo& info) {
  while (wire.next()) {
    if (wire.field() == 1) info.name = wire.text();
    if (wire.field() == 2) read(wire.message(), info.type);
  }
}

void read(Wire wire, GraphProto& graph);

template <class T>
std::shared_ptr<const T> read_shared(Wire wire) {
  auto value = std::make_shared<T>();
  read(wire, *value);
  return value;
}

// Files written before attributes had a type say it by what they hold.
Attribute::Kind kind_of(const Attribute& a) {
  using Kind = Attribute::Kind;
  if (a.kind != Kind::Undefined || !a.refers_to.empty()) return a.kind;
  if (a.tensor) return Kind::Tensor;
  if (a.graph) return Kind::Graph;
  if (!a.floats.empty()) return Kind::Floats;
  if (!a.ints.empty()) return Kind::Ints;
  if (!a.strings.empty()) return Kind::Strings;
  if (!a.s.empty()) return Kind::String;
  return a.f != 0 ? Kind::Float : Kind::Int;
}

void read(Wire wire, Attribute& a) {
  while (wire.next()) switch (wire.field()) {
      case 1: a.name = wire.text(); break;
      case 2: a.f = wire.number(); break;
      case 3: a.i = wire.integer(); break;
      case 4: a.s = wire.text(); break;
      case 5: a.tensor = read_shared<TensorProto>(wire.message()); break;
      case 6: a.graph = read_shared<GraphProto>(wire.message()); break;
      case 7: wire.append_floats(a.floats); break;
      case 8: wire.append_integers(a.ints); break;
      case 9: grown(a.strings, wire) = wire.text(); break;
      case 14: a.type = read_shared<TypeProto>(wire.message()); break;
      case 20: a.kind = static_cast<Attribute::Kind>(wire.integer()); break;
      case 21: a.refers_to = wire.text(); break;
      case 22: a.sparse = read_shared<SparseTensorProto>(wire.message()); break;
      default: break;
    }
  a.kind = kind_of(a);
}

void read(Wire wire, NodeProto& node) {
  while (wire.next()) switch (wire.field()) {
      case 1: grown(node.inputs, wire) = wire.text(); break;
      case 2: grown(node.outputs, wire) = wire.text(); break;
      case 3: node.name = wire.text(); break;
      case 4: node.op = wire.text(); break;
      case 5: read(wire.message(), grown(node.attributes, wire)); break;
      case 7: node.domain = plain_domain(wire.text()); break;
      case 8: node.overload = wire.text(); break;
      default: break;
    }
}

void read(Wire wire, GraphProto& graph) {
  while (wire.next()) switch (wire.field()) {
      case 1: read(wire.message(), grown(graph.nodes, wire)); break;
      case 2: graph.name = wire.text(); break;
      case 5: read(wire.message(), grown(graph.initializers, wire)); break;
      case 11: read(wire.message(), grown(graph.inputs, wire)); break;
      case 12: read(wire.message(), grown(graph.outputs, wire)); break;
      case 15: read(wire.message(), grown(graph.sparse_initializers, wire)); break;
      default: break;
    }
}

void read_opset(Wire wire, OpsetImports& to) {
  std::string domain;
  std::int64_t version = 0;
  while (wire.next()) {
    if (wire.field() == 1) domain = wire.text();
    if (wire.field() == 2) version = wire.integer();
  }
  to[std::string(plain_domain(domain))] = version;
}

void read(Wire wire, FunctionProto& function) {
  while (wire.next()) switch (wire.field()) {
      case 1: function.name = wire.text(); break;
      case 4: grown(function.inputs, wire) = wire.text(); break;
      case 5: grown(function.outputs, wire) = wire.text(); break;
      case 6: grown(function.attribute_names, wire) = wire.text(); break;
      case 7: read(wire.message(), grown(function.nodes, wire)); break;
      case 9: read_opset(wire.message(), function.opsets); break;
      case 10: function.domain = plain_domain(wire.text()); break;
      case 11: read(wire.message(), grown(function.defaults, wire)); break;
      case 13: function.overload = wire.text(); break;
      default: break;
    }
}

// The tensors of a SequenceProto.
void read_items(Wire wire, std::vector<TensorProto>& to) {
  while (wire.next())
    if (wire.field() == 3) read(wire.message(), grown(to, wire));
}

}  // namespace

std::string_view plain_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

const Attribute* NodeProto::attribute(std::string_view attribute_name) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute_name) return &a;
  return nullptr;
}

ModelProto read_model(const formats::Source& source) {
  ModelProto model;
  bool has_graph = false;
  Wire wire(source);
  while (wire.next()) switch (wire.field()) {
      case 1: model.ir_version = wire.integer(); break;
      case 2: model.producer = wire.text(); break;
      case 3: model.producer_version = wire.text(); break;
      case 7:
        if (has_graph) wire.refuse("the model has two graphs");
        read(wire.message(), model.graph);
        has_graph = true;
        break;
      case 8: read_opset(wire.message(), model.opsets); break;
      case 14: read_entry(wire.message(), model.metadata); break;
      case 25: read(wire.message(), grown(model.functions, wire)); break;
      default: break;
    }
  if (!has_graph)
    throw source.refuse("this is not an ONNX model: it has no graph").help("lathe run takes .onnx files");
  if (model.opsets.empty()) model.opsets[""] = 1;  // as in files of ONNX's first version
  return model;
}

TensorProto read_tensor(const formats::Source& source) {
  TensorProto tensor;
  read(Wire(source), tensor);
  return tensor;
}

StoredValue read_sequence(const formats::Source& source) {
  StoredValue value{TypeProto::Kind::Sequence, {}};
  read_items(Wire(source), value.tensors);
  return value;
}

StoredValue read_optional(const formats::Source& source) {
  StoredValue value;
  Wire wire(source);
  while (wire.next()) switch (wire.field()) {
      case 3:
        value.kind = TypeProto::Kind::Tensor;
        read(wire.message(), grown(value.tensors, wire));
        break;
      case 5:
        value.kind = TypeProto::Kind::Sequence;
        read_items(wire.message(), value.tensors);
        break;
      default: break;
    }
  return value;
}

}  // namespace lathe::onnx
