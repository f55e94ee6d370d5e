#include "formats/curl.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "lathe/error.h"

namespace lathe::formats {
namespace {

// The part of libcurl's interface that is used; its numbers are promised not to change.
enum Option : int {
  kWriteData = 10001,
  kUrl = 10002,
  kErrorBuffer = 10010,
  kUserAgent = 10018,
  kLowSpeedLimit = 19,
  kLowSpeedTime = 20,
  kFailOnError = 45,
  kFollowLocation = 52,
  kMaxRedirects = 68,
  kConnectTimeout = 78,
  kNoSignal = 99,
  kProtocols = 181,
  kRedirectProtocols = 182,
  kWriteFunction = 20011
};
constexpr long kHttpAndHttps = 1 | 2;
constexpr std::size_t kErrorBytes = 256;

struct Curl {
  void* (*easy_init)() = nullptr;
  int (*easy_setopt)(void*, int, ...) = nullptr;
  int (*easy_perform)(void*) = nullptr;
  void (*easy_cleanup)(void*) = nullptr;
  const char* (*easy_strerror)(int) = nullptr;
};

const Curl* find_curl() {
  static const Curl* found = []() -> const Curl* {
    for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"}) {
      void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) continue;
      auto* curl = new Curl;  // for the whole process
      auto get = [&](auto& function, const char* symbol) {
        function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
        return function != nullptr;
      };
      if (get(curl->easy_init, "curl_easy_init") && get(curl->easy_setopt, "curl_easy_setopt") &&
          get(curl->easy_perform, "curl_easy_perform") && get(curl->easy_cleanup, "curl_easy_cleanup") &&
          get(curl->easy_strerror, "curl_easy_strerror"))
        return curl;
      delete curl;
    }
    return nullptr;
  }();
  return found;
}

std::size_t write_piece(char* data, std::size_t size, std::size_t count, void* to) {
  return std::fwrite(data, size, count, static_cast<std::FILE*>(to));
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

void download(const std::string& url, const std::filesystem::path& to, const char* op) {
  const Curl* curl = find_curl();
  if (curl == nullptr)
    throw UserError(op, fmt::format("{} cannot be loaded: libcurl is not installed", url))
        .help("install libcurl, or load the file yourself and name a folder with LATHE_MIRROR");
  std::unique_ptr<std::FILE, CloseFile> file(std::fopen(to.c_str(), "wb"));
  if (!file) throw UserError(op, fmt::format("{} cannot be written", to.string()));
  const std::unique_ptr<void, void (*)(void*)> easy(curl->easy_init(), curl->easy_cleanup);
  if (!easy) throw InternalError(op, "libcurl did not start");
  char reason[kErrorBytes] = {};
  auto set = [&](int option, auto value) { curl->easy_setopt(easy.get(), option, value); };
  set(kUrl, url.c_str());
  set(kErrorBuffer, static_cast<char*>(reason));
  set(kUserAgent, "lathe");
  set(kWriteFunction, &write_piece);
  set(kWriteData, static_cast<void*>(file.get()));
  for (int on : {kFailOnError, kFollowLocation, kNoSignal}) set(on, 1L);
  set(kMaxRedirects, 10L);
  set(kProtocols, kHttpAndHttps);
  set(kRedirectProtocols, kHttpAndHttps);  // a redirect may not lead to a local file
  set(kConnectTimeout, 30L);
  set(kLowSpeedLimit, 1L);  // a byte a second, or it counts as stuck
  set(kLowSpeedTime, 60L);
  const int status = curl->easy_perform(easy.get());
  if (status != 0)
    throw UserError(op, fmt::format("{} cannot be loaded: {}", url,
                                    reason[0] != '\0' ? reason : curl->easy_strerror(status)));
  if (std::fflush(file.get()) != 0) throw UserError(op, fmt::format("{} cannot be written", to.string()));
}

}  // namespace lathe::formats
