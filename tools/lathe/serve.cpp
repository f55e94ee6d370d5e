// `lathe serve`: a model behind HTTP (lathe/llm/server.h).
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <stop_token>
#include <thread>

#include "lathe/error.h"
#include "tools/lathe/commands.h"

#if LATHE_HAVE_LLM
#include "lathe/dev/terminal.h"
#include "lathe/llm/server.h"
#include "tools/lathe/llm_options.h"
#endif

namespace lathe::tool {

#if LATHE_HAVE_LLM
namespace {

struct Options {
  LlmOptions llm;
  llm::ServerOptions server;
  std::int64_t parallel = 8, queue = 256, body_mib = 8, connections = 64;
  bool cold = false;
};

// Until a signal comes.
int run(llm::Server& server, const Options& o, const std::string& what) {
  fmt::print("serving {} on http://{}:{}, {}\n", o.llm.model, o.server.host, server.port(), what);
  if (o.server.host != "127.0.0.1" && o.server.host != "localhost" && o.server.api_key.empty())
    fmt::print(stderr, "serve: anyone who can reach {} can use the model; --api-key requires a key\n",
               o.server.host);
  std::fflush(stdout);
  std::jthread watch([&](const std::stop_token& over) {
    while (!SignalNote::came() && !over.stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.stop();
  });
  server.run();
  fmt::print("stopped\n");
  return 0;
}

int serve(Options& o) {
  if (!llm::can_serve())
    throw NotSupported("serve", "this build has no HTTP library")
        .help("scripts/setup.sh installs libcpp-httplib-dev; build again");
  if (o.server.api_key.empty())
    if (const char* key = std::getenv("LATHE_API_KEY")) o.server.api_key = key;
  o.server.body_bytes = static_cast<std::size_t>(o.body_mib) << 20U;
  o.server.connections = static_cast<std::size_t>(o.connections);
  const SignalNote signals;
  llm::Checkpoint checkpoint = loaded(o.llm);
  if (!checkpoint.config.causal) {
    const llm::Encoder encoder(std::move(checkpoint), {.context = o.llm.context, .invariant = !o.llm.fast});
    if (!o.cold) encoder.warm_up();
    llm::Server server(encoder, o.server);
    return run(server, o, fmt::format("embeddings of texts up to {} tokens", encoder.context()));
  }
  const std::unique_ptr<llm::Engine> engine =
      opened(o.llm, std::move(checkpoint), o.parallel, static_cast<std::size_t>(o.queue));
  if (!o.llm.chat_template.empty()) o.server.chat_template = template_text(o.llm, *engine);
  if (!o.cold) engine->model().warm_up();
  llm::Server server(*engine, o.server);
  const llm::ModelOptions& m = engine->model().options();
  const auto cache = static_cast<std::uint64_t>(m.pages * engine->model().page_bytes());
  return run(server, o,
             fmt::format("{} sequences of {} tokens, {} for keys and values", m.sequences, m.context,
                         dev::human_bytes(cache)));
}

}  // namespace

std::vector<Command> add_serve(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("serve", "serve a language model over OpenAI's HTTP API, with a chat page");
  const auto o = std::make_shared<Options>();
  add_llm_options(*command, o->llm);
  command->add_flag("--fast", o->llm.fast,
                    "faster kernels; tokens may then depend on the other requests in a batch");
  command->add_option("--host", o->server.host, "the address to listen on (127.0.0.1: only this machine)");
  command->add_option("--port", o->server.port, "the port (8080; 0: any free port)")
      ->check(between(0, 65535));
  command->add_option("--name", o->server.name, "the model's name for clients");
  command->add_option("--api-key", o->server.api_key, "key that clients must send (also LATHE_API_KEY)");
  command->add_option("--parallel", o->parallel, "sequences in one batch (8)")->check(between(1, 1024));
  command->add_option("--queue", o->queue, "most waiting requests (256)")->check(between(1, 100000));
  command->add_option("--connections", o->connections, "most clients at once (64)")->check(between(1, 4096));
  command->add_option("--body-mib", o->body_mib, "the largest request, in MiB (8)")->check(between(1, 1024));
  command->add_flag("--cold", o->cold, "compile on the first requests instead of at the start");
  return {{command, [o] { return serve(*o); }}};
}

#else

std::vector<Command> add_serve(CLI::App&) { return {}; }

#endif

}  // namespace lathe::tool
