// Downloading with libcurl, which is looked for when it is first needed: Lathe is built and runs without it.
#pragma once

#include <filesystem>
#include <string>

namespace lathe::formats {

// The URL's content as a file. Throws UserError with libcurl's reason, or for a missing libcurl; whatever was
// written by then is the caller's to remove.
void download(const std::string& url, const std::filesystem::path& to, const char* op);

}  // namespace lathe::formats
