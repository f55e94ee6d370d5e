// What tests of investigations share: a folder that goes with the test, and a finding as text.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "lathe/dev/investigation.h"

namespace lathe::investigate::test {

struct Folder {
  Folder() {
    char pattern[] = "/tmp/lathe-investigate-test-XXXXXX";
    path = mkdtemp(pattern);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string path;
};

inline std::string said(const dev::Finding& finding) {
  std::string text = finding.kind + " " + finding.cause + ": " + finding.summary + "\n";
  for (const dev::Hypothesis& h : finding.hypotheses)
    text += h.claim + " | " + h.evidence + " | " + std::to_string(static_cast<int>(h.verdict)) + "\n";
  return text;
}

}  // namespace lathe::investigate::test
