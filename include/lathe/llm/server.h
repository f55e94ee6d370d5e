// A model behind HTTP, in the form OpenAI's clients speak: models, chat and text completions (streamed or
// whole), embeddings, with a page to chat on, a health check and counters. docs/llm.md lists what is
// understood.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "lathe/llm/encoder.h"
#include "lathe/llm/engine.h"

namespace lathe::llm {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;            // 0: any that is free
  std::string name;           // of the model; the file's own where empty
  std::string api_key;        // asked for where it is not empty
  std::string chat_template;  // in place of the model's
  std::size_t body_bytes = std::size_t{8} << 20U;
  std::size_t connections = 64;      // at once
  std::int64_t most_choices = 16;    // `n` of one request
  std::int64_t most_embedding = 64;  // requests for embeddings that wait for one another
  double drain_seconds = 10;         // that requests have to finish when the server stops
};

class Server {
 public:
  // Listens at once; throws UserError where the address is taken or the build has no HTTP library.
  Server(Engine& engine, ServerOptions options);
  Server(const Encoder& encoder, ServerOptions options);  // embeddings alone
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  // Serves until stop() is called. Requests that run then are finished, or cancelled when their time is over.
  void run();
  void stop();  // from any thread, or a signal handler

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether this build has the library that a server needs.
bool can_serve();

}  // namespace lathe::llm
