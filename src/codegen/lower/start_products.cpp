#include "codegen/lower/start_products.h"

#include <algorithm>
#include <vector>

#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/walk.h"

namespace lathe {
namespace {

// Sums of panels' products, stored whole to memory of the thread's own, and what each of them is added to.
struct Sums {
  Node store;
  std::vector<Node> loads, begin;  // by lane
  bool otherwise = false;          // some are read in another way
};

bool is_product(Node n) {
  return n.is(Op::PanelDot) || (n.is(Op::Add) && is_product(n.arg(0)) && is_product(n.arg(1)));
}
void products_of(Node sum, SmallVector<Node, 8>& out) {
  if (sum.is(Op::PanelDot)) return out.push_back(sum);
  for (Node part : sum.args()) products_of(part, out);
}

class Starter {
 public:
  Node run(Node kernel) {
    order_ = toposort(kernel);
    for (Node n : order_) {
      if (n.is(Op::Store) && is_product(n.arg(2)) && n.arg_count() == 3 && n.arg(1).is_const_int(0)) begin(n);
      for (Node a : n.args()) ++uses_[a];
    }
    if (sums_.empty()) return kernel;
    for (Node n : order_) note(n);
    for (auto& [memory, sums] : sums_) sums.otherwise |= !starts(sums);
    for (Node n : order_) done_.try_emplace(n, rewritten(n));
    return *done_.find(kernel);
  }

 private:
  void begin(Node store) {
    Node base = base_memory(store.arg(0));
    const std::size_t lanes = store.arg(2).dtype().lanes;
    if (!base.is(Op::Define) || define_space(base) != Space::Register ||
        memory_size(base) != static_cast<std::int64_t>(lanes))
      return;
    auto [sums, fresh] =
        sums_.try_emplace(base, Sums{store, std::vector<Node>(lanes), std::vector<Node>(lanes), false});
    sums->otherwise |= !fresh;
  }
  void note(Node n) {
    if (n.is(Op::Load))
      if (Sums* sums = sums_.find(base_memory(n.arg(0)))) {
        const bool one = n.arg_count() == 2 && n.dtype().lanes == 1 && n.arg(1).is_const() &&
                         !sums->loads[static_cast<std::size_t>(n.arg(1).int_attr())];
        if (one)
          sums->loads[static_cast<std::size_t>(n.arg(1).int_attr())] = n;
        else
          sums->otherwise = true;
      }
    if (!n.is(Op::Add)) return;
    for (std::size_t i = 0; i < 2; ++i) {
      Node load = n.arg(i);
      Sums* sums = load.is(Op::Load) ? sums_.find(base_memory(load.arg(0))) : nullptr;
      if (sums == nullptr || sums->otherwise || *uses_.find(load) != 1) continue;
      sums->begin[static_cast<std::size_t>(load.arg(1).int_attr())] = n.arg(1 - i);
      lane_of_.try_emplace(n, load);
      return;
    }
  }
  // Whether every sum is added to something that does not wait for the product.
  static bool starts(const Sums& sums) {
    if (std::any_of(sums.begin.begin(), sums.begin.end(), [](Node n) { return !n; })) return false;
    const std::vector<Node> before = toposort(std::span<const Node>(sums.begin));
    return std::find(before.begin(), before.end(), sums.store) == before.end();
  }
  Node rewritten(Node n) {
    if (n.arg_count() == 0) return n;
    SmallVector<Node, 16> args;
    const Sums* own = n.is(Op::Store) ? sums_.find(base_memory(n.arg(0))) : nullptr;
    for (Node a : n.args()) args.push_back(*done_.find(a));
    if (own != nullptr && own->store == n && !own->otherwise) {
      SmallVector<Node, 16> lanes;
      for (Node x : own->begin) lanes.push_back(built(x));
      SmallVector<Node, 8> products;
      products_of(n.arg(2), products);
      args[2] = vec(lanes);
      for (Node product : products) args[2] = args[2] + *done_.find(product);
    }
    if (const Node* load = lane_of_.find(n);
        load != nullptr && !sums_.find(base_memory(load->arg(0)))->otherwise)
      return *done_.find(*load);
    return rebuild(n, args);
  }
  // A value that may come later in the order.
  Node built(Node root) {
    if (const Node* to = done_.find(root)) return *to;
    for (Node n : toposort(root))
      if (!done_.contains(n)) done_.try_emplace(n, rewritten(n));
    return *done_.find(root);
  }

  std::vector<Node> order_;
  NodeMap<int> uses_;
  NodeMap<Sums> sums_;     // by memory
  NodeMap<Node> lane_of_;  // of an Add: the load of a sum
  NodeMap<Node> done_;
};

}  // namespace

Node start_products(Node kernel) { return Starter().run(kernel); }

}  // namespace lathe
