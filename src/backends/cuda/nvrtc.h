// NVRTC, NVIDIA's compiler from CUDA C to machine code as a library. It needs no GPU and no driver.
#pragma once

#include <string>

namespace lathe::backends {

class Nvrtc {
 public:
  // The library of this process, loaded on first use; null where it is not found, and then why_missing says
  // so.
  static const Nvrtc* get();
  static const std::string& why_missing();

  const std::string& version() const { return version_; }  // "13.0"
  const std::string& path() const { return path_; }

  // A cubin for `architecture` ("sm_90a"). `log` gets what the compiler said; the result is empty where it
  // refused.
  std::string compile(const std::string& source, const std::string& architecture, std::string& log) const;

 private:
  struct Functions;
  struct Found {
    const Nvrtc* nvrtc = nullptr;
    std::string why;
  };
  static const Found& found();
  static const Nvrtc* load(std::string& why);
  const Functions* functions_ = nullptr;
  std::string version_, path_;
};

}  // namespace lathe::backends
