#include "reference/tensor_eval.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/launch.h"
#include "ir/text.h"
#include "reference/movement.h"
#include "reference/scalar.h"

namespace lathe::reference {

std::int64_t index_value(Node expression, const Bindings& bindings) {
  if (expression.is_const()) return expression.int_attr();
  NodeMap<Element> values;
  for (Node n : toposort(expression)) {
    Element v;
    if (n.is_const())
      v = element_of(n);
    else if (n.is(Op::Var)) {
      auto it =
          std::find_if(bindings.begin(), bindings.end(), [&](const auto& b) { return b.first == n.text(); });
      if (it == bindings.end())
        throw UserError("reference", fmt::format("the variable {} has no value", n.text()));
      v.i = it->second;
    } else if (n.is(Op::Bind))
      v = *values.find(n.arg(1));
    else if (n.is(Op::Cast))
      v = convert(n.dtype(), n.arg(0).dtype(), *values.find(n.arg(0)));
    else if (is_scalar_op(n.op())) {
      Element x[3];
      for (std::size_t i = 0; i < n.arg_count(); ++i) x[i] = *values.find(n.arg(i));
      v = evaluate(n.op(), n.arg(n.is(Op::Where) ? 1 : 0).dtype(), x[0], x[1], x[2]);
    } else
      throw InternalError("reference", "no index expression: " + print_node(expression));
    values[n] = v;
  }
  return values.find(expression)->i;
}

namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::int64_t kMaxShared = std::int64_t{1}
                                    << 22;  // elements worth keeping so as not to compute them twice
constexpr int kMaxDepth = 48;               // ops computed through one another without keeping any

bool passes_through(Op op) {
  return op == Op::Contiguous || op == Op::Detach || op == Op::GradFence || op == Op::Custom ||
         op == Op::Copy || op == Op::Get;
}

class TensorEval {
 public:
  TensorEval(std::span<const Node> roots, const BufferContents& buffers, Bindings bindings)
      : roots_(roots.begin(), roots.end()), buffers_(buffers), bindings_(std::move(bindings)) {
    find_order();
    find_bindings();
    for (Node n : order_) sizes_[n] = sizes_of(n.shape());
    choose_kept();
  }

  std::vector<TensorValue> run() {
    for (Node n : order_)
      if (kept_.contains(n) && !arrays_.contains(n)) arrays_[n] = compute(n);
    std::vector<TensorValue> out;
    for (Node r : roots_) out.push_back({*sizes_.find(r), *arrays_.find(r)});
    return out;
  }

 private:
  using Cells = std::vector<Cell>;

  // The operands whose values a node's value is made from.
  static std::vector<Node> value_args(Node n) {
    if (is_movement(n.op()) || passes_through(n.op()) || n.is(Op::Reduce)) return {n.arg(0)};
    if (n.is(Op::Sort) || (n.is(Op::Scan) && n.arg_count() == 1)) return {n.arg(0)};
    // The lists of a RaggedReduce say what its rows say: only the rows are read here.
    if (combines_in_order(n)) return {n.arg(0), n.arg(1)};
    if (is_elementwise(n.op()) || n.is(Op::Bitcast) || n.is(Op::Take))
      return {n.args().begin(), n.args().end()};
    if (n.is(Op::After)) {
      std::vector<Node> out = {n.arg(0)};
      for (Node effect : n.args().subspan(1)) {
        if (effect.is(Op::Launch))
          out.insert(out.end(), effect.args().begin(), effect.args().end());
        else if (effect.is(Op::Store))
          out.push_back(effect.arg(1));
        else
          throw InternalError("reference", "no effect of a tensor graph: " + print_node(effect));
      }
      return out;
    }
    if (n.is(Op::Const) || n.is(Op::Var) || n.is(Op::Bind) || n.is(Op::Buffer) || n.is(Op::Arange)) return {};
    throw InternalError("reference", "no value of a tensor graph: " + print_node(n));
  }

  void find_order() {
    struct Frame {
      Node node;
      std::vector<Node> args;
      std::size_t next;
    };
    NodeMap<char> seen;
    std::vector<Frame> stack;
    auto enter = [&](Node n) {
      if (seen.try_emplace(n).second) stack.push_back({n, value_args(n), 0});
    };
    for (Node r : roots_) {
      enter(r);
      while (!stack.empty()) {
        Frame& top = stack.back();
        if (top.next < top.args.size()) {
          enter(top.args[top.next++]);
        } else {
          order_.push_back(top.node);
          stack.pop_back();
        }
      }
    }
  }

  // Bind nodes may be anywhere below, in shapes too.
  void find_bindings() {
    for (Node n : toposort(roots_))
      if (n.is(Op::Bind)) bindings_.emplace_back(n.arg(0).text(), n.arg(1).const_int());
  }

  std::vector<std::int64_t> sizes_of(std::span<const Node> shape) const {
    std::vector<std::int64_t> out;
    for (Node d : shape) out.push_back(index_value(d, bindings_));
    return out;
  }
  std::int64_t count(Node n) const { return product(*sizes_.find(n)); }

  static bool changes_width(Node n) {
    return n.is(Op::Bitcast) && n.dtype().bits() != n.arg(0).dtype().bits();
  }

  static bool combines_in_order(Node n) {
    return n.is(Op::RaggedReduce) || n.is(Op::Scatter) || n.is(Op::Scan);
  }
  // Needs all of its operands at once.
  static bool is_of_whole_arrays(Node n) { return combines_in_order(n) || n.is(Op::Sort); }

  void choose_kept() {
    NodeMap<std::uint32_t> uses;
    for (Node n : order_)
      for (Node a : value_args(n)) {
        ++uses[a];
        if (changes_width(n) || n.is(Op::After) || n.is(Op::Take) || is_of_whole_arrays(n)) kept_[a] = 1;
      }
    for (Node r : roots_) kept_[r] = 1;
    NodeMap<int> depth;
    for (Node n : order_) {
      int d = 0;
      for (Node a : value_args(n)) d = std::max(d, *depth.find(a) + 1);
      bool own = n.is(Op::Buffer) || n.is(Op::After) || n.is(Op::Reduce) || is_of_whole_arrays(n) ||
                 changes_width(n) || n.rank() == 0;
      bool shared = uses[n] > 1 && !is_movement(n.op()) && count(n) <= kMaxShared;
      if (own || shared || d > kMaxDepth) kept_[n] = 1;
      depth[n] = kept_.contains(n) ? 0 : d;
    }
    for (Node n : order_)
      if (is_movement(n.op())) maps_[n] = map_of(n);
  }

  MovementMap map_of(Node n) const {
    std::vector<std::int64_t> operands;
    for (Node a : n.args().subspan(1)) operands.push_back(index_value(a, bindings_));
    return MovementMap(n, sizes_of(n.arg(0).shape()), sizes_of(n.shape()), operands);
  }

  // ---- whole arrays

  Array compute(Node n) {
    if (n.is(Op::Buffer)) {
      const Array* contents = buffers_.find(n);
      if (contents == nullptr) throw UserError("reference", "no contents were given for " + print_node(n));
      if (contents->size() != buffer_size(n) || contents->dtype() != n.dtype())
        throw UserError("reference", "the contents do not fit " + print_node(n));
      return *contents;
    }
    if (n.is(Op::After)) return next_version(n);
    if (n.is(Op::Reduce)) return reduce(n);
    if (n.is(Op::RaggedReduce) || n.is(Op::Scatter)) return by_row(n);
    if (n.is(Op::Scan)) return scan(n);
    if (n.is(Op::Sort)) return sorted(n);
    if (changes_width(n)) {
      const Array& from = *arrays_.find(n.arg(0));
      Array out(n.dtype(), count(n));
      std::memcpy(out.data(), from.data(), std::min(out.byte_count(), from.byte_count()));
      return out;
    }
    Array out(n.dtype(), count(n));
    each_block(out.size(), [&](std::span<const std::int64_t> places) {
      Cells block(places.size());
      read_new(n, places, block.data());
      for (std::size_t i = 0; i < places.size(); ++i) out.set_cell(places[i], block[i]);
    });
    return out;
  }

  template <class Work>
  static void each_block(std::int64_t size, Work work) {
    std::vector<std::int64_t> places;
    for (std::int64_t at = 0; at < size;) {
      places.clear();
      while (at < size && places.size() < kBlock) places.push_back(at++);
      work(std::span<const std::int64_t>(places));
    }
  }

  Array reduce(Node n) {
    const std::vector<std::int64_t>&in = *sizes_.find(n.arg(0)), &to = *sizes_.find(n);
    Op op = reduce_op(n);
    ScalarFn fn = scalar_function(op, n.dtype());
    Cells total(static_cast<std::size_t>(product(to)), cell_of(n.dtype(), unit_of(op, n.dtype())));
    each_block(product(in), [&](std::span<const std::int64_t> places) {
      Cells block(places.size());
      read(n.arg(0), places, block.data());
      for (std::size_t i = 0; i < places.size(); ++i) {
        std::int64_t rest = places[i], flat = 0, step = 1;
        for (std::size_t a = in.size(); a-- > 0;) {
          if (to[a] != 1) flat += rest % in[a] * step;
          rest /= in[a];
          step *= to[a];
        }
        Cell& t = total[static_cast<std::size_t>(flat)];
        fn(&t, &t, &block[i], nullptr, 1);
      }
    });
    Array out(n.dtype(), static_cast<std::int64_t>(total.size()));
    for (std::size_t i = 0; i < total.size(); ++i) out.set_cell(static_cast<std::int64_t>(i), total[i]);
    return out;
  }

  // A RaggedReduce or a Scatter: operand 1 says which row each element goes to.
  Array by_row(Node n) {
    const Array &x = *arrays_.find(n.arg(0)), &rows = *arrays_.find(n.arg(1));
    Op op = reduce_op(n);
    ScalarFn fn = scalar_function(op, n.dtype());
    const std::size_t axis = n.arg(1).rank() - 1;
    const std::int64_t count_rows = sizes_.find(n)->at(axis), lists = rows.size();
    const std::int64_t width = lists == 0 ? 0 : x.size() / lists, values = sizes_.find(n.arg(1))->at(axis);
    Cells total(static_cast<std::size_t>(count(n)), cell_of(n.dtype(), unit_of(op, n.dtype())));
    for (std::int64_t t = 0; t < lists; ++t) {
      std::int64_t v = element_of_cell(rows.dtype(), rows.cell(t)).i;
      if (v < 0 || v >= count_rows) continue;
      v += t / values * count_rows;
      for (std::int64_t d = 0; d < width; ++d) {
        Cell &at = total[static_cast<std::size_t>(v * width + d)], element = x.cell(t * width + d);
        fn(&at, &at, &element, nullptr, 1);
      }
    }
    return array_of(n.dtype(), total);
  }

  Array scan(Node n) {
    const Array& x = *arrays_.find(n.arg(0));
    const Array* index = n.arg_count() > 1 ? arrays_.find(n.arg(1)) : nullptr;
    ScalarFn fn = scalar_function(reduce_op(n), n.dtype());
    const Cell unit = cell_of(n.dtype(), unit_of(reduce_op(n), n.dtype()));
    const std::vector<std::int64_t>& sizes = *sizes_.find(n);
    const auto axis = static_cast<std::size_t>(n.ints()[1]);
    const std::int64_t steps = sizes[axis], groups = index == nullptr ? 1 : index_value(n.arg(2), bindings_);
    std::int64_t below = 1;
    for (std::size_t a = axis + 1; a < sizes.size(); ++a) below *= sizes[a];
    Cells out(static_cast<std::size_t>(x.size()), unit), running;
    for (std::int64_t first = 0; first < x.size(); first += steps * below)
      for (std::int64_t d = 0; d < below; ++d) {
        running.assign(static_cast<std::size_t>(groups), unit);
        for (std::int64_t i = 0; i < steps; ++i) {
          const std::int64_t at = first + i * below + d;
          const std::int64_t group =
              index == nullptr ? 0 : element_of_cell(index->dtype(), index->cell(at)).i;
          if (group < 0 || group >= groups) continue;
          Cell &total = running[static_cast<std::size_t>(group)], element = x.cell(at);
          fn(&total, &total, &element, nullptr, 1);
          out[static_cast<std::size_t>(at)] = total;
        }
      }
    return array_of(n.dtype(), out);
  }

  Array sorted(Node n) {
    const Array& x = *arrays_.find(n.arg(0));
    const std::int64_t length = sizes_.find(n.arg(0))->back(), keep = sizes_.find(n)->back();
    Array out(n.dtype(), count(n));
    auto key = [&](std::int64_t at) { return element_of_cell(x.dtype(), x.cell(at)).i; };
    std::vector<std::int64_t> order(static_cast<std::size_t>(length));
    for (std::int64_t row = 0; keep > 0 && row < out.size() / keep; ++row) {
      std::iota(order.begin(), order.end(), row * length);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::int64_t a, std::int64_t b) { return key(a) < key(b); });
      for (std::int64_t i = 0; i < keep; ++i)
        out.set(row * keep + i, {order[static_cast<std::size_t>(i)] - row * length, 0});
    }
    return out;
  }

  static Array array_of(DType dtype, const Cells& cells) {
    Array out(dtype, static_cast<std::int64_t>(cells.size()));
    for (std::size_t i = 0; i < cells.size(); ++i) out.set_cell(static_cast<std::int64_t>(i), cells[i]);
    return out;
  }

  Array next_version(Node n) {
    Array out = *arrays_.find(n.arg(0));
    for (Node effect : n.args().subspan(1)) {
      if (effect.is(Op::Launch)) {
        run_launch(effect, base_memory(n), out);
        continue;
      }
      Node view = effect.arg(0), value = effect.arg(1);
      std::int64_t size = product(sizes_of(view.shape()));
      each_block(size, [&](std::span<const std::int64_t> places) {
        Cells block(places.size());
        std::vector<std::int64_t> from(places.begin(), places.end()), to = from;
        if (value.rank() == 0) std::fill(from.begin(), from.end(), 0);
        read(value, from, block.data());
        Node at = view;
        for (; is_movement(at.op()) || at.is(Op::Bitcast); at = at.arg(0))
          if (is_movement(at.op()))
            map_of(at).map(to, to.data());
          else if (changes_width(at))
            throw InternalError("reference", "a store through " + print_node(at));
        if (base_memory(at) != base_memory(n.arg(0)))
          throw InternalError("reference", "a store to other memory than that of " + print_node(n));
        for (std::size_t i = 0; i < places.size(); ++i) {
          if (to[i] < 0) continue;
          Element v = element_of_cell(value.dtype(), block[i]);
          if (value.dtype() != out.dtype()) v = reinterpret(out.dtype(), value.dtype(), v);
          out.set(to[i], v);
        }
      });
    }
    return out;
  }

  // A hand-written kernel over its own copies of the memory; `out` takes what it leaves in `buffer`.
  void run_launch(Node launch, Node buffer, Array& out) {
    std::vector<Array> memory;
    std::vector<View> views;
    for (Node m : launch.args()) memory.push_back(*arrays_.find(m));
    for (Array& array : memory) views.push_back(array.view());
    const EvalReport report = kernel_eval(hand_written(launch).kernel, views, bindings_);
    if (!report.ok())
      throw UserError("custom_kernel", report.faults.empty() ? "too long for REF" : report.faults[0]);
    for (std::size_t i = 0; i < memory.size(); ++i)
      if (base_memory(launch.arg(i)) == buffer) out = memory[i];
  }

  // ---- some elements

  void read(Node n, std::span<const std::int64_t> places, Cell* out) {
    if (const Array* whole = arrays_.find(n)) {
      for (std::size_t i = 0; i < places.size(); ++i) out[i] = whole->cell(places[i]);
      return;
    }
    read_new(n, places, out);
  }

  void read_new(Node n, std::span<const std::int64_t> places, Cell* out) {
    if (n.is(Op::Const) || n.is(Op::Var) || n.is(Op::Bind)) {
      Element v = n.is(Op::Const) ? element_of(n) : Element{index_value(n, bindings_), 0};
      std::fill_n(out, places.size(), cell_of(n.dtype(), v));
    } else if (n.is(Op::Arange)) {
      for (std::size_t i = 0; i < places.size(); ++i)
        out[i] = cell_of(n.dtype(), convert(n.dtype(), dtypes::Index, {places[i], 0}));
    } else if (n.is(Op::Take)) {
      read_taken(n, places, out);
    } else if (passes_through(n.op())) {
      read(n.arg(0), places, out);
    } else if (is_movement(n.op())) {
      read_moved(n, places, out);
    } else if (n.is(Op::Cast) || n.is(Op::Bitcast)) {
      DType from = n.arg(0).dtype(), to = n.dtype();
      read(n.arg(0), places, out);
      for (std::size_t i = 0; i < places.size(); ++i) {
        Element v = element_of_cell(from, out[i]);
        out[i] = cell_of(to, n.is(Op::Cast) ? convert(to, from, v) : reinterpret(to, from, v));
      }
    } else {
      read_elementwise(n, places, out);
    }
  }

  void read_elementwise(Node n, std::span<const std::int64_t> places, Cell* out) {
    Cells args[3];
    std::vector<std::int64_t> origin;
    for (std::size_t i = 0; i < n.arg_count(); ++i) {
      args[i].resize(places.size());
      bool scalar = n.arg(i).rank() == 0 && n.rank() != 0;
      if (scalar) origin.assign(places.size(), 0);
      read(n.arg(i), scalar ? std::span<const std::int64_t>(origin) : places, args[i].data());
    }
    DType operand = n.arg(n.is(Op::Where) ? 1 : 0).dtype();
    if (n.is(Op::Check)) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        const std::int64_t index = element_of_cell(operand, args[0][i]).i;
        const bool inside = index >= 0 && index < element_of_cell(operand, args[1][i]).i;
        out[i] = cell_of(operand, {inside ? index : -1, 0});
      }
      return;
    }
    scalar_function(n.op(), operand)(out, args[0].data(), args[1].data(), args[2].data(),
                                     static_cast<int>(places.size()));
  }

  void read_taken(Node n, std::span<const std::int64_t> places, Cell* out) {
    const Array &x = *arrays_.find(n.arg(0)), &index = *arrays_.find(n.arg(1));
    const std::vector<std::int64_t>& from = *sizes_.find(n.arg(0));
    auto shared = static_cast<std::size_t>(n.int_attr());
    std::int64_t rest = 1, outer = 1;
    for (std::size_t a = 0; a < from.size(); ++a) (a < shared ? outer : rest) *= a == shared ? 1 : from[a];
    const std::int64_t per_outer = outer == 0 ? 1 : std::max<std::int64_t>(index.size() / outer, 1);
    for (std::size_t k = 0; k < places.size(); ++k) {
      std::int64_t at = places[k] / rest, i = element_of_cell(index.dtype(), index.cell(at)).i,
                   b = at / per_outer;
      bool inside = i >= 0 && i < from[shared];
      out[k] = inside ? x.cell((b * from[shared] + i) * rest + places[k] % rest) : Cell{};
    }
  }

  void read_moved(Node n, std::span<const std::int64_t> places, Cell* out) {
    std::vector<std::int64_t> from(places.size()), real;
    maps_.find(n)->map(places, from.data());
    for (std::int64_t p : from)
      if (p >= 0) real.push_back(p);
    Cells values(real.size());
    read(n.arg(0), real, values.data());
    std::size_t next = 0;
    for (std::size_t i = 0; i < from.size(); ++i) out[i] = from[i] >= 0 ? values[next++] : Cell{};
  }

  std::vector<Node> roots_, order_;
  const BufferContents& buffers_;
  Bindings bindings_;
  NodeMap<std::vector<std::int64_t>> sizes_;
  NodeMap<char> kept_;
  NodeMap<MovementMap> maps_;
  NodeMap<Array> arrays_;
};

}  // namespace

std::vector<TensorValue> tensor_eval(std::span<const Node> nodes, const BufferContents& buffers,
                                     const Bindings& bindings) {
  Scope scope;
  return TensorEval(nodes, buffers, bindings).run();
}

}  // namespace lathe::reference
