#include "capture/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "base/error.h"
#include "engine/counting.h"
#include "engine/graph_key.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "schedule/memory_view.h"
#include "tensor/impl.h"
#include "tensor/realize.h"
#include "tensor/settle.h"

namespace lathe::capture {
namespace {

thread_local int depth = 0;

// Observes what the engine runs, and lets the function read no data, until it goes out of scope.
class Observation {
 public:
  Observation(std::vector<engine::Call>& calls, OutsideReads& outside, std::vector<NodeRef>& host_data,
              bool may_read)
      : reads_before_(engine::forbid_host_reads(!may_read)),
        outside_before_(watch_reads(&outside)),
        data_before_(engine::watch_host_data(&host_data)) {
    ++depth;
    engine::set_observer([&calls](const engine::Call& call) { calls.push_back(call); });
  }
  ~Observation() {
    engine::set_observer({});
    engine::forbid_host_reads(reads_before_);
    watch_reads(outside_before_);
    engine::watch_host_data(data_before_);
    --depth;
  }
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

 private:
  bool reads_before_;
  OutsideReads* outside_before_;
  std::vector<NodeRef>* data_before_;
};

// A value that was computed, as movement ops over the buffer that holds it.
Node at_rest_view(Node value) {
  value = engine::strip_realized(std::span<const Node>(&value, 1)).targets[0];
  std::vector<Node> chain;  // ops that matter to gradients only are left out
  for (; value.arg_count() > 0 && !value.is(Op::Buffer); value = value.arg(0)) {
    if (value.is(Op::Detach) || value.is(Op::GradFence)) continue;
    if (!is_movement(value.op()) && !value.is(Op::Bitcast)) break;
    chain.push_back(value);
  }
  for (std::size_t i = chain.size(); i-- > 0;) {
    std::vector<Node> args(chain[i].args().begin(), chain[i].args().end());
    args[0] = value;
    value = chain[i].with_args(args);
  }
  return value;
}

// The buffer a value is read from where it needs no more work and is a view of the whole of it; else null.
Node whole_buffer(Node value) {
  value = at_rest_view(value);
  const Node base = viewed(value);
  if (!base.is(Op::Buffer)) return Node();
  Node inner = value;
  while (inner.is(Op::Reshape)) inner = inner.arg(0);
  const bool same_elements = inner == base && buffer_size(base) == numel_max(value);
  return value == view_of(base, value.shape()) || same_elements ? base : Node();
}

void collect_bound(Node size, Bound& bound) {
  for (Node n : toposort(size)) {
    if (!n.is(Op::Bind)) continue;
    const std::int64_t value = n.arg(1).const_int();
    auto known =
        std::find_if(bound.begin(), bound.end(), [&](const auto& b) { return b.first.node() == n.arg(0); });
    if (known == bound.end())
      bound.emplace_back(n.arg(0), value);
    else if (known->second != value)
      throw JitError("jit", fmt::format("the variable {} is bound to {} and to {} in one call",
                                        n.arg(0).text(), known->second, value));
  }
}

Node without_bindings(Node node) {
  NodeMap<Node> free;
  for (Node n : toposort(node))
    if (n.is(Op::Bind)) free[n] = n.arg(0);
  return substitute(node, free);
}

void add_outputs(Trace& made, NodeMap<Source>& sources) {
  for (const Tensor& t : made.outputs) {
    Node value = at_rest_view(node_of(t));
    Output out;
    out.device = t.device();
    Node base = viewed(value);
    while (base.is(Op::Bitcast)) base = viewed(base.arg(0));
    if (base.is(Op::Buffer)) {
      if (!sources.contains(base)) {  // a tensor from outside, as it is
        sources.try_emplace(base,
                            {Source::Kind::State, static_cast<std::uint32_t>(made.program.states.size()), 0});
        made.program.states.emplace_back(base);
        made.literal.push_back(false);
      }
      out.source = *sources.find(base);
      out.stand_in = new_buffer_like(base);
      NodeMap<Node> to;
      to[base] = out.stand_in;
      value = substitute(value, to);
    } else if (!base.is_const()) {
      throw InternalError("jit", "an output is not materialized: " + print_node(base));
    }
    out.value = value;
    made.program.outputs.push_back(std::move(out));
  }
}

}  // namespace

bool tracing() { return depth > 0; }

namespace {

bool held_elsewhere(const Storage& storage, Node buffer) {
  std::lock_guard guard(storage_mutex());
  for (const Storage* s = first_live_storage(); s != nullptr; s = s->after)
    if (s != &storage && buffer_held(s->value) == buffer) return true;
  return false;
}

// The handle with a copy of its value: in its own storage, unless that keeps an expression for gradients.
Tensor with_own_memory(Tensor t) {
  Storage& storage = *t.impl()->storage;
  if (storage.tracked) return make_like(t, stored_value(node_of(t), t.device())).realize();
  {
    std::lock_guard guard(storage_mutex());
    storage.value = stored_value(storage.value, storage.device);
    ++storage.version;
  }
  return t.realize();
}

}  // namespace

CallArguments call_arguments(const std::vector<Tensor>& inputs, const std::vector<Size>& bound,
                             const std::function<bool(std::size_t argument)>& alone) {
  const Scope scope;
  CallArguments out;
  for (const Size& size : bound)
    if (size.is_symbolic()) collect_bound(size_node(size), out.bound);
  for (const Tensor& input : inputs) {
    Tensor t = input;
    t.realize();
    Node buffer = whole_buffer(node_of(t));
    out.copied.push_back(!buffer);
    if (!buffer) {
      t = t.contiguous();
      t.realize();
      buffer = whole_buffer(node_of(t));
      check_internal(static_cast<bool>(buffer), "jit", "a contiguous tensor has no buffer");
    }
    auto first = std::find_if(out.buffers.begin(), out.buffers.end(),
                              [&](const NodeRef& b) { return b.node() == buffer; });
    const auto at = static_cast<std::size_t>(first - out.buffers.begin());
    const bool shared = first == out.buffers.end()
                            ? alone(out.buffers.size()) && held_elsewhere(*t.impl()->storage, buffer)
                            : out.tensors[at].impl()->storage != t.impl()->storage;
    if (shared) {
      const Tensor own = with_own_memory(t);
      if (own.impl() != t.impl()) out.copied.back() = true;
      t = own;
      buffer = whole_buffer(node_of(t));
      check_internal(static_cast<bool>(buffer), "jit", "a copied tensor has no buffer");
      first = out.buffers.end();
    }
    Node value = node_of(t);
    for (Node size : value.shape()) collect_bound(size, out.bound);
    Argument kind;
    kind.view = without_bindings(
        view_of(buffer_with_id(0, buffer.dtype(), buffer_size(buffer), "ARGUMENT"), value.shape()));
    kind.device = t.device();
    kind.weak = input.impl()->weak;
    kind.same_as = static_cast<std::uint32_t>(first - out.buffers.begin());
    out.tensors.push_back(t);
    out.buffers.emplace_back(buffer);
    out.kinds.push_back(std::move(kind));
  }
  std::sort(out.bound.begin(), out.bound.end(),
            [](const auto& a, const auto& b) { return a.first->text() < b.first->text(); });
  return out;
}

Trace trace(const CallArguments& arguments, const std::function<std::vector<Tensor>()>& function,
            bool may_read) {
  const Scope scope;
  settle_memory({});
  name_memory();
  // So that nothing is taken for computed that was computed before over the same arguments.
  rename_memory(arguments.buffers, true);
  std::vector<engine::Call> calls;
  std::vector<NodeRef> host_data;
  Trace made;
  {
    const Observation observation(calls, made.outside, host_data, may_read);
    const std::uint64_t reads = engine::host_reads();
    made.outputs = function();
    if (engine::host_reads() != reads) made.problem = "it reads a tensor's data";
    LiveValues stores;
    {
      std::lock_guard guard(storage_mutex());
      for (Storage* s = first_live_storage(); s != nullptr; s = s->after)
        // What another thread has written is no part of the function.
        if (is_pending_store(s->value) && s->writer == std::this_thread::get_id())
          stores.emplace_back(s->value, s->device);
    }
    realize_values(stores, made.outputs);
  }
  finish_reads(made.outside, arguments.tensors);

  NodeMap<Source> sources;
  for (std::uint32_t i = 0; i < arguments.buffers.size(); ++i)
    sources.try_emplace(arguments.buffers[i], {Source::Kind::Argument, i, 0});
  made.program.arguments = arguments.kinds;
  for (const auto& [variable, value] : arguments.bound) made.program.variables.push_back(variable);
  for (std::uint32_t k = 0; k < calls.size(); ++k) {
    Computation step{calls[k].prepared, {}, calls[k].bindings};
    for (std::size_t i = 0; i < calls[k].slots.size(); ++i) {
      const NodeRef& slot = calls[k].slots[i];
      if (const Source* known = sources.find(slot)) {
        step.slots.push_back(*known);
        continue;
      }
      const bool given = std::find(host_data.begin(), host_data.end(), slot) != host_data.end();
      // Nobody wrote to what had no memory: this call makes it. Everything else was filled outside of it,
      // before or by another thread.
      const bool fresh = !calls[k].had_memory[i];
      std::vector<NodeRef>& list = fresh ? made.program.fresh : made.program.states;
      const Source source{fresh ? Source::Kind::Fresh : Source::Kind::State,
                          static_cast<std::uint32_t>(list.size()), 0};
      list.push_back(fresh ? NodeRef(new_buffer_like(slot)) : slot);
      if (!fresh) made.literal.push_back(given);
      sources.try_emplace(slot, source);
      step.slots.push_back(source);
    }
    for (std::uint32_t t = 0; t < calls[k].results.size(); ++t) {
      const Node base = viewed(calls[k].results[t]);
      if (base.is(Op::Buffer)) sources.try_emplace(base, {Source::Kind::Result, k, t});
    }
    made.program.computations.push_back(std::move(step));
    made.targets.push_back(calls[k].targets);
  }
  add_outputs(made, sources);
  if (made.program.computations.empty() && made.program.outputs.empty())
    throw JitError("jit", "the function computed and returned nothing, so there is nothing to capture")
        .help("return the tensors it makes, or realize() them inside it");
  for (const Source& source : made.program.written()) {
    if (source.kind == Source::Kind::State) made.literal[source.index] = false;
    if (source.kind == Source::Kind::Argument && arguments.copied[source.index])
      throw JitError("jit", fmt::format("the function assigns to argument {}, which is a view or a constant",
                                        source.index))
          .help("pass a tensor with memory of its own: contiguous().realize()");
  }
  return made;
}

namespace {

bool same_head(Node a, Node b) {
  return a.op() == b.op() && a.dtype() == b.dtype() && a.arg_count() == b.arg_count();
}
bool same_attr(Node a, Node b) {
  if (!a.is(Op::Buffer)) return a.attr() == b.attr();
  return buffer_size(a) == buffer_size(b) && buffer_device(a) == buffer_device(b);
}

// Walks two graphs in step. Gives the first pair of constants that differ where that is all that differs.
struct Comparison {
  bool same_shape = true;
  Node before, now, user;
};
Comparison compare(std::span<const NodeRef> a, std::span<const NodeRef> b) {
  Comparison out;
  struct Pair {
    Node a, b, user;
  };
  std::vector<Pair> stack;
  for (std::size_t i = 0; i < a.size(); ++i) stack.push_back({a[i], b[i], Node()});
  NodeMap<Node> seen;
  while (!stack.empty()) {
    const Pair p = stack.back();
    stack.pop_back();
    if (auto [known, is_new] = seen.try_emplace(p.a, p.b); !is_new) {
      if (*known != p.b && !(p.a.is_const() && p.b.is_const())) out.same_shape = false;
      if (*known == p.b) continue;
    }
    if (!same_head(p.a, p.b)) {
      out.same_shape = false;
      return out;
    }
    if (p.a.is_const()) {
      if (p.a != p.b && !out.before) {
        out.before = p.a;
        out.now = p.b;
        out.user = p.user;
      }
      continue;
    }
    if (!same_attr(p.a, p.b)) {
      out.same_shape = false;
      return out;
    }
    // Operands of commutative ops stand in order of their keys, which a constant below them changes.
    const bool swapped = p.a.arg_count() == 2 && is_commutative(p.a.op()) &&
                         !same_head(p.a.arg(0), p.b.arg(0)) && same_head(p.a.arg(0), p.b.arg(1)) &&
                         same_head(p.a.arg(1), p.b.arg(0));
    for (std::size_t i = 0; i < p.a.arg_count(); ++i)
      stack.push_back({p.a.arg(i), p.b.arg(swapped ? 1 - i : i), p.a});
  }
  return out;
}

std::string constant_text(Node c) {
  return c.dtype().is_float() ? fmt::format("{}", c.const_float()) : fmt::format("{}", c.int_attr());
}

bool same_contents(Node a, Node b) {
  const std::size_t bytes = buffer_bytes(a);
  if (a.dtype() != b.dtype() || buffer_size(a) != buffer_size(b) || buffer_device(a) != buffer_device(b))
    return false;
  std::string left(bytes, '\0'), right(bytes, '\0');
  engine::buffer_to_host(a, left.data(), bytes);
  engine::buffer_to_host(b, right.data(), bytes);
  return left == right;
}

// Data that the function itself brings in is part of the program, as a number is.
void check_literals(const Trace& before, const Trace& now) {
  for (std::size_t i = 0; i < now.literal.size() && i < before.literal.size(); ++i) {
    const Node a = before.program.states[i], b = now.program.states[i];
    if (now.literal[i] && before.literal[i] && !same_contents(a, b))
      throw JitError("jit",
                     fmt::format("the function makes a tensor from data ({} elements of {}) that differs "
                                 "between calls",
                                 buffer_size(b), b.dtype().name()))
          .help("make the tensor outside and pass it as an argument");
  }
}

void check_constants(const Trace& before, const Trace& now, std::size_t call) {
  if (before.targets[call].size() != now.targets[call].size()) return;
  const Comparison c = compare(before.targets[call], now.targets[call]);
  if (!c.same_shape || !c.before) return;
  throw JitError("jit", fmt::format("the constant {} of one call is {} in the next", constant_text(c.before),
                                    constant_text(c.now)))
      .note(fmt::format("it is an operand of {} {}", c.user ? info(c.user.op()).name : "the result",
                        c.before.dtype().name()))
      .help("pass it as an argument, or keep it in a realized tensor and assign to that");
}

}  // namespace

std::optional<std::string> difference(const Trace& before, const Trace& now) {
  for (const Trace* t : {&before, &now})
    if (!t->problem.empty()) return t->problem;
  const Captured &a = before.program, &b = now.program;
  if (a.computations.size() != b.computations.size())
    return fmt::format("one call computes {} times, the next {}", a.computations.size(),
                       b.computations.size());
  for (std::size_t k = 0; k < a.computations.size(); ++k) {
    if (a.computations[k].prepared != b.computations[k].prepared) {
      check_constants(before, now, k);
      return "the graph differs between calls";
    }
    for (const auto& [variable, value] : b.computations[k].bindings) {
      const bool argument = std::any_of(b.variables.begin(), b.variables.end(),
                                        [&](const NodeRef& v) { return v == variable; });
      for (const auto& [old_variable, old_value] : a.computations[k].bindings)
        if (old_variable == variable && old_value != value && !argument)
          throw JitError(
              "jit",
              fmt::format("the variable {} was {} in one call and {} in the next, and is not an argument",
                          variable->text(), old_value, value))
              .help("pass the bound variable as an argument");
    }
    if (a.computations[k].slots != b.computations[k].slots)
      return "arguments and state change roles between calls";
  }
  check_literals(before, now);
  for (std::size_t i = 0; i < b.states.size(); ++i)
    if (i >= a.states.size() || (!(a.states[i] == b.states[i]) && !(before.literal[i] && now.literal[i])))
      return fmt::format("a tensor that it reads, {} elements of {} on {}, has new memory in every call",
                         buffer_size(b.states[i]), b.states[i]->dtype().name(), buffer_device(b.states[i]));
  if (a.outputs.size() != b.outputs.size()) return "it returns a different number of tensors";
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    if (!(a.outputs[i].source == b.outputs[i].source))
      return fmt::format("output {} comes from another tensor", i);
  return std::nullopt;
}

}  // namespace lathe::capture
