// Files from elsewhere, kept in the cache folder: the second call reads nothing from the network. A file is
// whole, and as long and of the digest that was asked for, or it is not there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lathe/tensor.h"

namespace lathe {

struct FetchOptions {
  std::string name = "";    // of the file in the cache, or a path; empty: made from the URL
  std::string subdir = "";  // of the cache
  std::string sha256 = "";  // the digest it must have, in hexadecimal
  std::optional<std::uint64_t> size = std::nullopt;  // the bytes it must have
  bool gunzip = false;                               // keep what is inside a gzip file
  bool allow_caching = true;                         // otherwise it is loaded again
  // Writes the URL's content to a file; empty: libcurl, found at run time.
  std::function<void(const std::string& url, const std::filesystem::path& to)> download = {};
};

// The file of a URL (http, https or file) or path. With LATHE_MIRROR, files are taken from that folder, as
// host/path, and the network is not used. Throws UserError where it cannot be had or is not what was asked
// for.
std::filesystem::path fetch(const std::string& url, const FetchOptions& options = {});

// Its bytes, as a uint8 tensor that is read from disk when it is used.
Tensor tensor_from_url(const std::string& url, const FetchOptions& options = {});

}  // namespace lathe
