#include "engine/kernels.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/planted.h"
#include "base/progress.h"
#include "codegen/codegen.h"
#include "codegen/kernel/count.h"
#include "engine/build_id.h"
#include "engine/compile_context.h"
#include "engine/debug.h"
#include "engine/disk_cache.h"
#include "engine/kernel_check.h"
#include "engine/shared_code.h"
#include "engine/steps.h"
#include "ir/text.h"
#include "ir/value.h"
#include "ir/walk.h"
#include "runtime/executor.h"

namespace lathe::engine {
namespace {

// One kernel of one backend and target under one way of choosing options.
struct CacheKey {
  Node ast;
  int backend;
  std::string choice;  // target, flags, and the user's options where there are any
  bool operator==(const CacheKey&) const = default;
};
struct CacheKeyHash {
  std::size_t operator()(const CacheKey& key) const {
    return std::hash<Node>()(key.ast) ^ std::hash<std::string>()(key.choice) ^
           static_cast<std::size_t>(key.backend) * 3;
  }
};

}  // namespace

struct KernelEntry {
  MadeKernel made;                   // keeps the key's node alive
  std::shared_ptr<SharedCode> code;  // of several sizes, or null: its own
  std::deque<LoadedKernel> loaded;   // its own
  std::string disk_key;              // empty without a disk cache
  KernelCheck check;
  std::shared_ptr<KernelEntry> instead;  // what runs since this one was found wrong
  std::uint64_t last_asked = 0;          // which of the calls of ready_kernels
};

namespace {

using Entry = KernelEntry;

struct Table {
  std::mutex mutex;
  std::unordered_map<CacheKey, std::shared_ptr<Entry>, CacheKeyHash> kernels;
  std::size_t most_unused = 8192;
  std::size_t trim_at = 2 * most_unused;  // kernels
  std::uint64_t calls = 0;
  SharedCodes shared;
  std::vector<std::shared_ptr<const void>> retired;  // out of the tables, but they may still run
  OptionSource source;
  std::uint64_t compiles = 0;
  ProofCounts proofs;
};

Table& table() {
  static auto* all = new Table;  // never destroyed: work may run until the process ends
  return *all;
}

// Whether options come from outside: only then are they chosen before the disk is asked.
bool searching(const KernelRequest& request) {
  return table().source && flag_number(Flag::Beam) > 0 && !request.options && !flag_on(Flag::NoOpt) &&
         !flag_on(Flag::Invariant);
}

std::string choice_text(const KernelRequest& request) {
  std::string text = request.device->name.target + " " + flags_key();
  if (request.options) text += "user " + to_string(*request.options);
  return text;
}

void choose(MadeKernel& made, const KernelRequest& request, const Compile& compile) {
  if (request.options) {
    made.options = *request.options;
    made.options_from = "user";
  } else if (flag_on(Flag::NoOpt)) {
    made.options_from = "none";
  } else if (auto tuned = searching(request) ? table().source(request) : std::nullopt) {
    made.options = *std::move(tuned);
    made.options_from = "search";
  } else {
    made.options = choose_options(request.ast, compile);
    made.options_from = "heuristic";
  }
}

// Everything the binary depends on. The heuristic is part of the build, so the options it chooses need not be
// named.
std::string disk_key(const MadeKernel& made, const KernelRequest& request, const Compiler& compiler) {
  const std::string options = made.options_from == "search" ? to_string(made.options) : choice_text(request);
  return fmt::format("{}\n{}\n{}\n{}\n{}", build_id(), compiler_key(compiler), options, request.name,
                     print_graph(request.ast));
}

void put_part(std::string& text, std::string_view part) {
  text += fmt::format("{}\n", part.size());
  text += part;
}

std::optional<std::string_view> take_part(std::string_view& text) {
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  const std::size_t bytes = std::strtoull(std::string(text.substr(0, line)).c_str(), nullptr, 10);
  text.remove_prefix(line + 1);
  if (bytes > text.size()) return std::nullopt;
  const std::string_view part = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return part;
}

// What must be the same for a saved kernel to be run: machine code is trusted only where it was made by this
// build for this machine, and is what was written.
std::string saved_stamp(const Compiler& compiler, std::string_view packed) {
  return fmt::format("{}\n{}\n{:016x}", build_id(), compiler_key(compiler),
                     hash_bytes(packed.data(), packed.size()));
}

// What a record of a check begins with: what was checked is this code and no other that has been written
// under its key since.
std::string stamp_of_record(const Entry& entry) {
  const std::string& bytes = entry.made.binary.bytes;
  const std::uint64_t arguments = hash_span(std::span<const std::int64_t>(entry.made.arguments));
  return fmt::format("{:016x}{:016x}\n", hash_string(bytes, hash_combine(arguments, 3)),
                     hash_string(bytes, hash_combine(arguments, 4)));
}

// A packed kernel with what is known of it. One that stands for another is not taken where a difference is an
// error: the other is to be made and found wrong again.
bool take_packed(std::string_view packed, Entry& entry, const OpenDevice& device) {
  std::string text;
  if (!unpack_kernel(packed, entry.made, &text)) return false;
  if (auto record = parse_check_record(text, device.device->driver())) {
    if (!record->replaced.empty() && check_mode() == CheckMode::Strict) return false;
    entry.check.record = *std::move(record);
    if (!entry.check.record.replaced.empty()) entry.made.options_from = "fallback";
  }
  if (entry.check.record.settled() && check_mode() != CheckMode::All) entry.check.due = false;
  return true;
}

// What a process before this one found out about a kernel that is due.
void find_record(std::string_view note, Entry& entry, const OpenDevice& device) {
  if (!entry.check.due || check_mode() == CheckMode::Off) return;
  const std::string stamp = stamp_of_record(entry);
  if (!note.starts_with(stamp)) return;
  auto record = parse_check_record(note.substr(stamp.size()), device.device->driver());
  if (!record) return;
  entry.check.record = *std::move(record);
  if (entry.check.record.settled() && check_mode() != CheckMode::All) entry.check.due = false;
}

bool take_saved(std::string_view saved, const Compiler& compiler, Entry& entry, const OpenDevice& device) {
  const auto stamp = take_part(saved), packed = take_part(saved);
  return stamp && packed && *stamp == saved_stamp(compiler, *packed) && take_packed(*packed, entry, device);
}

// One kernel on its way from request to binary.
struct Pending {
  CacheKey key;
  const KernelRequest* request;
  std::shared_ptr<const Compiler> compiler;  // shared by all kernels of a device
  std::shared_ptr<Entry> entry;
  Program program;
  bool from_disk = false;
};

// Asked again for each batch of kernels, because a flag may choose between a backend's compilers.
std::shared_ptr<const Compiler> compiler_of(const OpenDevice& device) {
  if (device.compiler == nullptr)
    throw UserError("realize", fmt::format("{} holds data but computes nothing", device.text))
        .help("move the tensor to another device first: x.to(\"CPU\")");
  return device.backend->compiler(device.name.target);
}

std::string usual_source(const KernelRequest& request) {
  return request.options ? "user" : flag_on(Flag::NoOpt) ? "none" : "heuristic";
}

bool has_shared_code(const Entry& entry) { return entry.instead == nullptr && !entry.made.arguments.empty(); }

void lower(Pending& work) {
  MadeKernel& made = work.entry->made;
  const Compile compile = compile_for(work.compiler->target());
  if (made.options_from.empty()) choose(made, *work.request, compile);
  const Node kernel = prove_accesses(made.ast, made.options, work.request->name, compile, table().proofs);
  work.program = lower_kernel(kernel, made.options, compile, work.request->name);
  made.launch = work.program;
  made.launch.code.clear();
}

bool may_share_code(const Pending& work) {
  return flag_on(Flag::Lengths) && work.request->share_code && !work.compiler->target().reference &&
         !searching(*work.request);
}

// Lowers it so that it can run code which other sizes share, and takes that code where its program is one of
// theirs.
void lower_to_share(Pending& work) {
  const KernelRequest& request = *work.request;
  SharedCodes& shared = table().shared;
  const std::string choice = fmt::format("{} {}", request.device->backend_number, work.key.choice);
  KernelSizes& sizes = shared.request(request.ast, choice, table().calls);
  MadeKernel& made = work.entry->made;
  choose(made, request, compile_for(work.compiler->target()));
  const std::vector<Opt> chosen = made.options;
  if (!request.options && !flag_on(Flag::NoOpt)) {
    const Work amount = count_work(made.ast);
    made.options = SharedCodes::options_for(sizes, chosen, amount.flops + amount.bytes);
  }
  try {
    lower(work);
  } catch (const KernelOptError&) {  // what suits another size need not be possible at this one
    if (made.options == chosen) throw;
    made.options = chosen;
    lower(work);
  }
  CodeForSize found = shared.find(work.program, choice, sizes);
  work.entry->code = std::move(found.code);
  made.arguments = std::move(found.arguments);
}

// Finds the kernel on disk or lowers it; compiling comes later, for all together.
void prepare(Pending& work, DiskCache* disk) {
  const KernelRequest& request = *work.request;
  const Compiler& compiler = *work.compiler;
  work.entry = std::make_shared<Entry>();
  MadeKernel& made = work.entry->made;
  made.ast = request.ast;
  // Tuned options come from outside, so the key names them; all others follow from what it holds anyway.
  if (searching(request)) choose(made, request, compile_for(compiler.target()));
  if (disk != nullptr) {
    work.entry->disk_key = disk_key(made, request, compiler);
    // A level that shows the program needs the program to be made.
    const bool look = flag_number(Flag::Debug) < 6;
    std::string note;
    if (const auto entry = look ? disk->get("kernel", work.entry->disk_key, &note) : std::nullopt;
        entry && take_packed(*entry, *work.entry, *request.device) &&
        (request.share_code || !has_shared_code(*work.entry))) {
      find_record(note, *work.entry, *request.device);
      work.from_disk = true;
      if (made.options_from.empty()) made.options_from = usual_source(request);
      return;
    }
    made.arguments.clear();
  }
  if (!request.saved.empty() && take_saved(request.saved, compiler, *work.entry, *request.device)) {
    work.from_disk = true;
    if (made.options_from.empty()) made.options_from = usual_source(request);
    return;
  }
  may_share_code(work) ? lower_to_share(work) : lower(work);
}

// Shows how far a batch of kernels is: each is prepared first and compiled last, which take about as long.
class BatchProgress {
 public:
  explicit BatchProgress(std::size_t kernels)
      : bar_("lathe: compiling", static_cast<std::int64_t>(kernels), {.passing = true}) {}
  void prepared(const std::string& name, bool from_disk) {
    prepared_ += from_disk ? 2 : 1;
    show(prepared_, name);
  }
  void compiled(std::size_t more) { show(prepared_ + more, {}); }

 private:
  void show(std::size_t halves, std::string_view name) {
    if (flag_number(Flag::Debug) < 2) bar_.update(static_cast<std::int64_t>(halves / 2), name);
  }
  Progress bar_;
  std::size_t prepared_ = 0;
};

// What a compiler is to make: a kernel's own code, or code that several of them share.
struct ToCompile {
  const Program* program;
  Binary* binary;
};

// The code that these kernels still need, each once.
std::vector<ToCompile> still_to_compile(std::span<Pending*> kernels) {
  std::vector<ToCompile> out;
  for (Pending* work : kernels) {
    const std::shared_ptr<SharedCode>& code = work->entry->code;
    if (code == nullptr) {
      out.push_back({&work->program, &work->entry->made.binary});
      continue;
    }
    const bool known = code->compiled || std::ranges::any_of(out, [&](const ToCompile& other) {
                         return other.binary == &code->binary;
                       });
    if (!known) out.push_back({&code->open.program, &code->binary});
  }
  return out;
}

// One call per compiler for everything that was not on disk.
void compile(std::span<Pending> all, DiskCache* disk, BatchProgress* progress = nullptr) {
  std::vector<const Compiler*> compilers;
  for (const Pending& work : all) {
    const Compiler* compiler = work.compiler.get();
    if (!work.from_disk && std::find(compilers.begin(), compilers.end(), compiler) == compilers.end())
      compilers.push_back(compiler);
  }
  for (const Compiler* compiler : compilers) {
    std::vector<Pending*> mine;
    for (Pending& work : all)
      if (!work.from_disk && work.compiler.get() == compiler) mine.push_back(&work);
    const std::vector<ToCompile> wanted = still_to_compile(mine);
    std::vector<Program> programs;
    std::vector<std::string> names;
    for (const ToCompile& one : wanted) {
      programs.push_back(*one.program);
      names.push_back(one.program->name);
    }
    const auto begin = std::chrono::steady_clock::now();
    std::vector<Binary> binaries;
    if (!programs.empty())
      binaries = compiler->compile_all(programs, [&](std::size_t done) {
        if (progress != nullptr) progress->compiled(done);
      });
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    check_internal(binaries.size() == wanted.size(), "engine",
                   "a compiler gave a different number of binaries");
    for (std::size_t i = 0; i < wanted.size(); ++i) *wanted[i].binary = std::move(binaries[i]);
    for (Pending* work : mine) {
      MadeKernel& made = work->entry->made;
      if (SharedCode* code = work->entry->code.get()) {
        code->compiled = true;
        code->open.program = {};
        made.binary = code->binary;
      }
      if (disk != nullptr) disk->put("kernel", work->entry->disk_key, pack_kernel(made));
    }
    table().compiles += wanted.size();
    if (!names.empty()) note_compiled(names, took.count());
  }
}

const LoadedKernel& loaded_on(Entry& entry, OpenDevice& device) {
  std::deque<LoadedKernel>& all = entry.code != nullptr ? entry.code->loaded : entry.loaded;
  for (const LoadedKernel& known : all)
    if (known.device == &device) return known;
  return all.emplace_back(LoadedKernel{&device, device.device->load(entry.made.binary)});
}

// An object from disk that cannot be loaded is made again; one just compiled that cannot is an error.
void load_first(Pending& work, DiskCache* disk) {
  try {
    loaded_on(*work.entry, *work.request->device);
  } catch (const DeviceError& error) {
    if (!work.from_disk) throw;
    log_warning_once("cache", fmt::format("a cached kernel could not be loaded and is compiled again: {}",
                                          error.message()));
    work.from_disk = false;
    work.entry->made.arguments.clear();
    lower(work);
    compile({&work, 1}, disk);
    loaded_on(*work.entry, *work.request->device);
  }
}

ReadyKernel ready_on(std::shared_ptr<Entry> entry, OpenDevice& device) {
  while (entry->instead != nullptr) entry = entry->instead;
  // REF is what others are compared with, and what computes nothing has nothing to compare.
  const bool comparable = device.device->computes() && !device.compiler->target().reference;
  if (!comparable) entry->check.due = false;
  const LoadedKernel& loaded = loaded_on(*entry, device);
  return {&entry->made, loaded.kernel.get(), &entry->check, std::move(entry)};
}

// A process that goes on making other graphs must not grow for ever. Takes kernels that nobody holds out of
// the table: they may still run, so whoever gets them waits for the devices before they are destroyed. The
// table is locked.
std::vector<std::shared_ptr<const void>> take_unused(Table& all) {
  std::vector<std::shared_ptr<const void>> unused = std::move(all.retired);
  all.retired.clear();
  for (std::shared_ptr<SharedCode>& code : all.shared.take_unused()) unused.push_back(std::move(code));
  if (all.kernels.size() < all.trim_at) return unused;
  std::vector<std::uint64_t> asked;
  for (const auto& [key, entry] : all.kernels)
    if (entry.use_count() == 1) asked.push_back(entry->last_asked);
  if (asked.size() > all.most_unused) {
    const auto oldest_kept = asked.end() - static_cast<std::ptrdiff_t>(all.most_unused);
    std::nth_element(asked.begin(), oldest_kept, asked.end());
    for (auto it = all.kernels.begin(); it != all.kernels.end();) {
      const bool drop = it->second.use_count() == 1 && it->second->last_asked < *oldest_kept;
      if (drop) unused.push_back(std::move(it->second));
      it = drop ? all.kernels.erase(it) : std::next(it);
    }
  }
  // Those that are held do not count; looking at all of them again waits until as many more were made.
  all.trim_at = all.kernels.size() + all.most_unused;
  return unused;
}

}  // namespace

std::vector<ReadyKernel> ready_kernels(std::span<const KernelRequest> requests) {
  Table& all = table();
  std::vector<std::shared_ptr<const void>> unused;
  {
    std::lock_guard guard(all.mutex);
    unused = take_unused(all);
  }
  if (!unused.empty()) {
    try {
      executor().synchronize();
    } catch (...) {  // a device that failed may still run them
      new auto(std::move(unused));
      throw;
    }
    unused.clear();
  }
  std::lock_guard guard(all.mutex);
  ++all.calls;
  std::vector<CacheKey> keys;
  std::vector<Pending> pending;
  std::unordered_map<CacheKey, bool, CacheKeyHash> asked;
  std::unordered_map<const OpenDevice*, std::shared_ptr<const Compiler>> compilers;
  for (const KernelRequest& request : requests) {
    keys.push_back({request.ast, request.device->backend_number, choice_text(request)});
    const auto known = all.kernels.find(keys.back());
    const bool made = known != all.kernels.end() && (request.share_code || !has_shared_code(*known->second));
    if (made || !asked.emplace(keys.back(), true).second) continue;
    auto [compiler, added] = compilers.try_emplace(request.device);
    if (added) compiler->second = compiler_of(*request.device);
    pending.push_back({keys.back(), &request, compiler->second, nullptr, {}, false});
  }
  if (!pending.empty()) {
    const Scope scope;
    DiskCache* disk = DiskCache::current();
    BatchProgress progress(pending.size());
    for (Pending& work : pending) {
      prepare(work, disk);
      progress.prepared(work.request->name, work.from_disk);
    }
    compile(pending, disk, &progress);
    for (Pending& work : pending) {
      show_kernel(work.entry->made, work.program);
      load_first(work, disk);
      std::shared_ptr<Entry>& place = all.kernels[work.key];
      if (place != nullptr) all.retired.push_back(std::move(place));
      place = std::move(work.entry);
    }
  }
  std::vector<ReadyKernel> result;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::shared_ptr<Entry>& entry = all.kernels.at(keys[i]);
    entry->last_asked = all.calls;
    result.push_back(ready_on(entry, *requests[i].device));
  }
  return result;
}

void replace_kernel(const ReadyKernel& wrong, const ReadyKernel& instead, const OpenDevice& device) {
  {
    std::lock_guard guard(table().mutex);
    wrong.entry->instead = instead.entry;
    instead.entry->made.options_from = "fallback";
  }
  wrong.check->replaced = true;
  wrong.check->due = true;  // its launches go on asking what runs instead
  if (DiskCache* disk = DiskCache::current(); disk != nullptr && !wrong.entry->disk_key.empty())
    disk->put("kernel", wrong.entry->disk_key,
              pack_kernel(*instead.made, to_text(instead.check->record, device.device->driver())));
}

ReadyKernel current_kernel(const ReadyKernel& kernel, OpenDevice& device) {
  std::lock_guard guard(table().mutex);
  return ready_on(kernel.entry, device);
}

void keep_record(const ReadyKernel& kernel, const OpenDevice& device) {
  DiskCache* disk = DiskCache::current();
  if (disk == nullptr || kernel.entry->disk_key.empty()) return;
  disk->add_note("kernel", kernel.entry->disk_key,
                 stamp_of_record(*kernel.entry) + to_text(kernel.check->record, device.device->driver()));
}

bool shares_code(const ReadyKernel& kernel) { return has_shared_code(*kernel.entry); }

std::string saved_kernel(const ReadyKernel& held, OpenDevice& device) {
  const ReadyKernel kernel = current_kernel(held, device);
  std::string record;
  {
    std::lock_guard guard(kernel.check->mutex);
    record = to_text(kernel.check->record, device.device->driver());
  }
  const std::string packed = pack_kernel(*kernel.made, record);
  std::string text;
  put_part(text, saved_stamp(*compiler_of(device), packed));
  put_part(text, packed);
  return text;
}

std::int64_t evaluate_index(Node expression, Bindings bindings) {
  if (expression.is_const()) return expression.const_int();
  NodeMap<std::int64_t> values;
  for (const Node& node : toposort(expression)) {
    if (node.is_const()) {
      values[node] = node.const_int();
    } else if (node.is(Op::Var)) {
      // By name: a lowered program's variable may have another dtype than the graph's.
      const auto bound = std::find_if(bindings.begin(), bindings.end(),
                                      [&](const auto& b) { return b.first->text() == node.text(); });
      if (bound == bindings.end())
        throw UserError("realize", fmt::format("variable {} has no value", node.text()))
            .help(fmt::format("bind it: {}.bind(n)", node.text()));
      values[node] = bound->second;
    } else {
      Element e[3];
      check_internal((is_scalar_op(node.op()) || node.is(Op::Cast)) && node.arg_count() <= 3, "engine",
                     "a launch size is not an index expression");
      for (std::size_t i = 0; i < node.arg_count(); ++i) e[i].i = *values.find(node.arg(i));
      const DType operand = node.arg(node.is(Op::Where) ? 1 : 0).dtype();
      values[node] = node.is(Op::Cast) ? convert(node.dtype(), operand, e[0]).i
                                       : evaluate(node.op(), operand, e[0], e[1], e[2]).i;
    }
  }
  return *values.find(expression);
}

Grid grid_of(const Program& launch, Bindings bindings) {
  Grid grid;
  auto value = [&](const NodeRef& size) { return size ? evaluate_index(size, bindings) : 1; };
  for (std::size_t i = 0; i < 3; ++i) {
    grid.groups[i] = value(launch.groups[i]);
    grid.locals[i] = value(launch.locals[i]);
  }
  grid.threads = value(launch.threads);
  grid.shared_bytes = launch.shared_bytes;
  return grid;
}

std::string pack_kernel(const MadeKernel& made, std::string_view record) {
  std::string text;
  for (const std::string& part :
       {to_string(made.options), print_program(made.launch), made.binary.entry, made.binary.bytes,
        made.binary.source, std::string(record), fmt::format("{}", fmt::join(made.arguments, " "))})
    put_part(text, part);
  return text;
}

bool unpack_kernel(std::string_view text, MadeKernel& made, std::string* record) {
  std::string_view parts[7];
  for (std::string_view& part : parts) {
    const auto taken = take_part(text);
    if (!taken) return false;
    part = *taken;
  }
  made.options = parse_opts(parts[0]);
  made.launch = parse_program(parts[1]);
  made.binary = {std::string(parts[2]), std::string(parts[3]), std::string(parts[4])};
  if (record != nullptr) *record = parts[5];
  std::istringstream arguments{std::string(parts[6])};
  for (std::int64_t argument = 0; arguments >> argument;) made.arguments.push_back(argument);
  return true;
}

void set_option_source(OptionSource source) {
  std::lock_guard guard(table().mutex);
  table().source = std::move(source);
}

std::uint64_t compile_count() {
  std::lock_guard guard(table().mutex);
  return table().compiles;
}
ProofCounts proof_counts() {
  std::lock_guard guard(table().mutex);
  return table().proofs;
}
void reset_compile_count() {
  std::lock_guard guard(table().mutex);
  table().compiles = 0;
  table().proofs = {};
}

std::size_t keep_unused_kernels(std::size_t most) {
  std::lock_guard guard(table().mutex);
  table().trim_at = 2 * most;
  return std::exchange(table().most_unused, most);
}
std::size_t kernel_count() {
  std::lock_guard guard(table().mutex);
  return table().kernels.size();
}

void drop_kernels() {
  executor().synchronize();
  std::lock_guard guard(table().mutex);
  table().kernels.clear();
  table().retired.clear();
  table().shared.clear();
}

std::string flags_key() {
  std::string key = code_flags() + rule_changes().key();
#if LATHE_FAULTS
  if (const FaultRow* row = planted_fault()) key.append("fault ").append(row->name);
#endif
  return key;
}

std::string compiler_key(const Compiler& compiler) {
  return fmt::format("{}\n{}\n{}", compiler.version(), compiler.target().key(), flags_key());
}

}  // namespace lathe::engine
