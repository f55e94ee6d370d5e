#include "engine/repro.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/env.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/build_id.h"
#include "engine/disk_cache.h"
#include "ir/build.h"
#include "ir/text.h"

namespace lathe::engine {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

std::string folder() {
  if (!flag_text(Flag::Save).empty()) return flag_text(Flag::Save);
  if (DiskCache* disk = DiskCache::current()) return disk->folder() + "-repros";
  return (std::filesystem::temp_directory_path() / fmt::format("lathe-repros-{}", getuid())).string();
}

std::string number_text(DType dtype, reference::Cell cell) {
  return dtype.is_float() ? fmt::format("{}", cell.f) : fmt::format("{}", cell.i);
}

void add_samples(std::string& text, const Trial& trial) {
  for (const reference::Sample& sample : trial.samples()) {
    if (!trial.has_element(sample)) continue;
    const DType dtype = trial.step().buffers[static_cast<std::size_t>(sample.slot)].node().dtype();
    text += fmt::format("# result {} {} is {}", sample.slot, sample.element,
                        number_text(dtype, trial.result(sample)));
    if (sample.open)
      text += ", open\n";
    else if (!sample.written)
      text += ", must stay unchanged\n";
    else
      text += fmt::format(", want {} likely {} worst {}\n", number_text(dtype, sample.value), sample.likely,
                          sample.worst);
  }
}

}  // namespace

std::string write_repro(const Trial& trial, const MadeKernel& wrong, const OpenDevice& device,
                        const Outcome& outcome) {
  const Step& step = trial.step();
  const std::string graph = print_graph(wrong.ast), options = to_string(wrong.options);
  std::string text = fmt::format("# {}\n# options ({}): {}\n# wrong on {}, target {}: {}\n# build {}\n",
                                 step.name, wrong.options_from, options, device.text,
                                 device.compiler->target().name, outcome.text, build_id());
  for (const auto& [name, value] : trial.values()) text += fmt::format("# variable {} = {}\n", name, value);
  add_samples(text, trial);
  for (const ElementRead& read : trial.elements_read(outcome)) {
    if (text.size() > kMostBytes) {
      text += "# further elements are omitted\n";
      break;
    }
    const DType dtype = step.buffers[static_cast<std::size_t>(read.slot)].node().dtype();
    text += fmt::format("# read {} {} = {}\n", read.slot, read.element, number_text(dtype, read.value));
  }
  text += graph + "\n# source\n" + wrong.binary.source + "\n";
  const std::string where = folder();
  const std::string path =
      fmt::format("{}/wrong_{}_{:016x}.txt", where, step.name, hash_string(graph + options));
  try {
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(where).parent_path(), ignored);
    mkdir(where.c_str(), 0700);
    write_file_atomic(path, text, Sync::No, Readers::Private);
  } catch (const DeviceError&) {
    return "";  // the kernel matters more than the file about it
  }
  return path;
}

}  // namespace lathe::engine
