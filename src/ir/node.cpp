#include "ir/node.h"

#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include "base/error.h"
#include "base/hash.h"
#include "ir/bounds.h"
#include "ir/shape.h"

namespace lathe {
namespace {

class SpinLock {
 public:
  void lock() {
    while (flag_.test_and_set(std::memory_order_acquire))
      while (flag_.test(std::memory_order_relaxed)) __builtin_ia32_pause();
  }
  void unlock() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

// Blocks of equal size are recycled through free lists; nodes with many args go to the allocator directly.
constexpr std::size_t kPooledArgs = 8;
constexpr std::size_t kSlabNodes = 256;

struct Pool {
  std::array<void*, kPooledArgs + 1> free{};

  void* take(std::size_t args) {
    std::size_t bytes = sizeof(NodeData) + args * sizeof(Node);
    if (args > kPooledArgs) return ::operator new(bytes);
    if (free[args] == nullptr) refill(args, bytes);
    void* block = free[args];
    std::memcpy(&free[args], block, sizeof(void*));
    return block;
  }
  void give(void* block, std::size_t args) {
    if (args > kPooledArgs) return ::operator delete(block);
    std::memcpy(block, &free[args], sizeof(void*));
    free[args] = block;
  }
  void refill(std::size_t args, std::size_t bytes) {
    char* slab = static_cast<char*>(::operator new(bytes * kSlabNodes));
    for (std::size_t i = kSlabNodes; i-- > 0;) give(slab + i * bytes, args);
  }
};

// Open addressing with linear probing and backward-shift deletion, so there are no tombstones to clean up.
class alignas(64) Shard {
 public:
  SpinLock lock;
  Pool pool;
  std::uint64_t created = 0, hits = 0;
  std::size_t count = 0;
  std::vector<NodeData*> slots = std::vector<NodeData*>(64, nullptr);

  std::size_t home(std::uint64_t hash) const { return (hash >> 8) & (slots.size() - 1); }

  void insert(NodeData* node) {
    if ((count + 1) * 2 > slots.size()) grow();
    std::size_t i = home(node->hash);
    while (slots[i] != nullptr) i = (i + 1) & (slots.size() - 1);
    slots[i] = node;
    ++count;
  }
  void erase(NodeData* node) {
    std::size_t mask = slots.size() - 1, i = home(node->hash);
    while (slots[i] != node) i = (i + 1) & mask;
    --count;
    for (std::size_t j = i;;) {
      slots[i] = nullptr;
      do {
        j = (j + 1) & mask;
        if (slots[j] == nullptr) return;
      } while (((j - home(slots[j]->hash)) & mask) < ((j - i) & mask));
      slots[i] = slots[j];
      i = j;
    }
  }

 private:
  void grow() {
    std::vector<NodeData*> old = std::move(slots);
    slots.assign(old.size() * 2, nullptr);
    count = 0;
    for (NodeData* n : old)
      if (n != nullptr) insert(n);
  }
};

constexpr std::size_t kShards = 64;
std::array<Shard, kShards>& shards() {
  static auto* all = new std::array<Shard, kShards>;  // never destroyed: nodes may die during exit
  return *all;
}
Shard& shard_of(std::uint64_t hash) { return shards()[hash & (kShards - 1)]; }

std::atomic<void (*)(std::int64_t)> buffer_death_hook{nullptr};

void retain(const NodeData* node) { node->refs.fetch_add(1, std::memory_order_relaxed); }

// Lowers a count. The step to zero happens under the shard's lock, so that a lookup can never find a node
// that is being freed. Returns true if the node left the table and is now the caller's to destroy.
bool lower(const NodeData* node) {
  std::uint32_t refs = node->refs.load(std::memory_order_relaxed);
  while (refs > 1)
    if (node->refs.compare_exchange_weak(refs, refs - 1, std::memory_order_acq_rel)) return false;
  Shard& shard = shard_of(node->hash);
  std::lock_guard guard(shard.lock);
  if (node->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  shard.erase(const_cast<NodeData*>(node));
  return true;
}

void destroy(NodeData* node, std::vector<const NodeData*>& pending) {
  for (Node arg : Node(node).args()) pending.push_back(arg.get());
  if (node->owns_shape) pending.push_back(node->shape);
  if (const NodeData* r = node->ranges.load(std::memory_order_relaxed)) pending.push_back(r);
  if (const NodeData* r = node->realized.load(std::memory_order_relaxed)) pending.push_back(r);
  if (node->op == Op::Buffer)
    if (auto hook = buffer_death_hook.load()) hook(node->attr.data->ints[0]);
  if (node->attr.kind == Attr::Kind::Data) delete node->attr.data;
  Shard& shard = shard_of(node->hash);
  std::size_t args = node->arg_count;
  node->~NodeData();
  std::lock_guard guard(shard.lock);
  shard.pool.give(node, args);
}

void release(const NodeData* first) {
  if (!lower(first)) return;
  std::vector<const NodeData*> pending;
  destroy(const_cast<NodeData*>(first), pending);
  while (!pending.empty()) {
    const NodeData* node = pending.back();
    pending.pop_back();
    if (lower(node)) destroy(const_cast<NodeData*>(node), pending);
  }
}

// What this thread made or found since its outermost scope opened, each entry holding one count.
struct Nursery {
  std::vector<const NodeData*> nodes;
  int depth = 0;

  void flush() {
    // Newest first: users go before what they use, so most nodes are freed without a long chain of followers.
    std::vector<const NodeData*> taken;
    taken.swap(nodes);
    for (std::size_t i = taken.size(); i-- > 0;) release(taken[i]);
    if (nodes.empty() && taken.capacity() <= 65536) {
      taken.clear();
      nodes.swap(taken);
    }
  }
  ~Nursery() { flush(); }
};
thread_local Nursery nursery;

std::uint64_t attr_hash(const Attr& a, bool identity, Op op) {
  switch (a.kind) {
    case Attr::Kind::None: return 0x51ed;
    case Attr::Kind::Int: return hash_combine(1, static_cast<std::uint64_t>(a.i));
    case Attr::Kind::Float: return hash_combine(2, std::bit_cast<std::uint64_t>(a.f));
    case Attr::Kind::Data: break;
  }
  std::uint64_t h = hash_bytes(a.data->text.data(), a.data->text.size());
  // A buffer's id is identity, not structure.
  std::size_t from = !identity && op == Op::Buffer ? 1 : 0;
  for (std::size_t i = from; i < a.data->ints.size(); ++i)
    h = hash_combine(h, static_cast<std::uint64_t>(a.data->ints[i]));
  return h;
}

std::uint64_t head(Op op, DType dtype, std::size_t args) {
  return static_cast<std::uint64_t>(op) | static_cast<std::uint64_t>(dtype.scalar) << 8 |
         static_cast<std::uint64_t>(dtype.lanes) << 16 | static_cast<std::uint64_t>(args) << 32;
}

bool same(const NodeData* n, std::uint64_t hash, Op op, DType dtype, std::span<const Node> args,
          const Attr& attr) {
  return n->hash == hash && n->op == op && n->dtype == dtype && n->arg_count == args.size() &&
         (args.empty() || std::memcmp(n->args(), args.data(), args.size_bytes()) == 0) && n->attr == attr;
}

NodeData* construct(Shard& shard, std::uint64_t hash, std::uint64_t key, Op op, DType dtype,
                    std::span<const Node> args, const Attr& attr) {
  NodeData* node = new (shard.pool.take(args.size())) NodeData{};
  node->op = op;
  node->owns_shape = false;
  node->dtype = dtype;
  node->refs.store(1, std::memory_order_relaxed);
  node->arg_count = static_cast<std::uint32_t>(args.size());
  node->hash = hash;
  node->key = key;
  node->attr = attr;
  if (attr.kind == Attr::Kind::Data) node->attr.data = new AttrData(*attr.data);
  for (std::size_t i = 0; i < args.size(); ++i) {
    node->args()[i] = args[i];
    retain(args[i].get());
  }
  return node;
}

}  // namespace

bool Attr::operator==(const Attr& o) const {
  if (kind != o.kind) return false;
  switch (kind) {
    case Kind::None: return true;
    case Kind::Int: return i == o.i;
    case Kind::Float:
      return std::bit_cast<std::uint64_t>(f) == std::bit_cast<std::uint64_t>(o.f);  // NaN == NaN, -0 != 0
    case Kind::Data: return data == o.data || *data == *o.data;
  }
  return false;
}

Node intern(Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  std::uint64_t h = head(op, dtype, args.size());
  std::uint64_t hash = hash_combine(h, attr.kind == Attr::Kind::None ? 0 : attr_hash(attr, true, op));
  for (Node a : args) hash = hash_combine(hash, reinterpret_cast<std::uintptr_t>(a.get()));
  Shard& shard = shard_of(hash);
  {
    std::lock_guard guard(shard.lock);
    std::size_t mask = shard.slots.size() - 1;
    for (std::size_t i = shard.home(hash); shard.slots[i] != nullptr; i = (i + 1) & mask) {
      const NodeData* found = shard.slots[i];
      if (!same(found, hash, op, dtype, args, attr)) continue;
      retain(found);
      ++shard.hits;
      nursery.nodes.push_back(found);
      return Node(found);
    }
  }
  // A miss. The derived facts are worked out without the lock (a shape may intern nodes of its own); if
  // another thread made the same node meanwhile, its copy wins.
  std::uint64_t key = hash_combine(h, attr_hash(attr, false, op));
  for (Node a : args) key = hash_combine(key, a.key());
  Interval bounds = bounds_of(op, dtype, args, attr);
  Node shape = shape_of(op, dtype, args, attr);
  bool owns_shape = shape && !(args.size() > 0 && args[0].shape_node() == shape);
  std::lock_guard guard(shard.lock);
  std::size_t mask = shard.slots.size() - 1;
  for (std::size_t i = shard.home(hash); shard.slots[i] != nullptr; i = (i + 1) & mask) {
    const NodeData* found = shard.slots[i];
    if (!same(found, hash, op, dtype, args, attr)) continue;
    retain(found);
    nursery.nodes.push_back(found);
    return Node(found);
  }
  NodeData* node = construct(shard, hash, key, op, dtype, args, attr);
  node->lo = bounds.lo;
  node->hi = bounds.hi;
  node->shape = shape.get();
  node->owns_shape = owns_shape;
  if (owns_shape) retain(shape.get());
  shard.insert(node);
  ++shard.created;
  nursery.nodes.push_back(node);
  return Node(node);
}

std::int64_t Node::int_attr() const {
  if (attr().kind != Attr::Kind::Int)
    throw InternalError("node", std::string(info(op()).name) + " has no int attribute");
  return attr().i;
}
double Node::float_attr() const {
  if (attr().kind != Attr::Kind::Float)
    throw InternalError("node", std::string(info(op()).name) + " has no float attribute");
  return attr().f;
}
std::span<const std::int64_t> Node::ints() const {
  if (attr().kind != Attr::Kind::Data)
    throw InternalError("node", std::string(info(op()).name) + " has no list attribute");
  return attr().data->ints;
}
const std::string& Node::text() const {
  if (attr().kind != Attr::Kind::Data)
    throw InternalError("node", std::string(info(op()).name) + " has no text attribute");
  return attr().data->text;
}

bool Node::is_const_int(std::int64_t v) const {
  return is_const() && attr().kind == Attr::Kind::Int && attr().i == v;
}
std::int64_t Node::const_int() const {
  if (!is_const()) throw InternalError("node", std::string(info(op()).name) + " is no constant");
  return int_attr();
}
double Node::const_float() const {
  if (!is_const()) throw InternalError("node", std::string(info(op()).name) + " is no constant");
  if (attr().kind == Attr::Kind::Float) return attr().f;
  return dtype().scalar == Scalar::UInt64 ? static_cast<double>(static_cast<std::uint64_t>(attr().i))
                                          : static_cast<double>(attr().i);
}

Node Node::with_args(std::span<const Node> args) const {
  if (args.size() == arg_count() && std::equal(args.begin(), args.end(), this->args().begin())) return *this;
  return intern(op(), dtype(), args, attr());
}

Scope::Scope() { ++nursery.depth; }
Scope::~Scope() {
  if (--nursery.depth == 0) nursery.flush();
}

NodeRef::NodeRef(Node node) : node_(node) {
  if (node_) retain(node_.get());
}
NodeRef::NodeRef(const NodeRef& other) : NodeRef(other.node_) {}
NodeRef& NodeRef::operator=(const NodeRef& other) {
  NodeRef copy(other);
  std::swap(node_, copy.node_);
  return *this;
}
NodeRef& NodeRef::operator=(NodeRef&& other) noexcept {
  std::swap(node_, other.node_);
  return *this;
}
NodeRef::~NodeRef() {
  if (node_) release(node_.get());
}

void set_realized(Node node, Node buffer) {
  if (buffer) retain(buffer.get());
  const NodeData* old = node->realized.exchange(buffer.get(), std::memory_order_acq_rel);
  if (old != nullptr) release(old);
}
Node realized(Node node) { return Node(node->realized.load(std::memory_order_acquire)); }

void remember_ranges(Node node, Node set) {
  retain(set.get());
  const NodeData* expected = nullptr;
  if (!node->ranges.compare_exchange_strong(expected, set.get(), std::memory_order_acq_rel))
    release(set.get());
}

void set_buffer_death_hook(void (*hook)(std::int64_t)) { buffer_death_hook.store(hook); }

InternerStats interner_stats() {
  InternerStats total{};
  for (Shard& shard : shards()) {
    std::lock_guard guard(shard.lock);
    total.live += shard.count;
    total.created += shard.created;
    total.hits += shard.hits;
  }
  return total;
}

}  // namespace lathe
