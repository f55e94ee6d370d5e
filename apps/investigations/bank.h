// The memory bank: what a project's investigations taught, searched before anything is tried, and the two
// pages that people read and write into, made from the store.
#pragma once

#include <string>
#include <vector>

#include "apps/investigations/store.h"

namespace lathe::investigations {

// Makes activeContext.md (each hypothesis with time, error, experiment and verdict) and progress.md (a
// section per investigation) in the store's folder. Whatever else is written there stays, inside a section
// too.
void write_bank(Store& store);

struct Imported {
  std::int64_t records = 0, sections = 0;
  std::vector<std::int64_t> scenarios;  // of the sections
  std::vector<double> seconds;
};
// Reads a bank of prose (a folder with these two pages, or one of them) as hints. Nothing of it counts as
// tested. Importing the same again replaces it. Throws UserError where there is nothing to read.
Imported import_bank(Store& store, const std::string& path);

// Something that resembles words, best first.
struct Match {
  std::string from;  // "session-12", "hint", "docs/errors.md#matmul"
  std::string title, text;
  double score = 0;
};
std::vector<Match> search_bank(Store& store, const std::string& words, std::size_t count = 5);

std::string time_text(std::int64_t ms);  // 2026-11-19T04:10:11.123Z

}  // namespace lathe::investigations
