#include "formats/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "formats/json.h"

namespace lathe::formats {
namespace {

constexpr std::uint64_t kWindow = 1 << 16, kMostLine = 4096;
constexpr int kMostDepth = 200;
// A value may be in several places, but not in so many that the tree outgrows the file.
constexpr std::uint64_t kMostCopies = 64, kSomeNodes = 10'000;

// The opcodes, by the names Python's documentation gives them.
enum Op : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kFloat = 'F',
  kInt = 'I',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kLong = 'L',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kString = 'S',
  kBinString = 'T',
  kShortBinString = 'U',
  kUnicode = 'V',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kGet = 'g',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kList = 'l',
  kEmptyList = ']',
  kPut = 'p',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetItems = 'u',
  kBinFloat = 'G',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kLong4 = 0x8b,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kFrozenSet = 0x91,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96
};

}  // namespace

// ---- reading

std::string PickleMachine::take_bytes(std::uint64_t count) {
  if (!file_.has(at_, count))
    throw refuse(fmt::format("{} bytes are needed, {} are left: the file is truncated", count,
                             at_ <= file_.size() ? file_.size() - at_ : 0));
  std::string out(count, '\0');
  if (count > kWindow) {
    file_.read_into(out.data(), at_, count, "a pickle");
  } else if (count > 0) {
    if (at_ < window_begin_ || at_ + count > window_begin_ + window_.size()) {
      window_begin_ = at_;
      window_ = file_.read(at_, std::min(kWindow, file_.size() - at_), "a pickle");
    }
    std::memcpy(out.data(), window_.data() + (at_ - window_begin_), count);
  }
  at_ += count;
  return out;
}

std::uint64_t PickleMachine::take_number(int bytes) {
  std::uint64_t value = 0;
  const std::string raw = take_bytes(static_cast<std::uint64_t>(bytes));
  std::memcpy(&value, raw.data(), raw.size());
  return value;
}

std::string PickleMachine::take_line() {
  std::string line;
  for (;;) {
    const char c = take_bytes(1)[0];
    if (c == '\n') return line;
    if (line.size() == kMostLine) throw refuse("a line is too long");
    line.push_back(c);
  }
}

std::int64_t PickleMachine::parse_integer(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(text.data(), end, value);
      error != std::errc() || stop != end)
    throw refuse(fmt::format("\"{}\" is not a 64-bit integer", shown(text)));
  return value;
}

void PickleMachine::push_long(const std::string& bytes) {
  if (bytes.size() > 8) return push(make(Kind::BigInt, bytes));
  std::int64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  if (!bytes.empty() && bytes.size() < 8 && (bytes.back() & 0x80) != 0)
    value |= static_cast<std::int64_t>(~std::uint64_t{0} << (8 * bytes.size()));
  push({Kind::Int, value, 0, nullptr});
}

// ---- values

PickleValue PickleMachine::make(Kind kind, std::string text, std::vector<PickleValue> items) {
  nodes_.push_back({std::move(text), std::move(items), {}});
  return {kind, 0, 0, &nodes_.back()};
}

PickleValue PickleMachine::make_tensor(Tensor tensor) {
  nodes_.push_back({{}, {}, std::move(tensor)});
  return {Kind::Tensor, 0, 0, &nodes_.back()};
}

PickleValue PickleMachine::pop() {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor) throw refuse("a value is taken where there is none");
  const PickleValue value = stack_.back();
  stack_.pop_back();
  return value;
}

std::vector<PickleValue> PickleMachine::pop_to_mark() {
  if (marks_.empty()) throw refuse("a mark is needed where there is none");
  const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<PickleValue> values(from, stack_.end());
  stack_.erase(from, stack_.end());
  marks_.pop_back();
  return values;
}

PickleValue& PickleMachine::top(Kind kind, const char* what) {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() <= floor || !stack_.back().is(kind)) throw refuse(fmt::format("a {} is needed", what));
  return stack_.back();
}

const PickleValue& PickleMachine::remembered(std::uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) throw refuse(fmt::format("nothing was remembered under {}", index));
  return found->second;
}

void PickleMachine::push_name(const std::string& module, const std::string& name) {
  const std::string whole = module + "." + name;
  if (!words_->knows(whole))
    throw refuse(fmt::format("the file names {}, which is not read", shown(whole)))
        .help("only tensors and plain values are; nothing in a file is ever called");
  push(make(Kind::Name, whole));
}

// ---- running

PickleValue PickleMachine::run(const PickleWords& words) {
  words_ = &words;
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (;;) {
    op_at_ = at_;
    ++steps_;
    if (!step(static_cast<unsigned char>(take_bytes(1)[0]))) break;
  }
  const PickleValue result = pop();
  if (!stack_.empty() || !marks_.empty()) throw refuse("values are left over at its end");
  return result;
}

bool PickleMachine::step(unsigned char op) {
  if (op == kStop) return false;
  if (step_constant(op) || step_container(op) || step_memory(op) || step_call(op)) return true;
  throw refuse(fmt::format("the opcode {:#04x} is not read", op));
}

bool PickleMachine::step_constant(unsigned char op) {
  auto sized = [&](Kind kind, int bytes) {
    std::string text = take_bytes(take_number(bytes));
    if (kind == Kind::String && !is_utf8(text)) throw refuse("a string is not UTF-8");
    push(make(kind, std::move(text)));
  };
  auto integer = [&](std::int64_t value) { push({Kind::Int, value, 0, nullptr}); };
  switch (op) {
    case kProto:
      if (const std::uint64_t version = take_number(1); version > 5)
        throw refuse(fmt::format("the protocol {} is not read", version));
      return true;
    case kFrame: take_number(8); return true;
    case kNone: push({}); return true;
    case kNewTrue: push({Kind::Bool, 1, 0, nullptr}); return true;
    case kNewFalse: push({Kind::Bool, 0, 0, nullptr}); return true;
    case kBinInt: integer(static_cast<std::int32_t>(take_number(4))); return true;
    case kBinInt1: integer(static_cast<std::int64_t>(take_number(1))); return true;
    case kBinInt2: integer(static_cast<std::int64_t>(take_number(2))); return true;
    case kLong1: push_long(take_bytes(take_number(1))); return true;
    case kLong4: push_long(take_bytes(take_number(4))); return true;
    case kInt: {
      const std::string line = take_line();
      if (line == "00" || line == "01")
        push({Kind::Bool, line == "01", 0, nullptr});
      else
        integer(parse_integer(line));
      return true;
    }
    case kLong: {
      std::string line = take_line();
      if (line.ends_with('L')) line.pop_back();
      integer(parse_integer(line));
      return true;
    }
    case kFloat: {
      const std::string line = take_line();
      char* end = nullptr;
      const double value = std::strtod(line.c_str(), &end);
      if (line.empty() || end != line.c_str() + line.size()) throw refuse("a float is not a number");
      push({Kind::Float, 0, value, nullptr});
      return true;
    }
    case kBinFloat: {  // the high byte first
      std::string raw = take_bytes(8);
      std::reverse(raw.begin(), raw.end());
      double value = 0;
      std::memcpy(&value, raw.data(), 8);
      push({Kind::Float, 0, value, nullptr});
      return true;
    }
    case kString:
    case kUnicode: {
      std::string line = take_line();
      if (op == kString) {
        if (line.size() < 2 || (line[0] != '\'' && line[0] != '"') || line.back() != line[0])
          throw refuse("a string is not quoted");
        line = line.substr(1, line.size() - 2);
      }
      if (line.find('\\') != std::string::npos || !is_utf8(line)) throw refuse("a string has escapes");
      push(make(Kind::String, std::move(line)));
      return true;
    }
    case kBinString: sized(Kind::String, 4); return true;
    case kShortBinString: sized(Kind::String, 1); return true;
    case kBinUnicode: sized(Kind::String, 4); return true;
    case kShortBinUnicode: sized(Kind::String, 1); return true;
    case kBinUnicode8: sized(Kind::String, 8); return true;
    case kBinBytes: sized(Kind::Bytes, 4); return true;
    case kShortBinBytes: sized(Kind::Bytes, 1); return true;
    case kBinBytes8:
    case kByteArray8: sized(Kind::Bytes, 8); return true;
    default: return false;
  }
}

bool PickleMachine::step_container(unsigned char op) {
  auto append = [&](PickleValue& list, const std::vector<PickleValue>& values) {
    list.node->items.insert(list.node->items.end(), values.begin(), values.end());
  };
  auto tuple = [&](std::size_t count) {
    std::vector<PickleValue> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push(make(Kind::Tuple, {}, std::move(items)));
  };
  switch (op) {
    case kMark: marks_.push_back(stack_.size()); return true;
    case kEmptyList:
    case kEmptySet: push(make(Kind::List)); return true;
    case kEmptyTuple: tuple(0); return true;
    case kEmptyDict: push(make(Kind::Dict)); return true;
    case kTuple1: tuple(1); return true;
    case kTuple2: tuple(2); return true;
    case kTuple3: tuple(3); return true;
    case kTuple: push(make(Kind::Tuple, {}, pop_to_mark())); return true;
    case kList:
    case kFrozenSet: push(make(Kind::List, {}, pop_to_mark())); return true;
    case kDict:
    case kSetItems: {
      const std::vector<PickleValue> pairs = pop_to_mark();
      if (pairs.size() % 2 != 0) throw refuse("a key has no value");
      if (op == kDict)
        push(make(Kind::Dict, {}, pairs));
      else
        append(top(Kind::Dict, "dict"), pairs);
      return true;
    }
    case kAppend: {
      const PickleValue value = pop();
      append(top(Kind::List, "list"), {value});
      return true;
    }
    case kAppends:
    case kAddItems: {
      const std::vector<PickleValue> values = pop_to_mark();
      append(top(Kind::List, "list"), values);
      return true;
    }
    case kSetItem: {
      const PickleValue value = pop(), key = pop();
      append(top(Kind::Dict, "dict"), {key, value});
      return true;
    }
    default: return false;
  }
}

bool PickleMachine::step_memory(unsigned char op) {
  auto remember = [&](std::uint64_t index) {
    const PickleValue value = pop();
    memo_[index] = value;
    push(value);
  };
  auto recall = [&](std::uint64_t index) { push(remembered(index)); };
  switch (op) {
    case kPop:
      if (!marks_.empty() && stack_.size() == marks_.back())
        marks_.pop_back();
      else
        pop();
      return true;
    case kPopMark: pop_to_mark(); return true;
    case kDup: {
      const PickleValue value = pop();
      push(value);
      push(value);
      return true;
    }
    case kGet: recall(static_cast<std::uint64_t>(parse_integer(take_line()))); return true;
    case kBinGet: recall(take_number(1)); return true;
    case kLongBinGet: recall(take_number(4)); return true;
    case kPut: remember(static_cast<std::uint64_t>(parse_integer(take_line()))); return true;
    case kBinPut: remember(take_number(1)); return true;
    case kLongBinPut: remember(take_number(4)); return true;
    case kMemoize: remember(memo_.size()); return true;
    default: return false;
  }
}

bool PickleMachine::step_call(unsigned char op) {
  switch (op) {
    case kGlobal: {
      const std::string module = take_line(), name = take_line();
      push_name(module, name);
      return true;
    }
    case kStackGlobal: {
      const PickleValue name = pop(), module = pop();
      if (!name.is(Kind::String) || !module.is(Kind::String)) throw refuse("a name is not a string");
      push_name(module.node->text, name.node->text);
      return true;
    }
    case kReduce:
    case kNewObj: {
      const PickleValue args = pop(), what = pop();
      if (!what.is(Kind::Name) || !args.is(Kind::Tuple))
        throw refuse("a call of something that is not a function");
      push(words_->call(what.node->text, args.node->items, op_at_));
      return true;
    }
    case kBuild: {
      // Attributes. Those of a dict (the versions of a state dict's modules) are not part of what it holds.
      pop();
      top(Kind::Dict, "dict");
      return true;
    }
    case kBinPersId: {
      const PickleValue id = pop();
      push(words_->persistent(id, op_at_));
      return true;
    }
    default: return false;
  }
}

// ---- what it means

Object PickleMachine::to_object(const PickleValue& value) {
  std::uint64_t left = steps_ * kMostCopies + kSomeNodes;
  return convert(value, 0, left);
}

Object PickleMachine::convert(const PickleValue& value, int depth, std::uint64_t& left) {
  if (depth > kMostDepth)
    throw file_.refuse(
        fmt::format("its values are nested deeper than {}, or contain themselves", kMostDepth));
  if (left-- == 0) throw file_.refuse("its values repeat each other until they are far larger than the file");
  switch (value.kind) {
    case Kind::None: return {};
    case Kind::Bool: return value.integer != 0;
    case Kind::Int: return value.integer;
    case Kind::Float: return value.number;
    case Kind::BigInt: throw file_.refuse("an integer does not fit 64 bits");
    case Kind::String:
    case Kind::Name: return value.node->text;
    case Kind::Bytes: {
      const auto* data = reinterpret_cast<const std::byte*>(value.node->text.data());
      return Object::Bytes{{data, data + value.node->text.size()}};
    }
    case Kind::Tensor: return value.node->tensor;
    case Kind::Storage: throw file_.refuse("a storage is outside a tensor");
    case Kind::List:
    case Kind::Tuple: {
      Object::Items items;
      for (const PickleValue& item : value.node->items) items.push_back(convert(item, depth + 1, left));
      return value.is(Kind::List) ? Object(std::move(items)) : Object(Object::Tuple{std::move(items)});
    }
    case Kind::Dict: {
      Object::Entries entries;
      std::unordered_map<std::string, std::size_t> places;  // a key that comes again has its last value
      const std::vector<PickleValue>& items = value.node->items;
      for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
        Object key = convert(items[i], depth + 1, left), content = convert(items[i + 1], depth + 1, left);
        if (key.is(Object::Kind::String) || key.is(Object::Kind::Int)) {
          const std::string text =
              key.is(Object::Kind::String) ? "s" + key.string() : "i" + std::to_string(key.integer());
          if (const auto [at, fresh] = places.try_emplace(text, entries.size()); !fresh) {
            entries[at->second].second = std::move(content);
            continue;
          }
        }
        entries.emplace_back(std::move(key), std::move(content));
      }
      return entries;
    }
  }
  throw InternalError(file_.op(), "a pickled value has no kind");
}

}  // namespace lathe::formats
