#include "engine/graph_key.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "base/small_vector.h"
#include "ir/build.h"
#include "ir/pending.h"
#include "ir/walk.h"
#include "schedule/compared.h"
#include "schedule/memory_view.h"

namespace lathe::engine {
namespace {

using Words = std::vector<std::uint64_t>;

void add_text(Words& words, const std::string& text) {
  words.push_back(text.size());
  for (std::size_t i = 0; i < text.size(); i += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min<std::size_t>(8, text.size() - i));
    words.push_back(word);
  }
}

void add_attr(Words& words, const Attr& attr) {
  switch (attr.kind) {
    case Attr::Kind::None: return;
    case Attr::Kind::Int: words.push_back(static_cast<std::uint64_t>(attr.i)); return;
    case Attr::Kind::Float: words.push_back(std::bit_cast<std::uint64_t>(attr.f)); return;
    case Attr::Kind::Data: break;
  }
  add_text(words, attr.data->text);
  words.push_back(attr.data->ints.size());
  for (const std::int64_t i : attr.data->ints) words.push_back(static_cast<std::uint64_t>(i));
}

std::uint64_t head_word(Node node) {
  return static_cast<std::uint64_t>(node.op()) | static_cast<std::uint64_t>(node.dtype().scalar) << 8 |
         static_cast<std::uint64_t>(node.dtype().lanes) << 16 |
         static_cast<std::uint64_t>(node.attr().kind) << 32 |
         static_cast<std::uint64_t>(node.arg_count()) << 40;
}

void bind(std::vector<std::pair<Node, std::int64_t>>& bindings, Node variable, std::int64_t value) {
  for (const auto& [known, bound] : bindings) {
    if (known != variable) continue;
    if (bound != value)
      throw UserError("realize", fmt::format("variable {} is bound to {} and to {} in one computation",
                                             variable.text(), std::min(bound, value), std::max(bound, value)))
          .help("realize one before building the other");
    return;
  }
  bindings.emplace_back(variable, value);
}

}  // namespace

GraphKey key_of(std::span<const Node> targets) {
  GraphKey key;
  // A bound value is not entered: it would tell apart what one schedule serves.
  const std::vector<Node> order = toposort(targets, [](Node node) { return !node.is(Op::Bind); });
  NodeMap<std::uint32_t> number;
  number.reserve(order.size());
  key.words.reserve(order.size() * 5);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Node node = order[i];
    number[node] = static_cast<std::uint32_t>(i);
    key.words.push_back(head_word(node));
    if (node.is(Op::Buffer)) {  // numbered by first visit: its place among the buffers is its identity here
      key.buffers.push_back(node);
      key.words.push_back(static_cast<std::uint64_t>(buffer_size(node)));
      add_text(key.words, buffer_device(node));
      continue;
    }
    if (node.is(Op::Bind)) {
      bind(key.bindings, node.arg(0), node.arg(1).const_int());
      add_attr(key.words, node.arg(0).attr());
      continue;
    }
    add_attr(key.words, node.attr());
    for (const Node& arg : node.args()) key.words.push_back(*number.find(arg));
  }
  for (const Node& target : targets) key.words.push_back(*number.find(target));
  key.hash = hash_bytes(key.words.data(), key.words.size() * 8);
  return key;
}

Normalised normalise(std::span<const Node> targets, const GraphKey& key) {
  NodeMap<Node> map;
  Normalised result;
  for (std::size_t slot = 0; slot < key.buffers.size(); ++slot) {
    const Node buffer = key.buffers[slot];
    const Node stand_in = buffer_with_id(-static_cast<std::int64_t>(slot) - 1, buffer.dtype(),
                                         buffer_size(buffer), buffer_device(buffer));
    map[buffer] = stand_in;
    result.stand_ins.push_back(stand_in);
  }
  if (!key.bindings.empty())
    for (const Node& node : toposort(targets))
      if (node.is(Op::Bind)) map[node] = node.arg(0);
  // All targets hang below one node, so that what they share is rebuilt once.
  const Node all = substitute(intern(Op::Sink, dtypes::Void, targets), map);
  result.targets.assign(all.args().begin(), all.args().end());
  return result;
}

namespace {

class Stripper {
 public:
  explicit Stripper(std::span<const Node> targets)
      : outdated_(outdated_by_rounding(still_to_compute(targets))) {}

  void strip(std::span<const Node> targets) {
    SmallVector<Node, 16> args;
    for (const Node& node : still_to_compute(targets)) {
      if (now_.contains(node)) continue;
      if (const Node buffer = realized(node)) {
        if (outdated_.contains(node))
          strip(node.args());
        else
          now_[node] = view_of(buffer, node.shape());
      }
      if (now_.contains(node)) continue;
      if (node.is(Op::Custom)) {
        now_[node] = *now_.find(node.arg(0));
        continue;
      }
      args.clear();
      bool same = true;
      for (const Node& arg : node.args()) {
        args.push_back(*now_.find(arg));
        same &= args.back() == arg;
      }
      const Node made = same ? node : rebuild(node, args);
      now_[node] = made;
      if (node.is(Op::After)) result_.versions.emplace_back(node, made);
    }
  }
  Stripped result(std::span<const Node> targets) {
    for (const Node& target : targets) result_.targets.push_back(*now_.find(target));
    return std::move(result_);
  }

 private:
  NodeMap<char> outdated_;
  NodeMap<Node> now_;
  Stripped result_;
};

}  // namespace

Stripped strip_realized(std::span<const Node> targets) {
  Stripper stripper(targets);
  stripper.strip(targets);
  return stripper.result(targets);
}

}  // namespace lathe::engine
