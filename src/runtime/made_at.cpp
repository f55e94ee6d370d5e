#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "lathe/memory.h"

namespace lathe {
namespace {

std::atomic<PlaceHook> place_hook = nullptr;
thread_local PlaceRef innermost;

struct SourceLine : ProgramPlace {
  explicit SourceLine(std::source_location at) : where(at) {}
  std::string text() const override {
    std::string_view file = where.file_name();
    file.remove_prefix(file.rfind('/') + 1);
    return fmt::format("{}:{}", file, where.line());
  }
  std::source_location where;
};

struct Words : ProgramPlace {
  explicit Words(std::string said) : words(std::move(said)) {}
  std::string text() const override { return words; }
  std::string words;
};

}  // namespace

void set_place_hook(PlaceHook hook) { place_hook = hook; }

PlaceRef current_place() {
  if (innermost) return innermost;
  const PlaceHook hook = place_hook.load(std::memory_order_relaxed);
  return hook == nullptr ? nullptr : hook();
}

MadeAt::MadeAt(std::source_location here) : MadeAt(std::make_shared<SourceLine>(here)) {}
MadeAt::MadeAt(std::string text) : MadeAt(std::make_shared<Words>(std::move(text))) {}
MadeAt::MadeAt(PlaceRef place) : outer_(std::exchange(innermost, std::move(place))) {}
MadeAt::~MadeAt() { innermost = std::move(outer_); }

namespace {
thread_local const WorkFor* work = nullptr;
}

WorkFor::WorkFor(Places places, const void* whom)
    : places_(places), whom_(whom), outer_(std::exchange(work, this)) {}
WorkFor::~WorkFor() { work = outer_; }

std::vector<PlaceRef> work_places() {
  if (work != nullptr) return work->places_(work->whom_);
  const PlaceRef here = current_place();
  return here ? std::vector{here} : std::vector<PlaceRef>();
}

}  // namespace lathe
