// For front ends that ask for memory on trial: an index found outside is told, but where it is a store that
// was not done, it is told again to whoever reads next. Unstable: for tools.
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
