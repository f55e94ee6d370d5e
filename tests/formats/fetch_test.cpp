#include "lathe/fetch.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "formats/sha256.h"
#include "formats/support.h"
#include "lathe/context.h"

namespace lathe {
namespace {

constexpr char kHello[] = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

class Fetch : public test::InFolder {
 protected:
  void SetUp() override {
    test::InFolder::SetUp();
    cache_.emplace("LATHE_CACHE", (folder_ / "cache").string());
  }
  void TearDown() override {
    cache_.reset();
    test::InFolder::TearDown();
  }
  std::optional<FlagOverride> cache_;
};

TEST(Sha256, IsTheDigestOfTheStandard) {
  EXPECT_EQ(formats::sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(formats::sha256_of("hello"), kHello);
  EXPECT_EQ(formats::sha256_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(formats::sha256_of(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_F(Fetch, PathsAndFileUrlsAreThemselves) {
  const auto file = write("a b", "hello");
  EXPECT_EQ(fetch(file.string()), file);
  EXPECT_EQ(fetch("file://" + folder_.string() + "/a%20b", {.sha256 = kHello, .size = 5}), file);
  EXPECT_EQ(tensor_from_url(file.string()).tolist()[1], 'e');
  EXPECT_EQ(refusal([&] { fetch("file://" + folder_.string() + "/none"); }),
            "lathe: fetch: there is no file none");
  EXPECT_NE(refusal([&] { fetch("file://host/x"); }).find("names another host"), std::string::npos);
  EXPECT_NE(refusal([&] { fetch("ftp://x/y"); }).find("neither http, https nor file"), std::string::npos);
  EXPECT_NE(refusal([&] { fetch(file.string(), {.size = 4}); }).find("has 5 bytes, expected 4"),
            std::string::npos);
}

TEST_F(Fetch, WhatWasLoadedIsKeptAndChecked) {
  int loaded = 0;
  FetchOptions options{.sha256 = kHello};
  options.download = [&](const std::string& url, const std::filesystem::path& to) {
    ++loaded;
    std::ofstream(to) << (url.ends_with("bad") ? "hell" : "hello");
  };
  const auto file = fetch("https://x.org/good", options);
  EXPECT_EQ(read(file), "hello");
  EXPECT_EQ(fetch("https://x.org/good", options), file);
  EXPECT_EQ(loaded, 1);
  options.allow_caching = false;
  EXPECT_EQ(fetch("https://x.org/good", options), file);
  EXPECT_EQ(loaded, 2);
  EXPECT_NE(refusal([&] { fetch("https://x.org/bad", options); }).find("has the digest"), std::string::npos);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "cache" / "downloads"), {}), 1)
      << "what was refused is not kept";
  options.name = "../x";
  EXPECT_EQ(fetch("https://x.org/good", {.name = "named", .subdir = "sub", .download = options.download}),
            folder_ / "cache" / "downloads" / "sub" / "named");
  EXPECT_NE(
      refusal([&] { fetch("https://x.org/good", {.subdir = "../.."}); }).find("leaves the cache folder"),
      std::string::npos);
}

TEST_F(Fetch, AMirrorStandsForTheNetwork) {
  std::filesystem::create_directories(folder_ / "mirror" / "x.org");
  write("mirror/x.org/f", "hello");
  const FlagOverride mirror("LATHE_MIRROR", (folder_ / "mirror").string());
  EXPECT_EQ(read(fetch("https://x.org/f?version=2")), "hello");
  EXPECT_NE(refusal([&] { fetch("https://x.org/g"); }).find("is not in the mirror"), std::string::npos);
  EXPECT_NE(refusal([&] { fetch("https://x.org/../../etc/passwd"); }).find("leaves the mirror"),
            std::string::npos);
}

// A server of this test alone, on a port it chose itself.
class HttpServer {
 public:
  explicit HttpServer(const std::filesystem::path& folder) {
    std::ofstream(folder / "server.py") << R"(
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/moved":
            self.send_response(302); self.send_header("Location", "file:///etc/passwd"); self.end_headers(); return
        if self.path not in ("/a", "/cut"):
            self.send_error(404); return
        self.send_response(200)
        self.send_header("Content-Length", "5" if self.path == "/a" else "9")
        self.end_headers()
        self.wfile.write(b"hello")
    def log_message(self, *args): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
)";
    int pipe_ends[2];
    if (pipe(pipe_ends) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      dup2(pipe_ends[1], 1);
      const std::string script = (folder / "server.py").string();
      execl("/usr/bin/python3", "python3", script.c_str(), nullptr);
      _exit(1);
    }
    close(pipe_ends[1]);
    std::FILE* out = fdopen(pipe_ends[0], "r");
    if (std::fscanf(out, "%d", &port_) != 1) port_ = 0;
    std::fclose(out);
  }
  ~HttpServer() {
    if (child_ <= 0) return;
    kill(child_, SIGTERM);
    waitpid(child_, nullptr, 0);
  }
  int port() const { return port_; }

 private:
  pid_t child_ = -1;
  int port_ = 0;
};

TEST_F(Fetch, LoadsOverHttpWithLibcurlWhereItIsInstalled) {
  if (!std::filesystem::exists("/usr/bin/python3")) GTEST_SKIP() << "there is no Python to serve with";
  setenv("no_proxy", "*", 1);
  const HttpServer server(folder_);
  ASSERT_NE(server.port(), 0);
  const std::string base = "http://127.0.0.1:" + std::to_string(server.port());
  const std::string first =
      refusal([&] { EXPECT_EQ(read(fetch(base + "/a", {.sha256 = kHello})), "hello"); });
  if (first.find("libcurl is not installed") != std::string::npos) GTEST_SKIP() << first;
  EXPECT_EQ(first, "accepted");
  EXPECT_NE(refusal([&] { fetch(base + "/none"); }).find("404"), std::string::npos);
  EXPECT_NE(refusal([&] { fetch(base + "/cut"); }).find("cannot be loaded"), std::string::npos)
      << "a body that ends early";
  EXPECT_NE(refusal([&] { fetch(base + "/moved"); }).find("cannot be loaded"), std::string::npos)
      << "a redirect to a local file";
}

}  // namespace
}  // namespace lathe
