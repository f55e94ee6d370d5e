// Kernels ready to launch. A scheduled kernel with its options and a device's target is compiled once per
// process: equal kernels are equal nodes, so a lookup is by handle. A second process finds the binary on disk
// and neither lowers nor compiles. Several kernels are requested together, so that a compiler can take them
// in one unit.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/prove.h"
#include "ir/node.h"
#include "ir/program.h"
#include "lathe/options.h"
#include "runtime/devices.h"

namespace lathe::engine {

// Variables and their values for one run.
using Bindings = std::span<const std::pair<NodeRef, std::int64_t>>;

struct MadeKernel {
  NodeRef ast;  // as scheduled
  std::vector<Opt> options;
  std::string options_from;  // "heuristic", "user", "search", "none" or "fallback"
  Program launch;            // without its code: params, variables, sizes, counts
  Binary binary;
  std::vector<std::int64_t> arguments;  // after the variables, of code that other sizes share (shared_code.h)
};

struct KernelCheck;
struct KernelEntry;

// One that is loaded on a device. The pointers stay valid while `entry` is held, and a launch may use the
// kernel until it has run.
struct ReadyKernel {
  const MadeKernel* made = nullptr;
  Kernel* kernel = nullptr;
  KernelCheck* check = nullptr;        // what is known of it against REF
  std::shared_ptr<KernelEntry> entry;  // its place among all kernels
};

struct KernelRequest {
  Node ast;
  std::string name;
  OpenDevice* device = nullptr;
  std::optional<std::vector<Opt>> options = std::nullopt;  // given by the user; else search or heuristic
  std::string_view saved = {};  // what saved_kernel gave: used where it was made for this build and machine
  bool share_code = false;      // with other sizes (shared_code.h): it may not run often at this one
};

// The kernels, in the order asked for. Each distinct one is made once per process, for all devices of a
// backend.
std::vector<ReadyKernel> ready_kernels(std::span<const KernelRequest> requests);

// A kernel that was found wrong is replaced: whoever holds it runs the other one from then on, and so does a
// later process. current_kernel gives the one that runs now.
void replace_kernel(const ReadyKernel& wrong, const ReadyKernel& instead, const OpenDevice& device);
ReadyKernel current_kernel(const ReadyKernel& kernel, OpenDevice& device);
// Writes what is known of a kernel against REF into the disk cache. Its check is locked.
void keep_record(const ReadyKernel& kernel, const OpenDevice& device);

// A kernel as bytes that go into a file, and into a KernelRequest of a later process.
std::string saved_kernel(const ReadyKernel& held, OpenDevice& device);

// Whether it runs code that other sizes share.
bool shares_code(const ReadyKernel& kernel);

// The launch sizes under these bindings. Throws UserError naming a variable without a value.
Grid grid_of(const Program& launch, Bindings bindings);
// An index expression over constants and variables.
std::int64_t evaluate_index(Node expression, Bindings bindings);

// A kernel as bytes and back: options, launch sizes, machine code and what is known of it against REF (text
// of a CheckRecord), but not the graph. False where the bytes are not such.
std::string pack_kernel(const MadeKernel& made, std::string_view record = {});
bool unpack_kernel(std::string_view bytes, MadeKernel& made, std::string* record = nullptr);

// Where tuned options come from; asked for every new kernel before the heuristic while LATHE_BEAM is on. Set
// by the search.
using OptionSource = std::function<std::optional<std::vector<Opt>>(const KernelRequest& request)>;
void set_option_source(OptionSource source);

// How the accesses of the kernels lowered since the last reset were shown to stay inside their memory.
ProofCounts proof_counts();

// Kernels lowered and compiled since the last reset; those found on disk do not count.
std::uint64_t compile_count();
void reset_compile_count();  // and the proofs
// How many kernels may stay although no schedule and no capture holds them; at twice as many the least
// recently used are dropped. Returns the number before (tests).
std::size_t keep_unused_kernels(std::size_t most);
std::size_t kernel_count();  // of this process now
// Forgets all kernels of this process (tests and memory reports); none may be running or be used again.
void drop_kernels();

// Every flag that changes what is generated, and the rules that are disabled or planted: part of every key.
std::string flags_key();
// All that a binary depends on beside its kernel, its options and this build: the compiler and its version,
// every fact of its target, flags and rules.
std::string compiler_key(const Compiler& compiler);

}  // namespace lathe::engine
