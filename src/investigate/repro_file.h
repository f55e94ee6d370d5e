// The file of a kernel, or of a graph, that fails, written where a user finds it.
#pragma once

#include <string>

#include "investigate/graph_subject.h"
#include "investigate/subject.h"

namespace lathe::investigate {

// In the folder, or where one of LATHE_SAVE would be; its path, or empty where it could not be written.
std::string write_repro(const Subject& subject, const std::string& about, const std::string& folder);
std::string write_repro(const GraphSubject& subject, const std::string& about, const std::string& folder);

}  // namespace lathe::investigate
