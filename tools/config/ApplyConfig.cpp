#include "tools/config/ApplyConfig.h"
#include "tools/config/NearestName.h"
#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace omnibal::config {
namespace {

using Kind = ConfigValue::Kind;

bool has(const std::vector<std::string> &names, const std::string &name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string quoted(const std::string &name) { return "\"" + name + "\""; }

std::string listed(const std::vector<std::string> &names) {
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

class Application {
public:
  Application(CLI::App &app, const ConfigFile &file) : app(app), file(file), table(tableOf(app)) {
    for (CLI::Option *option : app.get_options())
      if (option->count() > 0)
        given.insert(option);
  }

  void run() {
    for (const ConfigEntry *entry : entries()) {
      CLI::Option *option = find(entry->key);
      if (!option)
        refuseKey(*entry);
      check(*entry, *option);
      if (const ConfigEntry *first = entryOf.emplace(option, entry).first->second; first != entry)
        fail(entry->line, quoted(entry->key) + " and " + quoted(first->key) +
                              " are one option; leave one of them out");
      if (!isDecided(*option))
        set(*entry, *option);
    }
  }

private:
  [[noreturn]] void fail(int64_t line, const std::string &what) const {
    throw CLI::FileError(file.at(line) + ": " + what);
  }

  CLI::Option *find(const std::string &key) const {
    for (CLI::Option *option : app.get_options())
      if (option->get_configurable() &&
          (option->get_single_name() == key || option->check_sname(key)))
        return option;
    return nullptr;
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const CLI::Option *option : app.get_options())
      if (option->get_configurable() && !option->get_group().empty())
        names.push_back(option->get_single_name());
    return names;
  }

  /// What the file says to this tool, as the lines are. A table goes before what is shared.
  std::vector<const ConfigEntry *> entries() const {
    std::vector<const ConfigEntry *> list;
    if (file.tables.empty()) {
      for (const ConfigEntry &entry : file.top.entries)
        list.push_back(&entry);
      return list;
    }
    const ConfigTable *own = nullptr;
    for (const ConfigTable &found : file.tables) {
      if (!has(toolTables(), found.name))
        fail(found.line, "no tool has a table [" + found.name + "]; the nearest is [" +
                             nearestName(found.name, toolTables()) + "]");
      if (found.name == table)
        own = &found;
    }
    for (const ConfigEntry &entry : file.top.entries) {
      checkShared(entry);
      auto isSame = [&](const ConfigEntry &other) { return other.key == entry.key; };
      if (find(entry.key) &&
          !(own && std::any_of(own->entries.begin(), own->entries.end(), isSame)))
        list.push_back(&entry);
    }
    if (own)
      for (const ConfigEntry &entry : own->entries)
        list.push_back(&entry);
    return list;
  }

  void checkShared(const ConfigEntry &entry) const {
    if (has(sharedKeys(), entry.key))
      return;
    const std::string before = quoted(entry.key) + " stands before the tables, where only ";
    if (find(entry.key))
      fail(entry.line, before + listed(sharedKeys()) + " may stand; move it to [" + table + "]");
    fail(entry.line, before + listed(sharedKeys()) + " may stand; the nearest is " +
                         quoted(nearestName(entry.key, sharedKeys())));
  }

  [[noreturn]] void refuseKey(const ConfigEntry &entry) const {
    fail(entry.line, app.get_name() + " has no option " + quoted(entry.key) + "; the nearest is " +
                         quoted(nearestName(entry.key, keys())));
  }

  void check(const ConfigEntry &entry, const CLI::Option &option) const {
    if (entry.isList && !takesSeveral(option))
      fail(entry.line, quoted(entry.key) + " has one value, not a list");
    for (const ConfigValue &value : entry.values)
      if (const std::string wanted = wantedFor(value, option); !wanted.empty())
        fail(entry.line, quoted(entry.key) + " is " + wanted + ", not " + value.seen);
  }

  /// What the option takes, if the value is none of that; empty: it is one. A text is what a
  /// command line has too ("auto", "1e-4"), so the option's own check looks at it.
  static std::string wantedFor(const ConfigValue &value, const CLI::Option &option) {
    const bool isText = value.kind == Kind::Text, isWhole = value.kind == Kind::Whole;
    const bool isNumber = isWhole || value.kind == Kind::Real;
    switch (kindOf(option)) {
    case OptionKind::Flag:
      return truthOf(value) ? "" : "true or false";
    case OptionKind::Whole:
      return isWhole || isText ? "" : "a whole number";
    case OptionKind::Bytes:
    case OptionKind::Real:
      return isNumber || isText ? "" : "a number";
    case OptionKind::Text:
      return isNumber || isText ? "" : "a text in quotation marks";
    }
    return "";
  }

  /// What a flag is set to, by the words that a command line may have for it (`--flag=yes`); none:
  /// the value is no such word.
  static std::optional<bool> truthOf(const ConfigValue &value) {
    bool truth = false;
    if (value.kind == Kind::Real || value.kind == Kind::Other ||
        !CLI::detail::lexical_cast(value.text, truth))
      return std::nullopt;
    return truth;
  }

  bool isDecided(const CLI::Option &option) const {
    if (given.count(&option))
      return true;
    const std::set<CLI::Option *> others = option.get_excludes();
    return std::any_of(others.begin(), others.end(),
                       [&](const CLI::Option *other) { return given.count(other) > 0; });
  }

  void set(const ConfigEntry &entry, CLI::Option &option) const {
    const bool isFlag = kindOf(option) == OptionKind::Flag;
    std::vector<std::string> texts;
    for (const ConfigValue &value : entry.values)
      if (!isFlag)
        texts.push_back(value.text);
      else if (truthOf(value) == true)
        texts.push_back("true");
    if (texts.empty())
      return;
    try {
      option.add_result(texts);
      option.run_callback();
    } catch (const CLI::Error &error) {
      std::string what = error.what();
      if (const std::string name = option.get_name() + ": "; what.starts_with(name))
        what = what.substr(name.size());
      fail(entry.line, quoted(entry.key) + ": " + what);
    }
  }

  CLI::App &app;
  const ConfigFile &file;
  const std::string table;
  std::set<const CLI::Option *> given; ///< on the command line
  std::map<const CLI::Option *, const ConfigEntry *> entryOf;
};

} // namespace

const std::vector<std::string> &toolTables() {
  static const std::vector<std::string> names = {"batch", "compile", "plan", "run"};
  return names;
}

const std::vector<std::string> &sharedKeys() {
  static const std::vector<std::string> keys = {
      "allow-links-within", "batches", "preprocess", "seed", "tiles", "tokens", "weights"};
  return keys;
}

std::string tableOf(const CLI::App &app) {
  const std::string &name = app.get_name();
  return name.substr(name.find('-') + 1);
}

OptionKind kindOf(const CLI::Option &option) {
  if (option.get_expected_min() == 0)
    return OptionKind::Flag;
  const std::string type = option.get_type_name();
  return type.starts_with("INT") || type.starts_with("UINT") ? OptionKind::Whole
         : type.starts_with("BYTES")                         ? OptionKind::Bytes
         : type.starts_with("FLOAT")                         ? OptionKind::Real
                                                             : OptionKind::Text;
}

bool takesSeveral(const CLI::Option &option) { return option.get_expected_max() > 1; }

void applyConfig(CLI::App &app, const ConfigFile &file) { Application(app, file).run(); }

} // namespace omnibal::config
