#include "engine/program_form.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "base/error.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe::engine {
namespace {

// More arguments than this are not sizes but another kernel.
constexpr std::size_t kMostArguments = 48;
// Room above the numbers seen, in bits: index arithmetic stays in 32 bits where that is not much, and a loop
// over growing sizes meets the end of it only now and then. Memory that is not used is still set aside.
constexpr int kRoomBits = 4, kMemoryRoomBits = 1;
constexpr std::int64_t kLeastRoom = 4095, kLeastMemoryRoom = 63;

constexpr std::uint64_t kConstantOperand = std::uint64_t{1} << 62, kOpenOperand = std::uint64_t{1} << 63;

// Ops that do with any operand what they do with a constant, in the numbers they give and in how they are
// printed. A shift is not among them: how it is printed depends on what is known of its amount.
bool computes_integers_openly(Op op) {
  switch (op) {
    case Op::Add:
    case Op::Sub:
    case Op::Mul:
    case Op::TruncDiv:
    case Op::TruncMod:
    case Op::Max:
    case Op::Min:
    case Op::And:
    case Op::Or:
    case Op::Xor:
    case Op::Less:
    case Op::Eq:
    case Op::Ne: return true;
    default: return false;
  }
}
// Not maximum, minimum and comparisons, of which a printer takes the operands in the order that suits a
// constant.
bool computes_floats_openly(Op op) {
  return op == Op::Add || op == Op::Sub || op == Op::Mul || op == Op::Div || op == Op::Fma;
}

bool is_open_integer(DType dtype) { return dtype == dtypes::Int32 || dtype == dtypes::Int64; }
bool is_open_float(DType dtype) { return dtype == dtypes::Float32 || dtype == dtypes::Float64; }

std::int64_t bits_of(Node constant) {
  const DType dtype = constant.dtype();
  if (!dtype.is_float()) return constant.int_attr();
  const double value = constant.float_attr();
  if (dtype == dtypes::Float32) return std::bit_cast<std::int32_t>(static_cast<float>(value));
  return std::bit_cast<std::int64_t>(value);
}

// A program in the order in which its form lists it.
class Walk {
 public:
  explicit Walk(const Program& program) {
    std::vector<Node> roots(program.code.begin(), program.code.end());
    order_ = toposort(roots);
    for (const Node& node : order_)
      for (const Node& arg : node.args())
        if (arg.is(Op::Splat) && arg.arg(0).is_const() && arg.dtype().is_float() &&
            !computes_floats_openly(node.op()))
          fixed_[arg] = true;
  }

  const std::vector<Node>& order() const { return order_; }

  // Whether a constant that is this operand may be an argument.
  bool opens(Node node, std::size_t i) const {
    const Node constant = node.arg(i);
    const DType dtype = constant.dtype();
    if (dtype.is_float()) {
      if (!is_open_float(dtype) || std::isnan(constant.float_attr())) return false;
      return node.is(Op::Splat) ? !fixed_.contains(node) : computes_floats_openly(node.op());
    }
    if (!is_open_integer(dtype)) return false;
    switch (node.op()) {
      case Op::Splat:
      case Op::Vec:
      case Op::Range: return true;
      case Op::Where: return i > 0;
      case Op::Load:
      case Op::Store:
      case Op::Prefetch: return i == 1 && base_memory(node.arg(0)).is(Op::Param);
      case Op::TruncDiv:
      case Op::TruncMod: return i == 0 || constant.int_attr() > 0;
      default: return computes_integers_openly(node.op());
    }
  }

 private:
  std::vector<Node> order_;
  NodeMap<bool> fixed_;  // vectors of one constant that some user needs as it is
};

void add_text(std::vector<std::uint64_t>& words, const std::string& text) {
  words.push_back(text.size());
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
    words.push_back(word);
  }
}

void add_attr(std::vector<std::uint64_t>& words, const Attr& attr) {
  words.push_back(static_cast<std::uint64_t>(attr.kind));
  switch (attr.kind) {
    case Attr::Kind::None: return;
    case Attr::Kind::Int: words.push_back(static_cast<std::uint64_t>(attr.i)); return;
    case Attr::Kind::Float: words.push_back(std::bit_cast<std::uint64_t>(attr.f)); return;
    case Attr::Kind::Data: break;
  }
  add_text(words, attr.data->text);
  words.push_back(attr.data->ints.size());
  for (const std::int64_t i : attr.data->ints) words.push_back(static_cast<std::uint64_t>(i));
}

std::uint64_t dtype_word(DType dtype) {
  return static_cast<std::uint64_t>(dtype.scalar) | static_cast<std::uint64_t>(dtype.lanes) << 8;
}

// A number of an attribute that may be larger than a size needs it.
struct Bound {
  std::size_t at;  // in the attribute
  FormNumber::Place place;
};
std::optional<Bound> bound_of(Node node) {
  if (node.is(Op::Param)) return Bound{1, FormNumber::Place::Bound};
  if (node.is(Op::Special) && !node.ints().empty() && node.ints()[0] > 0)
    return Bound{0, FormNumber::Place::Bound};
  // Memory of one element is a register.
  if (node.is(Op::Define) && node.ints().size() == 3 && define_space(node) == Space::Register &&
      memory_size(node) > 1)
    return Bound{1, FormNumber::Place::Memory};
  return std::nullopt;
}

std::int64_t room_above(std::int64_t number, std::int64_t most,
                        FormNumber::Place place = FormNumber::Place::Operand) {
  const bool memory = place == FormNumber::Place::Memory;
  const auto magnitude = static_cast<std::uint64_t>(number < 0 ? -(number + 1) : number);
  const int bits = std::bit_width(magnitude) + (memory ? kMemoryRoomBits : kRoomBits);
  if (bits >= 62) return most;
  return std::min(most, std::max(memory ? kLeastMemoryRoom : kLeastRoom, (std::int64_t{1} << bits) - 1));
}

bool is_single(const NodeRef& size) { return !size || size->is_const(); }

}  // namespace

std::optional<ProgramForm> form_of(const Program& program) {
  if (!program.variables.empty() || !is_single(program.threads)) return std::nullopt;
  for (std::size_t i = 0; i < 3; ++i)
    if (!is_single(program.groups[i]) || !is_single(program.locals[i])) return std::nullopt;
  ProgramForm form;
  const Walk walk(program);
  NodeMap<std::uint64_t> place;
  place.reserve(walk.order().size());
  form.words.reserve(walk.order().size() * 5);
  for (const Node& node : walk.order()) {
    if (node.is_const()) continue;
    if (node.is(Op::BulkCopy)) return std::nullopt;  // the launch describes its matrix to the device
    place[node] = place.size();
    form.words.push_back(static_cast<std::uint64_t>(node.op()) | static_cast<std::uint64_t>(node.arg_count())
                                                                     << 16);
    form.words.push_back(dtype_word(node.dtype()));
    if (const auto bound = bound_of(node)) {
      add_text(form.words, node.text());
      for (std::size_t i = 0; i < node.ints().size(); ++i)
        if (i != bound->at) form.words.push_back(static_cast<std::uint64_t>(node.ints()[i]));
      form.numbers.push_back({node.ints()[bound->at], dtypes::Int64, bound->place});
    } else {
      add_attr(form.words, node.attr());
    }
    for (std::size_t i = 0; i < node.arg_count(); ++i) {
      const Node arg = node.arg(i);
      if (!arg.is_const()) {
        form.words.push_back(*place.find(arg));
      } else if (walk.opens(node, i)) {
        form.words.push_back(kOpenOperand | dtype_word(arg.dtype()));
        form.numbers.push_back({bits_of(arg), arg.dtype(), FormNumber::Place::Operand});
      } else {
        form.words.push_back(kConstantOperand | dtype_word(arg.dtype()));
        add_attr(form.words, arg.attr());
      }
    }
  }
  for (const NodeRef& node : program.code) form.words.push_back(*place.find(node));
  for (const ProgramParam& param : program.params) {
    form.words.push_back(static_cast<std::uint64_t>(param.slot) << 2 | (param.reads ? 1 : 0) |
                         (param.writes ? 2 : 0));
    form.words.push_back(dtype_word(param.dtype));
  }
  for (const NodeRef& local : program.locals)
    form.words.push_back(local ? static_cast<std::uint64_t>(local->const_int()) : 0);
  form.words.push_back(static_cast<std::uint64_t>(program.shared_bytes));
  form.words.push_back(program.checks.size());
  return form;
}

namespace {

// Makes one program with arguments.
class Opener {
 public:
  Opener(const Program& program, const ProgramForm& form, std::span<const FormNumber> other,
         const OpenProgram* open)
      : from_(program), form_(form) {
    out_.argument.assign(form.numbers.size(), -1);
    for (std::size_t i = 0; i < form.numbers.size(); ++i) {
      const FormNumber& number = form.numbers[i];
      const std::int64_t mine = number.bits, theirs = other[i].bits;
      const int theirs_open = open != nullptr ? open->argument[i] : -1;
      if (number.place != FormNumber::Place::Operand) {
        const std::int64_t known = open != nullptr ? open->numbers[i] : theirs;
        const bool fits = mine == theirs || (open != nullptr && mine <= known);
        out_.numbers.push_back(fits ? known : room_above(std::max(mine, known), kMostInt, number.place));
        continue;
      }
      out_.numbers.push_back(mine);
      if (mine == theirs && theirs_open < 0) continue;
      const auto key = std::tuple(mine, theirs, theirs_open, number.dtype.scalar);
      const auto [at, added] = known_.try_emplace(key, static_cast<int>(arguments_.size()));
      if (added) add_argument(number, theirs);
      out_.argument[i] = at->second;
    }
  }

  std::optional<OpenProgram> run() {
    if (arguments_.empty() || arguments_.size() > kMostArguments) return std::nullopt;
    const Walk walk(from_);
    std::size_t next = 0;
    for (const Node& node : walk.order()) {
      if (node.is_const()) continue;
      SmallVector<Node, 16> args;
      const auto bound = bound_of(node);
      if (bound) ++next;
      const std::size_t first = next;
      for (std::size_t i = 0; i < node.arg_count(); ++i) {
        const Node arg = node.arg(i);
        if (!arg.is_const()) {
          args.push_back(*now_.find(arg));
          continue;
        }
        const int argument = walk.opens(node, i) ? out_.argument[next++] : -1;
        args.push_back(argument < 0 ? arg : arguments_[static_cast<std::size_t>(argument)]);
      }
      if (bound) {
        AttrData attr{node.text(), {node.ints().begin(), node.ints().end()}};
        attr.ints[bound->at] = out_.numbers[first - 1];
        now_[node] = intern(node.op(), node.dtype(), {}, Attr::of(attr));
      } else {
        now_[node] = intern(node.op(), node.dtype(), args, node.attr());
      }
    }
    check_internal(next == form_.numbers.size(), "engine", "a form lists other numbers than its program has");
    list();
    return std::move(out_);
  }

 private:
  static constexpr std::int64_t kMostInt = std::numeric_limits<std::int64_t>::max();

  void add_argument(const FormNumber& number, std::int64_t theirs) {
    const std::string name = fmt::format("k{:02}", arguments_.size());
    const bool single = number.dtype.bits() == 32;
    std::int64_t low = single ? std::numeric_limits<std::int32_t>::min() : -kMostInt,
                 high = single ? std::numeric_limits<std::int32_t>::max() : kMostInt;
    if (!number.dtype.is_float()) {
      const std::int64_t least = std::min(number.bits, theirs), most = std::max(number.bits, theirs);
      high = most < 0 ? -1 : room_above(most, high);
      low = least > 0 ? 1 : least == 0 ? 0 : std::max(low, -room_above(least, kMostInt) - 1);
    }
    out_.low.push_back(low);
    out_.high.push_back(high);
    const AttrData attr{name, {low, high}};
    const Node variable = intern(Op::Var, single ? dtypes::Int32 : dtypes::Int64, {}, Attr::of(attr));
    out_.program.variables.emplace_back(variable);
    if (!number.dtype.is_float()) {
      arguments_.push_back(variable);
      return;
    }
    arguments_.push_back(intern(Op::Bitcast, number.dtype, {variable}));
    out_.program.code.emplace_back(arguments_.back());
  }

  void list() {
    Program& made = out_.program;
    for (const NodeRef& node : from_.code) made.code.emplace_back(*now_.find(node));
    made.name = from_.name;
    made.params = from_.params;
    for (ProgramParam& param : made.params)
      for (const auto& [old, now] : now_)
        if (old.is(Op::Param) && param_slot(old) == param.slot) param.size = memory_size(now);
    made.groups = from_.groups;
    made.locals = from_.locals;
    made.threads = from_.threads;
    made.shared_bytes = from_.shared_bytes;
    made.checks = from_.checks;
    made.flops = from_.flops;
    made.bytes = from_.bytes;
  }

  const Program& from_;
  const ProgramForm& form_;
  std::map<std::tuple<std::int64_t, std::int64_t, int, Scalar>, int> known_;
  std::vector<Node> arguments_;
  NodeMap<Node> now_;
  OpenProgram out_;
};

}  // namespace

std::optional<OpenProgram> open_program(const Program& program, const ProgramForm& form,
                                        std::span<const FormNumber> other, const OpenProgram* open) {
  return Opener(program, form, other, open).run();
}

std::optional<std::vector<std::int64_t>> arguments_for(const OpenProgram& open,
                                                       std::span<const FormNumber> numbers) {
  check_internal(numbers.size() == open.argument.size(), "engine", "the numbers are those of another form");
  std::vector<std::int64_t> values(open.low.size());
  std::vector<bool> known(open.low.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::int64_t bits = numbers[i].bits;
    if (numbers[i].place != FormNumber::Place::Operand) {
      if (bits > open.numbers[i]) return std::nullopt;
    } else if (open.argument[i] < 0) {
      if (bits != open.numbers[i]) return std::nullopt;
    } else {
      const auto argument = static_cast<std::size_t>(open.argument[i]);
      if (known[argument] && values[argument] != bits) return std::nullopt;
      if (bits < open.low[argument] || bits > open.high[argument]) return std::nullopt;
      values[argument] = bits;
      known[argument] = true;
    }
  }
  return values;
}

}  // namespace lathe::engine
