// For front ends that read memory speculatively. Inside the scope an out-of-range index is reported as usual,
// but if it made a kernel skip a store, the next read of that memory reports it again. Unstable: for tools.
#pragma once

namespace lathe::dev {

class FaultsStayScope {
 public:
  FaultsStayScope();
  ~FaultsStayScope();
  FaultsStayScope(const FaultsStayScope&) = delete;
  FaultsStayScope& operator=(const FaultsStayScope&) = delete;

 private:
  bool before_;
};

}  // namespace lathe::dev
