#include "backends/cuda/nvrtc.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "backends/cuda/libraries.h"
#include "base/error.h"

namespace lathe::backends {

using NvrtcProgram = struct NvrtcProgramTag*;

// The C interface, as far as it is used. Results are 0 for success.
struct Nvrtc::Functions {
  int (*version)(int*, int*);
  int (*create)(NvrtcProgram*, const char* source, const char* name, int headers, const char* const*,
                const char* const*);
  int (*destroy)(NvrtcProgram*);
  int (*compile)(NvrtcProgram, int options, const char* const*);
  int (*cubin_size)(NvrtcProgram, std::size_t*);
  int (*cubin)(NvrtcProgram, char*);
  int (*log_size)(NvrtcProgram, std::size_t*);
  int (*log)(NvrtcProgram, char*);
  const char* (*error_text)(int);
};

namespace {

template <class F>
bool bind(F& function, const LoadedLibrary& library, const char* name) {
  function = reinterpret_cast<F>(symbol(library, name));
  return function != nullptr;
}

// Contraction is a rule of Lathe's, and results must be those of IEEE arithmetic: so all of NVRTC's shortcuts
// are off.
constexpr std::array kOptions = {"--std=c++17",       "--fmad=false",     "--ftz=false",
                                 "--prec-div=true",   "--prec-sqrt=true", "--disable-warnings",
                                 "--ptxas-options=-v"};

}  // namespace

const Nvrtc* Nvrtc::load(std::string& why) {
  LoadedLibrary library = load_cuda_library({"libnvrtc.so.13", "libnvrtc.so.12"});
  if (library.handle == nullptr) {
    why = fmt::format("NVRTC (libnvrtc.so.13 or .12) was not found on the loader's path or in {}",
                      fmt::join(library.tried, ", "));
    return nullptr;
  }
  auto* functions = new Functions;
  bool ok = bind(functions->version, library, "nvrtcVersion") &&
            bind(functions->create, library, "nvrtcCreateProgram") &&
            bind(functions->destroy, library, "nvrtcDestroyProgram") &&
            bind(functions->compile, library, "nvrtcCompileProgram") &&
            bind(functions->cubin_size, library, "nvrtcGetCUBINSize") &&
            bind(functions->cubin, library, "nvrtcGetCUBIN") &&
            bind(functions->log_size, library, "nvrtcGetProgramLogSize") &&
            bind(functions->log, library, "nvrtcGetProgramLog") &&
            bind(functions->error_text, library, "nvrtcGetErrorString");
  if (!ok) {
    why = fmt::format("{} lacks functions of NVRTC's interface", library.path);
    delete functions;
    return nullptr;
  }
  int major = 0, minor = 0;
  functions->version(&major, &minor);
  auto* out = new Nvrtc;
  out->functions_ = functions;
  out->version_ = fmt::format("{}.{}", major, minor);
  out->path_ = library.path;
  return out;
}

const Nvrtc::Found& Nvrtc::found() {
  static const Found* once = [] {
    auto* out = new Found;
    out->nvrtc = load(out->why);
    return out;
  }();
  return *once;
}

const Nvrtc* Nvrtc::get() { return found().nvrtc; }
const std::string& Nvrtc::why_missing() { return found().why; }

std::string Nvrtc::compile(const std::string& source, const std::string& architecture,
                           std::string& log) const {
  const Functions& f = *functions_;
  NvrtcProgram program = nullptr;
  if (int code = f.create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr); code != 0)
    throw CompileError("CUDA", fmt::format("NVRTC took no source: {}", f.error_text(code)));
  std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(kOptions.begin(), kOptions.end());
  options.push_back(target.c_str());
  int code = f.compile(program, static_cast<int>(options.size()), options.data());

  std::size_t size = 0;
  f.log_size(program, &size);
  log.assign(size, '\0');
  if (size > 0) f.log(program, log.data());
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  std::string cubin;
  if (code == 0 && f.cubin_size(program, &size) == 0) {
    cubin.assign(size, '\0');
    f.cubin(program, cubin.data());
  } else if (log.empty()) {
    log = f.error_text(code);
  }
  f.destroy(&program);
  return cubin;
}

}  // namespace lathe::backends
