#include "base/planted.h"

#if LATHE_FAULTS

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace lathe {
namespace {

constexpr FaultRow kRows[] = {
#define LATHE_FAULT(fault, name, part, how, kind, cause, breaks) \
  {name, part, Planting::how, kind, cause, breaks},
#include "base/faults.def"
#undef LATHE_FAULT
};

const FaultRow* from_environment() {
  const char* name = std::getenv("LATHE_FAULT");
  if (name == nullptr || *name == '\0') return nullptr;
  std::vector<std::string_view> known;
  for (const FaultRow& row : kRows) {
    if (row.name == name) return &row;
    known.push_back(row.name);
  }
  UserError error("LATHE_FAULT", std::string("no fault is named '") + name + "'");
  if (const auto meant = nearest_word(name, known)) error.help("did you mean " + std::string(*meant) + "?");
  throw error.help("lathe faults --list lists them");
}

}  // namespace

std::span<const FaultRow> fault_table() { return kRows; }

const FaultRow* planted_fault() {
  static const FaultRow* const row = from_environment();
  return row;
}

bool planted(Fault fault) { return planted_fault() == &kRows[static_cast<std::size_t>(fault)]; }

bool planted_in(Planting how, std::string_view cause) {
  const FaultRow* row = planted_fault();
  return row != nullptr && row->how == how && row->cause == cause;
}

}  // namespace lathe

#endif
