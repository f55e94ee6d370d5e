#include "investigate/subject.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "engine/inputs_file.h"
#include "engine/made_up.h"
#include "ir/build.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "search/job.h"
#include "search/kernel_text.h"

namespace lathe::investigate {
namespace {

// Integers that decide which elements are read: places in a table.
constexpr std::int64_t kMostIndices = 8;

// Below what integers must be to be good indices of everything the kernel reads.
std::int64_t index_limit_of(Node kernel) {
  std::int64_t limit = kMostIndices;
  for (Node n : toposort(kernel)) {
    if (n.is(Op::Check) && n.arg(1).is_const()) limit = std::min(limit, n.arg(1).const_int());
    if (n.is(Op::Param)) limit = std::min(limit, memory_size(n));
  }
  return std::max<std::int64_t>(limit, 1);
}

// Mostly numbers around 1, some small integers, some that only a dtype's whole range shows.
Element made_up(DType dtype, std::uint64_t bits, std::int64_t index_limit) {
  const std::uint64_t kind = bits & 15;
  const auto small = static_cast<std::int64_t>(bits >> 8 & 0xffff);
  if (dtype.is_bool()) return {small & 1, 0};
  if (dtype.is_float()) {
    const double fine = static_cast<double>(bits >> 12) * 0x1p-51 - 1;  // in [-1, 1)
    const double number = kind == 0   ? 0.0
                          : kind == 1 ? static_cast<double>(small % 9) - 4
                          : kind == 2 ? 6 * fine
                                      : 2 * fine;
    return convert(dtype, dtypes::Float64, {0, number});
  }
  if (index_limit > 0) return {small % index_limit, 0};
  const auto wide = static_cast<std::int64_t>(hash_mix(bits));
  return convert(dtype, dtypes::Int64, {kind < 3 ? wide : small % 41 - 20, 0});
}

void read_line(const std::string& line, Subject& subject) {
  std::istringstream in(line);
  std::string hash, word, name, equals;
  in >> hash >> word;
  if (word == "variable") {
    std::int64_t value = 0;
    if (in >> name >> equals >> value && equals == "=") subject.bindings.emplace_back(name, value);
  } else if (word == "device") {
    in >> subject.device;
  } else if (word == "printer") {
    in >> subject.printer;
  } else if (word == "seed") {
    in >> subject.seed;
  } else if (word == "wrong") {  // "# wrong on CPU, target ..."
    in >> name >> name;
    subject.device = name.substr(0, name.find(','));
  } else if (word == "inputs") {
    std::getline(in >> std::ws, subject.inputs);
  } else if (word == "given") {
    GivenBuffer given;
    if (in >> given.slot >> equals >> given.number && equals == "=") subject.given.push_back(given);
  } else if (word == "read") {
    KnownElement known;
    std::string number;
    if (!(in >> known.slot >> known.element >> equals >> number) || equals != "=") return;
    known.number = std::strtod(number.c_str(), nullptr);
    known.integer = std::strtoll(number.c_str(), nullptr, 10);
    subject.known.push_back(known);
  }
}

Subject from_text(const std::string& text, const std::string& folder, const std::string& called) {
  const search::KernelText file = search::read_kernel_text(text, called);
  Subject subject;
  subject.name = file.name;
  subject.options_from = file.options_from;
  subject.options = file.options;
  subject.kernel = file.kernel;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line != "# source";)
    if (line.starts_with("# ")) read_line(line, subject);
  // A file of inputs is named from the folder that the kernel is in.
  if (!subject.inputs.empty()) subject.inputs = (std::filesystem::path(folder) / subject.inputs).string();
  // Variables that the file does not bind have the largest value they may have.
  for (const auto& [name, value] : search::bindings_of(file.kernel))
    if (std::ranges::none_of(subject.bindings, [&](const auto& b) { return b.first == name; }))
      subject.bindings.emplace_back(name, value);
  return subject;
}

}  // namespace

Subject read_subject(const std::string& path) {
  const std::optional<std::string> text = read_file(path);
  if (!text) throw UserError("kernel file", "there is no " + path);
  return from_text(*text, std::filesystem::path(path).parent_path().string(), path);
}

Subject subject_from_text(const std::string& text, const std::string& folder) {
  return from_text(text, folder, "the text");
}

Subject with_inputs(Subject subject, const std::string& inputs_file) {
  const engine::SavedInputs inputs = engine::read_inputs(inputs_file);
  subject.inputs = inputs_file;
  subject.given.clear();
  for (std::size_t slot = 0; slot < inputs.buffers.size(); ++slot)
    subject.given.push_back({static_cast<std::int64_t>(slot), slot});
  for (auto& [name, value] : subject.bindings)
    for (const auto& [saved, number] : inputs.values)
      if (saved == name) value = number;
  return subject;
}

std::string to_text(const Subject& subject, std::string_view about) {
  std::string text = fmt::format("# {}\n# options ({}): {}\n# device {}\n# seed {}\n", subject.name,
                                 subject.options_from.empty() ? "user" : subject.options_from,
                                 to_string(subject.options), subject.device, subject.seed);
  if (!subject.printer.empty()) text += fmt::format("# printer {}\n", subject.printer);
  std::istringstream lines{std::string(about)};
  for (std::string line; std::getline(lines, line);) text += fmt::format("# about: {}\n", line);
  if (!subject.inputs.empty()) text += fmt::format("# inputs {}\n", subject.inputs);
  for (const GivenBuffer& given : subject.given)
    text += fmt::format("# given {} = {}\n", given.slot, given.number);
  for (const auto& [name, value] : subject.bindings) text += fmt::format("# variable {} = {}\n", name, value);
  const std::vector<search::JobBuffer> buffers = search::buffers_of(subject.kernel);
  for (const KnownElement& known : subject.known) {
    const auto slot = static_cast<std::size_t>(known.slot);
    if (slot >= buffers.size()) continue;
    text += fmt::format(
        "# read {} {} = {}\n", known.slot, known.element,
        buffers[slot].dtype.is_float() ? fmt::format("{}", known.number) : fmt::format("{}", known.integer));
  }
  return text + print_graph(subject.kernel);
}

std::vector<reference::Array> contents(const Subject& subject) {
  const std::vector<search::JobBuffer> buffers = search::buffers_of(subject.kernel);
  const std::vector<bool> deciding = engine::deciding_slots(subject.kernel, buffers.size());
  const std::int64_t limit = index_limit_of(subject.kernel);
  std::vector<reference::Array> out;
  for (std::size_t slot = 0; slot < buffers.size(); ++slot) {
    const search::JobBuffer& buffer = buffers[slot];
    reference::Array& array = out.emplace_back(buffer.dtype, buffer.size);
    std::uint64_t state = hash_mix(subject.seed * 64 + slot);
    for (std::int64_t i = 0; i < buffer.size; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      array.set(i, made_up(buffer.dtype, state >> 11, deciding[slot] ? limit : 0));
    }
  }
  if (!subject.given.empty()) {
    const engine::SavedInputs inputs = engine::read_inputs(subject.inputs);
    for (const GivenBuffer& given : subject.given) {
      const auto slot = static_cast<std::size_t>(given.slot);
      if (slot >= out.size() || given.number >= inputs.buffers.size()) continue;
      const reference::Array& from = inputs.buffers[given.number];
      reference::Array& to = out[slot];
      for (std::int64_t i = 0; i < std::min(to.size(), from.size()); ++i)
        to.set(i, convert(to.dtype(), from.dtype(), from.at(i)));
    }
  }
  for (const KnownElement& known : subject.known) {
    const auto slot = static_cast<std::size_t>(known.slot);
    if (slot < out.size() && known.element >= 0 && known.element < out[slot].size())
      out[slot].set(known.element, {known.integer, known.number});
  }
  return out;
}

std::int64_t node_count(Node kernel) {
  const std::vector<Node> all = toposort(kernel);
  return std::ranges::count_if(
      all, [](Node n) { return !n.is_const() && !n.is(Op::Param) && !n.is(Op::Sink) && !n.is(Op::End); });
}

}  // namespace lathe::investigate
