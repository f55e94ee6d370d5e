// Whether a candidate computed what it should. The default kernel's results are compared with REF (a sample
// of them where the kernel is long), all others with the default's, in full.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "reference/array.h"
#include "search/job.h"

namespace lathe::search {

// What REF says of a kernel: nothing, that it cannot say, or that the kernel is wrong.
struct Verdict {
  std::string text;
  bool wrong = false;
};

class Judge {
 public:
  // Writes the inputs of all buffers to the job's folder.
  Judge(Node kernel, std::string folder, std::vector<JobBuffer> buffers,
        std::vector<std::pair<std::string, std::int64_t>> bindings);

  // Reads the results of the default kernel, which just ran, and compares them with REF.
  Verdict accept_default();
  // The same for a candidate, against the default: what is wrong, or "".
  std::string judge();

 private:
  std::string read_results(std::vector<reference::Array>& results) const;

  NodeRef kernel_;
  std::string folder_;
  std::vector<JobBuffer> buffers_;
  std::vector<std::pair<std::string, std::int64_t>> bindings_;
  double scale_ = 1;                        // of the terms a result may be the small difference of
  std::vector<reference::Array> expected_;  // of the default, by slot; empty where nothing is written
};

}  // namespace lathe::search
