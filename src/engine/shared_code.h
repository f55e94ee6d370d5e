// Machine code that several sizes of a kernel share (LATHE_LENGTHS). Each size is lowered by itself, with the
// options of that size; where its program is, number by number, one that was compiled with some of its
// numbers as arguments, that code runs with this size's numbers. So a result has the bits it has without
// sharing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/program_form.h"
#include "lathe/options.h"
#include "runtime/devices.h"

namespace lathe::engine {

// A kernel on one device.
struct LoadedKernel {
  const OpenDevice* device = nullptr;
  std::unique_ptr<Kernel> kernel;
};

struct SharedCode {
  OpenProgram open;  // its list of instructions is gone once it is compiled
  bool compiled = false;
  Binary binary;
  std::deque<LoadedKernel> loaded;
};

// The code for one kernel and the arguments for its size.
struct CodeForSize {
  std::shared_ptr<SharedCode> code;
  std::vector<std::int64_t> arguments;
};

// The sizes that a kernel was requested in.
struct KernelSizes {
  std::uint64_t last_call = 0;
  int calls = 0;  // in which it was requested
  struct Options {
    std::vector<Opt> list;
    double work = 0;  // of the size it was chosen for
  };
  std::vector<Options> options;  // that other sizes can take over
};

// What of these options may change the bits of a result; nothing where any of them may. Options that divide
// outputs among lanes and threads leave each output to the same steps, so two lists that differ only in those
// give the same bits.
std::optional<std::vector<Opt>> beside_outputs(std::span<const Opt> options);

// What is known of the programs of one process. Its user locks it.
class SharedCodes {
 public:
  // The sizes of this kernel, with one more request in this call. Kernels of one form are one kernel.
  KernelSizes& request(Node kernel, const std::string& choice, std::uint64_t call);
  // The options for a size with so much work, where those chosen for it are `chosen`: those of a similar size
  // that give the same bits, so that both can share code.
  static std::vector<Opt> options_for(KernelSizes& sizes, std::vector<Opt> chosen, double work);
  // Code for this program, which may have to be compiled first. The first sizes are compiled by themselves:
  // null.
  CodeForSize find(const Program& program, const std::string& choice, const KernelSizes& sizes);
  // Takes out what was made for programs that nobody runs any more, once there is much of it.
  std::vector<std::shared_ptr<SharedCode>> take_unused();
  void clear();

 private:
  // One size of a form, or code for several; what it was made of is in the numbers either way.
  struct Size {
    std::vector<FormNumber> numbers;
    std::shared_ptr<SharedCode> code;  // null: one size by itself
    std::uint64_t call = 0;            // that made it
  };
  struct Form {
    std::string choice;
    std::vector<std::uint64_t> words;
    std::vector<Size> sizes;
  };
  Form& form_of_words(std::vector<std::uint64_t> words, const std::string& choice);

  std::unordered_map<std::uint64_t, KernelSizes> requests_;
  std::unordered_map<std::uint64_t, std::vector<Form>> forms_;
  std::size_t form_count_ = 0;
};

}  // namespace lathe::engine
