// oneDNN as a contender of `lathe bench cpu`, through its C interface, loaded at run time. A convolution may
// use whatever layouts the library likes best; turning the plain arrays into them and back is part of the
// run, as it is for Lathe. A run with the plain layouts is tried as well, and the faster of the two is taken.
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>

#include "tools/lathe/bench_cpu.h"

namespace lathe::tool {
namespace {

// Numbers of the library's interface, version 3.
constexpr int kCpu = 1, kInOrder = 1, kForwardInference = 96, kConvolutionAuto = 3;
constexpr int kTagAny = 1, kTagAbc = 4, kTagAbcd = 5, kTagAcb = 15;
constexpr int kBFloat16 = 2, kFloat = 3, kInt32 = 4, kInt8 = 5;
constexpr int kQuerySource = 129, kQueryWeights = 131, kQueryTarget = 133;
constexpr int kArgSource = 1, kArgTarget = 17, kArgWeights = 33;

using Handle = void*;
using Dims = std::array<std::int64_t, 12>;
struct ExecArg {
  int arg;
  Handle memory;
};

// What is used of the library.
struct Library {
  int (*engine_create)(Handle*, int, std::size_t);
  int (*stream_create)(Handle*, Handle, unsigned);
  int (*stream_wait)(Handle);
  int (*memory_desc_create_with_tag)(Handle*, int, const std::int64_t*, int, int);
  int (*memory_desc_equal)(Handle, Handle);
  int (*memory_create)(Handle*, Handle, Handle, void*);
  int (*primitive_create)(Handle*, Handle);
  int (*primitive_execute)(Handle, Handle, int, const ExecArg*);
  Handle (*primitive_desc_query_md)(Handle, int, int);
  int (*convolution_forward_primitive_desc_create)(Handle*, Handle, int, int, Handle, Handle, Handle, Handle,
                                                   const std::int64_t*, const std::int64_t*,
                                                   const std::int64_t*, const std::int64_t*, Handle);
  int (*matmul_primitive_desc_create)(Handle*, Handle, Handle, Handle, Handle, Handle, Handle);
  int (*reorder_primitive_desc_create)(Handle*, Handle, Handle, Handle, Handle, Handle);
  const int* (*version)();

  // Why it cannot be used, or "".
  std::string load(const std::string& path) {
    void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return dlerror();
    bool all = true;
    auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      all = all && function != nullptr;
    };
    find(engine_create, "dnnl_engine_create");
    find(stream_create, "dnnl_stream_create");
    find(stream_wait, "dnnl_stream_wait");
    find(memory_desc_create_with_tag, "dnnl_memory_desc_create_with_tag");
    find(memory_desc_equal, "dnnl_memory_desc_equal");
    find(memory_create, "dnnl_memory_create");
    find(primitive_create, "dnnl_primitive_create");
    find(primitive_execute, "dnnl_primitive_execute");
    find(primitive_desc_query_md, "dnnl_primitive_desc_query_md");
    find(convolution_forward_primitive_desc_create, "dnnl_convolution_forward_primitive_desc_create");
    find(matmul_primitive_desc_create, "dnnl_matmul_primitive_desc_create");
    find(reorder_primitive_desc_create, "dnnl_reorder_primitive_desc_create");
    find(version, "dnnl_version");
    return all ? "" : path + " is not version 3 of the library";
  }
};

// Lets the library allocate the memory itself.
void* const kOwnMemory = reinterpret_cast<void*>(~std::uintptr_t{0});

// Handles live as long as the process, which is short.
class OneDnnContender : public Contender {
 public:
  explicit OneDnnContender(const std::string& path) {
    failed_ = dnnl_.load(path);
    if (failed_.empty() && (dnnl_.engine_create(&engine_, kCpu, 0) != 0 ||
                            dnnl_.stream_create(&stream_, engine_, kInOrder) != 0))
      failed_ = "its engine could not be made";
  }

  std::string version() const override {
    const int* v = dnnl_.version();
    return fmt::format("{}.{}.{}", v[0], v[1], v[2]);
  }

  std::string prepare(const CpuRow& row, const std::string& folder) override {
    if (!failed_.empty()) return failed_;
    if (row.kind != "conv" && row.kind != "gemm") return "not an operation it is asked for";
    files_.clear();
    for (std::size_t i = 0; i < 2; ++i) files_.emplace_back(fmt::format("{}/in{}", folder, i));
    integer_ = row.dtype == "s8";
    out_.assign(static_cast<std::size_t>(output_elements(row)) * 4, std::byte{});
    double best = 1e30;
    steps_.clear();
    for (const bool plain : {true, false}) {
      std::vector<Step> steps;
      if (!(row.kind == "conv" ? convolution(row, plain, steps) : product(row, plain, steps))) continue;
      const double seconds = best_of(steps);
      if (seconds >= best) continue;
      best = seconds;
      steps_ = std::move(steps);
    }
    return steps_.empty() ? "it refused the operation" : "";
  }

  void run() override { execute(steps_); }

  std::vector<double> result(const std::vector<std::int64_t>& places) override {
    run();
    std::vector<double> values;
    for (const std::int64_t place : places) {
      const std::byte* at = out_.data() + place * 4;
      float real = 0;
      std::int32_t whole = 0;
      std::memcpy(&real, at, 4);
      std::memcpy(&whole, at, 4);
      values.push_back(integer_ ? whole : static_cast<double>(real));
    }
    return values;
  }

 private:
  struct Step {
    Handle primitive;
    std::vector<ExecArg> args;
  };

  void execute(const std::vector<Step>& steps) {
    for (const Step& step : steps)
      dnnl_.primitive_execute(step.primitive, stream_, static_cast<int>(step.args.size()), step.args.data());
    dnnl_.stream_wait(stream_);
  }

  double best_of(const std::vector<Step>& steps) {
    double best = 1e30;
    for (int i = 0; i < 5; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      execute(steps);
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    return best;
  }

  Handle layout(const std::vector<std::int64_t>& sizes, int dtype, int tag) {
    Dims dims{};
    std::copy(sizes.begin(), sizes.end(), dims.begin());
    Handle made = nullptr;
    dnnl_.memory_desc_create_with_tag(&made, static_cast<int>(sizes.size()), dims.data(), dtype, tag);
    return made;
  }

  Handle memory(Handle layout, const void* data) {
    Handle made = nullptr;
    dnnl_.memory_create(&made, layout, engine_, const_cast<void*>(data));
    return made;
  }

  bool add(std::vector<Step>& steps, Handle description, std::vector<ExecArg> args) {
    Step step{nullptr, std::move(args)};
    if (dnnl_.primitive_create(&step.primitive, description) != 0) return false;
    steps.push_back(std::move(step));
    return true;
  }

  bool reorder(std::vector<Step>& steps, Handle from_layout, Handle from, Handle to_layout, Handle to) {
    Handle description = nullptr;
    return dnnl_.reorder_primitive_desc_create(&description, from_layout, engine_, to_layout, engine_,
                                               nullptr) == 0 &&
           add(steps, description, {{kArgSource, from}, {kArgTarget, to}});
  }

  // The operation between the plain arrays and the layouts it wants.
  bool wrap(std::vector<Step>& steps, Handle description, Handle source, Handle weights, Handle target) {
    struct Side {
      int query, arg;
      Handle layout;
      const void* data;
    };
    const Side sides[] = {{kQuerySource, kArgSource, source, files_[0].data()},
                          {kQueryWeights, kArgWeights, weights, files_[1].data()},
                          {kQueryTarget, kArgTarget, target, out_.data()}};
    std::vector<ExecArg> args;
    Handle result_from = nullptr, result_layout = nullptr;
    for (const Side& side : sides) {
      const Handle wanted = dnnl_.primitive_desc_query_md(description, side.query, 0);
      const bool same = dnnl_.memory_desc_equal(wanted, side.layout) != 0;
      const Handle inner = same ? memory(side.layout, side.data) : memory(wanted, kOwnMemory);
      args.push_back({side.arg, inner});
      if (same) continue;
      if (side.arg == kArgTarget) {
        result_from = inner;
        result_layout = wanted;
      } else if (!reorder(steps, side.layout, memory(side.layout, side.data), wanted, inner)) {
        return false;
      }
    }
    if (!add(steps, description, args)) return false;
    return result_from == nullptr ||
           reorder(steps, result_layout, result_from, target, memory(target, out_.data()));
  }

  bool convolution(const CpuRow& row, bool plain, std::vector<Step>& steps) {
    const std::vector<std::int64_t>& s = row.sizes;
    const std::int64_t high = (s[2] + 2 * s[7] - s[5]) / s[6] + 1, wide = (s[3] + 2 * s[7] - s[5]) / s[6] + 1;
    const std::vector<std::int64_t> source{s[0], s[1], s[2], s[3]}, weights{s[4], s[1], s[5], s[5]},
        target{s[0], s[4], high, wide};
    const int tag = plain ? kTagAbcd : kTagAny;
    const Dims stride{s[6], s[6]}, none{}, padding{s[7], s[7]};
    Handle description = nullptr;
    // Weights may always be in the layout it likes, as in a net whose weights stay; but turning them is
    // counted.
    if (dnnl_.convolution_forward_primitive_desc_create(
            &description, engine_, kForwardInference, kConvolutionAuto, layout(source, kFloat, tag),
            layout(weights, kFloat, kTagAny), nullptr, layout(target, kFloat, tag), stride.data(),
            none.data(), padding.data(), padding.data(), nullptr) != 0)
      return false;
    return wrap(steps, description, layout(source, kFloat, kTagAbcd), layout(weights, kFloat, kTagAbcd),
                layout(target, kFloat, kTagAbcd));
  }

  bool product(const CpuRow& row, bool plain, std::vector<Step>& steps) {
    const std::vector<std::int64_t>& s = row.sizes;
    const int dtype = row.dtype == "bf16" ? kBFloat16
                      : integer_          ? kInt8
                                          : kFloat,
              result = integer_ ? kInt32 : kFloat;
    const Handle a = layout({s[0], s[1], s[3]}, dtype, row.variant[0] == 't' ? kTagAcb : kTagAbc),
                 b = layout({s[0], s[3], s[2]}, dtype, row.variant[1] == 't' ? kTagAcb : kTagAbc),
                 c = layout({s[0], s[1], s[2]}, result, kTagAbc);
    Handle description = nullptr;
    if (dnnl_.matmul_primitive_desc_create(&description, engine_, a,
                                           plain ? b : layout({s[0], s[3], s[2]}, dtype, kTagAny), nullptr, c,
                                           nullptr) != 0)
      return false;
    return wrap(steps, description, a, b, c);
  }

  Library dnnl_{};
  std::string failed_;
  Handle engine_ = nullptr, stream_ = nullptr;
  std::vector<MappedFile> files_;
  std::vector<std::byte> out_;
  std::vector<Step> steps_;
  bool integer_ = false;
};

}  // namespace

std::unique_ptr<Contender> make_onednn_contender(const std::string& library) {
  return std::make_unique<OneDnnContender>(library);
}

}  // namespace lathe::tool
