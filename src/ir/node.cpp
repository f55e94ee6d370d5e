#include "ir/node.h"

#ifdef __linux__
#include <sys/mman.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <mutex>
#include <new>

#include "base/error.h"
#include "base/hash.h"
#include "ir/bounds.h"
#include "ir/form_key.h"
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

constexpr std::size_t kHugePage = std::size_t{1} << 21;

// Large tables and chunks are met at random: with small pages most accesses would also miss the page tables'
// cache.
void advise_huge(void* memory, std::size_t bytes) {
#ifdef __linux__
  if (bytes >= kHugePage) madvise(memory, bytes, MADV_HUGEPAGE);
#else
  static_cast<void>(memory), static_cast<void>(bytes);
#endif
}

// Memory for nodes, one per thread: blocks come from large chunks in the order nodes are made, so that
// walking a graph walks memory, and freed blocks of equal size are used again. Nodes with many args go to the
// allocator directly. Chunks are never given back. Trivially destroyed, because nodes may die while a thread
// or the process ends.
constexpr std::size_t kPooledArgs = 8;
constexpr std::size_t kFirstChunk = std::size_t{1} << 16;

struct Pool {
  std::array<void*, kPooledArgs + 1> free{};
  char* next = nullptr;
  char* end = nullptr;
  std::size_t chunk = kFirstChunk;

  void* take(std::size_t args) {
    std::size_t bytes = sizeof(NodeData) + args * sizeof(Node);
    if (args > kPooledArgs) return ::operator new(bytes);
    void* block = free[args];
    if (block != nullptr) {
      std::memcpy(&free[args], block, sizeof(void*));
      return block;
    }
    if (static_cast<std::size_t>(end - next) < bytes) refill();
    block = next;
    next += bytes;
    return block;
  }
  void give(void* block, std::size_t args) {
    if (args > kPooledArgs) return ::operator delete(block);
    std::memcpy(block, &free[args], sizeof(void*));
    free[args] = block;
  }
  void refill() {
    if (end == nullptr && adopt()) return;
    next = static_cast<char*>(::operator new(chunk, std::align_val_t(chunk)));
    end = next + chunk;
    advise_huge(next, chunk);
    chunk = std::min(chunk * 2, kHugePage);
  }
  // Takes over what an ended thread left; called on an empty pool. Says whether there is a chunk with room
  // now.
  bool adopt();
};

// Free blocks of threads that have ended, for the next thread that needs some.
struct Orphans {
  SpinLock lock;
  std::vector<Pool> pools;
};
Orphans& orphans() {
  static auto* all = new Orphans;  // never destroyed: threads may end during exit
  return *all;
}

bool Pool::adopt() {
  Orphans& all = orphans();
  std::lock_guard guard(all.lock);
  if (all.pools.empty()) return false;
  *this = all.pools.back();
  all.pools.pop_back();
  return static_cast<std::size_t>(end - next) >= sizeof(NodeData) + kPooledArgs * sizeof(Node);
}

// Open addressing with linear probing and backward-shift deletion, so there are no tombstones to clean up. A
// slot holds the hash beside the node, so that probing, growing and deleting touch no node but the one looked
// for. A byte of each slot is apart, zero where it is empty: the bytes of a large table stay in a cache,
// so that a node that is new is known to be without waiting for memory.
class alignas(64) Shard {
 public:
  struct Slot {
    std::uint64_t hash;
    NodeData* node;
  };
  SpinLock lock;
  std::uint64_t created = 0, hits = 0;
  std::size_t count = 0, mask = 63;
  Slot* slots = new_table<Slot>(64);
  std::uint8_t* tags = new_table<std::uint8_t>(64);

  static std::uint8_t tag_of(std::uint64_t hash) { return static_cast<std::uint8_t>(0x80 | (hash >> 57)); }
  std::size_t home(std::uint64_t hash) const { return (hash >> 8) & mask; }

  // Asks for the lines of a hash ahead of their use. Called without the lock, so it reads copies that may be
  // stale: then the wrong lines are fetched.
  void prefetch(std::uint64_t hash) const {
    const std::size_t i = (hash >> 8) & prefetch_mask.load(std::memory_order_relaxed);
    __builtin_prefetch(prefetch_tags.load(std::memory_order_relaxed) + i);
    __builtin_prefetch(prefetch_slots.load(std::memory_order_relaxed) + i, 1);
  }

  void insert(std::uint64_t hash, NodeData* node) {
    if ((count + 1) * 2 > mask + 1) grow();
    std::size_t i = home(hash);
    while (tags[i] != 0) i = (i + 1) & mask;
    slots[i] = {hash, node};
    tags[i] = tag_of(hash);
    ++count;
  }
  void erase(const NodeData* node) {
    std::size_t i = home(node->hash);
    while (slots[i].node != node) i = (i + 1) & mask;
    --count;
    for (std::size_t j = i;;) {
      tags[i] = 0;
      slots[i].node = nullptr;
      do {
        j = (j + 1) & mask;
        if (tags[j] == 0) return;
      } while (((j - home(slots[j].hash)) & mask) < ((j - i) & mask));
      slots[i] = slots[j];
      tags[i] = tags[j];
      i = j;
    }
  }

 private:
  template <class T>
  static T* new_table(std::size_t size) {
    std::size_t bytes = size * sizeof(T);
    void* memory = ::operator new(bytes, std::align_val_t(table_alignment(bytes)));
    advise_huge(memory, bytes);
    return static_cast<T*>(std::memset(memory, 0, bytes));
  }
  template <class T>
  static void free_table(T* table, std::size_t size) {
    ::operator delete(table, std::align_val_t(table_alignment(size * sizeof(T))));
  }
  static std::size_t table_alignment(std::size_t bytes) { return bytes >= kHugePage ? kHugePage : 64; }

  void grow() {
    Slot* old = slots;
    std::uint8_t* old_tags = tags;
    std::size_t old_size = mask + 1;
    slots = new_table<Slot>(old_size * 2);
    tags = new_table<std::uint8_t>(old_size * 2);
    mask = old_size * 2 - 1;
    prefetch_slots.store(slots, std::memory_order_relaxed);
    prefetch_tags.store(tags, std::memory_order_relaxed);
    prefetch_mask.store(mask, std::memory_order_relaxed);
    count = 0;
    for (std::size_t i = 0; i < old_size; ++i)
      if (old_tags[i] != 0) insert(old[i].hash, old[i].node);
    free_table(old, old_size);
    free_table(old_tags, old_size);
  }

  std::atomic<const Slot*> prefetch_slots{slots};
  std::atomic<const std::uint8_t*> prefetch_tags{tags};
  std::atomic<std::size_t> prefetch_mask{63};
};

constexpr std::size_t kShards = 16;
std::array<Shard, kShards>& shards() {
  static auto* all = new std::array<Shard, kShards>;  // never destroyed: nodes may die during exit
  return *all;
}
Shard& shard_of(std::uint64_t hash) { return shards()[hash & (kShards - 1)]; }

thread_local constinit Pool pool;

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
  shard.erase(node);
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
  std::size_t args = node->arg_count;
  node->~NodeData();
  pool.give(node, args);
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

// What this thread made or found since its outermost scope opened, each entry holding one count. `recent`
// remembers some of them by hash: a node found there is alive for certain and needs neither the shard nor
// another count.
struct Nursery {
  static constexpr std::size_t kRecent = 256;
  struct Recent {
    std::uint64_t hash;
    const NodeData* node;
  };
  std::vector<const NodeData*> nodes;
  std::array<Recent, kRecent> recent{};
  int depth = 0;

  static std::size_t place(std::uint64_t hash) { return (hash >> 20) & (kRecent - 1); }

  void keep(std::uint64_t hash, const NodeData* node) {
    recent[place(hash)] = {hash, node};
    nodes.push_back(node);
  }

  void flush() {
    // Newest first: users go before what they use, so most nodes are freed without a long chain of followers.
    std::vector<const NodeData*> taken;
    taken.swap(nodes);
    for (const NodeData* node : taken) recent[place(node->hash)] = {0, nullptr};
    constexpr std::size_t kAhead = 8;
    for (std::size_t i = taken.size(); i-- > 0;) {
      if (i >= kAhead) shard_of(taken[i - kAhead]->hash).prefetch(taken[i - kAhead]->hash);
      release(taken[i]);
    }
    if (nodes.empty() && taken.capacity() <= (std::size_t{1} << 20)) {
      taken.clear();
      nodes.swap(taken);
    }
  }
  ~Nursery() {
    flush();
    Orphans& all = orphans();
    std::lock_guard guard(all.lock);
    all.pools.push_back(pool);
    pool = Pool();
  }
};
thread_local Nursery nursery;

std::uint64_t attr_hash(const Attr& a, bool identity, Op op) {
  switch (a.kind) {
    case Attr::Kind::None: return 0x51ed;
    case Attr::Kind::Int: return hash_combine(1, static_cast<std::uint64_t>(a.i));
    case Attr::Kind::Float: return hash_combine(2, std::bit_cast<std::uint64_t>(a.f));
    case Attr::Kind::Data: break;
  }
  // A buffer's id is identity, not structure, and so is the device it is on: equal graphs on two devices have
  // their operands in one order, and so give the same bits.
  const bool place = !identity && (op == Op::Buffer || op == Op::Copy);
  const std::string_view text = place ? std::string_view("CPU") : std::string_view(a.data->text);
  std::uint64_t h = hash_bytes(text.data(), text.size());
  std::size_t from = !identity && op == Op::Buffer ? 1 : 0;
  for (std::size_t i = from; i < a.data->ints.size(); ++i)
    h = hash_combine(h, static_cast<std::uint64_t>(a.data->ints[i]));
  return h;
}

// Without numbers that are sizes or follow from them: constants, and how much memory there is. `whole` is the
// hash with them.
std::uint64_t form_hash(const Attr& a, Op op, DType dtype, std::uint64_t whole) {
  switch (op) {
    case Op::Const: return dtype.is_bool() ? whole : 0;
    case Op::Buffer: return 0;
    case Op::Param:
    case Op::Define: return hash_combine(3, static_cast<std::uint64_t>(a.data->ints[0]));
    case Op::Special: return hash_string(a.data->text);
    default: return whole;
  }
}

// See ir/form_key.h.
constexpr std::uint64_t kWholeMask = ~std::uint64_t{0} >> kFormKeyBits;

// `attr_with_identity` is the hash of the attribute, which for most ops is what a key has too.
std::uint64_t key_of(std::uint64_t head, Op op, DType dtype, std::span<const Node> args, const Attr& attr,
                     std::uint64_t attr_with_identity) {
  // The terms of a size are in one order whether its variables are bound or not, and for every value of them.
  if (op == Op::Bind) return args[0].key();
  const bool same = op != Op::Buffer && op != Op::Copy && attr.kind != Attr::Kind::None;
  const std::uint64_t of_attr = same ? attr_with_identity : attr_hash(attr, false, op);
  std::uint64_t whole = hash_combine(head, of_attr);
  std::uint64_t form = hash_combine(head, form_hash(attr, op, dtype, of_attr));
  for (Node a : args) {
    whole = hash_combine(whole, a.key());
    form = hash_combine(form, form_key(a));
  }
  return (form & ~kWholeMask) | (whole & kWholeMask);
}

std::uint64_t head(Op op, DType dtype, std::size_t args) {
  return static_cast<std::uint64_t>(op) | static_cast<std::uint64_t>(dtype.scalar) << 8 |
         static_cast<std::uint64_t>(dtype.lanes) << 16 | static_cast<std::uint64_t>(args) << 32;
}

bool same(const NodeData* n, Op op, DType dtype, std::span<const Node> args, const Attr& attr) {
  return n->op == op && n->dtype == dtype && n->arg_count == args.size() &&
         std::equal(args.begin(), args.end(), n->args()) && n->attr == attr;
}

// Whether shape_of interns for this op; the others take a shape that is there.
bool makes_shape(Op op) {
  return is_movement(op) || op == Op::Buffer || op == Op::Arange || op == Op::Reduce || op == Op::Bitcast ||
         op == Op::Take || op == Op::RaggedReduce || op == Op::Scatter;
}

NodeData* construct(std::uint64_t hash, std::uint64_t key, Op op, DType dtype, std::span<const Node> args,
                    const Attr& attr) {
  NodeData* node = new (pool.take(args.size())) NodeData{};
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
  const std::uint64_t of_attr = attr.kind == Attr::Kind::None ? 0 : attr_hash(attr, true, op);
  std::uint64_t hash = hash_combine(h, of_attr);
  for (Node a : args) hash = hash_combine(hash, reinterpret_cast<std::uintptr_t>(a.get()));
  Nursery& mine = nursery;
  const Nursery::Recent& recent = mine.recent[Nursery::place(hash)];
  if (recent.hash == hash && recent.node != nullptr && same(recent.node, op, dtype, args, attr))
    return Node(recent.node);

  Shard& shard = shard_of(hash);
  shard.prefetch(hash);
  auto find = [&]() -> const NodeData* {
    const std::uint8_t tag = Shard::tag_of(hash);
    for (std::size_t i = shard.home(hash); shard.tags[i] != 0; i = (i + 1) & shard.mask) {
      if (shard.tags[i] != tag) continue;
      const Shard::Slot& slot = shard.slots[i];
      if (slot.hash != hash || !same(slot.node, op, dtype, args, attr)) continue;
      retain(slot.node);
      ++shard.hits;
      mine.keep(hash, slot.node);
      return slot.node;
    }
    return nullptr;
  };
  // A shape may need nodes of its own, so it is worked out without the lock; looking first spares that for a
  // node that is there. Other facts are quick enough to work out while the slot is on its way from memory.
  if (makes_shape(op)) {
    std::lock_guard guard(shard.lock);
    if (const NodeData* found = find()) return Node(found);
  }
  const std::uint64_t key = key_of(h, op, dtype, args, attr, of_attr);
  Interval bounds = bounds_of(op, dtype, args, attr);
  Node shape = shape_of(op, dtype, args, attr);

  std::lock_guard guard(shard.lock);
  if (const NodeData* found = find()) return Node(found);
  NodeData* node = construct(hash, key, op, dtype, args, attr);
  node->lo = bounds.lo;
  node->hi = bounds.hi;
  node->shape = shape.get();
  node->owns_shape = shape && !(args.size() > 0 && args[0].shape_node() == shape);
  if (node->owns_shape) retain(shape.get());
  shard.insert(hash, node);
  ++shard.created;
  mine.keep(hash, node);
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
  if (!is_const()) throw InternalError("node", std::string(info(op()).name) + " is not a constant");
  return int_attr();
}
double Node::const_float() const {
  if (!is_const()) throw InternalError("node", std::string(info(op()).name) + " is not a constant");
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
