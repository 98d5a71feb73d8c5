//===- WordChecks.h - What a flag's word may be ----------------------------------------------===//
#ifndef TOOLS_WORDCHECKS_H
#define TOOLS_WORDCHECKS_H

#include <CLI/CLI.hpp>
#include <map>
#include <string>
#include <vector>

namespace omnibal::rt {

/// One of these words, which --help lists.
inline CLI::Validator word(const std::vector<std::string> &words) {
  auto isGood = [words](const std::string &text) -> std::string {
    std::string known;
    for (const std::string &one : words) {
      if (text == one)
        return "";
      known += (known.empty() ? "" : ", ") + one;
    }
    return text + " is none of " + known;
  };
  return CLI::Validator(isGood, CLI::detail::generate_set(words));
}

/// The words of such a table.
template <typename Meaning>
std::vector<std::string> wordsOf(const std::map<std::string, Meaning> &meanings) {
  std::vector<std::string> words;
  for (const auto &[word, meaning] : meanings)
    words.push_back(word);
  return words;
}

/// An option whose word stands for a value.
template <typename Value, typename Meaning>
CLI::Option *addChoice(CLI::App &app, const std::string &flag, Value &value,
                       const std::map<std::string, Meaning> &meanings, const std::string &help) {
  return app
      .add_option_function<std::string>(
          flag, [&value, meanings](const std::string &name) { value = meanings.at(name); }, help)
      ->check(word(wordsOf(meanings)));
}

} // namespace omnibal::rt
#endif // TOOLS_WORDCHECKS_H
