#include "apps/llm/jinja/render.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/llm/jinja/builtins.h"

namespace lathe::llm::jinja {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 28;
constexpr int kDeepest = 200;  // macros that call each other

using Kind = Statement::Kind;

// The names of one block; inner blocks look outwards, and set only in themselves.
struct Scope {
  std::shared_ptr<Scope> outer;
  Entries names;

  void set(const std::string& name, Value value) {
    for (auto& [k, v] : names)
      if (k.text() == name) {
        v = std::move(value);
        return;
      }
    names.emplace_back(name, std::move(value));
  }
};
using ScopeRef = std::shared_ptr<Scope>;

enum class Flow : std::uint8_t { On, Break, Continue };

class Renderer {
 public:
  explicit Renderer(const Entries& globals) : scope_(std::make_shared<Scope>(Scope{nullptr, globals})) {}

  std::string run(const Block& block) {
    scope_ = std::make_shared<Scope>(Scope{scope_, {}});
    scopes_.push_back(scope_);
    this->block(block);
    return std::move(out_);
  }
  // A macro is held by the scope that it holds.
  ~Renderer() {
    for (const ScopeRef& scope : scopes_) scope->names.clear();
  }
  Renderer(const Renderer&) = delete;
  Renderer& operator=(const Renderer&) = delete;

 private:
  // What f computes, with the line of `where` in its refusal.
  template <class F>
  auto at(int line, F f) -> decltype(f()) {
    try {
      return f();
    } catch (const TemplateError& error) {
      refuse_at(line, error.message());
    }
  }

  void print(std::string_view text) {
    if (out_.size() + text.size() > kLongestText) throw TemplateError("the text is longer than 256 MiB");
    out_ += text;
  }

  Flow block(const Block& block) {
    for (const Statement& s : block)
      if (const Flow flow = at(s.line, [&] { return statement(s); }); flow != Flow::On) return flow;
    return Flow::On;
  }

  Flow scoped(const Block& body, Entries names = {}) {
    const ScopeRef before = scope_;
    scope_ = std::make_shared<Scope>(Scope{before, std::move(names)});
    scopes_.push_back(scope_);
    const Flow flow = block(body);
    scope_ = before;
    if (scopes_.back().use_count() == 1) scopes_.pop_back();
    return flow;
  }

  std::string captured(const Block& body, Entries names = {}) {
    std::string before = std::exchange(out_, {});
    scoped(body, std::move(names));
    return std::exchange(out_, std::move(before));
  }

  Flow statement(const Statement& s) {
    switch (s.kind) {
      case Kind::Text: print(s.text); break;
      case Kind::Print: print(value(*s.conditions[0]).str()); break;
      case Kind::If: return conditional(s);
      case Kind::For: return loop(s);
      case Kind::Set: assign(s); break;
      case Kind::SetBlock: {
        const Value text = captured(s.bodies[0]);
        scope_->set(s.names[0], s.conditions[0] != nullptr ? filtered(*s.conditions[0], text) : text);
        break;
      }
      case Kind::Macro: scope_->set(s.text, macro(s, s.text)); break;
      case Kind::CallBlock: {
        Arguments given = arguments(s.conditions[0]->arguments);
        given.named.emplace_back("caller", macro(s, "caller"));
        print(call(value(*s.conditions[0]->operands[0]), given).str());
        break;
      }
      case Kind::Filter: print(filtered(*s.conditions[0], captured(s.bodies[0])).str()); break;
      case Kind::With: {
        Entries names;
        for (const Parameter& p : s.parameters) names.emplace_back(p.name, value(*p.initial));
        return scoped(s.bodies[0], std::move(names));
      }
      case Kind::Scope: return scoped(s.bodies[0]);
      case Kind::Break: return Flow::Break;
      case Kind::Continue: return Flow::Continue;
    }
    return Flow::On;
  }

  Flow conditional(const Statement& s) {
    for (std::size_t i = 0; i < s.conditions.size(); ++i)
      if (value(*s.conditions[i]).truth()) return block(s.bodies[i]);
    return s.bodies.size() > s.conditions.size() ? block(s.bodies.back()) : Flow::On;
  }

  static Entries unpacked(const std::vector<std::string>& names, const Value& value) {
    if (names.size() == 1) return {{names[0], value}};
    const Items parts = elements(value);
    if (parts.size() != names.size())
      throw TemplateError(fmt::format("{} values for {} names", parts.size(), names.size()));
    Entries out;
    for (std::size_t i = 0; i < names.size(); ++i) out.emplace_back(names[i], parts[i]);
    return out;
  }

  void assign(const Statement& s) {
    const Value given = value(*s.conditions[0]);
    if (!s.attribute.empty()) {
      const Value target = named(s.names[0]);
      if (!target.is(Value::Kind::Namespace))
        throw TemplateError(fmt::format("'{}' is not a namespace: its attributes cannot be set", s.names[0]));
      for (auto& [k, v] : target.space().entries)
        if (equal(k, s.attribute)) {
          v = given;
          return;
        }
      target.space().entries.emplace_back(s.attribute, given);
      return;
    }
    for (auto& [name, v] : unpacked(s.names, given)) scope_->set(name.text(), v);
  }

  // What a loop's body sees as `loop`.
  Value loop_state(const Items& items, std::size_t i) {
    const auto count = static_cast<std::int64_t>(items.size()), index = static_cast<std::int64_t>(i);
    Namespace loop;
    const auto set = [&](const char* name, Value v) { loop.entries.emplace_back(name, std::move(v)); };
    set("index0", index);
    set("index", index + 1);
    set("revindex0", count - index - 1);
    set("revindex", count - index);
    set("first", index == 0);
    set("last", index == count - 1);
    set("length", count);
    set("depth", std::int64_t{1});
    set("depth0", std::int64_t{0});
    set("previtem", i > 0 ? items[i - 1] : Value(Undefined{"the item before the first"}));
    set("nextitem", i + 1 < items.size() ? items[i + 1] : Value(Undefined{"an item past the last one"}));
    set("cycle", Function{"cycle", [i](const Arguments& a) -> Value {
                            if (a.positional.empty()) throw TemplateError("cycle of nothing");
                            return a.positional[i % a.positional.size()];
                          }});
    return loop;
  }

  Value changed_function(const std::shared_ptr<std::optional<Value>>& last) {
    return Function{"changed", [last](const Arguments& a) -> Value {
                      const Value now = Value::tuple(a.positional);
                      const bool same = last->has_value() && equal(**last, now);
                      *last = now;
                      return !same;
                    }};
  }

  Flow loop(const Statement& s) {
    Items items = elements(value(*s.conditions[0]));
    if (s.conditions[1] != nullptr)
      std::erase_if(items, [&](const Value& v) {
        const ScopeRef before = scope_;
        scope_ = std::make_shared<Scope>(Scope{before, unpacked(s.names, v)});
        const bool keep = value(*s.conditions[1]).truth();
        scope_ = before;
        return !keep;
      });
    if (items.empty()) return s.bodies.size() > 1 ? scoped(s.bodies[1]) : Flow::On;
    const auto last = std::make_shared<std::optional<Value>>();
    for (std::size_t i = 0; i < items.size(); ++i) {
      Entries names = unpacked(s.names, items[i]);
      Value state = loop_state(items, i);
      state.space().entries.emplace_back("changed", changed_function(last));
      names.emplace_back("loop", std::move(state));
      if (scoped(s.bodies[0], std::move(names)) == Flow::Break) break;
    }
    return Flow::On;
  }

  Value macro(const Statement& s, const std::string& name) {
    return Function{name, [this, &s, name, scope = scope_](const Arguments& given) -> Value {
                      Entries names;
                      if (given.positional.size() > s.parameters.size())
                        throw TemplateError(
                            fmt::format("macro '{}' takes at most {} arguments", name, s.parameters.size()));
                      const ScopeRef before = std::exchange(scope_, scope);
                      for (std::size_t i = 0; i < s.parameters.size(); ++i)
                        names.emplace_back(s.parameters[i].name, macro_argument(s.parameters[i], i, given));
                      for (const auto& [key, v] : given.named) {
                        if (find(names, std::string_view(key)) != nullptr) continue;
                        if (key != "caller")
                          throw TemplateError(fmt::format("macro '{}' has no argument '{}'", name, key));
                        names.emplace_back(key, v);
                      }
                      if (++depth_ > kDeepest) throw TemplateError("macros call each other too deeply");
                      std::string text = captured(s.bodies[0], std::move(names));
                      --depth_;
                      scope_ = before;
                      return text;
                    }};
  }

  Value macro_argument(const Parameter& p, std::size_t i, const Arguments& given) {
    if (i < given.positional.size()) return given.positional[i];
    for (const auto& [key, v] : given.named)
      if (key == p.name) return v;
    return p.initial != nullptr ? value(*p.initial) : Value(Undefined{fmt::format("'{}'", p.name)});
  }

  // ---- expressions

  Value named(const std::string& name) const {
    for (const Scope* s = scope_.get(); s != nullptr; s = s->outer.get())
      if (const Value* found = find(s->names, std::string_view(name))) return *found;
    return Undefined{fmt::format("'{}'", name)};
  }

  Arguments arguments(const std::vector<NamedExpression>& given) {
    Arguments out;
    for (const NamedExpression& a : given) {
      if (a.name.empty())
        out.positional.push_back(value(*a.value));
      else
        out.named.emplace_back(a.name, value(*a.value));
    }
    return out;
  }

  static Value call(const Value& what, const Arguments& given) {
    if (what.is(Value::Kind::Undefined))
      throw TemplateError(fmt::format("{} is undefined and cannot be called", what.missing()));
    if (!what.is(Value::Kind::Function))
      throw TemplateError(fmt::format("{} cannot be called", what.kind_name()));
    return what.function().run(given);
  }

  // Filters of a block: the innermost has no operand of its own.
  Value filtered(const Expression& e, const Value& text) {
    const Value x = e.operands.empty() ? text : filtered(*e.operands[0], text);
    return run_filter(e.text, x, arguments(e.arguments));
  }

  Value value(const Expression& e) {
    return at(e.line, [&] { return evaluate(e); });
  }

  Value evaluate(const Expression& e) {
    using E = Expression::Kind;
    switch (e.kind) {
      case E::Literal: return e.value;
      case E::Name: return named(e.text);
      case E::List:
      case E::Tuple: {
        List out{{}, e.kind == E::Tuple};
        for (const ExpressionRef& x : e.operands) out.items.push_back(value(*x));
        return out;
      }
      case E::Dict: return dict(e);
      case E::Attribute: return attribute(value(*e.operands[0]), e.text);
      case E::Subscript: return item(value(*e.operands[0]), value(*e.operands[1]));
      case E::Slice: {
        Value ends[3] = {None{}, None{}, None{}};
        for (std::size_t i = 0; i < 3; ++i)
          if (e.operands[i + 1] != nullptr) ends[i] = value(*e.operands[i + 1]);
        return slice(value(*e.operands[0]), ends[0], ends[1], ends[2]);
      }
      case E::Call: {
        const Value what = value(*e.operands[0]);
        return call(what, arguments(e.arguments));
      }
      case E::Filter: {
        const Value x = value(*e.operands[0]);
        return run_filter(e.text, x, arguments(e.arguments));
      }
      case E::Test: {
        const Value x = value(*e.operands[0]);
        return run_test(e.text, x, arguments(e.arguments));
      }
      case E::Unary: return unary(e);
      case E::Arithmetic: {
        const Value a = value(*e.operands[0]);
        return arithmetic(e.text, a, value(*e.operands[1]));
      }
      case E::And: {
        const Value a = value(*e.operands[0]);
        return a.truth() ? value(*e.operands[1]) : a;
      }
      case E::Or: {
        const Value a = value(*e.operands[0]);
        return a.truth() ? a : value(*e.operands[1]);
      }
      case E::Compare: return compare(e);
      case E::Conditional:
        if (value(*e.operands[0]).truth()) return value(*e.operands[1]);
        return e.operands[2] != nullptr ? value(*e.operands[2])
                                        : Value(Undefined{"a condition without else"});
    }
    return {};
  }

  Value dict(const Expression& e) {
    Dict out;
    for (std::size_t i = 0; i < e.operands.size(); i += 2) {
      const Value key = value(*e.operands[i]);
      Value v = value(*e.operands[i + 1]);
      const auto known = std::find_if(out.entries.begin(), out.entries.end(),
                                      [&](const auto& entry) { return equal(entry.first, key); });
      if (known != out.entries.end())
        known->second = std::move(v);
      else
        out.entries.emplace_back(key, std::move(v));
    }
    return out;
  }

  Value unary(const Expression& e) {
    const Value x = value(*e.operands[0]);
    if (e.text == "not") return !x.truth();
    if (x.is(Value::Kind::Undefined)) throw TemplateError(fmt::format("{} is undefined", x.missing()));
    if (!x.is_number()) throw TemplateError(fmt::format("'{}' of {}", e.text, x.kind_name()));
    if (x.is(Value::Kind::Float)) return e.text == "-" ? -x.real() : x.real();
    return e.text == "-" ? arithmetic("-", std::int64_t{0}, x) : Value(x.whole());
  }

  static bool holds(const std::string& op, const Value& a, const Value& b) {
    if (op == "==") return equal(a, b);
    if (op == "!=") return !equal(a, b);
    if (op == "in") return contains(b, a);
    if (op == "not in") return !contains(b, a);
    if (op == "<") return less(a, b);
    if (op == ">") return less(b, a);
    return op == "<=" ? less(a, b) || equal(a, b) : less(b, a) || equal(a, b);
  }

  Value compare(const Expression& e) {
    Value a = value(*e.operands[0]);
    for (std::size_t i = 0; i < e.texts.size(); ++i) {
      Value b = value(*e.operands[i + 1]);
      if (!holds(e.texts[i], a, b)) return false;
      a = std::move(b);
    }
    return true;
  }

  std::string out_;
  ScopeRef scope_;
  std::vector<ScopeRef> scopes_;  // those that a macro may hold
  int depth_ = 0;
};

}  // namespace

std::string render(const Block& block, const Entries& globals) { return Renderer(globals).run(block); }

}  // namespace lathe::llm::jinja
