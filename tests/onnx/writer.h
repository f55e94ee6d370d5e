// ONNX files written by hand, as far as the tests need them: each function gives the bytes of one message.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace lathe::onnx::test {

using Names = std::vector<std::string>;
using Dims = std::vector<std::int64_t>;

inline std::string varint(std::uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}
inline std::string field(int number, std::int64_t v) {
  return varint(static_cast<std::uint64_t>(number) << 3) + varint(static_cast<std::uint64_t>(v));
}
inline std::string field(int number, const std::string& bytes) {
  return varint(static_cast<std::uint64_t>(number) << 3 | 2) + varint(bytes.size()) + bytes;
}
inline std::string field(int number, float v) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &v, 4);
  return varint(static_cast<std::uint64_t>(number) << 3 | 5) + bytes;
}

inline std::string attribute(const std::string& name, std::int64_t v) {
  return field(1, name) + field(3, v) + field(20, std::int64_t(2));
}
inline std::string attribute(const std::string& name, float v) {
  return field(1, name) + field(2, v) + field(20, std::int64_t(1));
}
inline std::string attribute(const std::string& name, const Dims& v) {
  std::string out = field(1, name);
  for (std::int64_t i : v) out += field(8, i);
  return out + field(20, std::int64_t(7));
}
inline std::string graph_attribute(const std::string& name, const std::string& graph) {
  return field(1, name) + field(6, graph) + field(20, std::int64_t(5));
}
inline std::string reference_attribute(const std::string& name, const std::string& outer, std::int64_t kind) {
  return field(1, name) + field(21, outer) + field(20, kind);
}

inline std::string node(const std::string& op, const Names& inputs, const Names& outputs,
                        const std::vector<std::string>& attributes = {}, const std::string& domain = "",
                        const std::string& name = "") {
  std::string out;
  for (const std::string& i : inputs) out += field(1, i);
  for (const std::string& o : outputs) out += field(2, o);
  out += field(3, name) + field(4, op);
  for (const std::string& a : attributes) out += field(5, a);
  return domain.empty() ? out : out + field(7, domain);
}

inline std::string floats(const std::string& name, const Dims& dims, const std::vector<float>& values) {
  std::string out, raw(values.size() * 4, '\0');
  if (!values.empty()) std::memcpy(raw.data(), values.data(), raw.size());
  for (std::int64_t d : dims) out += field(1, d);
  return out + field(2, std::int64_t(1)) + field(8, name) + field(9, raw);
}
inline std::string integers(const std::string& name, const Dims& dims, const Dims& values) {
  std::string out, packed;
  for (std::int64_t d : dims) out += field(1, d);
  for (std::int64_t v : values) packed += varint(static_cast<std::uint64_t>(v));
  return out + field(2, std::int64_t(7)) + field(7, packed) + field(8, name);
}
inline std::string external(const std::string& name, const Dims& dims,
                            const std::vector<std::pair<std::string, std::string>>& where) {
  std::string out;
  for (std::int64_t d : dims) out += field(1, d);
  out += field(2, std::int64_t(1)) + field(8, name);
  for (const auto& [key, value] : where) out += field(13, field(1, key) + field(2, value));
  return out + field(14, std::int64_t(1));
}

// A dimension is a number, or a name where the number is negative.
inline std::string value_info(const std::string& name, std::int64_t element,
                              const std::vector<std::string>& dims) {
  std::string shape;
  for (const std::string& d : dims)
    shape += field(1, d.find_first_not_of("0123456789") == std::string::npos
                          ? field(1, std::int64_t(std::stoll(d)))
                          : field(2, d));
  return field(1, name) + field(2, field(1, field(1, element) + field(2, shape)));
}

struct GraphText {
  std::vector<std::string> nodes = {}, initializers = {}, inputs = {}, outputs = {};
  std::string bytes() const {
    std::string out;
    for (const std::string& n : nodes) out += field(1, n);
    out += field(2, std::string("g"));
    for (const std::string& t : initializers) out += field(5, t);
    for (const std::string& i : inputs) out += field(11, i);
    for (const std::string& o : outputs) out += field(12, o);
    return out;
  }
};

inline std::string opset(std::int64_t version, const std::string& domain = "") {
  return field(1, domain) + field(2, version);
}

inline std::string model(const GraphText& graph, std::int64_t version = 17,
                         const std::vector<std::string>& functions = {}) {
  std::string out = field(1, std::int64_t(8)) + field(2, std::string("tests")) + field(7, graph.bytes()) +
                    field(8, opset(version));
  for (const std::string& f : functions) out += field(25, f);
  return out;
}

}  // namespace lathe::onnx::test
