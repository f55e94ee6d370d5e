// Language models (lathe/llm/engine.h); lathe.llm is made of these.
#include "bind.h"
#include "paths.h"
#include "released.h"

#if LATHE_HAVE_LLM

#include <nanobind/stl/map.h>

#include <deque>
#include <mutex>

#include "lathe/llm/chat_template.h"
#include "lathe/llm/encoder.h"
#include "lathe/llm/engine.h"

namespace lathe::python {
namespace {

using llm::Engine;

// Bytes that are no text show as U+FFFD: a token need not be whole characters.
nb::object text_of(const std::string& s) {
  return nb::steal(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

void open_engine(Engine* memory, nb::handle path, const std::string& tokenizer, const std::string& device,
                 std::int64_t context, std::int64_t sequences, std::int64_t pages, bool invariant) {
  const std::filesystem::path file = path_of(path);
  made_in_place(memory, [&](Engine* at) {
    llm::EngineOptions options;
    options.model.context = context;
    options.model.sequences = sequences;
    options.model.pages = pages;
    options.model.invariant = invariant;
    options.model.device = device;
    return new (at) Engine(llm::load_checkpoint(file, {.device = device, .tokenizer = tokenizer}), options);
  });
}

llm::SamplingOptions sampling_of(const nb::dict& given) {
  llm::SamplingOptions s;
  for (auto [key, value] : given) {
    const auto name = nb::cast<std::string>(key);
    if (name == "temperature")
      s.temperature = nb::cast<double>(value);
    else if (name == "top_k")
      s.top_k = nb::cast<std::int64_t>(value);
    else if (name == "top_p")
      s.top_p = nb::cast<double>(value);
    else if (name == "min_p")
      s.min_p = nb::cast<double>(value);
    else if (name == "repetition_penalty")
      s.repetition_penalty = nb::cast<double>(value);
    else if (name == "presence_penalty")
      s.presence_penalty = nb::cast<double>(value);
    else if (name == "frequency_penalty")
      s.frequency_penalty = nb::cast<double>(value);
    else if (name == "logit_bias")
      s.bias = nb::cast<std::map<llm::TokenId, double>>(value);
    else if (name == "seed")
      s.seed = nb::cast<std::uint64_t>(value);
    else
      throw TypeError("generate", "there is no sampling option '" + name + "'");
  }
  return s;
}

const char* name_of(llm::Finish finish) {
  switch (finish) {
    case llm::Finish::Stop: return "stop";
    case llm::Finish::Length: return "length";
    case llm::Finish::Cancelled: return "cancelled";
    case llm::Finish::Failed: return "failed";
  }
  return "";
}

nb::object logprob_of(const llm::TokenText& t) {
  return nb::make_tuple(t.token, text_of(t.bytes), t.logprob);
}

nb::list reports_of(const std::vector<llm::TokenReport>& reports) {
  nb::list all;
  for (const llm::TokenReport& r : reports) {
    nb::list likeliest;
    for (const llm::TokenText& t : r.likeliest) likeliest.append(logprob_of(t));
    all.append(nb::make_tuple(logprob_of(r.chosen), likeliest));
  }
  return all;
}

llm::Request request_of(const std::vector<llm::TokenId>& prompt, std::int64_t max_tokens,
                        const nb::dict& sampling, const std::vector<std::string>& stop,
                        std::optional<std::int64_t> logprobs, const std::string& json_schema,
                        bool json_object) {
  llm::Request r;
  r.prompt = prompt;
  r.max_tokens = max_tokens;
  r.sampling = sampling_of(sampling);
  r.stop = stop;
  r.logprobs = logprobs.has_value();
  r.likeliest = static_cast<std::size_t>(std::max<std::int64_t>(logprobs.value_or(0), 0));
  r.json_schema = json_schema;
  r.json_object = json_object;
  return r;
}

// What the receiver hears is kept until Python asks: no engine calls into the interpreter. Whichever thread
// steps the engine may hear it.
struct Heard {
  std::mutex mutex;
  std::deque<llm::Update> updates;

  std::optional<llm::Update> pop() {
    const std::lock_guard lock(mutex);
    if (updates.empty()) return std::nullopt;
    llm::Update first = std::move(updates.front());
    updates.pop_front();
    return first;
  }
};
struct Stream {
  Engine* engine;
  Engine::Ticket ticket;
  std::shared_ptr<Heard> heard;
};

nb::object next_update(Stream& s) {
  const std::optional<llm::Update> heard = released([&] {
    std::optional<llm::Update> next = s.heard->pop();
    while (!next && s.engine->step()) next = s.heard->pop();
    return next ? next : s.heard->pop();
  });
  if (!heard) return nb::none();
  const llm::Update& u = *heard;
  nb::dict out;
  out["text"] = text_of(u.text);
  out["ids"] = nb::cast(u.ids);
  out["logprobs"] = reports_of(u.tokens);
  out["finish"] = u.finish ? nb::cast(name_of(*u.finish)) : nb::none();
  out["error"] = u.error;
  out["prompt_tokens"] = u.prompt_tokens;
  out["cached_tokens"] = u.cached_tokens;
  out["written_tokens"] = u.written_tokens;
  return out;
}

Stream start(Engine& engine, const std::vector<llm::TokenId>& prompt, std::int64_t max_tokens,
             const nb::dict& sampling, const std::vector<std::string>& stop,
             std::optional<std::int64_t> logprobs, const std::string& json_schema, bool json_object) {
  auto heard = std::make_shared<Heard>();
  llm::Request request = request_of(prompt, max_tokens, sampling, stop, logprobs, json_schema, json_object);
  const Engine::Ticket ticket = released([&] {
    return engine.submit(std::move(request), [heard](const llm::Update& u) {
      const std::lock_guard lock(heard->mutex);
      heard->updates.push_back(u);
    });
  });
  return {&engine, ticket, heard};
}

void open_encoder(llm::Encoder* memory, nb::handle path, const std::string& tokenizer,
                  const std::string& device, std::int64_t context, bool invariant) {
  const std::filesystem::path file = path_of(path);
  made_in_place(memory, [&](llm::Encoder* at) {
    return new (at) llm::Encoder(llm::load_checkpoint(file, {.device = device, .tokenizer = tokenizer}),
                                 {.context = context, .invariant = invariant});
  });
}

nb::dict stats_of(const Engine& engine) {
  const llm::EngineStats s = engine.stats();
  nb::dict out;
  out["waiting"] = s.waiting;
  out["running"] = s.running;
  out["pages"] = s.pages;
  out["pages_held"] = s.pages_held;
  out["finished"] = s.finished;
  out["cancelled"] = s.cancelled;
  out["prompt_tokens"] = s.prompt_tokens;
  out["cached_tokens"] = s.cached_tokens;
  out["written_tokens"] = s.written_tokens;
  return out;
}

}  // namespace

void bind_llm(nb::module_& m) {
  nb::class_<llm::ChatTemplate>(m, "ChatTemplate", "A chat template; lathe.llm.ChatTemplate is made of one.")
      .def(nb::init<std::string_view>(), nb::arg("source"))
      .def(
          "render",
          [](const llm::ChatTemplate& t, const std::string& variables, std::optional<std::int64_t> now) {
            return t.render(variables, now ? std::optional<std::time_t>(*now) : std::nullopt);
          },
          nb::arg("variables"), nb::arg("now") = nb::none());
  nb::class_<Stream>(m, "LlmStream", "A request on its way; lathe.llm iterates over it.")
      .def("next", next_update)
      .def("cancel", [](Stream& s) { s.engine->cancel(s.ticket); });
  nb::class_<Engine>(m, "LlmEngine", "A language model; lathe.llm.LLM is made of one.")
      .def("__init__", open_engine, nb::arg("path"), nb::arg("tokenizer"), nb::arg("device"),
           nb::arg("context"), nb::arg("sequences"), nb::arg("pages"), nb::arg("invariant"))
      .def("start", start, nb::arg("prompt"), nb::arg("max_tokens"), nb::arg("sampling"), nb::arg("stop"),
           nb::arg("logprobs").none(), nb::arg("json_schema"), nb::arg("json_object"), nb::keep_alive<0, 1>())
      .def("step", [](Engine& e) { return released([&] { return e.step(); }); })
      .def("warm_up", [](Engine& e) { released([&] { e.model().warm_up(); }); })
      .def("stats", stats_of)
      .def(
          "encode",
          [](const Engine& e, std::string_view text, bool special) {
            return e.tokenizer().encode(text, {.add_special = special});
          },
          nb::arg("text"), nb::arg("add_special") = true)
      .def(
          "decode",
          [](const Engine& e, const std::vector<llm::TokenId>& ids) {
            return text_of(e.tokenizer().decode(ids, true));
          },
          nb::arg("ids"))
      .def(
          "piece", [](const Engine& e, llm::TokenId id) { return text_of(e.tokenizer().piece(id)); },
          nb::arg("id"))
      .def_prop_ro("begin_id", [](const Engine& e) { return e.tokenizer().begin_id(); })
      .def_prop_ro("end_id", [](const Engine& e) { return e.tokenizer().end_id(); })
      .def_prop_ro("context", [](const Engine& e) { return e.model().options().context; })
      .def_prop_ro("chat_template", [](const Engine& e) { return e.chat_template(); });
  nb::class_<llm::Encoder>(m, "LlmEncoder", "Vectors of texts; lathe.llm.Encoder is made of one.")
      .def("__init__", open_encoder, nb::arg("path"), nb::arg("tokenizer"), nb::arg("device"),
           nb::arg("context"), nb::arg("invariant"))
      .def(
          "embed",
          [](const llm::Encoder& e, const std::vector<std::vector<llm::TokenId>>& texts, bool unit_length) {
            return released([&] { return e.embed(texts, unit_length); });
          },
          nb::arg("texts"), nb::arg("unit_length"))
      .def(
          "encode", [](const llm::Encoder& e, std::string_view text) { return e.tokenizer().encode(text); },
          nb::arg("text"))
      .def_prop_ro("context", &llm::Encoder::context)
      .def_prop_ro("dim", [](const llm::Encoder& e) { return e.config().dim; });
  m.def(
      "llm_sample",
      [](const std::vector<float>& logits, const std::vector<llm::TokenId>& tokens, std::size_t prompt,
         const nb::dict& sampling) {
        const llm::Choice c =
            llm::Sampler(sampling_of(sampling))(logits, tokens, std::min(prompt, tokens.size()));
        return nb::make_tuple(c.chosen.token, c.chosen.logprob);
      },
      nb::arg("logits"), nb::arg("tokens"), nb::arg("prompt"), nb::arg("sampling"));
}

}  // namespace lathe::python

#else

namespace lathe::python {
void bind_llm(nb::module_&) {}
}  // namespace lathe::python

#endif
