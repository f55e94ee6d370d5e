// Downloads with a cache: a second call for the same file does not use the network. A file appears in the
// cache only when it is complete and has the requested size and digest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "lathe/tensor.h"

namespace lathe {

struct FetchOptions {
  std::string name = "";    // name of the file in the cache, or a path; empty: made from the URL
  std::string subdir = "";  // folder inside the cache
  std::string sha256 = "";  // the digest it must have, in hexadecimal
  std::optional<std::uint64_t> size = std::nullopt;  // the number of bytes it must have
  bool gunzip = false;                               // store the decompressed content of a gzip file
  bool allow_caching = true;                         // false: download it again
  // Writes the URL's content to a file; empty: uses libcurl, found at run time.
  std::function<void(const std::string& url, const std::filesystem::path& to)> download = {};
};

// Fetches a URL (http, https or file) or path and returns the local file. With LATHE_MIRROR, files are read
// from that folder, as host/path, and the network is not used. Throws UserError if the file cannot be fetched
// or does not have the requested size or digest.
std::filesystem::path fetch(const std::string& url, const FetchOptions& options = {});

// The fetched file's bytes as a uint8 tensor, read from disk when it is used.
Tensor tensor_from_url(const std::string& url, const FetchOptions& options = {});

}  // namespace lathe
