#include "ir/text.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

constexpr std::uint64_t kPlainNan = 0x7ff8000000000000ull;

// Exact: integers in decimal, others in hexadecimal notation, NaN with its bits unless it is the plain
// one.
std::string float_text(double v) {
  if (std::isnan(v)) {
    auto bits = std::bit_cast<std::uint64_t>(v);
    return bits == kPlainNan ? "nan" : fmt::format("nan:{:#x}", bits);
  }
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  bool whole = std::floor(v) == v && std::fabs(v) < 1e15 && !(v == 0 && std::signbit(v));
  return whole ? fmt::format("{}", static_cast<std::int64_t>(v)) : fmt::format("{:a}", v);
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 32)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + '"';
}

// Numbers that stand for an op, a range kind or a space print as its name: table rows may move, names do not.
std::string int_text(Op op, std::size_t place, std::int64_t v) {
  using enum AttrForm::Named;
  switch (info(op).attribute.named) {
    case OpAt0:
      if (place == 0) return std::string(info(static_cast<Op>(v)).name);
      break;
    case KindAt1:
      if (place == 1) return std::string(name(static_cast<RangeKind>(v)));
      break;
    case SpaceAt2:
      if (place == 2) return std::string(name(static_cast<Space>(v)));
      break;
    case Nothing: break;
  }
  return fmt::format("{}", v);
}

std::string attr_text(Node node) {
  const Attr& a = node.attr();
  switch (a.kind) {
    case Attr::Kind::None: return "";
    case Attr::Kind::Int: return int_text(node.op(), 0, a.i) + " ";
    case Attr::Kind::Float: return float_text(a.f) + " ";
    case Attr::Kind::Data: break;
  }
  std::string out = a.data->text.empty() ? "" : quoted(a.data->text) + " ";
  if (a.data->ints.empty() && !a.data->text.empty()) return out;
  out += "[";
  for (std::size_t i = 0; i < a.data->ints.size(); ++i)
    out += (i > 0 ? ", " : "") + int_text(node.op(), i, a.data->ints[i]);
  return out + "] ";
}

using Numbers = NodeMap<std::size_t>;

std::string reference(const Numbers& numbers, Node node) {
  const std::size_t* n = numbers.find(node);
  return n == nullptr ? "%?" : fmt::format("%{}", *n);
}

std::string line_text(const Numbers& numbers, Node node) {
  std::string out = fmt::format("{} = {}.{} {}(", reference(numbers, node), info(node.op()).name,
                                node.dtype().str(), attr_text(node));
  for (std::size_t i = 0; i < node.arg_count(); ++i)
    out += (i > 0 ? ", " : "") + reference(numbers, node.arg(i));
  return out + ")\n";
}

}  // namespace

std::string print_graph(std::span<const Node> roots) {
  Numbers numbers;
  std::string out;
  for (Node node : toposort(roots)) {
    numbers.try_emplace(node, numbers.size());
    out += line_text(numbers, node);
  }
  return out;
}
std::string print_graph(Node root) { return print_graph(std::span<const Node>(&root, 1)); }

std::string print_node(Node node) {
  if (!node) return "null";
  std::string out = fmt::format("{}.{} {}(", info(node.op()).name, node.dtype().str(), attr_text(node));
  for (std::size_t i = 0; i < node.arg_count(); ++i) {
    Node a = node.arg(i);
    std::string attr = attr_text(a);
    if (!attr.empty()) attr = " " + attr.substr(0, attr.size() - 1);
    out += fmt::format("{}{}.{}{}", i > 0 ? ", " : "", info(a.op()).name, a.dtype().str(), attr);
  }
  return out + ")";
}

namespace {

// Prints what the instructions need, in the order in which it is first needed.
class ProgramPrinter {
 public:
  void operands_of(std::span<const Node> roots) {
    for (Node node : toposort(roots)) {
      if (numbers_.contains(node)) continue;
      numbers_.try_emplace(node, numbers_.size());
      out_ += "let " + line_text(numbers_, node);
    }
  }

  void instruction(Node node) {
    operands_of(node.args());
    bool closes = node.is(Op::EndIf) || (node.is(Op::End) && node.arg_count() == 1);
    if (closes && depth_ > 0) --depth_;
    std::string indent(static_cast<std::size_t>(2 + 2 * depth_), ' ');
    if (numbers_.contains(node)) {
      out_ += fmt::format("{}run {}\n", indent, reference(numbers_, node));
    } else {
      numbers_.try_emplace(node, numbers_.size());
      out_ += indent + line_text(numbers_, node);
    }
    if (node.is(Op::If) || node.is(Op::Range)) ++depth_;
  }

  void sizes(std::string_view word, std::span<const NodeRef> nodes) {
    out_ += word;
    for (const NodeRef& n : nodes) out_ += n ? " " + reference(numbers_, n) : " 1";
    out_ += "\n";
  }

  void add(std::string_view text) { out_ += text; }
  std::string take() { return std::move(out_); }

 private:
  Numbers numbers_;
  std::string out_;
  int depth_ = 0;
};

}  // namespace

std::string print_program(const Program& program) {
  ProgramPrinter printer;
  printer.add(fmt::format("program {}\n", quoted(program.name)));
  for (const ProgramParam& p : program.params)
    printer.add(fmt::format("param {} {} {} {}{}\n", p.slot, p.dtype.str(), p.size, p.reads ? "r" : "-",
                            p.writes ? "w" : "-"));
  for (const ProgramCheck& c : program.checks)
    printer.add(fmt::format("check {} {}\n", quoted(c.op), c.size));
  std::vector<Node> head;
  for (const auto& list :
       {std::span<const NodeRef>(program.variables), std::span<const NodeRef>(program.groups),
        std::span<const NodeRef>(program.locals), std::span<const NodeRef>(&program.threads, 1)})
    for (const NodeRef& n : list)
      if (n) head.push_back(n);
  printer.operands_of(head);
  printer.sizes("variables", program.variables);
  printer.sizes("groups", program.groups);
  printer.sizes("locals", program.locals);
  printer.sizes("threads", {&program.threads, 1});
  printer.add(fmt::format("counts {} {} {}\n", program.shared_bytes, float_text(program.flops),
                          float_text(program.bytes)));
  for (const NodeRef& n : program.code) printer.instruction(n);
  return printer.take();
}

}  // namespace lathe
