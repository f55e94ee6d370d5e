#include "lathe/fetch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cctype>
#include <cstdlib>

#include "formats/curl.h"
#include "formats/gzip.h"
#include "formats/output.h"
#include "formats/sha256.h"
#include "formats/source.h"
#include "lathe/context.h"

namespace lathe {
namespace {

namespace fs = std::filesystem;
constexpr char kOp[] = "fetch";

std::string flag(std::string_view name) {
  for (const FlagRow& row : flags())
    if (row.name == name) return row.value;
  throw InternalError(kOp, fmt::format("there is no flag {}", name));
}

fs::path cache_folder() {
  const std::string chosen = flag("LATHE_CACHE");
  if (chosen == "off") return fs::temp_directory_path() / fmt::format("lathe-downloads-{}", getuid());
  if (!chosen.empty()) return fs::path(chosen) / "downloads";
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  if (cache != nullptr && *cache != '\0') return fs::path(cache) / "lathe" / "downloads";
  if (home != nullptr && *home != '\0') return fs::path(home) / ".cache" / "lathe" / "downloads";
  return fs::temp_directory_path() / fmt::format("lathe-downloads-{}", getuid());
}

struct Url {
  std::string scheme, rest;  // "https", "host/path"
};

Url parse_url(const std::string& url) {
  const std::size_t colon = url.find("://");
  if (colon == std::string::npos) return {"", url};
  return {url.substr(0, colon), url.substr(colon + 3)};
}

// %20 and the like in a file URL.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() &&
        std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
        std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0) {
      out.push_back(static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16)));
      i += 2;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// How a file differs from the requested one; empty if it does not.
std::string difference(const fs::path& file, const FetchOptions& options) {
  if (options.size)
    if (const std::uint64_t found = fs::file_size(file); found != *options.size)
      return fmt::format("has {} bytes, expected {}", found, *options.size);
  if (!options.sha256.empty())
    if (const std::string found = formats::sha256_of_file(file, kOp); found != options.sha256)
      return fmt::format("has the digest {}, expected {}", found, options.sha256);
  return "";
}

void check(const fs::path& file, const std::string& url, const FetchOptions& options) {
  if (const std::string why = difference(file, options); !why.empty())
    throw UserError(kOp, fmt::format("{} {}", url, why));
}

fs::path existing(const fs::path& file, const std::string& url, const FetchOptions& options) {
  if (!fs::is_regular_file(file)) throw MissingFile(kOp, fmt::format("there is no file {}", file.string()));
  check(file, url, options);
  return file;
}

fs::path place_of_download(const std::string& url, const FetchOptions& options) {
  if (options.name.find('/') != std::string::npos) return options.name;
  const std::string name = options.name.empty()
                               ? formats::sha256_of(url).substr(0, 32) + (options.gunzip ? ".unpacked" : "")
                               : options.name;
  for (const std::string& part : {name, options.subdir})
    if (!part.empty() && formats::leaves_folder(part))
      throw UserError(kOp, fmt::format("\"{}\" leaves the cache folder", formats::shown(part)));
  return cache_folder() / options.subdir / name;
}

// A file beside the real one, gone unless it takes its name.
struct Temporary {
  fs::path path;
  ~Temporary() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

}  // namespace

fs::path fetch(const std::string& url, const FetchOptions& options) {
  const Url parsed = parse_url(url);
  if (parsed.scheme.empty()) return existing(url, url, options);
  if (parsed.scheme == "file") {
    if (!parsed.rest.starts_with('/'))
      throw UserError(kOp, fmt::format("{} names another host", url)).help("write file:///path");
    return existing(decoded(parsed.rest), url, options);
  }
  if (parsed.scheme != "http" && parsed.scheme != "https")
    throw UserError(kOp, fmt::format("{} is neither http, https nor file", url));

  const fs::path place = place_of_download(url, options);
  if (options.allow_caching && fs::is_regular_file(place)) {
    if (difference(place, options).empty()) return place;
  }
  std::error_code error;
  fs::create_directories(place.parent_path(), error);
  if (error)
    throw UserError(kOp, fmt::format("{} cannot be made: {}", place.parent_path().string(), error.message()));
  static std::atomic<unsigned> made{0};
  const Temporary temporary{fmt::format("{}.{}-{}.tmp", place.string(), getpid(), ++made)};
  if (const std::string mirror = flag("LATHE_MIRROR"); !mirror.empty()) {
    const std::string inside = parsed.rest.substr(0, parsed.rest.find_first_of("?#"));
    if (formats::leaves_folder(inside)) throw UserError(kOp, fmt::format("{} leaves the mirror", url));
    const fs::path kept = fs::path(mirror) / inside;
    if (!fs::is_regular_file(kept))
      throw MissingFile(kOp, fmt::format("{} is not in the mirror: there is no file {}", url, kept.string()))
          .help("put it there, or unset LATHE_MIRROR to use the network");
    fs::copy_file(kept, temporary.path);
  } else if (options.download) {
    options.download(url, temporary.path);
  } else {
    formats::download(url, temporary.path, kOp);
  }
  if (options.gunzip) {
    const std::vector<std::byte> inside = formats::read_file(temporary.path, kOp);
    formats::Output out(temporary.path, kOp);
    out.write(inside);
    out.commit();
  }
  check(temporary.path, url, options);
  fs::rename(temporary.path, place, error);
  if (error)
    throw UserError(kOp, fmt::format("{} cannot be put in place: {}", place.string(), error.message()));
  return place;
}

Tensor tensor_from_url(const std::string& url, const FetchOptions& options) {
  return Tensor(fetch(url, options));
}

}  // namespace lathe
