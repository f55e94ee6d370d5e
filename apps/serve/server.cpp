#include "lathe/llm/server.h"

#include "lathe/error.h"

#if LATHE_HAVE_HTTPLIB

#include <fmt/format.h>
#include <httplib.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "apps/serve/metrics.h"
#include "apps/serve/page.h"
#include "apps/serve/worker.h"

namespace lathe::llm {
namespace {

using namespace serve;  // NOLINT: this file is that namespace's front
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPatience{50};  // between two looks whether the client is still there

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

void refuse_with(httplib::Response& response, const Refusal& refusal) {
  response.status = refusal.status;
  if (refusal.status == 429 || refusal.status == 503) response.set_header("Retry-After", "1");
  if (refusal.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  response.set_content(text_of(object_of(refusal)), "application/json");
}

// Equal in a time that does not tell where they differ.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned char differs = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    differs |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[b.empty() ? 0 : i % b.size()]);
  return differs == 0;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

// A page of another site that calls itself localhost by its own name server is none of ours.
bool names_loopback(std::string host) {
  if (host.starts_with('['))
    host = host.substr(1, host.find(']') - 1);
  else
    host = host.substr(0, host.find(':'));
  return is_loopback(host);
}

}  // namespace

struct Server::Impl {
  Impl(Engine* e, const Encoder* reads, ServerOptions o) : options(std::move(o)), engine(e), encoder(reads) {
    const ModelConfig& config = e != nullptr ? e->model().config() : reads->config();
    if (options.name.empty()) options.name = config.name.empty() ? "lathe" : config.name;
    if (e != nullptr) {
      worker.emplace(*e);
      const std::string& source = options.chat_template.empty() ? e->chat_template() : options.chat_template;
      if (!source.empty()) chat_template.emplace(source);
      const ModelOptions& m = e->model().options();
      own_encoder.emplace(e->model().checkpoint(),
                          EncoderOptions{.context = m.context, .invariant = m.invariant});
      encoder = &*own_encoder;
    }
    set_up();
    listen();
  }

  Serving serving() const {
    if (engine == nullptr)
      throw Refusal{400, fmt::format("'{}' makes embeddings and writes no text", options.name),
                    "invalid_request_error", "model_not_supported", "model"};
    return {*engine, chat_template ? &*chat_template : nullptr, options.name, options.most_choices};
  }

  void listen() {
    const auto fail = [&] {
      throw UserError("serve", fmt::format("cannot listen on {}:{}", options.host, options.port))
          .help("is the port taken, or the address not this machine's?");
    };
    if (options.port == 0) {
      bound_port = http.bind_to_any_port(options.host);
      if (bound_port <= 0) fail();
    } else {
      if (!http.bind_to_port(options.host, options.port)) fail();
      bound_port = options.port;
    }
    // The library lets five connections wait to be accepted; those of a crowd would be reset.
    if (::listen(listening, SOMAXCONN) != 0) fail();
  }

  void set_up() {
    const std::size_t threads = options.connections;
    http.new_task_queue = [threads] { return new httplib::ThreadPool(threads); };  // the library deletes it
    http.set_socket_options([this](socket_t socket) {
      httplib::default_socket_options(socket);
      listening = socket;
    });
    http.set_payload_max_length(options.body_bytes);
    http.set_keep_alive_timeout(2);
    http.set_tcp_nodelay(true);
    http.set_pre_routing_handler([this](const auto& q, auto& r) { return admit(q, r); });
    http.set_logger([this](const httplib::Request& q, const httplib::Response& r) { note(q, r); });
    http.set_exception_handler([](const auto&, auto& r, std::exception_ptr p) {
      try {
        std::rethrow_exception(p);
      } catch (const Refusal& refusal) {
        refuse_with(r, refusal);
      } catch (const std::exception& error) {
        refuse_with(r, refusal_of(error));
      } catch (...) {
        refuse_with(r, {500, "an unknown error", "server_error", "internal_error", ""});
      }
    });
    http.set_error_handler([](const httplib::Request& q, httplib::Response& r) {
      if (!r.body.empty()) return;
      if (r.status == 404)
        refuse_with(r, {404, fmt::format("there is nothing at {} {}", q.method, q.path),
                        "invalid_request_error", "not_found", ""});
      else if (r.status == 413)
        refuse_with(r, {413, "the body is too large", "invalid_request_error", "body_too_large", ""});
      else
        refuse_with(r,
                    {r.status, "the request is not understood", "invalid_request_error", "bad_request", ""});
    });
    http.Get("/", [](const auto&, auto& r) {
      r.set_content(kChatPage.data(), kChatPage.size(), "text/html; charset=utf-8");
    });
    http.Get("/health", [this](const auto&, auto& r) {
      r.status = draining ? 503 : 200;
      r.set_content(draining ? R"({"status":"stopping"})" : R"({"status":"ok"})", "application/json");
    });
    http.Get("/metrics", [this](const auto&, auto& r) {
      r.set_content(metrics.text(engine), "text/plain; version=0.0.4");
    });
    http.Get("/v1/models", [this](const auto&, auto& r) {
      r.set_content(text_of({{"object", "list"}, {"data", Json::array({model_object()})}}),
                    "application/json");
    });
    http.Get(R"(/v1/models/(.+))", [this](const httplib::Request& q, auto& r) {
      if (q.matches[1].str() != options.name)
        throw Refusal{404, fmt::format("the model '{}' is not here", q.matches[1].str()),
                      "invalid_request_error", "model_not_found", "model"};
      r.set_content(text_of(model_object()), "application/json");
    });
    http.Post("/v1/chat/completions",
              [this](const auto& q, auto& r) { answer(asked_chat(body_of(q), serving()), r); });
    http.Post("/v1/completions",
              [this](const auto& q, auto& r) { answer(asked_text(body_of(q), serving()), r); });
    http.Post("/v1/embeddings", [this](const auto& q, auto& r) { embed(body_of(q), r); });
  }

  Json model_object() const {
    return {{"id", options.name},
            {"object", "model"},
            {"created", 0},
            {"owned_by", "lathe"},
            {"chat", chat_template.has_value()},
            {"max_model_len", encoder->context()}};
  }

  void embed(const Json& body, httplib::Response& r) {
    const AskedVectors asked = asked_vectors(body, encoder->tokenizer(), options.name, encoder->config().dim);
    const auto leave = [this](void*) { --embedding; };
    if (++embedding > options.most_embedding) {
      leave(nullptr);
      throw Refusal{429, fmt::format("{} requests for embeddings wait already", options.most_embedding),
                    "server_overloaded", "queue_full", ""};
    }
    const std::unique_ptr<void, decltype(leave)> present(this, leave);
    const Json answer = answer_of(asked, encoder->embed(asked.texts));
    std::size_t tokens = 0;
    for (const std::vector<TokenId>& text : asked.texts) tokens += text.size();
    metrics.embedded(asked.texts.size(), tokens);
    r.set_content(text_of(answer), "application/json");
  }

  // Before any body is read. A handled answer is a refusal.
  httplib::Server::HandlerResponse admit(const httplib::Request& q, httplib::Response& r) const {
    const auto refuse = [&](const Refusal& refusal) {
      refuse_with(r, refusal);
      return httplib::Server::HandlerResponse::Handled;
    };
    if (is_loopback(options.host) && !names_loopback(q.get_header_value("Host")))
      return refuse({403, "this server is for this machine: call it by localhost or 127.0.0.1",
                     "invalid_request_error", "wrong_host", ""});
    const bool open = q.path == "/" || q.path == "/health";
    if (!open && !options.api_key.empty() &&
        !same_secret(q.get_header_value("Authorization"), "Bearer " + options.api_key))
      return refuse({401, "the API key is missing or wrong", "invalid_request_error", "invalid_api_key", ""});
    if (q.method == "POST" && draining)
      return refuse({503, "the server is stopping", "server_error", "stopping", ""});
    return httplib::Server::HandlerResponse::Unhandled;
  }

  void note(const httplib::Request& q, const httplib::Response& r) {
    constexpr std::string_view kPaths[] = {"/",
                                           "/health",
                                           "/metrics",
                                           "/v1/models",
                                           "/v1/chat/completions",
                                           "/v1/completions",
                                           "/v1/embeddings"};
    const bool known = std::find(std::begin(kPaths), std::end(kPaths), q.path) != std::end(kPaths);
    metrics.answered(known ? q.path : "other", r.status);
  }

  static Json body_of(const httplib::Request& q) {
    const std::string type = q.get_header_value("Content-Type");
    if (type.rfind("application/json", 0) != 0)
      throw Refusal{415, "the body is to be application/json", "invalid_request_error",
                    "unsupported_media_type", ""};
    // Deep nesting would be freed by recursion.
    constexpr int kDeepest = 200;
    bool too_deep = false;
    Json body = Json::parse(
        q.body,
        [&](int depth, Json::parse_event_t, Json&) { return !(too_deep = too_deep || depth > kDeepest); },
        false);
    if (too_deep) refuse_body("the body is nested too deeply");
    if (body.is_discarded()) refuse_body("the body is not JSON");
    return body;
  }
  [[noreturn]] static void refuse_body(const std::string& why) {
    throw Refusal{400, why, "invalid_request_error", "invalid_json", ""};
  }

  void answer(Asked asked, httplib::Response& r) {
    const auto begin = Clock::now();
    const bool stream = asked.stream;
    const auto exchange = std::make_shared<Exchange>(*worker, std::move(asked));
    if (stream)
      stream_answer(exchange, begin, r);
    else
      whole_answer(exchange, begin, r);
  }

  void stream_answer(const std::shared_ptr<Exchange>& exchange, Clock::time_point begin,
                     httplib::Response& r) {
    const auto seen = std::make_shared<std::vector<bool>>(exchange->asked().requests.size());
    const auto first = std::make_shared<double>(-1);
    r.set_header("Cache-Control", "no-cache");
    r.set_chunked_content_provider("text/event-stream", [=, this](std::size_t, httplib::DataSink& sink) {
      const auto send = [&](const std::string& data) {
        const std::string event = "data: " + data + "\n\n";
        return sink.write(event.data(), event.size());
      };
      while (!exchange->answer().complete()) {
        const std::optional<Channel::Item> item = exchange->next(kPatience);
        if (!sink.is_writable()) return false;
        if (!item) continue;
        if (*first < 0) *first = seconds_since(begin);
        if (!exchange->answer().error().empty() && item->second.finish) {
          send(text_of(
              object_of(Refusal{500, exchange->answer().error(), "server_error", "internal_error", ""})));
          return false;
        }
        const bool is_first = !(*seen)[item->first];
        (*seen)[item->first] = true;
        if (!is_first && item->second.text.empty() && item->second.tokens.empty() && !item->second.finish)
          continue;
        if (!send(text_of(piece_of(exchange->asked(), item->first, item->second, is_first)))) return false;
      }
      if (exchange->asked().usage_in_stream)
        send(text_of(usage_piece(exchange->asked(), exchange->answer().usage())));
      send("[DONE]");
      sink.done();
      metrics.took(*first, seconds_since(begin));
      return true;
    });
  }

  // The status is decided by the first token; then the client is watched until the answer is whole.
  void whole_answer(const std::shared_ptr<Exchange>& exchange, Clock::time_point begin,
                    httplib::Response& r) {
    while (!exchange->next(kPatience)) {
    }
    const double first = seconds_since(begin);
    if (!exchange->answer().error().empty()) {
      refuse_with(r,
                  {draining ? 503 : 500, exchange->answer().error(), "server_error", "internal_error", ""});
      return;
    }
    r.set_chunked_content_provider("application/json", [=, this](std::size_t, httplib::DataSink& sink) {
      while (!exchange->answer().complete()) {
        exchange->next(kPatience);
        if (!sink.is_writable()) return false;
      }
      const std::string& error = exchange->answer().error();
      const std::string body =
          text_of(error.empty() ? exchange->answer().whole()
                                : object_of(Refusal{500, error, "server_error", "internal_error", ""}));
      sink.write(body.data(), body.size());
      sink.done();
      metrics.took(first, seconds_since(begin));
      return true;
    });
  }

  void run() {
    std::thread listener([this] { http.listen_after_bind(); });
    while (!stopping) std::this_thread::sleep_for(kPatience);
    draining = true;
    const auto begin = Clock::now();
    const auto idle = [&] { return embedding == 0 && (!worker || worker->idle()); };
    while (!idle() && seconds_since(begin) < options.drain_seconds) std::this_thread::sleep_for(kPatience);
    if (worker) worker->cancel_all();
    http.stop();
    listener.join();
  }

  ServerOptions options;
  Engine* engine;          // null: the model writes no text
  const Encoder* encoder;  // of the same model where there is an engine
  std::optional<Encoder> own_encoder;
  std::optional<ChatTemplate> chat_template;
  Metrics metrics;
  std::optional<Worker> worker;
  std::atomic<std::int64_t> embedding = 0;  // requests
  httplib::Server http;                     // below what its handlers use
  int bound_port = 0;
  socket_t listening = INVALID_SOCKET;
  std::atomic<bool> stopping = false, draining = false;
};

Server::Server(Engine& engine, ServerOptions options)
    : impl_(std::make_unique<Impl>(&engine, nullptr, std::move(options))) {}
Server::Server(const Encoder& encoder, ServerOptions options)
    : impl_(std::make_unique<Impl>(nullptr, &encoder, std::move(options))) {}
Server::~Server() = default;
int Server::port() const { return impl_->bound_port; }
void Server::run() { impl_->run(); }
void Server::stop() { impl_->stopping = true; }
bool can_serve() { return true; }

}  // namespace lathe::llm

#else

namespace lathe::llm {

struct Server::Impl {};

namespace {
[[noreturn]] void refuse_to_serve() {
  throw NotSupported("serve", "this build has no HTTP library")
      .help("scripts/setup.sh installs libcpp-httplib-dev; build again");
}
}  // namespace

// NOLINTBEGIN: the options are of the build that can
Server::Server(Engine&, ServerOptions) { refuse_to_serve(); }
Server::Server(const Encoder&, ServerOptions) { refuse_to_serve(); }
// NOLINTEND
Server::~Server() = default;
int Server::port() const { return 0; }
void Server::run() {}
void Server::stop() {}
bool can_serve() { return false; }

}  // namespace lathe::llm

#endif
