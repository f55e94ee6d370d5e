// Whether a candidate computed what it should. Every kernel's results are judged by REF's bounds (a sample of
// them where the kernel is long), all but the default's also against the default's, in full.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "reference/array.h"
#include "search/job.h"
#include "verify/expected.h"

namespace lathe::search {

class Judge {
 public:
  // Writes the inputs of all buffers to the job's folder.
  Judge(Node kernel, std::string folder, std::vector<JobBuffer> buffers,
        std::vector<std::pair<std::string, std::int64_t>> bindings, std::span<const OpError> native = {});

  // Why results are not accepted: they are wrong, or REF can say nothing about them. Nothing where they are.
  struct Refusal {
    bool wrong = false;
    std::string text;
  };
  // Reads the results of the default kernel, which just ran, and judges them. `with_options` makes the kernel
  // that ran, for what only its order of roundings explains.
  using WithOptions = verify::Expected::WithOptions;
  std::optional<Refusal> refuse_default(const WithOptions& with_options);
  // The same for a candidate, also against the default: what is wrong, or "".
  std::string judge(const WithOptions& with_options);

 private:
  std::string read_results(std::vector<reference::Array>& results) const;

  NodeRef kernel_;
  std::string folder_;
  std::vector<JobBuffer> buffers_;
  std::vector<std::pair<std::string, std::int64_t>> bindings_;
  std::span<const OpError> native_;           // what the device has instructions of its own for
  std::vector<reference::Array> before_;      // by slot
  std::vector<reference::Array> of_default_;  // by slot; empty where nothing is written
  std::optional<verify::Expected> expected_;
};

}  // namespace lathe::search
