// A schedule as text, so that the next process need not make it again. Steps become Kernel nodes of one
// graph, printed and read by ir/text.h; buffers get new numbers below zero, which no other buffer has.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/node.h"
#include "schedule/schedule.h"

namespace lathe::engine {

// `slots` are the stand-ins of the buffers the graph came with; they keep their ids.
std::string print_schedule(const Schedule& schedule, std::span<const Node> slots);

// Nothing if the text is not what print_schedule writes.
std::optional<Schedule> parse_schedule(std::string_view text);

}  // namespace lathe::engine
