#include "search/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/error.h"
#include "ir/launch.h"
#include "ir/text.h"
#include "ir/walk.h"

namespace lathe::search {

namespace fs = std::filesystem;

std::size_t JobBuffer::bytes() const {
  return static_cast<std::size_t>(size) * static_cast<std::size_t>(dtype.bytes());
}

std::string to_text(const JobText& job) {
  std::string text =
      fmt::format("{}\n{}\n{}\n{}\n", job.device, job.name, job.max_nodes, job.bindings.size());
  for (const auto& [name, value] : job.bindings) text += fmt::format("{} {}\n", name, value);
  return text + print_graph(job.kernel);
}

JobText job_from_text(const std::string& text) {
  std::istringstream in(text);
  JobText job;
  std::size_t count = 0;
  std::getline(in, job.device);
  std::getline(in, job.name);
  in >> job.max_nodes >> count;
  for (std::size_t i = 0; in && i < count; ++i) {
    std::pair<std::string, std::int64_t> binding;
    in >> binding.first >> binding.second;
    job.bindings.push_back(std::move(binding));
  }
  if (!in) throw UserError("search", "the job's text is cut short");
  in.ignore(1);
  job.kernel = parse_graph(text.substr(static_cast<std::size_t>(in.tellg())));
  return job;
}

std::vector<JobBuffer> buffers_of(Node kernel) {
  std::vector<JobBuffer> buffers;
  for (Node n : toposort(kernel))
    if (n.is(Op::Param)) {
      const auto slot = static_cast<std::size_t>(n.ints()[0]);
      if (buffers.size() <= slot) buffers.resize(slot + 1);
      buffers[slot].dtype = n.dtype();
      buffers[slot].size = n.ints()[1];
    }
  const std::vector<SlotUse> uses = slot_uses(kernel, buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i].reads = uses[i].reads;
    buffers[i].writes = uses[i].writes;
  }
  return buffers;
}

std::vector<std::pair<std::string, std::int64_t>> bindings_of(Node kernel) {
  std::vector<std::pair<std::string, std::int64_t>> bindings;
  for (Node n : toposort(kernel))
    if (n.is(Op::Var)) bindings.emplace_back(n.text(), n.hi());
  return bindings;
}

reference::Array made_up_contents(const JobBuffer& buffer, std::size_t slot) {
  constexpr std::int64_t kIntegers = 8;  // few, so that most are places in a table
  reference::Array array(buffer.dtype, buffer.size);
  std::uint64_t state = slot * 2 + 1;
  for (std::int64_t i = 0; i < buffer.size; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const auto bits = static_cast<std::int64_t>(state >> 40);
    const double real = static_cast<double>(bits) * 0x1p-23 - 1;
    const std::int64_t whole = buffer.dtype.is_bool() ? bits & 1 : bits % kIntegers;
    // Rounded as a device would: the dtype's own conversion.
    array.set(i, convert(buffer.dtype, buffer.dtype.is_float() ? dtypes::Float64 : dtypes::Int64,
                         Element{whole, real}));
  }
  return array;
}

JobFolder::JobFolder() {
  const fs::path base = fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  std::string path = (base / "lathe-search-XXXXXX").string();
  if (mkdtemp(path.data()) == nullptr)
    throw DeviceError("search", "cannot make a folder in " + base.string());
  path_ = path;
}
JobFolder::~JobFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string job_file(const std::string& folder) { return folder + "/job"; }
std::string input_file(const std::string& folder, std::size_t slot) {
  return fmt::format("{}/in.{}", folder, slot);
}
std::string output_file(const std::string& folder, std::size_t slot) {
  return fmt::format("{}/out.{}", folder, slot);
}
std::string kernel_file(const std::string& folder, int candidate) {
  return fmt::format("{}/kernel.{}", folder, candidate);
}

}  // namespace lathe::search
