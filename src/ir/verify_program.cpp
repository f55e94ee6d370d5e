#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/shared_memory.h"
#include "ir/verify.h"
#include "ir/verify_assignment.h"
#include "ir/verify_node.h"
#include "ir/walk.h"

namespace lathe {
namespace {

class ProgramVerifier {
 public:
  explicit ProgramVerifier(const Program& program) : program_(program) {
    for (const ProgramParam& p : program.params) params_.try_emplace(p.slot, &p);
  }

  std::vector<VerifyFault> run() {
    scopes_.push_back({});
    listed_.reserve(program_.code.size());
    find_in_flight();
    for (const NodeRef& ref : program_.code) instruction(ref);
    for (std::size_t i = scopes_.size(); i-- > 1;) fault(scopes_[i].opener, "this scope is never closed");
    check_shared_bytes();
    if (faults_.empty()) faults_ = verify_assignment(program_);  // which relies on well-formed nodes
    return std::move(faults_);
  }

 private:
  struct Scope {
    Node opener;
    std::size_t number = 0;
    bool divergent = false;  // threads of a group may disagree whether or how often it runs
    bool role = false;       // but whole warps agree, by four
  };
  struct Listed {
    std::size_t scope;
    bool divergent;
  };

  void fault(Node n, std::string text) { faults_.push_back({n, std::move(text)}); }

  static bool is_operand_only(Node n) {
    return n.is(Op::Const) || n.is(Op::Param) || n.is(Op::Var) || n.is(Op::Special) || n.is(Op::Define) ||
           n.is(Op::Iota);
  }
  bool is_open(std::size_t number) const {
    return std::any_of(scopes_.begin(), scopes_.end(), [&](const Scope& s) { return s.number == number; });
  }

  void instruction(Node n) {
    if (n.is(Op::After) || n.is(Op::Sink)) return;
    if (!is_operand_only(n) && listed_.contains(n)) fault(n, "listed twice");
    if (std::string text = local_fault(n, Form::Program); !text.empty()) {
      fault(n, text);
      listed_.try_emplace(n, {scopes_.back().number, false});
      return;
    }
    bool closes = n.is(Op::EndIf) || n.is(Op::End);
    bool divergent = false;
    if (!closes)
      for (Node a : n.args()) divergent = operand(n, a) || divergent;
    note_memory(n);
    if (meets(n)) check_barrier(n);
    check_products(n);
    if (closes) {
      close(n);
    } else if (n.is(Op::Range) || n.is(Op::If)) {
      scopes_.push_back(
          {n, ++last_scope_, divergent, n.is(Op::If) && role_of(n.arg(0), program_).has_value()});
    }
    if (!is_operand_only(n)) listed_.try_emplace(n, {scopes_.back().number, divergent || varies(n)});
  }

  // Whether several threads take it together, so that none may miss it.
  static bool meets(Node n) {
    return n.is(Op::Barrier) || n.is(Op::Matrices) || n.is(Op::PanelDot) || n.is(Op::WaitProducts) ||
           n.is(Op::Exchange);
  }

  // The result of a PanelDot is nowhere before the wait for it; memory of the thread's own may stand for it.
  void check_products(Node n) {
    if (n.is(Op::WaitProducts)) return;
    for (std::size_t i = 0; i < n.arg_count(); ++i) {
      Node a = n.arg(i);
      const bool loaded = a.is(Op::Load) && in_flight_.contains(base_memory(a.arg(0)));
      const bool kept = n.is(Op::Store) && i == 2 && in_flight_.contains(base_memory(n.arg(0)));
      if ((is_in_flight(a) || loaded) && !(n.is(Op::PanelDot) && i == 4) && !kept)
        fault(n, "takes the result of a PanelDot that nothing waited for");
    }
  }
  // Registers that hold such a result.
  void find_in_flight() {
    for (const NodeRef& n : program_.code) {
      if (!n->is(Op::Store) || !n->arg(2).is(Op::WaitProducts) || !is_in_flight(n->arg(2))) continue;
      Node base = base_memory(n->arg(0));
      if (base.is(Op::Define) && define_space(base) == Space::Register) in_flight_.try_emplace(base);
    }
  }

  // Whether the value itself may differ between the threads of a group.
  static bool varies(Node n) {
    if (n.is(Op::Special)) return n.text().starts_with("l");
    if (n.is(Op::Matrices) || n.is(Op::PanelDot) || n.is(Op::Exchange)) return true;
    if (!n.is(Op::Load)) return false;
    Node base = base_memory(n.arg(0));
    return base.is(Op::Define) && !is_group_memory(base);
  }

  // Checks an operand and says whether it may differ between threads.
  bool operand(Node user, Node a) {
    if (is_operand_only(a)) {
      check_argument(user, a);
      return varies(a);
    }
    if (a.is(Op::After)) {  // effects it waits for have happened; the memory behind it is what counts
      SmallVector<Node, 16> stack = {a};
      while (!stack.empty()) {
        Node top = stack.back();
        stack.pop_back();
        if (top.is(Op::After))
          stack.append(top.args());
        else if (is_operand_only(top))
          check_argument(user, top);
        else if (!listed_.contains(top) && !(top.is(Op::End) && top.arg_count() > 1))
          fault(user, fmt::format("waits for {}, which is not listed before it", info(top.op()).name));
      }
      return false;
    }
    const Listed* where = listed_.find(a);
    if (where == nullptr) {
      if (a.is(Op::End) && a.arg_count() > 1)
        return false;  // an effect of the kernel form: its loop is in the list
      fault(user, fmt::format("its operand {} is not listed before it", info(a.op()).name));
      return false;
    }
    bool effect = a.dtype() == dtypes::Void;
    if (!effect && !is_open(where->scope))
      fault(user, fmt::format("its operand {} is in a scope that is closed", info(a.op()).name));
    return where->divergent;
  }

  void check_argument(Node user, Node a) {
    if (a.is(Op::Const) && a.dtype().is_index()) fault(user, "a constant of dtype Index in a program");
    if (a.is(Op::Param)) {
      const ProgramParam* param = argument(a);
      if (param == nullptr)
        fault(user, fmt::format("param {} is not an argument of the program", param_slot(a)));
      else if (param->dtype != a.dtype() || param->size != memory_size(a))
        fault(user, fmt::format("param {} differs from the program's argument", param_slot(a)));
    }
    if (a.is(Op::Var) && std::none_of(program_.variables.begin(), program_.variables.end(),
                                      [&](const NodeRef& v) { return v->text() == a.text(); }))
      fault(user, fmt::format("the variable {} is not an argument of the program", a.text()));
  }

  void note_memory(Node n) {
    for_each_memory(n, [&](Node memory) {
      Node base = base_memory(memory);
      const ProgramParam* param = base.is(Op::Param) ? argument(base) : nullptr;
      if (param != nullptr && !(n.is(Op::Store) ? param->writes : param->reads))
        fault(n, fmt::format("param {} is {}, which its argument does not say", param->slot,
                             n.is(Op::Store) ? "written" : "read"));
    });
  }
  const ProgramParam* argument(Node param) const {
    auto found = params_.find(param_slot(param));
    return found == params_.end() ? nullptr : found->second;
  }

  void check_barrier(Node n) {
    for (const Scope& s : scopes_)
      if (s.divergent && (n.is(Op::Barrier) || !s.role))
        fault(n, fmt::format("a {} inside a divergent {}", n.is(Op::Barrier) ? "barrier" : info(n.op()).name,
                             info(s.opener.op()).name));
  }

  void close(Node n) {
    if (scopes_.size() == 1 || scopes_.back().opener != n.arg(0)) {
      fault(n, "closes a scope that is not the innermost open one");
      return;
    }
    scopes_.pop_back();
  }

  void check_shared_bytes() {
    NodeMap<char> seen;
    std::int64_t bytes = 0;
    for (const NodeRef& ref : program_.code)
      for_each_memory(ref, [&](Node memory) {
        Node base = base_memory(memory);
        if (is_group_memory(base) && seen.try_emplace(base).second) bytes += shared_bytes_of(base);
      });
    if (bytes > program_.shared_bytes)
      fault(Node(),
            fmt::format("shared memory takes {} bytes, the program says {}", bytes, program_.shared_bytes));
  }

  const Program& program_;
  std::unordered_map<std::int64_t, const ProgramParam*> params_;  // by slot
  std::vector<Scope> scopes_;
  std::size_t last_scope_ = 0;
  NodeMap<Listed> listed_;
  NodeMap<char> in_flight_;
  std::vector<VerifyFault> faults_;
};

}  // namespace

std::vector<VerifyFault> verify_program(const Program& program) { return ProgramVerifier(program).run(); }

}  // namespace lathe
