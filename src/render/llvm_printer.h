// The LLVM printer's state, shared by its files: llvm_text.cpp walks the program, llvm_ops.cpp prints what
// computes, llvm_memory.cpp what loads, llvm_stores.cpp what stores, llvm_registers.cpp locals,
// llvm_index.cpp addresses and llvm_tiles.cpp fragments of matrix units.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "ir/program.h"
#include "ir/walk.h"
#include "rules/index_parts.h"
#include "target/target.h"

namespace lathe::render {

// Type of a value in registers ("<8 x float>", bool is i1) and in memory (bool is i8), of its scalar, and the
// suffix of an intrinsic on it ("v8f32").
std::string llvm_type(DType dtype);
std::string llvm_memory_type(DType dtype);
std::string llvm_suffix(DType dtype);
// A constant of a scalar type, in every lane where lanes > 1.
std::string llvm_constant(DType dtype, Node constant);

// A register that has one value on one way into a block and another on the other.
struct Joined {
  Node local;
  std::string before, name;
};

// A loop or a branch whose end is not printed yet.
struct OpenBlock {
  int id = 0;
  std::string before;    // label of the block in front
  std::string counter;   // of a loop
  std::size_t head = 0;  // where the lines go that are known when a loop closes
  std::vector<Joined> carried, changed;
};

class LlvmPrinter {
 public:
  LlvmPrinter(const Program& program, const Target& target) : program_(program), target_(target) {}
  std::string print();

 private:
  // ---- llvm_text.cpp
  void entry();
  void instruction(Node node);
  void open_loop(Node range);
  void close_loop(Node range);
  void open_if(Node node);
  void close_if();
  const std::string& innermost_counter() const;
  void label(std::string_view name);
  std::string value(Node node);  // "%v3", or a constant
  std::string typed(Node node) { return llvm_type(node.dtype()) + " " + value(node); }
  std::string fresh() { return fmt::format("%v{}", next_++); }
  void name(Node node, std::string text) { names_[node] = std::move(text); }

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    body_ += "  ";
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
  }
  // Prints "%vN = <text>" and returns %vN.
  template <class... Args>
  std::string emit(fmt::format_string<Args...> format, Args&&... args) {
    std::string result = fresh();
    body_ += "  " + result + " = ";
    fmt::format_to(std::back_inserter(body_), format, std::forward<Args>(args)...);
    body_ += '\n';
    return result;
  }
  // Calls an intrinsic and remembers to declare it: types of the result and of each operand.
  std::string call(const std::string& intrinsic, const std::string& result, std::vector<std::string> types,
                   std::vector<std::string> operands);

  // ---- llvm_index.cpp
  void find_indices();
  // Of one lane, `lane` elements from the rest of the index, or of all.
  std::string address(Node memory, Node index, std::optional<std::int64_t> lane = {});
  std::string shared(const std::string& text);
  void open_shared();
  void close_shared();
  bool has_wide(Node node) const;
  std::string wide(Node node);
  bool print_index(Node node);
  void extend_index(Node node);

  // ---- llvm_ops.cpp
  std::string scalar_op(Node node);
  std::string whole_part(Node x);
  std::string scale(Node node);
  std::string table_value(Node node);
  std::string machine_op(Node node);
  std::string picked_lanes(Node node, Node from);
  std::string woven_lanes(Node node, std::span<const Node> from);
  std::string joined_vectors(std::span<const Node> from);
  std::string combine(Op op, DType dtype, const std::string& x, const std::string& y);
  std::string extremum(Node node);
  std::string quotient(Node node);
  std::string divide(Node node);
  std::string shift(Node node);
  std::string cast_value(Node node);
  std::string float_to_int(DType to, Node number);
  std::string vector_op(Node node);
  std::string hreduce(Node node);
  std::string dot_product(Node node);
  std::string all_lanes(const std::string& constant, DType dtype) const;

  // ---- llvm_memory.cpp
  void declare_locals();
  std::size_t param_number(Node param) const;
  std::string load_value(Node node);
  std::string gather(Node memory, Node index, DType dtype, Node gate);
  std::string only_where(Node gate, const std::string& type, const std::function<std::string()>& compute);
  std::string mask_of(Node gate, int lanes);
  std::string from_memory(DType dtype, const std::string& x);
  std::string to_memory(DType dtype, const std::string& x);

  // ---- llvm_stores.cpp
  void find_streamed();
  std::size_t streamed_together(std::size_t at) const;
  void print_streamed(std::span<const NodeRef> stores);
  void store_value(Node node);
  void print_store(Node node, Node gate);

  // ---- llvm_registers.cpp
  void find_registers();
  void load_register(Node node);
  void store_register(Node node);
  void open_registers(Node node, OpenBlock& block);
  std::string carried_lines(const OpenBlock& block) const;
  void join_changed(const OpenBlock& block, const std::string& last);

  // ---- llvm_tiles.cpp
  void find_tiles();
  void set_tiles(bool begin);
  int take_tile();
  void clear_tile(int tile);
  void read_tile(Node fragment, int tile);
  bool print_tile(Node node);
  void store_tile(Node node, int tile);
  void release_tiles(Node node);

  const Program& program_;
  const Target& target_;
  std::string body_;
  std::set<std::string> declarations_;  // ordered, so that text never depends on hashing
  std::string globals_;
  std::map<std::string, std::string> tables_;  // their names, by what they hold
  NodeMap<int> tiles_;                         // registers of fragments, by value or by accumulator
  NodeMap<Node> tile_last_;                    // the last instruction that needs a fragment that is read
  NodeMap<std::vector<Node>> tiles_done_;      // the other way round
  std::vector<int> free_tiles_;
  NodeMap<std::string> names_;
  NodeMap<std::string> wide_;  // 32-bit values that are (also) held in 64 bits
  NodeMap<bool> indices_;      // 32-bit values that end in an address
  NodeMap<bool> unused_;       // what only addresses and shuffles would use: these take its parts
  std::map<std::string, std::string> shared_;                 // values by the text that gives them, and in
  std::vector<std::vector<std::string>> shared_of_block_{1};  // which of the open blocks each was printed
  std::string block_ = "entry";                               // label of the block being printed
  std::int64_t zero_bytes_ = 0;  // size of the constant that loads with a false gate read
  int next_ = 0, next_block_ = 0;
  std::vector<OpenBlock> open_;
  NodeMap<std::string> held_;                     // what each register (a local of one element) holds
  NodeMap<std::vector<Node>> carried_, changed_;  // registers, by loop or branch
  std::set<std::size_t> streamed_;                // numbers of params that stores go to past the caches
};

}  // namespace lathe::render
