#include "apps/investigations/mcp_server.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/investigations/bank.h"
#include "apps/investigations/investigators.h"
#include "apps/investigations/page.h"
#include "apps/investigations/record.h"
#include "lathe/error.h"

namespace lathe::investigations {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::array<std::string_view, 1> kModern{"2026-07-28"};  // each request carries its revision
constexpr std::array<std::string_view, 4> kHandshake{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
constexpr const char* kVersionKey = "io.modelcontextprotocol/protocolVersion";
constexpr const char* kServerKey = "io.modelcontextprotocol/serverInfo";
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
              kInvalidParams = -32602, kInternalError = -32603, kUnsupportedVersion = -32022,
              kResourceNotFound = -32002;
constexpr double kLongestWait = 50;  // seconds a check may take: clients give up after a minute
constexpr const char* kScheme = "lathe://";

// An error of the protocol, as opposed to one of a tool.
struct Refusal {
  int code;
  std::string message;
  Json data = nullptr;
};

bool is_modern(std::string_view version) {
  return std::find(kModern.begin(), kModern.end(), version) != kModern.end();
}

Json text_property(const char* description) { return {{"type", "string"}, {"description", description}}; }
Json strings_property(const char* description) {
  return {{"type", "array"}, {"items", {{"type", "string"}}}, {"description", description}};
}
Json number_property(const char* description) {
  return {{"type", "number"}, {"exclusiveMinimum", 0}, {"description", description}};
}
Json schema(const Json& properties, const std::vector<std::string>& required) {
  return {{"type", "object"},
          {"properties", properties},
          {"required", required},
          {"additionalProperties", false}};
}

std::string whole_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream all;
  all << file.rdbuf();
  return all.str();
}

// Checks what a tool is given against what its schema says, as far as the schemas above go.
void check_arguments(const Json& given, const Json& schema) {
  if (!given.is_object()) throw UserError("mcp", "arguments is not an object");
  const Json& properties = schema.at("properties");
  for (const auto& [name, value] : given.items()) {
    if (!properties.contains(name)) {
      std::string names;
      for (const auto& [known, ignored] : properties.items()) names += (names.empty() ? "" : ", ") + known;
      throw UserError("mcp", "there is no argument " + name)
          .help(names.empty() ? "it takes none" : "there are " + names);
    }
    const std::string type = properties.at(name).at("type");
    bool fits = true;
    if (type == "string") fits = value.is_string();
    if (type == "number") fits = value.is_number() && value.get<double>() > 0;
    if (type == "object")
      fits = value.is_object() &&
             std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); });
    if (type == "array")
      fits = value.is_array() &&
             std::all_of(value.begin(), value.end(), [](const Json& v) { return v.is_string(); });
    if (!fits)
      throw UserError("mcp", fmt::format("argument {} is not of type {}", name, type))
          .help(properties.at(name).at("description").get<std::string>());
  }
  for (const Json& name : schema.at("required"))
    if (!given.contains(name.get<std::string>()))
      throw UserError("mcp", "argument " + name.get<std::string>() + " is needed");
}

}  // namespace

McpServer::McpServer(std::string program, std::string version, std::string root, std::string directory)
    : program_(std::move(program)),
      version_(std::move(version)),
      root_(std::move(root)),
      directory_(std::move(directory)) {}

std::optional<std::string> McpServer::answer(const std::string& line) {
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(started_, [](int pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  }
  Json id = nullptr;
  const auto failed = [&](const Refusal& r) {
    Json error{{"code", r.code}, {"message", r.message}};
    if (!r.data.is_null()) error["data"] = r.data;
    return Json{{"jsonrpc", "2.0"}, {"id", id}, {"error", error}}.dump(-1, ' ', false,
                                                                       Json::error_handler_t::replace);
  };
  const Json message = Json::parse(line, nullptr, false);
  if (message.is_discarded()) return failed({kParseError, "this is not JSON"});
  if (!message.is_object() || message.value("jsonrpc", Json()) != "2.0")
    return failed({kInvalidRequest, "this is not a JSON-RPC 2.0 message"});
  const bool request = message.contains("id");
  if (request) id = message["id"];
  if (!message.contains("method")) return std::nullopt;  // an answer to nothing that was asked
  if (!message["method"].is_string()) return failed({kInvalidRequest, "the method is not text"});
  if (!request) return std::nullopt;  // a notification: none changes anything here
  if (!id.is_string() && !id.is_number_integer())
    return failed({kInvalidRequest, "the id is neither text nor a number"});
  try {
    const Json params = message.value("params", Json::object());
    if (!params.is_object()) throw Refusal{kInvalidParams, "params is not an object"};
    std::string version;
    if (params.contains("_meta") && params["_meta"].is_object() && params["_meta"].contains(kVersionKey)) {
      const Json& asked = params["_meta"][kVersionKey];
      version = asked.is_string() ? asked.get<std::string>() : "";
      if (!is_modern(version))
        throw Refusal{kUnsupportedVersion,
                      "this protocol version is not supported",
                      {{"supported", kModern}, {"requested", asked}}};
    }
    const std::string method = message["method"];
    Json result = result_of(method, params);
    if (is_modern(version) || method == "server/discover") {
      result["resultType"] = "complete";
      result["_meta"][kServerKey] = {{"name", "lathe"}, {"version", version_}};
      if (method != "tools/call" && method != "ping") {
        const bool fixed =
            method == "server/discover" || method == "tools/list" || method == "resources/templates/list";
        result["ttlMs"] = fixed ? 60000 : 0;
        result["cacheScope"] = fixed ? "public" : "private";
      }
    }
    return Json{{"jsonrpc", "2.0"}, {"id", id}, {"result", result}}.dump(-1, ' ', false,
                                                                         Json::error_handler_t::replace);
  } catch (const Refusal& refusal) {
    return failed(refusal);
  } catch (const std::exception& error) {
    return failed({kInternalError, error.what()});
  }
}

Json McpServer::result_of(const std::string& method, const Json& params) {
  if (method == "server/discover") return discover();
  if (method == "initialize") return initialize(params);
  if (method == "ping") return Json::object();
  if (method == "tools/list") return {{"tools", tools()}};
  if (method == "tools/call") return call(params);
  if (method == "resources/list") return resources();
  if (method == "resources/templates/list") {
    Json templates = Json::array();
    for (const auto& [name, what] : {std::pair{"record", "the complete record of an investigation, as JSON"},
                                     std::pair{"repro", "a script that reproduces the failure"},
                                     std::pair{"page", "the investigation as an HTML page"}})
      templates.push_back({{"uriTemplate", fmt::format("{}session/{{id}}/{}", kScheme, name)},
                           {"name", name},
                           {"description", what}});
    return {{"resourceTemplates", templates}};
  }
  if (method == "resources/read") return read(params);
  throw Refusal{kMethodNotFound, "there is no method " + method};
}

namespace {
const char* instructions() {
  return "Finds out by experiments why a command fails. Call start with a command that fails and the "
         "directory it runs in, then "
         "check until the state is found, not-found, needs-input, cancelled or failed. add_observation "
         "steers it. The verdict has "
         "the cause and a tested way out; the directory is never changed.";
}
Json capabilities() { return {{"tools", Json::object()}, {"resources", Json::object()}}; }
}  // namespace

Json McpServer::discover() const {
  return {{"supportedVersions", kModern}, {"capabilities", capabilities()}, {"instructions", instructions()}};
}

Json McpServer::initialize(const Json& params) const {
  const std::string asked = params.contains("protocolVersion") && params["protocolVersion"].is_string()
                                ? params["protocolVersion"].get<std::string>()
                                : "";
  const bool known = std::find(kHandshake.begin(), kHandshake.end(), asked) != kHandshake.end();
  return {{"protocolVersion", known ? asked : std::string(kHandshake.front())},
          {"capabilities", capabilities()},
          {"serverInfo", {{"name", "lathe"}, {"version", version_}}},
          {"instructions", instructions()}};
}

Json McpServer::tools() const {
  const Json id = text_property("the investigation, session-...");
  Json all = Json::array();
  const auto add = [&](const char* name, const char* description, const Json& input, bool reads) {
    all.push_back(
        {{"name", name},
         {"description", description},
         {"inputSchema", input},
         {"annotations", {{"readOnlyHint", reads}, {"destructiveHint", false}, {"openWorldHint", !reads}}}});
  };
  add("start",
      "Start an investigation in the background; returns its id. Give a command that fails, the path of "
      "a saved kernel or graph, or a description.",
      schema(
          {{"command", strings_property("the command that fails and its arguments")},
           {"path", text_property("a saved kernel or graph that fails")},
           {"words", text_property("a description of the failure, if there is no command yet")},
           {"directory", text_property("directory to run the command in (default: this server's directory)")},
           {"environment",
            {{"type", "object"},
             {"additionalProperties", {{"type", "string"}}},
             {"description", "environment variables in addition to this server's"}}},
           {"tests", text_property("a shell command that runs the other tests, to check the way out with")},
           {"budget_seconds", number_property("total time in seconds (60)")},
           {"scenario_seconds", number_property("time limit of one run in seconds")},
           {"jobs", number_property("scenarios at a time")}},
          {}),
      false);
  add("check", "State, verdict and hypotheses of an investigation, running or finished.",
      schema({{"id", id}, {"wait_seconds", number_property("seconds to wait for its end (at most 50)")}},
             {"id"}),
      true);
  add("add_observation",
      "Report an observation to a running investigation; it reorders its experiments and tests what you "
      "name.",
      schema({{"id", id},
              {"text", text_property(
                           "the observation in words; variables, files and commits named in it are tested")},
              {"who", text_property("who observed it")}},
             {"id", "text"}),
      false);
  add("cancel", "Stop an investigation and everything it runs.", schema({{"id", id}}, {"id"}), false);
  add("list", "The investigations of a project, latest first.",
      schema({{"directory", text_property("the project's directory (default: this server's directory)")}},
             {}),
      true);
  return all;
}

Json McpServer::call(const Json& params) {
  const std::string name =
      params.contains("name") && params["name"].is_string() ? params["name"].get<std::string>() : "";
  const Json arguments = params.value("arguments", Json::object());
  struct Row {
    std::string_view name;
    Json (McpServer::*run)(const Json&);
  };
  static constexpr std::array<Row, 5> kTools{{{"start", &McpServer::start},
                                              {"check", &McpServer::check},
                                              {"add_observation", &McpServer::observe},
                                              {"cancel", &McpServer::cancel},
                                              {"list", &McpServer::list}}};
  const auto found = std::find_if(kTools.begin(), kTools.end(), [&](const Row& r) { return r.name == name; });
  if (found == kTools.end()) throw Refusal{kInvalidParams, "there is no tool " + name};
  try {
    for (const Json& tool : tools())
      if (tool.at("name") == name) check_arguments(arguments, tool.at("inputSchema"));
    const Json value = (this->*found->run)(arguments);
    return {{"content", Json::array({Json{{"type", "text"}, {"text", text_of(value)}}})},
            {"structuredContent", value},
            {"isError", false}};
  } catch (const std::exception& error) {  // the client can read the error and retry
    return {{"content", Json::array({Json{{"type", "text"}, {"text", error.what()}}})}, {"isError", true}};
  }
}

Json McpServer::start(const Json& arguments) {
  Input input;
  input.command = arguments.value("command", std::vector<std::string>{});
  input.path = arguments.value("path", "");
  input.words = arguments.value("words", "");
  input.directory = fs::absolute(arguments.value("directory", directory_)).lexically_normal().string();
  std::error_code failed;
  if (!fs::is_directory(input.directory, failed))
    throw MissingFile("mcp", input.directory + " is not a directory");
  input.seconds = arguments.value("budget_seconds", input.seconds);
  input.scenario_seconds = arguments.value("scenario_seconds", 0.0);
  input.jobs = static_cast<int>(arguments.value("jobs", 0.0));
  if (arguments.contains("tests")) input.tests = {"sh", "-c", arguments["tests"].get<std::string>()};
  input.kind = kind_of(input);
  Environment environment = this_environment();
  if (arguments.contains("environment"))
    for (const auto& [variable, value] : arguments["environment"].items())
      environment[variable] = value.get<std::string>();
  Store& store = store_for(input.directory);
  const std::string id = store.create(input, environment).id;
  const int pid = start_in_background(store, program_, id);
  if (pid == 0) {
    store.move(id, State::Failed, "a process could not be started");
    throw DeviceError("mcp", "a process could not be started");
  }
  const std::lock_guard lock(mutex_);
  started_.push_back(pid);
  return summary_of(store, id);
}

Json McpServer::check(const Json& arguments) {
  const std::string id = arguments.at("id");
  Store& store = store_with(id);
  const double wait = std::min(arguments.value("wait_seconds", 0.0), kLongestWait);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait);
  while (!closed_ && std::chrono::steady_clock::now() < end) {
    const Session now = store.session(id);
    if (row(now.state).over || now.state == State::NeedsInput || (now.interrupted && !now.cancel)) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return summary_of(store, id);
}

Json McpServer::observe(const Json& arguments) {
  const std::string id = arguments.at("id");
  Store& store = store_with(id);
  store.add_observation(id, arguments.value("who", "client"), arguments.at("text"));
  return {{"id", id},
          {"state", row(store.session(id).state).name},
          {"observations", store.observations(id).size()}};
}

Json McpServer::cancel(const Json& arguments) {
  const std::string id = arguments.at("id");
  Store& store = store_with(id);
  cancel_session(store, id, "cancelled by a client");
  return summary_of(store, id);
}

Json McpServer::list(const Json& arguments) {
  Store& store = store_for(arguments.value("directory", directory_));
  Json all = Json::array();
  for (const Session& s : store.sessions())
    all.push_back({{"id", s.id},
                   {"state", row(s.state).name},
                   {"interrupted", s.interrupted},
                   {"error", s.error},
                   {"summary", s.finding.summary},
                   {"started", time_text(s.started)}});
  return {{"investigations", all}};
}

Json McpServer::resources() {
  Json all = Json::array();
  const auto add = [&](const std::string& uri, const std::string& name, const char* type) {
    all.push_back({{"uri", kScheme + uri}, {"name", name}, {"mimeType", type}});
  };
  store_for(directory_);  // its sessions are there from the beginning
  add("bank/progress", "progress.md", "text/markdown");
  add("bank/context", "activeContext.md", "text/markdown");
  for (Store* store : all_stores())
    for (const Session& s : store->sessions()) {
      add(fmt::format("session/{}/record", s.id), s.id + ": record", "application/json");
      if (row(s.state).over) add(fmt::format("session/{}/page", s.id), s.id + ": page", "text/html");
      if (!s.finding.repro.empty())
        add(fmt::format("session/{}/repro", s.id), s.id + ": repro", "text/plain");
    }
  return {{"resources", all}};
}

Json McpServer::read(const Json& params) {
  const std::string uri =
      params.contains("uri") && params["uri"].is_string() ? params["uri"].get<std::string>() : "";
  std::string text, type = "text/plain";
  const auto unknown = [&] {
    return Refusal{kResourceNotFound, "there is no resource " + uri, {{"uri", uri}}};
  };
  if (uri == std::string(kScheme) + "bank/progress" || uri == std::string(kScheme) + "bank/context") {
    Store& store = store_for(directory_);
    write_bank(store);
    text = whole_file(store.folder() + (uri.ends_with("progress") ? "/progress.md" : "/activeContext.md"));
    type = "text/markdown";
  } else {
    const std::string begin = std::string(kScheme) + "session/";
    const std::size_t slash = uri.rfind('/');
    if (uri.rfind(begin, 0) != 0 || slash <= begin.size()) throw unknown();
    const std::string id = uri.substr(begin.size(), slash - begin.size()), what = uri.substr(slash + 1);
    try {
      Store& store = store_with(id);
      if (what == "record") {
        text = text_of(record_of(store, id));
        type = "application/json";
      } else if (what == "page") {
        text = page_of(store, id);
        type = "text/html";
      } else if (what == "repro" && !store.session(id).finding.repro.empty()) {
        const std::string path = store.session(id).finding.repro;
        std::error_code failed;
        text = fs::is_directory(path, failed) ? path : whole_file(path);
      } else {
        throw unknown();
      }
    } catch (const UserError&) {
      throw unknown();
    }
  }
  return {{"contents", Json::array({Json{{"uri", uri}, {"mimeType", type}, {"text", text}}})}};
}

std::vector<Store*> McpServer::all_stores() {
  const std::lock_guard lock(mutex_);
  std::vector<Store*> all;
  for (const auto& [folder, store] : stores_) all.push_back(store.get());
  return all;
}

Store& McpServer::opened(const std::string& folder) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Store>& store = stores_[folder];
  if (!store) store = std::make_unique<Store>(folder);
  return *store;
}

Store& McpServer::store_for(const std::string& directory) { return opened(store_folder(directory, root_)); }

Store& McpServer::store_with(const std::string& id) {
  const auto has = [&](Store& store) {
    const std::vector<Session> all = store.sessions();
    return std::any_of(all.begin(), all.end(), [&](const Session& s) { return s.id == id; });
  };
  for (Store* store : all_stores())
    if (has(*store)) return *store;
  // Of an earlier server, of another project.
  const fs::path projects = fs::path(store_folder(directory_, root_)).parent_path();
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(projects, failed))
    if (fs::exists(entry.path() / "store.sqlite", failed) && has(opened(entry.path().string())))
      return opened(entry.path().string());
  throw UserError("mcp", "there is no investigation " + id).help("the tool list lists those of a project");
}

}  // namespace lathe::investigations
