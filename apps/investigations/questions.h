// The questions an investigation of a command asks, one function each; `questions.cpp` has the table that
// says in which order, and by which words of an observation a question is asked earlier or later.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "apps/investigations/lab.h"

namespace lathe::investigations {

struct Question {
  std::string_view name;
  std::string_view words;  // of observations that mean it
  void (*ask)(Lab& lab);   // adds hypotheses, and causes where it found some
};
const std::vector<Question>& questions();

void ask_known(Lab& lab);
void ask_lathe(Lab& lab);
// Whether the command makes kernels of Lathe.
bool uses_lathe(Lab& lab);
void ask_environment(Lab& lab);
void ask_ignored(Lab& lab);
void ask_missing(Lab& lab);
void ask_uncommitted(Lab& lab);
void ask_history(Lab& lab);
void ask_flaky(Lab& lab);
void ask_tests(Lab& lab);
void ask_input(Lab& lab);
void ask_other_tests(Lab& lab);  // whether the way out breaks any

// One experiment that a person, the bank or an adviser proposes. Only what is a row of the table can be run.
struct Proposal {
  std::string kind, argument, from;
};
struct ProposalKind {
  std::string_view kind, argument;  // what the argument is, for advisers
  void (*run)(Lab& lab, const Proposal& proposal);
};
const std::vector<ProposalKind>& proposal_kinds();
// What a person's words ask for: experiments, and questions to be asked first or last.
struct Steering {
  std::vector<Proposal> proposals;
  std::vector<std::string> first, last;
  std::string words() const;
};
Steering steering_of(const std::string& observation, Lab& lab);

// Commits from `bad` back, searched for the first bad one; only those that touch `path`, if one is given.
void search_history(Lab& lab, const std::string& path);
// Reverts parts of a change until few lines are left that matter; the way out is their patch.
bool blame_change(Lab& lab, const std::string& before, const std::string& after, Cause& cause);

}  // namespace lathe::investigations
