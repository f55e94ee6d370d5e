// An HTTP server for a model with OpenAI's API: models, chat and text completions (streamed or whole) and
// embeddings, with a chat page, a health check and counters. docs/llm.md lists the supported requests.
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
  int port = 8080;                                 // 0: any free port
  std::string name;                                // of the model; empty: the name in the file
  std::string api_key;                             // required from clients unless empty
  std::string chat_template;                       // used instead of the model's unless empty
  std::size_t body_bytes = std::size_t{8} << 20U;  // the longest request body
  std::size_t connections = 64;                    // most connections at once
  std::int64_t most_choices = 16;                  // largest `n` of a request
  std::int64_t most_embedding = 64;                // most waiting embedding requests
  double drain_seconds = 10;  // time for running requests to finish when the server stops
};

class Server {
 public:
  // Starts listening. Throws UserError if the address is in use or the build has no HTTP library.
  Server(Engine& engine, ServerOptions options);
  Server(const Encoder& encoder, ServerOptions options);  // embeddings only
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;
  // Serves until stop() is called. Requests running then get drain_seconds to finish and are then cancelled.
  void run();
  void stop();  // callable from any thread or a signal handler

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Whether this build has the HTTP library that a server needs.
bool can_serve();

}  // namespace lathe::llm
