// One kernel under search, as a folder in shared memory that the parent and its workers look at: the kernel's
// text, one file of inputs for each buffer, and for each candidate its machine code. The folder goes when the
// job does.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "reference/array.h"

namespace lathe::search {

struct JobBuffer {
  DType dtype;
  std::int64_t size = 0;  // elements
  bool reads = false, writes = false;
  std::size_t bytes() const;
};

// What a worker is told, in a file.
struct JobText {
  std::string device, name;
  std::int64_t max_nodes = 0;
  std::vector<std::pair<std::string, std::int64_t>> bindings;  // variables and the values they are run with
  NodeRef kernel;
};
std::string to_text(const JobText& job);
JobText job_from_text(const std::string& text);  // throws UserError

// A kernel's buffers by slot, and its variables bound to the largest values they may have.
std::vector<JobBuffer> buffers_of(Node kernel);
std::vector<std::pair<std::string, std::int64_t>> bindings_of(Node kernel);

// Contents that depend on the slot alone: floats in [-1, 1), small integers that may be indices.
reference::Array made_up_contents(const JobBuffer& buffer, std::size_t slot);

class JobFolder {
 public:
  JobFolder();
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The files of a job.
std::string job_file(const std::string& folder);
std::string input_file(const std::string& folder, std::size_t slot);
std::string output_file(const std::string& folder, std::size_t slot);
std::string kernel_file(const std::string& folder, int candidate);

}  // namespace lathe::search
