#include "lathe/dev/faults.h"

#include "runtime/faults.h"

namespace lathe::dev {

FaultsStayScope::FaultsStayScope() : before_(keep_faults(true)) {}
FaultsStayScope::~FaultsStayScope() { keep_faults(before_); }

}  // namespace lathe::dev
