#include "schedule/rebuilt_weights.h"

#include <algorithm>
#include <vector>

#include "ir/build.h"
#include "ir/shape.h"
#include "schedule/cost.h"
#include "schedule/planner_parts.h"

namespace lathe {
namespace {

using Users = NodeMap<std::vector<Node>>;

Users users_of(std::span<const Node> order) {
  Users users;
  for (Node n : order)
    for (std::size_t i = 0; i < n.arg_count(); ++i) {
      std::vector<Node>& list = users[n.arg(i)];
      if (list.empty() || list.back() != n) list.push_back(n);
    }
  return users;
}

bool passes_on(Node n) { return is_elementwise(n.op()) || is_movement(n.op()); }

// One softmax, and what is as large as its weights around it.
class Around {
 public:
  Around(const Softmax& softmax, const Users& users, const NodeMap<char>& forced, bool on_unit)
      : softmax_(softmax),
        users_(users),
        forced_(forced),
        on_unit_(on_unit),
        size_(numel_max(softmax.weights)) {}

  bool find() { return ends_in_sums() && has_other_sums_ && begins_in_products(); }

  void add_to(RebuiltWeights& out) const {
    for (const auto& [n, one] : inside_) out.never_stored[n] = 1;
    for (const auto& [n, sum] : sums_) out.folds[n] = sum;
    SoftmaxSum row;
    for (const auto& [n, sum] : sums_)
      if (sum.form == FoldForm::Average)
        row.outputs =
            std::max(row.outputs, numel_max(n) / std::max<std::int64_t>(numel_max(softmax_.total), 1));
    row.softmax = softmax_;
    row.panel = softmax_.scores;
    row.form = FoldForm::Largest;
    out.folds[softmax_.largest] = row;
    row.form = FoldForm::Total;
    out.folds[softmax_.total] = row;
    out.kept[softmax_.largest] = 1;
    out.kept[softmax_.reciprocal ? softmax_.reciprocal : softmax_.total] = 1;
  }

 private:
  const std::vector<Node>& users(Node n) const {
    static const std::vector<Node> none;
    const std::vector<Node>* list = users_.find(n);
    return list == nullptr ? none : *list;
  }
  bool only_used_by(Node n, Node user) const { return users(n).size() == 1 && users(n)[0] == user; }

  // Everything made of the weights: values that are passed on, then sums of products.
  bool ends_in_sums() {
    if (softmax_.reciprocal && !only_used_by(softmax_.total, softmax_.reciprocal)) return false;
    std::vector<Node> left{softmax_.power};
    while (!left.empty()) {
      Node n = left.back();
      left.pop_back();
      if (!inside_.try_emplace(n, 1).second) continue;
      if (forced_.contains(n) || users(n).empty()) return false;
      for (Node user : users(n)) {
        if (user == softmax_.total) continue;
        if (user.is(Op::Reduce) ? !add_sum(user) : !passes_on(user) || !same_place(n, user)) return false;
        if (!user.is(Op::Reduce)) left.push_back(user);
      }
    }
    return inside_.contains(softmax_.weights);
  }

  // A movement's sizes are no values.
  static bool same_place(Node n, Node user) { return !is_movement(user.op()) || user.arg(0) == n; }

  bool add_sum(Node reduce) {
    if (sums_.contains(reduce)) return true;
    if (!is_tensor_reduce(reduce) || reduce.ints().size() != 2 || !is_product_sum(reduce) ||
        !reduce.arg(0).is(Op::Mul) || forced_.contains(reduce.arg(0)))
      return false;
    std::optional<SoftmaxSum> sum = match_softmax_sum(reduce, nullptr);
    if (sum && sum->softmax.weights != softmax_.weights) sum.reset();
    if (!sum) {
      // Which operand it is: the other is not made of the weights.
      Node product = reduce.arg(0);
      sum.emplace();
      sum->form = FoldForm::Sum;
      sum->softmax = softmax_;
      const bool first = made_of_weights(product.arg(0));
      if (first == made_of_weights(product.arg(1))) return false;
      sum->side = first ? 0 : 1;
      follow_operand(*sum, product.arg(sum->side));
      has_other_sums_ = true;
    }
    if (on_unit_ && (sum->casts.empty() || sum->casts[0].bits() != 16)) return false;
    sums_.try_emplace(reduce, *sum);
    return true;
  }

  bool made_of_weights(Node n) const {
    std::vector<Node> left{n};
    NodeMap<char> seen;
    while (!left.empty()) {
      Node top = left.back();
      left.pop_back();
      if (top == softmax_.power) return true;
      if (!seen.try_emplace(top, 1).second || !passes_on(top) || numel_max(top) < size_) continue;
      for (Node a : top.args()) left.push_back(a);
    }
    return false;
  }

  // The values of the same size that the weights and their gradients are computed from: scores and other sums
  // of products, elementwise functions of them, and masks. Except for cheap ones, none may have other users.
  bool begins_in_products() {
    std::vector<Node> left, found;
    NodeMap<char> candidates;
    auto ask = [&](Node n) {
      const bool product = is_product_sum(n);
      if (numel_max(n) < size_ || (!product && !passes_on(n)) || inside_.contains(n)) return;
      if (!candidates.try_emplace(n, 1).second) return;
      found.push_back(n);
      if (!product) left.push_back(n);
    };
    for (const auto& [n, one] : inside_)
      for (Node a : n.args()) ask(a);
    while (!left.empty()) {
      Node n = left.back();
      left.pop_back();
      for (Node a : n.args()) ask(a);
    }
    for (Node n : found) {
      bool own = !forced_.contains(n);
      for (Node user : users(n))
        own &= candidates.contains(user) || inside_.contains(user) || user == softmax_.largest;
      if (own) {
        inside_[n] = 1;
        // Its elements are more than the weights: products are where sums of them are, however short.
        for (Node below = n; is_product_sum(n) && !below.is(Op::Mul);)
          below = below.arg(0), inside_[below] = 1;
      } else if (made_of_products(n)) {
        return false;
      }
    }
    return made_of_products(softmax_.scores);
  }

  bool made_of_products(Node n) const {
    std::vector<Node> left{n};
    NodeMap<char> seen;
    while (!left.empty()) {
      Node top = left.back();
      left.pop_back();
      if (is_product_sum(top)) return true;
      if (!seen.try_emplace(top, 1).second || !passes_on(top) || numel_max(top) < size_) continue;
      for (Node a : top.args()) left.push_back(a);
    }
    return false;
  }

  const Softmax& softmax_;
  const Users& users_;
  const NodeMap<char>& forced_;
  bool on_unit_;
  std::int64_t size_;
  NodeMap<char> inside_;
  NodeMap<SoftmaxSum> sums_;
  bool has_other_sums_ = false;
};

}  // namespace

RebuiltWeights find_rebuilt_weights(std::span<const Node> order, const NodeMap<char>& forced, double bytes,
                                    bool on_unit) {
  RebuiltWeights out;
  std::optional<Users> users;
  for (Node n : order) {
    if (!n.is(Op::Mul) && !n.is(Op::Div)) continue;
    if (n.rank() < 2 || static_cast<double>(numel_max(n)) * n.dtype().bytes() < bytes) continue;
    const std::optional<Softmax> softmax = match_softmax(n, nullptr);
    if (!softmax) continue;
    if (!users) users = users_of(order);
    Around around(*softmax, *users, forced, on_unit);
    if (around.find()) around.add_to(out);
  }
  return out;
}

}  // namespace lathe
