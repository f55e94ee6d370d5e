// The C printer's state, shared by its files: c_text.cpp walks programs, c_ops.cpp prints what computes,
// c_memory.cpp what loads and stores, c_group.cpp what a group's threads do together, c_unit.cpp collects the
// types and helper functions a source needs.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ir/group_ops.h"
#include "ir/program.h"
#include "ir/walk.h"
#include "render/c_text.h"

namespace lathe::render {

// Replaces each $name of `text` by its value; names are looked up longest first.
struct Filling {
  std::string_view name;
  std::string value;
};
std::string fill(std::string_view text, std::initializer_list<Filling> values);

// Types and helper functions of one source, printed once each, what is needed before what needs it.
class CUnit {
 public:
  explicit CUnit(const CDialect& dialect) : dialect_(dialect) {}
  const CDialect& dialect() const { return dialect_; }

  std::string type(DType dtype);         // of a value: a vector's typedef is made when first named
  std::string memory_type(DType dtype);  // of an element in memory: a bool is a byte
  // Name of a helper for a scalar dtype, made sure to be in the source: helper("max", f32) is
  // "lathe_max_f32".
  std::string helper(std::string_view name, DType dtype);
  // Adds a function once; `text` is asked for only if the name is new.
  template <class Text>
  void function(const std::string& name, Text text) {
    if (known_.insert(name).second) {
      std::string body = text();
      functions_ += body + "\n";
    }
  }
  std::string head() const;

  static int padded_lanes(DType dtype);
  std::string lane(const std::string& vector, int i) const;  // one lane of a vector value, by text

 private:
  const CDialect& dialect_;
  std::set<std::string> known_;
  std::string types_, functions_;
};

class CPrinter {
 public:
  CPrinter(CUnit& unit, const Program& program) : unit_(unit), dialect_(unit.dialect()), program_(program) {}
  std::string print();

 private:
  // ---- c_text.cpp
  std::string signature();
  void entry();
  void launch_index(Node special);
  void instruction(Node node);
  void define_value(Node node, const std::string& text);
  std::string value(Node node);
  std::string lane_value(Node node, int i);  // lane i of a value; the value where it is scalar
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    body_.append(static_cast<std::size_t>(depth_) * 2, ' ');
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }

  // ---- c_ops.cpp
  std::string constant(DType dtype, Node constant);
  std::string vector_literal(DType dtype, const std::vector<std::string>& lanes);
  std::string repeat(DType dtype, const std::string& scalar);
  // A scalar op on texts of one scalar dtype; `plain`: no operand needs the guarded form.
  std::string op_text(Op op, DType dtype, const std::vector<std::string>& x, bool plain);
  std::string rounded_pair(Node node);
  std::string scalar_op(Node node);
  std::string wrapped(Node node, DType dtype, const std::vector<std::string>& x);
  std::string gnu_op(Node node);
  std::string by_lanes(Node node);  // a vector op, one lane after the other
  std::string mask(DType dtype, const std::string& comparison);
  std::string select(DType dtype, const std::string& condition, const std::string& x, const std::string& y);
  std::string cast_text(DType to, DType from, const std::string& x, bool reinterpret);
  std::string cast_value(Node node);
  std::string vector_op(Node node);
  void dot_product(Node node);
  void group_product(Node node);
  std::string hreduce(Node node);
  std::string machine_op(Node node);  // one lane after the other: a compiler of C has no such instructions

  // ---- c_group.cpp
  std::string placed(Node memory, Node index);  // where it is in memory that is swizzled
  std::string placed(Node memory, const std::string& index, DType dtype);
  bool group_instruction(Node node);  // whether it was one
  void divide_registers(const Role& role);
  void copy_async(Node node);
  void matrices(Node node);
  void panel_product(Node node);
  void wait_products(Node node);
  void bulk_copy(Node node);
  void arrivals(Node node);
  void find_box_maps();  // and lists them in the unit

  // ---- c_memory.cpp
  void declare_locals();
  std::string pointer(Node memory, Node index);
  std::string load_value(Node node);
  void store_value(Node node);
  std::string element_at(Node memory, const std::string& index);
  bool aligned(Node memory, Node index, int lanes);
  std::string vector_load(Node node);
  void vector_store(Node node);
  std::string zero(DType dtype);

  CUnit& unit_;
  const CDialect& dialect_;
  const Program& program_;
  std::string body_;
  NodeMap<std::string> names_;
  std::vector<Node> boxes_;  // a bulk copy for each kind of box
  int depth_ = 1, loops_ = 0, next_ = 0;
  bool few_registers_ = false;                // of the warps that run what is printed now
  std::set<std::string_view> known_indices_;  // of the launch, that have a name
};

}  // namespace lathe::render
