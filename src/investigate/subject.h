// What an investigation looks into: a kernel as scheduled with its options, where it runs, and what its
// buffers hold. A file that LATHE_SAVE wrote is one, and so is the repro of the first-use check; the repros
// of an investigation are files of the same form, so they can be investigated again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/node.h"
#include "lathe/options.h"
#include "reference/array.h"
#include "reference/reference.h"

namespace lathe::investigate {

// An element whose value matters; all others are made up.
struct KnownElement {
  std::int64_t slot = 0, element = 0;
  double number = 0;         // of floats
  std::int64_t integer = 0;  // of all else
};

// What a buffer held in the command that failed: the first elements of one of the buffers in a file of
// inputs.
struct GivenBuffer {
  std::int64_t slot = 0;
  std::size_t number = 0;
  bool operator==(const GivenBuffer&) const = default;
};

struct Subject {
  std::string name, options_from, device = "CPU";
  std::vector<Opt> options;
  NodeRef kernel;
  reference::Bindings bindings;
  std::uint64_t seed = 1;  // of what is made up
  std::vector<KnownElement> known;
  std::string inputs;  // a file (engine/inputs_file.h), where made-up inputs do not fail
  std::vector<GivenBuffer> given;
  std::string printer;  // LATHE_CPU, where it matters
};

// Throws UserError naming the file and what is missing in it.
Subject read_subject(const std::string& path);
// The same of what such a file in that folder holds.
Subject subject_from_text(const std::string& text, const std::string& folder);
// The file, with `about` as comments.
std::string to_text(const Subject& subject, std::string_view about = "");

// The same subject on these inputs: all of them, and the values of its variables.
Subject with_inputs(Subject subject, const std::string& inputs_file);

// What the buffers hold before the kernel runs, by slot: numbers of all kinds, but indices of tables that are
// inside.
std::vector<reference::Array> contents(const Subject& subject);

// The nodes of a kernel that say what it does: without constants, buffers, and the sink and ends that every
// kernel has.
std::int64_t node_count(Node kernel);

}  // namespace lathe::investigate
