#include "tensor/realize.h"

#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "engine/engine.h"
#include "engine/graph_key.h"
#include "engine/prepared_schedule.h"
#include "ir/pending.h"
#include "ir/text.h"
#include "runtime/storage.h"
#include "search/tuned_options.h"
#include "tensor/given_up.h"
#include "tensor/versions.h"

namespace lathe {
namespace {

// Whether the value can be read without computing anything.
bool at_rest(Node value) {
  if (realized(value)) return true;
  while (is_movement(value.op())) {
    if (value.is(Op::Pad) || value.is(Op::Unskew)) return false;
    value = value.arg(0);
    if (realized(value)) return true;
  }
  return value.is(Op::Buffer) || value.is_const();
}

// What realising some targets will write: the buffers, every version on the way, and the last version of
// each.
struct Writes {
  NodeMap<char> buffers, versions, last;
  NodeMap<char>
      outdated;  // values on live graphs that are read from those buffers and will not be there any more
};

Writes writes_of(std::span<const Node> targets) {
  Writes w;
  for (Node n : still_to_compute(targets))
    if (n.is(Op::After) && !realized(n)) {
      w.versions[n] = 1;
      w.buffers[base_memory(n)] = 1;
    }
  NodeMap<char> superseded;
  for (const auto& [version, one] : w.versions) superseded[version.arg(0)] = 1;
  for (const auto& [version, one] : w.versions)
    if (!superseded.contains(version)) w.last[version] = 1;
  return w;
}

// The live storages that the writes affect: those that are one of the written versions, those not yet
// computed that read a version that is replaced, and those materialized in a buffer that is written (equal
// expressions share one), which need a copy. Visits each node once.
std::vector<Storage*> affected(Writes& w) {
  std::vector<Storage*> out;
  NodeMap<char> reads;  // 1: reads an overwritten version
  struct Frame {
    Node node;
    std::size_t next;
  };
  std::vector<Frame> stack;
  auto settle = [&](Node n) {  // the answer for nodes that need no walk
    if (reads.contains(n)) return true;
    if (w.last.contains(n))
      reads[n] = 0;
    else if (w.buffers.contains(n))
      reads[n] = 1;
    else if (Node held = realized(n)) {
      reads[n] = w.buffers.contains(held);
      if (w.buffers.contains(held) && !n.is(Op::After)) w.outdated[n] = 1;
    } else if (n.arg_count() == 0)
      reads[n] = 0;
    else
      return false;
    return true;
  };
  for (Storage* s = first_live_storage(); s != nullptr; s = s->after) {
    Node value = s->value;
    Node memory = memory_of(value);
    if (memory && w.versions.contains(memory)) {
      out.push_back(s);
      continue;
    }
    if (at_rest(value)) {
      if (Node held = buffer_held(value); held && w.buffers.contains(held)) {
        out.push_back(s);
        Node n = value;
        while (!realized(n) && n.arg_count() > 0) n = n.arg(0);
        if (!n.is(Op::After)) w.outdated[n] = 1;
      }
      continue;
    }
    if (!settle(value)) stack.push_back({value, 0});
    while (!stack.empty()) {
      Frame& top = stack.back();
      const std::span<const Node> operands = computed_from(top.node);
      if (top.next < operands.size()) {
        Node arg = operands[top.next++];
        if (!settle(arg)) stack.push_back({arg, 0});
        continue;
      }
      char any = 0;
      for (Node a : operands) any |= *reads.find(a);
      reads[top.node] = any;
      stack.pop_back();
    }
    if (*reads.find(value) != 0) out.push_back(s);
  }
  return out;
}

// The node to compute for a storage. A materialized value is only computed, as a copy, when its buffer is
// overwritten. A value made only of constants names no device; if it belongs on another device than the
// default, the node says so.
Node request_of(const Storage& s) {
  Node value = s.value;
  if (at_rest(value)) return stored_value(value, s.device);
  if (s.device == default_device() || !device_of(value).empty()) return value;
  return copy_to(value, s.device);
}

// Adds what must be realised together with the chosen ones; gives what they write.
Writes add_affected(std::vector<Storage*>& chosen) {
  Writes w;
  for (std::size_t before = 0; before != chosen.size();) {
    before = chosen.size();
    std::vector<Node> values;
    for (Storage* s : chosen) values.push_back(s->value);
    w = writes_of(values);
    if (w.buffers.empty()) break;
    for (Storage* s : affected(w)) {
      if (std::find(chosen.begin(), chosen.end(), s) != chosen.end() || s->lost) continue;
      if (s->unasked)
        s->lost = true;
      else
        chosen.push_back(s);
    }
  }
  return w;
}

}  // namespace

void forget_done_versions(const Tensor& counter) {
  Storage& s = *counter.impl()->storage;
  std::lock_guard guard(storage_mutex());
  const Node pending = memory_of(s.value);
  if (!pending || !pending.is(Op::After) || realized(pending)) return;
  const Node done = pending.arg(0);
  if (!done.is(Op::After) || !realized(done) || !done.arg(0).is(Op::After)) return;
  NodeMap<Node> map;
  map[done] = new_version_name(base_memory(done), done, true);
  s.value = substitute(s.value, map);
  ++s.version;
}

namespace {

// Results name variables without their values; a tensor keeps the values that its sizes, and where it begins
// in its memory, were bound to.
Node with_bindings(Node result, Node value) {
  std::vector<Node> sizes(value.shape().begin(), value.shape().end());
  for (Node v = value; is_movement(v.op()); v = v.arg(0))
    sizes.insert(sizes.end(), v.args().begin() + 1, v.args().end());
  NodeMap<Node> map;
  for (Node n : toposort(sizes))
    if (n.is(Op::Bind)) {
      map.try_emplace(n.arg(0), n);
      map.try_emplace(n, n);
    }
  return map.empty() ? result : substitute(result, map);
}

// A value that is in memory, under a name for what the memory holds now: the engine says which buffer it
// is, and where that was written the buffer's own name stands for what it held before.
Node over_what_is_there(Node result) {
  const Node memory = memory_of(result);
  if (!memory || !is_overwritten(memory)) return result;
  return over_memory(result, memory, new_version_name(base_memory(memory), Node(), false));
}

LiveStorages live_storages(const std::vector<Tensor>& leaves) {
  LiveStorages out;
  for (const Tensor& leaf : leaves) {
    const Storage& s = *leaf.impl()->storage;
    out.asked.push_back(s.number);
    if (const Node memory = memory_of(s.value)) out.asked_buffers.push_back(buffer_id(base_memory(memory)));
  }
  for (const Storage* s = first_live_storage(); s != nullptr; s = s->after) {
    out.numbers.push_back(s->number);
    if (s->value->dtype().is_float() && !memory_of(s->value)) out.by_value[s->value].push_back(s->number);
  }
  std::ranges::sort(out.numbers);
  return out;
}

struct Requests {
  std::vector<NodeRef> values, asked;
  std::vector<PlaceRef> made;
  std::vector<NodeRef> written;  // the last version of each buffer, which may be no tensor's

  void add(const Storage& s) {
    values.push_back(s.value);
    asked.push_back(request_of(s));
    if (s.made) made.push_back(s.made);
  }
  // A value that no storage holds, to be found computed where a graph names it.
  void add(Node value) {
    values.push_back(value);
    asked.push_back(value);
  }
  // Asks the engine and gives the results to whatever live storages still hold the values.
  void run() {
    search::install();
    std::vector<Node> targets(asked.begin(), asked.end());
    const WorkFor work([](const void* whom) { return static_cast<const Requests*>(whom)->made; }, this);
    std::vector<NodeRef> results = engine::realize(targets);
    check_internal(results.size() == targets.size(), "realize",
                   "the engine gave a different number of results");
    // Before tensors get the names of their versions, which would be forgotten again.
    for (const NodeRef& version : written) note_written(version);
    NodeMap<std::size_t> position;
    for (std::size_t i = 0; i < values.size(); ++i) position[values[i]] = i;
    Requests copies;
    {
      const std::vector<Tensor> leaves = live_leaves();  // outlives the lock: handles must not die under it
      std::vector<bool> taken(values.size());
      std::lock_guard guard(storage_mutex());
      const LiveStorages live = live_storages(leaves);
      for (Storage* s = first_live_storage(); s != nullptr; s = s->after)
        if (const std::size_t* i = position.find(s->value)) {
          if (taken[*i] && is_twin(*s))
            copies.add_copy(*s);
          else
            settle(*s, asked[*i], results[*i], live);
          taken[*i] = true;
        }
    }
    if (!copies.asked.empty()) copies.run();
  }

 private:
  // Two storages had one expression. Each gets memory: by it a gradient tells them apart.
  static bool is_twin(const Storage& s) {
    return !s.tracked && !memory_of(s.value) && s.value->dtype().is_float() &&
           size_product(s.value->shape()).is_const();
  }
  void add_copy(Storage& s) {
    s.value = stored_value(s.value, s.device);
    ++s.version;
    add(s);
  }

  static void settle(Storage& s, Node asked, Node result, const LiveStorages& live) {
    if (Node memory = memory_of(result); s.made && memory) set_made(base_memory(memory), s.made);
    const Node before = memory_of(s.value);
    const bool stored = before && before.is(Op::After);
    if (s.tracked) {  // the expression stays, for backward; a copy becomes where it is read from
      Node copy = asked == s.value.node() ? Node() : memory_of(asked);
      if (copy && at_rest(s.value)) set_realized(s.value, base_memory(copy));
      if (stored) note_written(before);
      return;
    }
    result = with_bindings(result, s.value);
    if (Node now = memory_of(result); now && stored)
      result = over_memory(result, now, new_version_name(base_memory(now), before, true));
    else
      result = over_what_is_there(result);
    if (result.shape_node() != s.value->shape_node()) {
      Nodes sizes(s.value->shape().begin(), s.value->shape().end());
      result = reshape_to(result, sizes);
    }
    if (result == s.value.node()) return;
    if (Node now = memory_of(result); now && s.value->dtype().is_float() && !s.apart)
      note_given_up(base_memory(now), s.value, live);
    s.value = result;
    ++s.version;
  }
};

}  // namespace

Node buffer_held(Node value) {
  for (;; value = value.arg(0)) {
    if (Node held = realized(value)) return held;
    if (value.is(Op::Buffer)) return value;
    if (!is_movement(value.op())) return Node();
  }
}

namespace {

// What has to be asked of the engine so that these storages can be read, and what that overwrites.
struct Wanted {
  Requests requests;
  Writes writes;
  std::vector<NodeRef> outdated;
};

bool is_memory(Node n) { return n.is(Op::Buffer) || n.is(Op::After); }

// A gradient reads the random numbers its value was made of, which cannot be drawn again once the stream has
// moved on: they are kept with the value. A captured function takes its gradients before it ends.
void keep_draws(std::span<Storage* const> chosen, const NodeMap<char>& counters, Requests& requests) {
  if (counters.empty()) return;
  NodeMap<char> reads;  // 1: reads a counter, and nothing on the way is stored
  for (const Storage* s : chosen) {
    if (!s->tracked) continue;
    const Node value = s->value;
    for (Node n : still_to_compute(std::span<const Node>(&value, 1))) {
      if (reads.contains(n)) continue;
      const bool memory = is_memory(n);
      char any = memory && counters.contains(base_memory(n));
      if (!memory && !realized(n))
        for (Node a : computed_from(n)) any |= *reads.find(a);
      if (any != 0 && n.is(Op::Contiguous)) {
        requests.add(n);
        any = 0;
      }
      reads[n] = any;
    }
  }
}

Wanted wanted_for(const std::vector<std::shared_ptr<Storage>>& storages) {
  Wanted out;
  const NodeMap<char> counters = watch() ? NodeMap<char>() : stream_counters();
  std::lock_guard guard(storage_mutex());
  std::vector<Storage*> chosen;
  for (const auto& s : storages)
    if (!at_rest(s->value) && std::find(chosen.begin(), chosen.end(), s.get()) == chosen.end())
      chosen.push_back(s.get());
  if (chosen.empty()) return out;
  out.writes = add_affected(chosen);
  for (Storage* s : chosen) out.requests.add(*s);
  keep_draws(chosen, counters, out.requests);
  for (const auto& [node, one] : out.writes.outdated) out.outdated.push_back(node);
  for (const auto& [node, one] : out.writes.last) out.requests.written.push_back(node);
  return out;
}

}  // namespace

// Threads compute side by side as long as none of them writes to memory: what a write replaces, who needs a
// copy of it and which version each tensor is then are one decision.
static std::shared_mutex& writes_mutex() {
  static auto* mutex = new std::shared_mutex;  // never destroyed: tensors may die during exit
  return *mutex;
}

void realize_storages(const std::vector<std::shared_ptr<Storage>>& storages) {
  Scope scope;
  std::shared_lock reading(writes_mutex());
  std::unique_lock writing(writes_mutex(), std::defer_lock);
  Wanted wanted = wanted_for(storages);
  if (!wanted.writes.buffers.empty()) {
    reading.unlock();
    writing.lock();
    wanted = wanted_for(storages);  // others may have computed some of it, or written
  }
  if (wanted.requests.asked.empty()) return;
  wanted.requests.run();
  for (const NodeRef& node : wanted.outdated)
    if (Node held = realized(node); held && wanted.writes.buffers.contains(held)) set_realized(node, Node());
}

void rename_memory(std::span<const NodeRef> buffers, bool plain_only) {
  if (buffers.empty()) return;
  Scope scope;
  NodeMap<Node> names;
  for (const NodeRef& buffer : buffers)
    names.try_emplace(buffer, new_version_name(buffer, Node(), !plain_only));
  std::vector<Tensor> leaves;  // outlives the lock: handles must not die under it
  if (plain_only) leaves = live_leaves();
  std::lock_guard guard(storage_mutex());
  for (Storage* s = first_live_storage(); s != nullptr; s = s->after) {
    Node memory = memory_of(s->value);
    if (!memory || (memory.is(Op::After) && !realized(memory))) continue;
    const Node* name = names.find(base_memory(memory));
    if (name == nullptr) continue;
    const bool leaf = std::any_of(leaves.begin(), leaves.end(),
                                  [&](const Tensor& t) { return t.impl()->storage.get() == s; });
    if (plain_only && (s->tracked || leaf)) continue;
    s->value = over_memory(s->value, memory, *name);
    ++s->version;
  }
}

void name_memory() {
  const Scope scope;
  std::lock_guard guard(storage_mutex());
  for (Storage* s = first_live_storage(); s != nullptr; s = s->after) {
    const Node value = s->value;
    if (s->tracked || memory_of(value) || value.is_const() || !at_rest(value)) continue;
    const Node read = engine::strip_realized(std::span<const Node>(&value, 1)).targets[0];
    if (read == value || !memory_of(read) || read.shape_node() != value.shape_node()) continue;
    s->value = over_what_is_there(read);
    ++s->version;
  }
}

Tensor& Tensor::realize() {
  Tensor* self = this;
  realize_all(std::span<Tensor* const>(&self, 1));
  return *this;
}

namespace {

// Whether every memory it reads still holds what it read.
bool can_be_computed_again(Node value) {
  const std::vector<Node> all = toposort(value);
  return std::ranges::none_of(all, [](Node n) { return is_memory(n) && is_overwritten(n); });
}

// A captured function computes what it writes down. A value that an equal expression had before the capture
// is in another tensor's memory, where that tensor may be written to: the value is forgotten, unless a
// tensor older than the capture is that expression, which the function may have read.
void forget_earlier_values(std::span<Tensor* const> tensors, const Watch& since) {
  std::vector<Node> stack;
  for (Tensor* t : tensors) stack.push_back(node_of(*t));
  NodeMap<char> held, seen;
  std::lock_guard guard(storage_mutex());
  for (const Storage* s = first_live_storage(); s != nullptr; s = s->after)
    if (s->tracked && s->number < since.first_storage) held[s->value] = 1;
  while (!stack.empty()) {
    const Node n = stack.back();
    stack.pop_back();
    if (!seen.try_emplace(n, 1).second) continue;
    if (const Node buffer = realized(n)) {
      const bool earlier = buffer_id(buffer) < since.first_buffer && !n.is(Op::After) && !held.contains(n);
      if (!earlier || !can_be_computed_again(n)) continue;
      set_realized(n, Node());
    }
    for (Node a : n.args()) stack.push_back(a);
  }
}

std::vector<std::shared_ptr<Storage>> storages_of(std::span<Tensor* const> tensors) {
  if (const std::optional<Watch> captured = watch()) forget_earlier_values(tensors, *captured);
  std::vector<std::shared_ptr<Storage>> wanted;
  for (Tensor* t : tensors) {
    Node value = node_of(*t);
    TensorImpl& impl = *t->impl();
    {
      // The only handle of a base that was not computed yet: what is kept is the view alone.
      std::lock_guard guard(storage_mutex());
      if (impl.view && impl.storage.use_count() == 1 && !at_rest(impl.storage->value) &&
          !impl.view->overlaps) {
        auto own = std::make_shared<Storage>(value, impl.storage->device);
        own->tracked = is_tracked(*t) && !impl.leaf;
        own->made = impl.storage->made;
        impl.storage = std::move(own);
        impl.view = nullptr;
        impl.node_version = 0;
      }
    }
    wanted.push_back(impl.storage);
  }
  return wanted;
}

std::vector<Tensor*> pointers_to(std::vector<Tensor>& tensors) {
  std::vector<Tensor*> pointers;
  for (Tensor& t : tensors) pointers.push_back(&t);
  return pointers;
}

std::shared_ptr<const engine::PreparedSchedule> prepared_for(std::span<const Tensor> tensors) {
  Scope scope;
  std::vector<Tensor> handles(tensors.begin(), tensors.end());
  const Wanted wanted = wanted_for(storages_of(pointers_to(handles)));
  if (wanted.requests.asked.empty()) return nullptr;
  const std::vector<Node> targets(wanted.requests.asked.begin(), wanted.requests.asked.end());
  return engine::prepare_only(targets);
}

}  // namespace

void Tensor::realize_all(std::span<Tensor* const> tensors) { realize_storages(storages_of(tensors)); }

void Tensor::realize_all(std::span<const Tensor> tensors) {
  std::vector<Tensor> handles(tensors.begin(), tensors.end());
  realize_all(pointers_to(handles));
}

Tensor& Tensor::kernelize() {
  prepared_for(std::span<const Tensor>(this, 1));
  return *this;
}

std::vector<ScheduledKernel> Tensor::schedule() const {
  return schedule_all(std::span<const Tensor>(this, 1));
}

std::vector<ScheduledKernel> Tensor::schedule_all(std::span<const Tensor> tensors) {
  const auto prepared = prepared_for(tensors);
  std::vector<ScheduledKernel> out;
  for (std::size_t i = 0; prepared && i < prepared->steps.size(); ++i) {
    const Step& step = prepared->schedule.steps[i];
    ScheduledKernel& kernel = out.emplace_back();
    kernel.name = step.name;
    kernel.device = step.device;
    kernel.origin = step.origin;
    if (step.is_copy()) {
      kernel.bytes = static_cast<double>(buffer_bytes(step.buffers[0]));
      continue;
    }
    const engine::PreparedStep& ready = prepared->steps[i];
    const engine::MadeKernel& made = *engine::current_kernel(ready.kernel, *ready.device).made;
    kernel.options = lathe::to_string(made.options);
    kernel.text = print_graph(step.ast);
    kernel.flops = made.launch.flops;
    kernel.bytes = made.launch.bytes;
  }
  return out;
}

Tensor& Tensor::set_options(std::string_view options) { return replace(contiguous(parse_opts(options))); }

bool Tensor::is_realized() const {
  node_of(*this);
  std::lock_guard guard(storage_mutex());
  return at_rest(impl_->storage->value);
}

}  // namespace lathe
