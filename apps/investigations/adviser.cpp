#include "apps/investigations/adviser.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#if LATHE_HAVE_HTTPLIB
#include <httplib.h>
#endif

namespace lathe::investigations {

#if LATHE_HAVE_HTTPLIB

namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostProposals = 8;
constexpr int kPatienceSeconds = 20;
constexpr std::size_t kShownOutput = 4000;

std::string question_for(Lab& lab) {
  std::string text =
      "A command fails. Propose experiments that may find out why. Answer with a JSON array and nothing "
      "else; each "
      "element is {\"kind\": ..., \"argument\": ...}. The kinds are:\n";
  for (const ProposalKind& kind : proposal_kinds())
    text += fmt::format("- {}: {}\n", kind.kind, kind.argument);
  text += fmt::format("\nCommand: {}\nError: {}\n", joined_words(lab.command()), lab.failure().error);
  const std::string& output = lab.failing().output;
  text +=
      "End of its output:\n" + output.substr(output.size() > kShownOutput ? output.size() - kShownOutput : 0);
  text += "\nVariables of the environment:";
  for (const auto& [name, value] : lab.running().environment())
    text += " " + name;  // names only: values may be secret
  text += "\nLatest commits:\n";
  const std::vector<Commit> commits = lab.repository().head().empty()
                                          ? std::vector<Commit>{}
                                          : lab.repository().first_parents(lab.repository().head());
  for (std::size_t i = 0; i < std::min<std::size_t>(commits.size(), 40); ++i)
    text += commits[i].label() + "\n";
  return text;
}

}  // namespace

std::vector<Proposal> advised(Lab& lab) {
  Case& running = lab.running();
  const auto lost = [&](const std::string& why) {
    running.event("adviser", "lost: " + why);
    running.tell("the adviser is lost: " + why);
    return std::vector<Proposal>{};
  };
  std::string url = running.input().adviser;
  while (!url.empty() && url.back() == '/') url.pop_back();
  const std::size_t path = url.find('/', url.find("://") == std::string::npos ? 0 : url.find("://") + 3);
  const std::string host = url.substr(0, path);
  const std::string base = path == std::string::npos ? "" : url.substr(path);
  try {
    httplib::Client client(host);
    if (!client.is_valid()) return lost("this build cannot reach " + host);
    client.set_connection_timeout(kPatienceSeconds);
    client.set_read_timeout(kPatienceSeconds);
    httplib::Headers headers;
    if (const char* key = std::getenv("OPENAI_API_KEY"))
      headers.emplace("Authorization", fmt::format("Bearer {}", key));
    const Json body{{"model", running.input().adviser_model},
                    {"temperature", 0},
                    {"messages", Json::array({Json{{"role", "user"}, {"content", question_for(lab)}}})}};
    const httplib::Result result =
        client.Post(base + "/chat/completions", headers,
                    body.dump(-1, ' ', false, Json::error_handler_t::replace), "application/json");
    if (!result) return lost(httplib::to_string(result.error()));
    if (result->status != 200) return lost(fmt::format("it answered with status {}", result->status));
    const Json answer = Json::parse(result->body, nullptr, false);
    std::string text;
    if (answer.is_object() && answer.contains("choices") && answer["choices"].is_array() &&
        !answer["choices"].empty())
      text = answer["choices"][0].value("/message/content"_json_pointer, "");
    const std::size_t begin = text.find('['), end = text.rfind(']');
    const Json list = begin == std::string::npos || end == std::string::npos || end < begin
                          ? Json()
                          : Json::parse(text.substr(begin, end + 1 - begin), nullptr, false);
    if (!list.is_array()) return lost("its answer is not a list of experiments");
    std::vector<Proposal> proposals;
    for (const Json& p : list) {
      if (proposals.size() == kMostProposals) break;
      if (!p.is_object() || !p.contains("kind") || !p["kind"].is_string() || !p.contains("argument") ||
          !p["argument"].is_string()) {
        running.event("adviser", "no experiment: " + p.dump(-1, ' ', false, Json::error_handler_t::replace));
        continue;
      }
      const std::string kind = p["kind"];
      const bool known = std::any_of(proposal_kinds().begin(), proposal_kinds().end(),
                                     [&](const ProposalKind& k) { return k.kind == kind; });
      running.event("adviser", fmt::format("{} {}{}", kind, p["argument"].get<std::string>(),
                                           known ? "" : ": no such experiment"));
      if (known) proposals.push_back({kind, p["argument"], "adviser"});
    }
    return proposals;
  } catch (const std::exception& error) {
    return lost(error.what());
  }
}

#else

std::vector<Proposal> advised(Lab& lab) {
  lab.running().event("adviser", "lost: this build has no HTTP library");
  return {};
}

#endif

}  // namespace lathe::investigations
