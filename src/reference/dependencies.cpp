#include "reference/dependencies.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "ir/build.h"
#include "ir/ranges.h"

namespace lathe::reference {
namespace {

std::size_t components(Node fold) { return static_cast<std::size_t>(fold.ints()[1]); }

std::vector<std::vector<bool>> carries_read(Node fold) {
  std::size_t n = components(fold);
  std::vector<std::vector<bool>> reads(n, std::vector<bool>(n));
  for (std::size_t c = 0; c < n; ++c)
    for (Node node : toposort(fold.arg(n + c)))
      if (node.is(Op::Carry) && node.ints()[0] == fold.ints()[0]) {
        auto i = static_cast<std::size_t>(node.ints()[1]);
        if (i >= n)
          throw InternalError("reference", fmt::format("fold {} has no component {}", fold.ints()[0], i));
        reads[c][i] = true;
      }
  return reads;
}

}  // namespace

Dependencies::Dependencies(Node root, std::span<const Node> thread_ranges) : order_(toposort(root)) {
  numbers_.reserve(order_.size());
  for (Node node : order_) numbers_.try_emplace(node, static_cast<std::uint32_t>(numbers_.size()));
  std::uint32_t tokens = kThreadToken + 1;
  for (Node node : order_) {
    if (node.is(Op::Range)) ranges_[node] = tokens++;
    if (node.is(Op::Fold)) {
      carries_.emplace_back(node.ints()[0], tokens++);
      reads_[node] = carries_read(node);
    }
  }
  words_ = tokens / 64 + 1;
  bits_.assign(order_.size() * words_, 0);
  for (Node node : order_) fill(node, thread_ranges);
}

std::uint32_t Dependencies::carry_token(std::int64_t fold) const {
  for (auto [id, token] : carries_)
    if (id == fold) return token;
  throw InternalError("reference", fmt::format("a running value of fold {} is used outside it", fold));
}

bool Dependencies::depends_only_on(Node node, std::span<const std::uint32_t> tokens) const {
  std::vector<std::uint64_t> rest(words_);
  std::copy_n(&bits_[*numbers_.find(node) * words_], words_, rest.begin());
  for (std::uint32_t token : tokens) rest[token / 64] &= ~(std::uint64_t{1} << (token % 64));
  return std::all_of(rest.begin(), rest.end(), [](std::uint64_t w) { return w == 0; });
}

void Dependencies::add(Node to, Node from) {
  std::uint64_t* a = row(to);
  const std::uint64_t* b = row(from);
  for (std::size_t w = 0; w < words_; ++w) a[w] |= b[w];
}

void Dependencies::fill(Node node, std::span<const Node> thread_ranges) {
  Node fold = node.is(Op::Get) && node.arg(0).is(Op::Fold) ? node.arg(0) : Node();
  if (fold) {
    std::size_t n = components(fold);
    for (std::size_t c : needed(fold, static_cast<std::size_t>(node.int_attr()))) {
      add(node, fold.arg(c));
      add(node, fold.arg(n + c));
    }
    for (Node r : closed_ranges(fold)) add(node, r);
  } else {
    for (Node a : node.args()) add(node, a);
  }
  if (node.is(Op::Range)) {
    add_token(node, range_token(node));
    if (std::find(thread_ranges.begin(), thread_ranges.end(), node) != thread_ranges.end())
      add_token(node, kThreadToken);
  }
  if (node.is(Op::Carry)) add_token(node, carry_token(node.ints()[0]));
  for (Node r : closed_ranges(fold ? fold : node)) drop_token(node, range_token(r));
  if (fold || node.is(Op::Fold)) drop_token(node, carry_token((fold ? fold : node).ints()[0]));
}

std::vector<std::size_t> Dependencies::needed(Node fold, std::size_t c) const {
  const std::vector<std::vector<bool>>& reads = *reads_.find(fold);
  if (c >= reads.size())
    throw InternalError("reference", fmt::format("fold {} has no component {}", fold.ints()[0], c));
  std::vector<bool> in(reads.size());
  std::vector<std::size_t> open = {c};
  in[c] = true;
  while (!open.empty()) {
    std::size_t at = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < reads.size(); ++i)
      if (reads[at][i] && !in[i]) {
        in[i] = true;
        open.push_back(i);
      }
  }
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in[i]) out.push_back(i);
  return out;
}

}  // namespace lathe::reference
