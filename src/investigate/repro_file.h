// A kernel, or a graph, that fails, as files where a user finds them: text, the contents of a kernel's
// buffers beside it (.data), and a C++ and a Python program that hold all of it and fail while Lathe does.
#pragma once

#include <string>

#include "investigate/graph_subject.h"
#include "investigate/subject.h"

namespace lathe::investigate {

// In the folder, or where those of LATHE_SAVE would be; the path of the text, or empty where it could not be
// written.
std::string write_repro(const Subject& subject, const std::string& about, const std::string& folder);
std::string write_repro(const GraphSubject& subject, const std::string& about, const std::string& folder);

}  // namespace lathe::investigate
