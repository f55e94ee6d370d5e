// A machine for the part of Python's pickle format that describes data. It builds plain values and never
// looks anything up in a program: a name in the file is compared with a list, and what a name on the list
// means is told by the caller. Everything it makes is in proportion to the bytes it reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/source.h"

namespace lathe::formats {

struct PickleNode;

struct PickleValue {
  enum class Kind : std::uint8_t {
    None,
    Bool,
    Int,
    Float,  // in the value itself
    BigInt,
    String,
    Bytes,
    List,
    Tuple,
    Dict,
    Name,  // in a node: text, or items (a dict's: key, value, ...)
    Storage,
    Tensor  // the caller's: a number, or a node's tensor
  };
  Kind kind = Kind::None;
  std::int64_t integer = 0;  // also of Bool and Storage
  double number = 0;
  PickleNode* node = nullptr;  // owned by the machine

  bool is(Kind k) const { return kind == k; }
};

struct PickleNode {
  std::string text;  // of BigInt: the bytes, lowest first; of Name: "module.name"
  std::vector<PickleValue> items;
  Tensor tensor;
};

// What the words of a file mean.
struct PickleWords {
  std::function<bool(const std::string& name)> knows;
  // A call of a known name.
  std::function<PickleValue(const std::string& name, const std::vector<PickleValue>& args, std::uint64_t at)>
      call;
  // A thing that is stored outside the pickle.
  std::function<PickleValue(const PickleValue& id, std::uint64_t at)> persistent;
};

class PickleMachine {
 public:
  PickleMachine(const Source& file, std::uint64_t begin) : file_(file), at_(begin) {}

  // Runs one pickle. It ends at position().
  PickleValue run(const PickleWords& words);
  std::uint64_t position() const { return at_; }

  PickleValue make(PickleValue::Kind kind, std::string text = {}, std::vector<PickleValue> items = {});
  PickleValue make_tensor(Tensor tensor);
  // The value as an object. Refuses trees that are deeper, or much larger, than what was read.
  Object to_object(const PickleValue& value);

 private:
  using Kind = PickleValue::Kind;

  bool step(unsigned char op);  // false: the pickle is over
  bool step_constant(unsigned char op);
  bool step_container(unsigned char op);
  bool step_memory(unsigned char op);
  bool step_call(unsigned char op);

  // Reading.
  std::uint64_t take_number(int bytes);
  std::string take_bytes(std::uint64_t count);
  std::string take_line();
  std::int64_t parse_integer(const std::string& text);
  void push_long(const std::string& bytes);

  // The stack.
  void push(PickleValue value) { stack_.push_back(value); }
  PickleValue pop();
  std::vector<PickleValue> pop_to_mark();
  PickleValue& top(Kind kind, const char* what);
  const PickleValue& remembered(std::uint64_t index);
  void push_name(const std::string& module, const std::string& name);

  UserError refuse(const std::string& why) const { return file_.refuse_at(op_at_, "in a pickle, " + why); }
  Object convert(const PickleValue& value, int depth, std::uint64_t& left);

  const Source& file_;
  std::uint64_t at_, op_at_ = 0, steps_ = 0;
  const PickleWords* words_ = nullptr;
  std::vector<std::byte> window_;  // read ahead
  std::uint64_t window_begin_ = 0;
  std::deque<PickleNode> nodes_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue> memo_;
};

}  // namespace lathe::formats
