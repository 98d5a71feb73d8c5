#include "tools/config/ConfigText.h"
#include "tools/config/ApplyConfig.h"
#include <charconv>
#include <optional>

namespace omnibal::config {
namespace {

/// A TOML file is text in UTF-8; names of files need not be.
bool isUtf8(const std::string &text) {
  for (size_t i = 0; i < text.size();) {
    const unsigned char first = text[i];
    const size_t more = first < 0x80             ? 0
                        : (first & 0xe0) == 0xc0 ? 1
                        : (first & 0xf0) == 0xe0 ? 2
                        : (first & 0xf8) == 0xf0 ? 3
                                                 : text.size();
    if (i + more >= text.size())
      return false;
    for (size_t k = 1; k <= more; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80)
        return false;
    i += more + 1;
  }
  return true;
}

std::string quotedText(const std::string &text) {
  std::string quoted = "\"";
  for (char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (letter == '"' || letter == '\\')
      quoted += '\\';
    if (code >= 0x20 && code != 0x7f) {
      quoted += letter;
      continue;
    }
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\u%04X", code);
    quoted += escaped;
  }
  return quoted + "\"";
}

std::string valueText(OptionKind kind, const std::string &text) {
  int64_t whole = 0;
  uint64_t large = 0;
  double real = 0;
  const bool isWhole = kind == OptionKind::Whole || kind == OptionKind::Bytes;
  // TOML has no whole numbers above those of int64.
  if (isWhole && !text.starts_with("-") && CLI::detail::lexical_cast(text, large) &&
      large > INT64_MAX)
    return quotedText(std::to_string(large));
  if (isWhole && CLI::detail::lexical_cast(text, whole))
    return std::to_string(whole);
  if (kind == OptionKind::Real && CLI::detail::lexical_cast(text, real)) {
    char digits[64];
    return {digits, std::to_chars(digits, digits + sizeof digits, real).ptr};
  }
  return quotedText(text);
}

/// `key = value`; none: the option has no value.
std::optional<std::string> lineOf(const CLI::Option &option) {
  const std::string key = option.get_single_name() + " = ";
  const OptionKind kind = kindOf(option);
  const std::vector<std::string> &results = option.results();
  if (kind == OptionKind::Flag)
    return (option.count() > 0 && option.as<bool>() ? "" : "# ") + key +
           (option.count() > 0 && option.as<bool>() ? "true" : "false");
  if (results.empty())
    return option.get_default_str().empty()
               ? std::nullopt
               : std::optional("# " + key + valueText(kind, option.get_default_str()));
  for (const std::string &result : results)
    if (!isUtf8(result))
      return "# " + key + "... (not in UTF-8, as which alone it could stand here)";
  if (!takesSeveral(option))
    return key + valueText(kind, results.back());
  std::string list;
  for (const std::string &result : results)
    list += (list.empty() ? "" : ", ") + valueText(kind, result);
  return key + "[" + list + "]";
}

} // namespace

std::string configText(const CLI::App &app) {
  std::string text = "# Options of " + app.get_name() +
                     ", as a file for its --config. What is a comment has its default.\n[" +
                     tableOf(app) + "]\n";
  for (const std::string &group : app.get_groups()) {
    std::string lines;
    for (const CLI::Option *option : app.get_options())
      if (option->get_group() == group && option->get_configurable())
        if (auto line = lineOf(*option); line && !(group.empty() && line->starts_with("#")))
          lines += *line + "\n";
    if (!lines.empty())
      text += (group.empty() ? "\n" : "\n# " + group + "\n") + lines;
  }
  return text;
}

} // namespace omnibal::config
