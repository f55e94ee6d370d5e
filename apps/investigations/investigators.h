// Who investigates what: one row per kind of input. An investigator is given a running case and returns what
// it found; hypotheses it adds to the case as they are tested.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/investigations/case.h"

namespace lathe::investigations {

struct Answer {
  dev::Finding finding;
  State state = State::NotFound;  // Found, NotFound or NeedsInput
};

struct Investigator {
  std::string_view kind;   // as in Input::kind
  std::string_view input;  // what it takes, for people
  // Whether an input that names no kind is this one's; rows are asked in order.
  bool (*takes)(const Input& input);
  Answer (*run)(Case& running);
};
const std::vector<Investigator>& investigators();
const Investigator* investigator(std::string_view kind);
// Throws UserError where no row takes it.
std::string kind_of(const Input& input);

// For what the façade investigates (lathe/dev): its hypotheses are recorded as they come, and it ends when
// the case does.
using Investigate = std::function<dev::Finding(const dev::InvestigationLimits&, const dev::OnHypothesis&)>;
Answer answer_of(Case& running, const Investigate& investigate);

Answer investigate_command(Case& running);
Answer investigate_saved(Case& running);  // a file of Lathe's
Answer investigate_words(Case& running);

// Runs a session to its end in this process: claims it, investigates, stores state and finding, remakes the
// bank's pages. Returns the state it is in then.
State run_session(Store& store, const std::string& id, const Case::Tell& tell,
                  const std::function<void(Case&)>& started = {});

}  // namespace lathe::investigations
