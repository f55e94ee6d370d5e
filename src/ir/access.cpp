#include "ir/access.h"

#include <vector>

namespace lathe {

Access access_of(Node access) {
  Access how;
  if (access.attr().kind != Attr::Kind::Data) return how;
  const auto& ints = access.ints();
  how.past = ints[0];
  if (ints.size() > 1) how.rows = ints[1], how.pitch = ints[2];
  return how;
}

Node with_access(Node access, const Access& how) {
  if (how == Access()) return intern(access.op(), access.dtype(), access.args());
  AttrData d{"", {how.past}};
  if (how.rows > 1) d.ints = {how.past, how.rows, how.pitch};
  return intern(access.op(), access.dtype(), access.args(), Attr::of(d));
}

}  // namespace lathe
