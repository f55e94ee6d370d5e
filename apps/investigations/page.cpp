#include "apps/investigations/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include "apps/investigations/bank.h"
#include "apps/investigations/case.h"

namespace lathe::investigations {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --line: #8886; --mark: #f5a62333; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid var(--line); }
pre, code { font: 13px/1.4 ui-monospace, monospace; } pre { overflow: auto; margin: 0; padding: .5rem; border: 1px solid var(--line); max-height: 32rem; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(24rem, 100%), 1fr)); gap: 1rem; } .sides pre { min-width: 0; } td, code { overflow-wrap: anywhere; } #hypotheses td:first-child, #hypotheses td:last-child { white-space: nowrap; overflow-wrap: normal; } #hypotheses, #scenarios, #facts, #states { display: block; overflow-x: auto; } .changed { background: var(--mark); }
.verdict { font-size: 1.15rem; } .confirmed { color: #1a7f37; } .refuted { color: #777; } .partial { color: #b26a00; } .unknown { color: #777; }
.heat { display: grid; gap: 1px; max-width: 40rem; } .heat i { display: block; aspect-ratio: 1; min-height: 4px; }
)";

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&': result += "&amp;"; break;
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '"': result += "&quot;"; break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') result += c;
    }
  }
  return result;
}

// Lines that the other side has not are marked.
std::string side(const std::string& text, const std::string& other) {
  std::multiset<std::string> there;
  std::istringstream others(other);
  for (std::string line; std::getline(others, line);) there.insert(line);
  std::string result;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto found = there.find(line);
    if (found != there.end()) {
      there.erase(found);
      result += escaped(line) + "\n";
    } else {
      result += "<span class=\"changed\">" + escaped(line) + "</span>\n";
    }
  }
  return result;
}

constexpr std::size_t kMostCells = 128;  // in a direction; larger maps show the worst of each block

std::string heat_map(const std::vector<std::vector<double>>& rows) {
  std::size_t width = 0;
  for (const auto& r : rows) width = std::max(width, r.size());
  if (width == 0) return "";
  const std::size_t down = std::min(rows.size(), kMostCells), across = std::min(width, kMostCells);
  std::vector<std::vector<double>> cells(down, std::vector<double>(across, 0));
  double worst = 0;
  for (std::size_t y = 0; y < rows.size(); ++y)
    for (std::size_t x = 0; x < rows[y].size(); ++x) {
      const double value = std::isfinite(rows[y][x]) ? std::abs(rows[y][x]) : INFINITY;
      double& cell = cells[y * down / rows.size()][x * across / width];
      cell = std::max(cell, value);
      if (std::isfinite(value)) worst = std::max(worst, value);
    }
  std::string html = fmt::format(
      "<h2>Errors of the values</h2><p>{} x {} values, at most {:.4g}; not finite ones are "
      "violet.</p>\n<div class=\"heat\" id=\"heat\" style=\"grid-template-columns: repeat({}, 1fr)\">",
      rows.size(), width, worst, across);
  for (const auto& r : cells)
    for (const double v : r) {
      const std::string colour = !std::isfinite(v) ? "#8e44ad"
                                 : v == 0 || worst == 0
                                     ? "#8882"
                                     : fmt::format("hsl({:.0f} 90% 50%)", 60 - 60 * v / worst);
      html += fmt::format("<i style=\"background:{}\" title=\"{:.4g}\"></i>", colour, v);
    }
  return html + "</div>\n";
}

}  // namespace

std::string page_of(Store& store, const std::string& id) {
  const Session s = store.session(id);
  const dev::Finding& f = s.finding;
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head><meta "
      "charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>\n<body>\n<h1>{0}</h1>\n"
      "<p class=\"verdict\" id=\"verdict\"><strong>{2}</strong>: {3}</p>\n",
      escaped(id), kStyle, row(s.state).name,
      escaped(f.summary.empty() ? "There is no verdict yet." : f.summary));
  html += "<table id=\"facts\">\n";
  const auto fact = [&](const char* what, const std::string& value) {
    if (!value.empty())
      html += fmt::format("<tr><th>{}</th><td><code>{}</code></td></tr>\n", what, escaped(value));
  };
  fact("input", s.input.command.empty() ? s.input.path + s.input.words : joined_words(s.input.command));
  fact("directory", s.input.directory);
  fact("error", s.error);
  fact("cause", f.cause.empty() ? "" : f.kind + ": " + f.cause);
  fact(f.way_out_verified ? "way out (verified: the failure occurs without it and not with it)"
                          : "way out (not verified)",
       f.way_out);
  fact("reproduce with", f.repro_command);
  fact("repro", f.repro);
  if (f.repro_nodes > 0) fact("nodes of the reproducer", std::to_string(f.repro_nodes));
  html +=
      "</table>\n<h2>Hypotheses</h2>\n<table "
      "id=\"hypotheses\">\n<tr><th>verdict</th><th>hypothesis</th><th>experiment</th><th>evidence</"
      "th><th>ms</th></tr>\n";
  for (const dev::Hypothesis& h : f.hypotheses)
    html += fmt::format(
        "<tr><td class=\"{0}\">{0}</td><td>{1}</td><td>{2}</td><td>{3}</td><td>{4:.0f}</td></tr>\n",
        name(h.verdict), escaped(h.claim), escaped(h.experiment), escaped(h.evidence), h.milliseconds);
  html += "</table>\n";
  if (!f.before.empty() || !f.after.empty())
    html += fmt::format(
        "<h2>Before and after the faulty step</h2>\n<div class=\"sides\" "
        "id=\"sides\"><pre>{}</pre><pre>{}</pre></div>\n",
        side(f.before, f.after), side(f.after, f.before));
  html += heat_map(f.difference);
  if (const auto observations = store.observations(id); !observations.empty()) {
    html += "<h2>Observations</h2>\n<table id=\"observations\">\n";
    for (const Observation& o : observations)
      html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", escaped(o.who), escaped(o.text),
                          escaped(o.effect));
    html += "</table>\n";
  }
  html += "<h2>States</h2>\n<table id=\"states\">\n";
  for (const Transition& t : store.transitions(id))
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", time_text(t.time), row(t.after).name,
                        escaped(t.reason));
  html += fmt::format(
      "</table>\n<h2>Scenarios ({})</h2>\n<table "
      "id=\"scenarios\">\n<tr><th>scenario</th><th>ended</th><th>status</th><th>seconds</th><th>MiB</th></"
      "tr>\n",
      s.scenarios);
  for (const ScenarioRow& r : store.scenarios(id))
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{}</td></tr>\n",
                        escaped(r.label), r.ending, r.status, r.seconds, r.peak >> 20);
  return html + "</table>\n</body>\n</html>\n";
}

std::string write_page(Store& store, const std::string& id) {
  const std::string path = store.session_folder(id) + "/page.html";
  std::ofstream(path, std::ios::binary) << page_of(store, id);
  return path;
}

}  // namespace lathe::investigations
