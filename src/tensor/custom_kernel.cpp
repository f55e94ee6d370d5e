#include <algorithm>

#include <fmt/format.h>

#include "ir/launch.h"
#include "ir/ranges.h"
#include "ir/verify.h"
#include "lathe/kernel.h"
#include "rewrite/rewriter.h"
#include "tensor/exact_remainder.h"
#include "tensor/impl.h"
#include "tensor/realize.h"

namespace lathe {

struct KernelExpression {
  NodeRef node;
};

struct KernelBuilder::State {
  std::vector<Node> params;
  std::vector<NodeRef> effects;
  std::vector<bool> written;
  std::int64_t next_range = 0;
  bool finished = false;
};

namespace {

constexpr std::string_view kOp = "custom_kernel";

KernelValue value_of(Node node) {
  return KernelValue(std::make_shared<const KernelExpression>(KernelExpression{node}));
}

Node node_of(const KernelValue& value, DType beside) {
  if (value.expression()) return value.expression()->node;
  return number(beside, value.literal().to_double());
}

std::optional<Op> scalar_op(std::string_view name) {
  std::optional<Op> op = parse_op(name);
  return op && is_scalar_op(*op) ? op : std::nullopt;
}

// Division and remainder have one name each to a user and several ops by dtype.
Op op_for(std::string_view name, DType dtype) {
  const bool index = dtype == dtypes::Index;
  if (name == "Div" && !dtype.is_float()) return index ? Op::FloorDiv : Op::TruncDiv;
  if (name == "Mod") return index ? Op::FloorMod : Op::TruncMod;
  if (std::optional<Op> op = scalar_op(name)) return *op;
  throw UserError(kOp, fmt::format("no scalar op is named \"{}\"", name)).help("docs/ops.md lists them");
}

Node index_of(const KernelValue& value, std::string_view what) {
  Node node = node_of(value, dtypes::Index);
  if (node.dtype() == dtypes::Index) return node;
  if (node.dtype().is_int()) return cast(node, dtypes::Index);
  throw UserError(kOp, fmt::format("{} is {}, which is not an index", what, node.dtype().str()));
}

Node gate_of(const std::optional<KernelValue>& gate) {
  if (!gate) return Node();
  Node node = node_of(*gate, dtypes::Bool);
  if (node.dtype() != dtypes::Bool)
    throw UserError(kOp, fmt::format("a gate is {}, not bool", node.dtype().str()));
  return node;
}

}  // namespace

KernelValue KernelValue::cast(DataType dtype) const {
  const DType to = ir_dtype(dtype);
  return value_of(lathe::cast(node_of(*this, to), to));
}

// What literals become: the dtype of the first operand that is none.
static DType dtype_of(std::span<const KernelValue> operands) {
  for (const KernelValue& operand : operands)
    if (operand.expression()) return operand.expression()->node->dtype();
  return dtypes::Index;
}

KernelValue KernelValue::apply(std::string_view name, const std::vector<KernelValue>& operands) {
  const bool condition_first = name == "Where" && !operands.empty();
  const DType dtype = dtype_of(std::span(operands).subspan(condition_first ? 1 : 0));
  const Op op = op_for(name, dtype);
  if (operands.size() != static_cast<std::size_t>(info(op).args))
    throw UserError(kOp, fmt::format("{} takes {} operands, not {}", name, info(op).args, operands.size()));
  SmallVector<Node, 4> args;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const DType wanted = condition_first && i == 0 ? dtypes::Bool : dtype;
    args.push_back(node_of(operands[i], wanted));
    if (args.back().dtype() != wanted)
      throw UserError(kOp, fmt::format("{} of {} and {}", name, dtype.str(), args.back().dtype().str()))
          .help("cast one of them");
  }
  // Indices know no subtraction: x - y is x + y * -1.
  if (op == Op::Sub && dtype == dtypes::Index) return value_of(args[0] - args[1]);
  return value_of(apply_scalar(op, args));
}

namespace {

// The words of exact remainders. Of two operands the first is no literal.
struct KernelWords {
  using Value = KernelValue;
  using V = const KernelValue&;
  static KernelValue cast(V v, DataType dtype) { return v.cast(dtype); }
  static KernelValue bitcast(V v, DataType dtype) {
    return value_of(lathe::bitcast(v.expression()->node, ir_dtype(dtype)));
  }
  static KernelValue abs(V v) { return where(less(v, 0), op("Neg", {v}), v); }
  static KernelValue trunc(V v) { return op("Trunc", {v}); }
  static KernelValue reciprocal(V v) { return op("Recip", {v}); }
  static KernelValue ones(V v) { return value_of(number(v.expression()->node->dtype(), 1)); }
  static KernelValue shift_left(V v, V n) { return op("Shl", {v, n}); }
  static KernelValue shift_right(V v, V n) { return op("Shr", {v, n}); }
  static KernelValue bits_and(V v, V w) { return op("And", {v, w}); }
  static KernelValue bits_or(V v, V w) { return op("Or", {v, w}); }
  static KernelValue both(V c, V d) { return op("And", {c, d}); }
  static KernelValue less(V v, V w) { return op("Less", {v, w}); }
  static KernelValue at_least(V v, V w) { return op("Eq", {less(v, w), false}); }
  static KernelValue equal(V v, V w) { return op("Eq", {v, w}); }
  static KernelValue where(V c, V v, V w) { return op("Where", {c, v, w}); }

 private:
  static KernelValue op(std::string_view name, const std::vector<KernelValue>& operands) {
    return KernelValue::apply(name, operands);
  }
};

// Exact whatever the quotient, with the sign of y.
KernelValue float_floor_mod(const KernelValue& dividend, const KernelValue& divisor, DType dtype) {
  using W = KernelWords;
  const DataType type = data_type(dtype);
  const std::optional<double> known =
      divisor.expression() ? std::nullopt : std::optional(divisor.literal().to_double());
  const KernelValue x = dividend.cast(type), y = divisor.cast(type);
  const KernelValue size = exact_remainder::size_of_rest<W>(x, y, type, known);
  const KernelValue below = W::less(y, 0),
                    rest = W::where(W::less(x, 0), KernelValue::apply("Neg", {size}), size);
  const KernelValue apart = KernelValue::apply("Ne", {W::less(rest, 0), below});
  const KernelValue moved = W::where(apart, rest + y, rest);
  const KernelValue zero = W::where(below, value_of(number(dtype, -0.0)), value_of(number(dtype, 0.0)));
  return W::where(W::equal(rest, 0), zero, moved);
}

// Rounded down. x - rest is n*y with a whole n, up to rounding.
KernelValue float_floor_div(const KernelValue& dividend, const KernelValue& divisor, DType dtype) {
  using W = KernelWords;
  const DataType wide = dtype.bits() < 32 ? dtypes::float64 : data_type(dtype);
  const KernelValue x = dividend.cast(data_type(dtype)).cast(wide),
                    y = divisor.cast(data_type(dtype)).cast(wide);
  const KernelValue plain = x / y, quotient = (x - float_floor_mod(dividend, divisor, dtype).cast(wide)) / y;
  const KernelValue floor = KernelValue::apply("Floor", {quotient});
  const KernelValue whole = W::where(W::less(0.5, quotient - floor), floor + 1, floor);
  const KernelValue answered =
      W::where(W::equal(whole, 0), plain * 0, whole);  // a zero with the quotient's sign
  return W::where(W::equal(y, 0), plain, answered).cast(data_type(dtype));
}

}  // namespace

KernelValue KernelValue::floor_div(const KernelValue& x, const KernelValue& y) {
  const KernelValue both[] = {x, y};
  const DType dtype = dtype_of(both);
  return dtype.is_float() ? float_floor_div(x, y, dtype) : apply("FloorDiv", {x, y});
}
KernelValue KernelValue::floor_mod(const KernelValue& x, const KernelValue& y) {
  const KernelValue both[] = {x, y};
  const DType dtype = dtype_of(both);
  return dtype.is_float() ? float_floor_mod(x, y, dtype) : apply("FloorMod", {x, y});
}
KernelValue KernelValue::true_div(const KernelValue& x, const KernelValue& y) {
  const KernelValue both[] = {x, y};
  if (const DType dtype = dtype_of(both); !dtype.is_float())
    throw UserError(kOp, fmt::format("/ of {}", dtype.str()))
        .help("// rounds down; cast() to a float dtype for fractions");
  return apply("Div", {x, y});
}

KernelBuilder::State& KernelBuilder::state() const {
  if (state_->finished)
    throw UserError(kOp, "the kernel is finished")
        .help("use its builder only inside the function that gets it");
  return *state_;
}

KernelValue KernelBuilder::range(std::int64_t extent) {
  if (extent < 0) throw UserError(kOp, fmt::format("a range of {} steps", extent));
  return value_of(lathe::range(index_const(extent), state().next_range++, RangeKind::Global));
}
KernelValue KernelBuilder::reduce_range(std::int64_t extent) {
  if (extent < 0) throw UserError(kOp, fmt::format("a range of {} steps", extent));
  return value_of(lathe::range(index_const(extent), state().next_range++, RangeKind::Reduce));
}

namespace {

Node param_at(const std::vector<Node>& params, std::size_t tensor) {
  if (tensor < params.size()) return params[tensor];
  throw UserError(kOp, fmt::format("tensor {} of a list of {}", tensor, params.size()));
}

}  // namespace

KernelValue KernelBuilder::load(std::size_t tensor, const KernelValue& index,
                                const std::optional<KernelValue>& gate) {
  return value_of(
      lathe::load(param_at(state().params, tensor), index_of(index, "the index of a load"), gate_of(gate)));
}

KernelValue KernelBuilder::reduce(std::string_view name, const KernelValue& element,
                                  const std::vector<KernelValue>& over) {
  constexpr Op kReduces[] = {Op::Add, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or};
  const std::optional<Op> op = scalar_op(name);
  if (!op || std::find(std::begin(kReduces), std::end(kReduces), *op) == std::end(kReduces))
    throw UserError(kOp, fmt::format("\"{}\" is not a reduce", name)).help("Add, Mul, Max, Min, And or Or");
  if (!element.expression()) throw UserError(kOp, "a reduce of a literal");
  SmallVector<Node, 4> ranges;
  for (const KernelValue& range : over) {
    Node node = range.expression() ? range.expression()->node.node() : Node();
    if (!node || !node.is(Op::Range) || range_kind(node) != RangeKind::Reduce)
      throw UserError(kOp, "a reduce runs over ranges that reduce_range() made");
    ranges.push_back(node);
  }
  return value_of(reduce_ranges(*op, element.expression()->node, ranges));
}

void KernelBuilder::store(std::size_t tensor, const KernelValue& index, const KernelValue& value,
                          const std::optional<KernelValue>& gate) {
  Node memory = param_at(state().params, tensor), stored = node_of(value, memory.dtype());
  if (stored.dtype() == dtypes::Index) stored = lathe::cast(stored, memory.dtype());
  if (stored.dtype() != memory.dtype())
    throw UserError(
        kOp, fmt::format("a store of {} to a tensor of {}", stored.dtype().str(), memory.dtype().str()))
        .help("cast the value");
  Node effect = lathe::store(memory, index_of(index, "the index of a store"), stored, gate_of(gate));
  std::span<const Node> open = ranges_of(effect);
  for (Node range : open)
    if (range_kind(range) == RangeKind::Reduce)
      throw UserError(kOp, "a store depends on a reduce range that no reduce closes");
  state().effects.emplace_back(end(effect, open));
  state().written[tensor] = true;
}

namespace {

// The memory of a tensor that the kernel writes: all of its storage.
Node memory_to_write(const Tensor& tensor, std::size_t place) {
  TensorImpl& impl = *tensor.impl();
  if (impl.view)
    throw UserError(kOp, fmt::format("tensor {} is a view, but a kernel stores to whole tensors", place))
        .help("store to the tensor it was made from");
  Storage& s = *impl.storage;
  Node base = s.value, memory = memory_of(base);
  if (!memory || numel_max(memory) != numel_max(base)) {
    base = stored_value(base, s.device);
    s.value = base;
    memory = memory_of(base);
  }
  return memory;
}

// Memory in row-major order that holds the value: the tensor's own where it is that already.
Node memory_to_read(const Tensor& tensor) {
  Node n = lathe::node_of(tensor), at = n;
  while (at.is(Op::Reshape)) at = at.arg(0);
  if (at.is(Op::Buffer) || at.is(Op::After)) return at;
  return contiguous(n);
}

std::string first_fault(Node kernel) {
  const std::vector<VerifyFault> faults = verify_kernel(kernel);
  return faults.empty() ? "" : faults[0].text;
}

}  // namespace

std::vector<Tensor> custom_kernel(const std::vector<Tensor>& tensors,
                                  const std::function<void(KernelBuilder&)>& body,
                                  const CustomKernelOptions& options) {
  Scope scope;
  if (tensors.empty()) throw UserError(kOp, "a kernel needs a tensor to store to");
  const auto shared = std::make_shared<KernelBuilder::State>();
  KernelBuilder::State& state = *shared;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check_same_device(kOp, tensors[0], tensors[i]);
    Node n = lathe::node_of(tensors[i]);
    state.params.push_back(param(n.dtype(), static_cast<std::int64_t>(i), numel_max(n)));
  }
  state.written.resize(tensors.size());
  {
    struct Finish {
      KernelBuilder::State& state;
      ~Finish() { state.finished = true; }
    } const finish{state};
    KernelBuilder builder(shared);
    body(builder);
  }
  if (state.effects.empty())
    throw UserError(kOp, "the kernel stores nothing").help("call store() for at least one tensor");
  const std::vector<Node> effects(state.effects.begin(), state.effects.end());
  const Node kernel = sink(effects);
  if (const std::string fault = first_fault(kernel); !fault.empty()) throw UserError(kOp, fault);

  std::lock_guard guard(storage_mutex());
  std::vector<Node> memory;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    memory.push_back(state.written[i] ? memory_to_write(tensors[i], i) : memory_to_read(tensors[i]));
    for (std::size_t j = 0; j < i; ++j)
      if (base_memory(memory[i]) == base_memory(memory[j]) && (state.written[i] || state.written[j]))
        throw UserError(kOp, fmt::format("tensors {} and {} share memory that the kernel writes", j, i))
            .help("clone() one of them");
  }
  const std::string attached = options.options ? "[" + to_string(*options.options) + "]" : "";
  const Node effect = launch({options.name, attached, kernel}, memory);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!state.written[i]) continue;
    Storage& s = *tensors[i].impl()->storage;
    s.value = over_memory(s.value, memory[i], after(memory[i], std::span(&effect, 1)));
    s.writer = std::this_thread::get_id();
    s.tracked = false;
    ++s.version;
  }
  return tensors;
}

}  // namespace lathe
