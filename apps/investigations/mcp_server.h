// The Model Context Protocol over lines of JSON: other programs start, watch, steer and cancel investigations
// and read their records. Speaks the revision without a handshake (each request says which it is) and, for
// older clients, those with one. Knows nothing of pipes: a message in, a message out, from any thread.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/investigations/store.h"

namespace lathe::investigations {

class McpServer {
 public:
  // `program` is this `lathe`, which runs what is started; `root` is where records are kept, "" for the usual
  // folder.
  McpServer(std::string program, std::string version, std::string root, std::string directory);

  // The answer to one line; nothing where none is due.
  std::optional<std::string> answer(const std::string& line);
  // Nobody waits any more: a check in another thread answers at once.
  void close() { closed_ = true; }

 private:
  using Json = nlohmann::json;
  Json result_of(const std::string& method, const Json& params);
  Json discover() const;
  Json initialize(const Json& params) const;
  Json tools() const;
  Json call(const Json& params);
  Json resources();
  Json read(const Json& params);

  Json start(const Json& arguments);
  Json check(const Json& arguments);
  Json observe(const Json& arguments);
  Json cancel(const Json& arguments);
  Json list(const Json& arguments);

  Store& store_for(const std::string& directory);
  Store& store_with(const std::string& id);  // throws UserError
  Store& opened(const std::string& folder);

  std::vector<Store*> all_stores();

  std::string program_, version_, root_, directory_;
  std::atomic<bool> closed_{false};
  std::mutex mutex_;                                      // of what follows
  std::map<std::string, std::unique_ptr<Store>> stores_;  // by folder
  std::vector<int> started_;                              // processes to be waited for
};

}  // namespace lathe::investigations
