#include "engine/read_back.h"

#include "ir/build.h"

namespace lathe::engine {

reference::Array read_back(Node buffer, const Place& place) {
  reference::Array array(buffer.dtype(), buffer_size(buffer));
  if (place.span.bytes == 0) return array;
  const Place host{nullptr, {{0, place.span.bytes, array.data()}, 0, place.span.bytes}};
  executor().wait(executor().copy(host, place));
  return array;
}

}  // namespace lathe::engine
