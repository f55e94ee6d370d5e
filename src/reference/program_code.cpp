#include "reference/program_code.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/text.h"
#include "reference/emit.h"
#include "reference/group_units.h"

namespace lathe::reference {
namespace {

// What a loop whose bound says nothing is expected to run.
constexpr std::int64_t kUnknownExtent = 64;

struct LaunchAxis {
  const char* name;
  Node extent;
};

class ProgramCode {
 public:
  explicit ProgramCode(const Program& program) : program_(program), emit_(code_) {
    for (const NodeRef& ref : program.code) {
      Node n = ref;
      meet_ = meet_ || needs_group(n);
      for (Node a : n.args()) meet_ = meet_ || is_group_memory(a);
    }
  }

  Code take() {
    std::vector<LaunchAxis> groups = {{"t", program_.threads},
                                      {"g2", program_.groups[2]},
                                      {"g1", program_.groups[1]},
                                      {"g0", program_.groups[0]}};
    std::vector<LaunchAxis> locals = {
        {"l2", program_.locals[2]}, {"l1", program_.locals[1]}, {"l0", program_.locals[0]}};
    code_.has_fences = true;
    find_memory();
    std::vector<std::size_t> loops;
    double combinations = 1;
    for (const LaunchAxis& a : groups) combinations *= static_cast<double>(a.extent ? a.extent.hi() : 1);
    int dim = 0;
    for (const LaunchAxis& a : groups) open_axis(a, loops, dim++, combinations);
    if (meet_)
      open_threads(locals, loops);
    else
      for (const LaunchAxis& a : locals) open_axis(a, loops, -1, 1);
    for (std::uint32_t slot = 0; slot < code_.memories.size(); ++slot) {
      if (code_.memories[slot].kind != MemorySlot::Kind::Private) continue;
      Step forget;
      forget.act = Act::Forget;
      forget.memory = slot;
      add(forget);
    }
    for (const NodeRef& n : program_.code) instruction(n);
    if (!open_.empty()) throw InternalError("reference", "a scope of the program is never closed");
    for (std::size_t i = loops.size(); i-- > 0;) close(loops[i]);
    add(Step());
    return std::move(code_);
  }

 private:
  std::size_t add(const Step& s) {
    code_.steps.push_back(s);
    return code_.steps.size() - 1;
  }

  void find_memory() {
    for (const NodeRef& ref : program_.code) {
      for_each_memory(ref, [&](Node memory) {
        Node base = base_memory(memory);
        const std::uint32_t slot = emit_.memory(base, is_group_memory(base));
        if (!program_.checks.empty() && base.is(Op::Param) && param_slot(base) == program_.params.back().slot)
          code_.memories[slot].is_fault_cell = true;
      });
    }
  }

  // A launch size: an expression over constants and variables that is outside the list.
  std::uint32_t launch_size(Node size) {
    if (!size) return emit_.index(1);
    for (Node n : toposort(size)) {
      if (emit_.leaf(n) != kNoRegister || values_.contains(n)) continue;
      std::vector<std::uint32_t> args;
      for (Node a : n.args()) args.push_back(operand(n, a));
      std::uint32_t dst = code_.take(1);
      emit_.value(code_.steps, n, args, dst);
      values_[n] = dst;
    }
    return operand(size, size);
  }

  void open_axis(const LaunchAxis& axis, std::vector<std::size_t>& loops, int sample_dim,
                 double combinations) {
    Step s;
    s.act = Act::LoopBegin;
    s.a = launch_size(axis.extent);
    s.dst = code_.take(1);
    s.memory = code_.take(kLoopState);
    s.shuffled = true;
    s.id = static_cast<std::int64_t>(loops.size());
    s.sample_dim = static_cast<std::int16_t>(sample_dim);
    s.combinations = combinations;
    s.estimate = axis.extent ? axis.extent.hi() : 1;
    specials_.emplace_back(axis.name, s.dst);
    loops.push_back(add(s));
  }

  void open_threads(const std::vector<LaunchAxis>& axes, std::vector<std::size_t>& loops) {
    ThreadDims dims;
    Step s;
    s.act = Act::ThreadsBegin;
    for (const LaunchAxis& a : axes) {
      dims.extent.push_back(launch_size(a.extent));
      dims.index.push_back(code_.take(1));
      specials_.emplace_back(a.name, dims.index.back());
      s.estimate *= a.extent ? std::max<std::int64_t>(a.extent.hi(), 1) : 1;
    }
    s.memory = static_cast<std::uint32_t>(code_.threads.size());
    code_.threads.push_back(std::move(dims));
    loops.push_back(add(s));
  }

  void close(std::size_t begin) {
    Step& s = code_.steps[begin];
    auto distance = static_cast<std::int32_t>(code_.steps.size() - begin);
    if (s.act == Act::If) {
      s.jump = distance - 1;
      return;
    }
    s.jump = distance;
    Step end;
    end.act = s.act == Act::LoopBegin ? Act::LoopEnd : Act::ThreadsEnd;
    end.jump = distance;
    add(end);
  }

  void close_scope(Node closer) {
    if (open_.empty() || open_.back().first != closer.arg(0))
      throw InternalError("reference", "closes a scope that is not the innermost: " + print_node(closer));
    close(open_.back().second);
    open_.pop_back();
  }

  std::uint32_t operand(Node user, Node node) {
    if (node.is(Op::Param) || node.is(Op::Define) || node.is(Op::After) || node.dtype() == dtypes::Void)
      return kNoRegister;
    if (std::uint32_t r = emit_.leaf(node); r != kNoRegister) return r;
    if (node.is(Op::Special)) {
      for (const auto& [name, r] : specials_)
        if (name == node.text()) return r;
      throw InternalError("reference", "no such launch index: " + print_node(node));
    }
    if (const std::uint32_t* r = values_.find(node)) return *r;
    throw InternalError("reference", "an operand is used before it is listed: " + print_node(node))
        .note("the user is " + print_node(user));
  }

  void instruction(Node n) {
    switch (n.op()) {
      case Op::Const:
      case Op::Param:
      case Op::Var:
      case Op::Special:
      case Op::Define:
      case Op::After:
      case Op::Sink:
      case Op::Iota: return;
      case Op::Range: {
        Step s;
        s.act = Act::LoopBegin;
        s.a = operand(n, n.arg(0));
        s.dst = code_.take(1);
        s.memory = code_.take(kLoopState);
        s.estimate = n.arg(0).hi() < n.arg(0).dtype().max_int() ? n.arg(0).hi() : kUnknownExtent;
        s.node = n;
        values_[n] = s.dst;
        open_.emplace_back(n, add(s));
        return;
      }
      case Op::If: {
        Step s;
        s.act = Act::If;
        s.a = operand(n, n.arg(0));
        s.node = n;
        open_.emplace_back(n, add(s));
        return;
      }
      case Op::Prefetch: return;  // changes no value
      case Op::End:
      case Op::EndIf: close_scope(n); return;
      case Op::Barrier: return order(n, Act::Barrier, 0);
      case Op::CommitCopies: return order(n, Act::CommitCopies, 0);
      case Op::ProxyFence: return order(n, Act::ProxyFence, 0);
      case Op::WaitCopies: return order(n, Act::WaitCopies, n.ints()[0]);
      case Op::CopyAsync: return copy_async(n);
      case Op::BulkCopy: return bulk_copy(n);
      case Op::BeginArrivals: return arrivals(n, Act::BeginArrivals);
      case Op::ArriveBytes: return arrivals(n, Act::ArriveBytes);
      case Op::AwaitArrivals: return arrivals(n, Act::AwaitArrivals);
      default: compute(n);
    }
  }
  void order(Node n, Act act, std::int64_t count) {
    Step s;
    s.act = act;
    s.jump = static_cast<std::int32_t>(count);
    s.node = n;
    add(s);
  }
  void copy_async(Node n) {
    Step s;
    s.act = Act::CopyAsync;
    s.memory = emit_.memory(base_memory(n.arg(0)), true);
    s.id = emit_.memory(base_memory(n.arg(2)), false);
    code_.memories[static_cast<std::size_t>(s.id)].reads = true;
    s.a = operand(n, n.arg(1));
    s.c = operand(n, n.arg(3));
    s.dst = operand(n, n.arg(4));
    if (n.arg_count() > 5) s.b = operand(n, n.arg(5));
    s.lanes = static_cast<std::uint16_t>(n.int_attr());
    s.node = n;
    add(s);
  }

  void bulk_copy(Node n) {
    Step s;
    s.act = Act::BulkCopy;
    s.memory = emit_.memory(base_memory(n.arg(0)), true);
    s.id = emit_.memory(base_memory(n.arg(2)), false);
    code_.memories[static_cast<std::size_t>(s.id)].reads = true;
    s.jump = static_cast<std::int32_t>(emit_.memory(base_memory(n.arg(5)), true));
    s.a = operand(n, n.arg(1));
    s.b = operand(n, n.arg(3));
    s.c = operand(n, n.arg(4));
    s.dst = operand(n, n.arg(6));
    s.node = n;
    add(s);
  }
  void arrivals(Node n, Act act) {
    Step s;
    s.act = act;
    s.memory = emit_.memory(base_memory(n.arg(0)), true);
    s.a = operand(n, n.arg(1));
    if (n.arg_count() > 2) s.b = operand(n, n.arg(2));
    s.node = n;
    add(s);
  }

  void compute(Node n) {
    std::vector<std::uint32_t> args;
    for (Node a : n.args()) args.push_back(operand(n, a));
    if (n.is(Op::Store)) {
      std::uint32_t slot = emit_.memory(base_memory(n.arg(0)), false);
      std::uint32_t index = emit_.scaled_index(code_.steps, n, args[1]);
      index = emit_.row_index(code_.steps, n, n.arg(2).dtype(), index);
      add(emit_.store(n, slot, index, args[2], args.size() > 3 ? args[3] : kNoRegister));
      return;
    }
    std::uint32_t dst = code_.take(n.dtype().lanes);
    if (n.is(Op::Load)) {
      std::uint32_t slot = emit_.memory(base_memory(n.arg(0)), false);
      std::uint32_t index = emit_.scaled_index(code_.steps, n, args[1]);
      index = emit_.row_index(code_.steps, n, n.dtype(), index);
      add(emit_.load(n, slot, index, args.size() > 2 ? args[2] : kNoRegister, dst));
    } else {
      emit_.value(code_.steps, n, args, dst);
    }
    values_[n] = dst;
  }

  const Program& program_;
  Code code_;
  Emitter emit_;
  NodeMap<std::uint32_t> values_;
  std::vector<std::pair<std::string, std::uint32_t>> specials_;
  std::vector<std::pair<Node, std::size_t>> open_;
  bool meet_ = false;
};

}  // namespace

Code code_of_program(const Program& program) { return ProgramCode(program).take(); }

}  // namespace lathe::reference
