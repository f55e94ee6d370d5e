#include "codegen/lower/pipelined_loops.h"

#include <algorithm>
#include <optional>

#include "ir/build.h"
#include "ir/group_ops.h"
#include "ir/ranges.h"
#include "ir/shared_memory.h"
#include "ir/walk.h"

namespace lathe {
namespace {

using Item = ProgramTree::Item;

bool is_ring(Node base) { return base.is(Op::Define) && shared_form(base).slots > 1; }

class Finder {
 public:
  Finder(const Program& program, const ProgramTree& tree) : program_(program), tree_(tree) {
    for (Node n : program_.code)
      if (n.is(Op::Store)) written_.try_emplace(base_memory(n.arg(0)));
  }

  std::vector<PipelinedLoop> run() {
    std::vector<PipelinedLoop> loops;
    for (Node panel : ring_panels(program_)) {
      const int where = innermost(0, panel);
      auto loop =
          std::find_if(loops.begin(), loops.end(), [&](const PipelinedLoop& l) { return l.block == where; });
      if (loop == loops.end()) {
        PipelinedLoop made;
        made.block = where;
        made.range = tree_.opener(where);
        made.slots = shared_form(panel).slots;
        loop = loops.insert(loops.end(), std::move(made));
      }
      loop->panels.push_back(panel);
    }
    std::erase_if(loops, [&](PipelinedLoop& l) { return !plan(l); });
    return loops;
  }

 private:
  // The innermost block with all accesses of a panel.
  int innermost(int at, Node panel) {
    for (const Item& item : tree_.items(at)) {
      if (item.block < 0) continue;
      bool all = true;
      each_access(0, panel, item.block, false, all);
      if (all) return innermost(item.block, panel);
    }
    return at;
  }
  void each_access(int at, Node panel, int wanted, bool inside, bool& all) {
    inside |= at == wanted;
    for (const Item& item : tree_.items(at)) {
      for_each_memory(item.node, [&](Node memory) { all &= inside || base_memory(memory) != panel; });
      if (item.block >= 0) each_access(item.block, panel, wanted, inside, all);
    }
  }

  bool fills(const Item& item, const PipelinedLoop& l) {
    bool any = false;
    tree_.each_inside(item, [&](Node n) {
      any |= n.is(Op::Store) &&
             std::find(l.panels.begin(), l.panels.end(), base_memory(n.arg(0))) != l.panels.end();
    });
    return any;
  }

  // Whether the loop is barrier, fills, barrier, work; and what belongs to the fills.
  bool plan(PipelinedLoop& l) {
    if (l.block == 0 || !l.range.is(Op::Range)) return false;
    const std::vector<Item>& items = tree_.items(l.block);
    l.fill.assign(items.size(), 0);
    l.needed.assign(items.size(), 0);
    std::vector<std::size_t> barriers;
    std::size_t first = items.size(), last = 0;
    for (std::size_t i = 0; i < items.size(); ++i) {
      bool barrier_inside = false;
      tree_.each_inside(items[i], [&](Node n) {
        barrier_inside |= n.is(Op::Barrier);
        l.products += n.is(Op::PanelDot);
      });
      if (items[i].node.is(Op::Barrier)) {
        barriers.push_back(i);
      } else if (barrier_inside) {
        return false;
      } else if (fills(items[i], l)) {
        if (!only_fills(items[i], l)) return false;
        l.fill[i] = 1;
        first = std::min(first, i), last = i;
      }
    }
    if (barriers.size() != 2 || first == items.size() || barriers[0] > first || barriers[1] < last)
      return false;
    l.full = barriers[1];
    // What the fills need, from the back: pure values of this step.
    NodeMap<char> wanted;
    auto want = [&](Node n) {
      for (Node a : n.args()) wanted.try_emplace(a);
    };
    for (std::size_t i = items.size(); i-- > 0;) {
      if (l.fill[i]) {
        tree_.each_inside(items[i], want);
      } else if (wanted.contains(items[i].node) && items[i].block < 0 && !items[i].node.is(Op::Barrier)) {
        if (!is_pure(items[i].node)) return false;
        l.needed[i] = 1;
        want(items[i].node);
      }
    }
    find_boxes(l);
    return true;
  }
  // Whether all panels come as boxes of matrices. Not below another loop, whose turns barriers would count on
  // through.
  void find_boxes(PipelinedLoop& l) {
    const auto counted = [](const NodeRef& extent) { return !extent || extent->is_const(); };
    if (tree_.parent(l.block) != 0 || !std::all_of(program_.locals.begin(), program_.locals.end(), counted))
      return;
    for (Node panel : l.panels) {
      if (!shared_form(panel).bulk) return l.boxes.clear();
      std::vector<Node> stores, loops;
      bool plain = true;
      const std::vector<Item>& items = tree_.items(l.block);
      for (std::size_t i = 0; i < items.size(); ++i) {
        if (!l.fill[i]) continue;
        tree_.each_inside(items[i], [&](Node n) {
          if (n.is(Op::Range)) loops.push_back(n);
          if (!n.is(Op::Store) || base_memory(n.arg(0)) != panel) return;
          stores.push_back(n);
          plain &= is_async_copy(n);
        });
      }
      std::optional<PanelBoxes> boxes = plain ? panel_boxes(panel, stores, loops) : std::nullopt;
      if (!boxes || !moves_with(boxes->column, l.range) || !moves_with(boxes->row, l.range))
        return l.boxes.clear();
      l.boxes.push_back(std::move(*boxes));
    }
    l.roles = std::all_of(l.panels.begin(), l.panels.end(),
                          [](Node panel) { return filling_of(panel) == Filling::Roles; }) &&
              can_divide(l);
  }
  // Whether warps of their own may start the copies: a unit alone reads the panels, the group does not meet
  // anywhere else, and there are registers for so many warps.
  bool can_divide(const PipelinedLoop& l) const {
    constexpr std::int64_t kMostThreads = 3 * kProducers;
    std::int64_t threads = 1, below = 1;
    for (const NodeRef& extent : program_.locals)
      if (extent && extent->const_int() > 1) {
        below = threads;
        threads *= extent->const_int();
      }
    if (!l.range.arg(0).is_const() || threads % kProducers != 0 || kProducers % below != 0 ||
        threads + kProducers > kMostThreads)
      return false;
    int barriers = 0;
    bool only = true;
    for (const NodeRef& n : program_.code) {
      barriers += n->is(Op::Barrier);
      if (n->is(Op::PanelDot) || n->is(Op::Store)) continue;
      for_each_memory(n, [&](Node memory) {
        only &= std::find(l.panels.begin(), l.panels.end(), base_memory(memory)) == l.panels.end();
      });
    }
    return only && barriers == 2;
  }
  // Whether a sum knows the step of a loop by its number alone.
  static bool moves_with(const Linear& sum, Node range) {
    return std::all_of(sum.terms.begin(), sum.terms.end(),
                       [&](const Term& t) { return t.node == range || !depends_on(t.node, range); });
  }
  // Loads of what nothing writes have no order either.
  bool is_pure(Node n) const {
    if (n.dtype() == dtypes::Void || n.is(Op::Matrices) || n.is(Op::PanelDot) || n.is(Op::Exchange))
      return false;
    return !n.is(Op::Load) ||
           (base_memory(n.arg(0)).is(Op::Param) && !written_.contains(base_memory(n.arg(0))));
  }
  bool only_fills(const Item& item, PipelinedLoop& l) {
    bool only = true;
    tree_.each_inside(item, [&](Node n) {
      if (n.is(Op::Store))
        only &= std::find(l.panels.begin(), l.panels.end(), base_memory(n.arg(0))) != l.panels.end();
      else if (!n.is(Op::Range))
        only &= is_pure(n);
      l.waits |= n.is(Op::Store) && is_async_copy(n);
    });
    return only;
  }

  const Program& program_;
  const ProgramTree& tree_;
  NodeMap<char> written_;
};

}  // namespace

std::vector<Node> ring_panels(const Program& program) {
  std::vector<Node> panels;
  for (Node n : program.code)
    for_each_memory(n, [&](Node memory) {
      Node base = base_memory(memory);
      if (is_ring(base) && std::find(panels.begin(), panels.end(), base) == panels.end())
        panels.push_back(base);
    });
  return panels;
}

std::vector<PipelinedLoop> pipelined_loops(const Program& program, const ProgramTree& tree) {
  return Finder(program, tree).run();
}

Node whole_load(Node value) {
  if (value.is(Op::Load)) return value;
  if (!value.is(Op::Vec) || !value.arg(0).is(Op::Lane)) return Node();
  Node load = value.arg(0).arg(0);
  if (!load.is(Op::Load) || load.dtype().lanes != value.dtype().lanes) return Node();
  for (std::size_t i = 0; i < value.arg_count(); ++i) {
    Node lane = value.arg(i);
    if (!lane.is(Op::Lane) || lane.arg(0) != load || lane.int_attr() != static_cast<std::int64_t>(i))
      return Node();
  }
  return load;
}

bool is_async_copy(Node store) {
  Node load = whole_load(store.arg(2));
  if (!load || !base_memory(load.arg(0)).is(Op::Param) || load.dtype().is_bool()) return false;
  Node to = base_memory(store.arg(0));
  if (to.dtype() != base_memory(load.arg(0)).dtype() || to.dtype().lanes != 1) return false;
  const std::int64_t bytes = std::int64_t{load.dtype().lanes} * load.dtype().bytes();
  for (Node index : {store.arg(1), load.arg(1)})
    if (index.dtype().lanes != 1) return false;
  for (Node access : {store, load})
    for (std::size_t i = access.is(Op::Store) ? 3 : 2; i < access.arg_count(); ++i)
      if (access.arg(i).dtype().lanes != 1) return false;
  return bytes == 4 || bytes == 8 || bytes == 16;
}

}  // namespace lathe
