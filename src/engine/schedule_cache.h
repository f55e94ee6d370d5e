// The prepared schedules of this process by the graph they were made for. A hit returns the same steps,
// kernels and memory plan, to be run over other buffers and other values of variables.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "engine/graph_key.h"
#include "engine/prepared_schedule.h"

namespace lathe::engine {

class ScheduleCache {
 public:
  // `extra` is what the schedule depends on beside the graph: flags, default device, attached options.
  std::shared_ptr<const PreparedSchedule> find(const GraphKey& key, const std::string& extra);
  // In the place of the one that was there, if there was one.
  void insert(const GraphKey& key, const std::string& extra,
              std::shared_ptr<const PreparedSchedule> prepared);
  void clear();
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t hash;
    std::vector<std::uint64_t> words;
    std::string extra;
    std::shared_ptr<const PreparedSchedule> prepared;  // shared with captures that hold it
  };
  using Entries = std::list<Entry>;
  Entry* entry_of(const GraphKey& key, const std::string& extra);  // used last from now on; or null
  Entries entries_;                                                // used last first
  std::unordered_multimap<std::uint64_t, Entries::iterator> by_hash_;
};

}  // namespace lathe::engine
