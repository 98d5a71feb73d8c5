#include "runtime/training/rates/ParameterGroups.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <regex>
#include <set>

namespace omnibal::rt {
namespace {

constexpr const char *rateFlag = "--lr-of", *decayFlag = "--weight-decay-of",
                     *warmupFlag = "--warmup-of";
constexpr const char *visionName = "vision";
constexpr const char *othersLabel = "all others";

bool isComponent(const std::string &pattern) {
  return pattern == visionName || pattern == "projector" || pattern == "language";
}
/// "vision" of "vision.layers.3". Models' outputs are the language model's.
std::string componentOf(const std::string &layer) {
  const std::string first = layer.substr(0, layer.find('.'));
  return first == "head" ? "language" : first;
}

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string ruleText(const GroupRule &rule) { return rule.pattern + "=" + numberText(rule.value); }

/// The rules of one flag, which tells of each parameter at most one number.
class Rules {
public:
  static Result<Rules> of(const char *flag, const std::vector<GroupRule> &rules) {
    Rules made(flag, rules);
    for (const GroupRule &rule : rules) {
      OMNIBAL_ASSIGN_OR_RETURN(std::regex compiled, compile(flag, rule.pattern));
      made.compiled.push_back(std::move(compiled));
    }
    return made;
  }

  /// Two rules may find a parameter if they agree. One whose number does not `count` for any of
  /// the parameters that it finds is as good as one that finds none.
  Result<const GroupRule *> find(const TrainedParameter &parameter, bool counts = true) {
    const GroupRule *found = nullptr;
    for (size_t r = 0; r < rules.size(); ++r) {
      if (!matches(r, parameter))
        continue;
      if (counts)
        used.insert(r);
      if (found && found->value != rules[r].value)
        return invalid(std::string(flag) + ": " + ruleText(*found) + " and " + ruleText(rules[r]) +
                       " both find " + parameter.name +
                       ", and they disagree; let only one of "
                       "the patterns find it");
      if (!found)
        found = &rules[r];
    }
    return found;
  }

  /// A rule that finds nothing is a mistake.
  Status checkUsed(const std::vector<TrainedParameter> &trained) const {
    for (size_t r = 0; r < rules.size(); ++r)
      if (!used.contains(r))
        return invalid(std::string(flag) + " " + ruleText(rules[r]) + ": no parameter that trains" +
                       (flag == decayFlag ? " and has two dimensions" : "") +
                       " has such a name; there are " + examples(trained));
    return Status::ok();
  }

private:
  Rules(const char *flag, const std::vector<GroupRule> &rules) : flag(flag), rules(rules) {}

  static Result<std::regex> compile(const char *flag, const std::string &pattern) {
    try {
      return std::regex(pattern, std::regex::extended | std::regex::nosubs);
    } catch (const std::regex_error &) {
      return invalid(std::string(flag) + ": \"" + pattern +
                     "\" is no regular expression (POSIX extended)");
    }
  }

  bool matches(size_t r, const TrainedParameter &parameter) const {
    const std::string &pattern = rules[r].pattern;
    return isComponent(pattern) ? componentOf(parameter.layer) == pattern
                                : std::regex_search(parameter.name, compiled[r]);
  }

  static std::string examples(const std::vector<TrainedParameter> &trained) {
    constexpr size_t most = 3;
    std::string text;
    for (size_t i = 0; i < std::min(most, trained.size()); ++i) // spread over the model
      text += (i ? ", " : "") + trained[i * (trained.size() - 1) / (most - 1)].name;
    return text.empty() ? "none" : text;
  }

  const char *flag;
  std::vector<GroupRule> rules;
  std::vector<std::regex> compiled;
  std::set<size_t> used;
};

/// As BEiT and timm count them: what follows the last block has none above, the last block one, and
/// what precedes the first block one more than that.
int64_t layersAbove(const std::string &layer, int64_t blocks) {
  const std::string prefix = "vision.layers.";
  if (layer.starts_with(prefix)) {
    int64_t number = 0; // and stays so where a name of a layer has none
    std::from_chars(layer.data() + prefix.size(), layer.data() + layer.size(), number);
    return blocks - number;
  }
  return layer == "vision.embedding" ? blocks + 1 : 0;
}

void addTo(std::string &label, const std::string &part) {
  if (label != part)
    label += (label.empty() ? "" : " & ") + part;
}

std::string withCommas(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<size_t>(at), ",");
  return text;
}

class Grouping {
public:
  Grouping(const TrainedParts &model, const LearningRateOptions &rate, double weightDecay,
           const GroupOptions &options)
      : model(model), rate(rate), weightDecay(weightDecay), options(options) {}

  Result<ParameterGroups> run() {
    OMNIBAL_ASSIGN_OR_RETURN(Rules rates, Rules::of(rateFlag, options.rates));
    OMNIBAL_ASSIGN_OR_RETURN(Rules decays, Rules::of(decayFlag, options.decays));
    OMNIBAL_ASSIGN_OR_RETURN(Rules warmups, Rules::of(warmupFlag, options.warmups));
    groups.ruled = !options.empty();
    bool towerTrains = false;
    for (const TrainedParameter &q : model.parameters) {
      towerTrains |= componentOf(q.layer) == visionName;
      OMNIBAL_ASSIGN_OR_RETURN(const GroupRule *ofRate, rates.find(q));
      OMNIBAL_ASSIGN_OR_RETURN(const GroupRule *ofDecay, decays.find(q, q.decay));
      OMNIBAL_ASSIGN_OR_RETURN(const GroupRule *ofWarmup, warmups.find(q));
      add(q, ofRate, ofDecay, ofWarmup);
    }
    for (const Rules *rules : {&rates, &decays, &warmups})
      OMNIBAL_RETURN_IF_ERROR(rules->checkUsed(model.parameters));
    if (options.layerDecay && !towerTrains)
      return invalid("--layer-decay: no parameter of a vision tower trains");
    if (groups.list.size() > static_cast<size_t>(mostUpdateRates))
      return invalid("the parameters fall into " + std::to_string(groups.list.size()) +
                     " groups of a learning rate and weight decay; there may be " +
                     std::to_string(mostUpdateRates) +
                     " (--lr-of, --weight-decay-of, "
                     "--warmup-of, --layer-decay)");
    return std::move(groups);
  }

private:
  void add(const TrainedParameter &q, const GroupRule *ofRate, const GroupRule *ofDecay,
           const GroupRule *ofWarmup) {
    ParameterGroup group;
    group.rate = rate;
    group.decay = q.decay;
    group.weightDecay = q.decay ? weightDecay : 0;
    if (ofRate)
      group.rate.peak = ofRate->value;
    if (ofWarmup)
      group.rate.warmupSteps = std::llround(ofWarmup->value);
    if (ofDecay && q.decay)
      group.weightDecay = ofDecay->value;
    for (const GroupRule *rule : {ofRate, ofDecay, ofWarmup})
      if (rule)
        addTo(group.label, rule->pattern);
    if (options.layerDecay && componentOf(q.layer) == visionName) {
      group.rate.peak *= std::pow(*options.layerDecay, layersAbove(q.layer, model.visionBlocks));
      addTo(group.label, q.layer);
    }
    if (group.label.empty())
      group.label = options.empty() ? "all" : othersLabel;
    put(q, std::move(group));
  }

  void put(const TrainedParameter &q, ParameterGroup group) {
    auto [at, fresh] =
        numbers.try_emplace({group.label, group.decay}, static_cast<int32_t>(groups.list.size()));
    if (fresh)
      groups.list.push_back(std::move(group));
    ParameterGroup &mine = groups.list[static_cast<size_t>(at->second)];
    ++mine.tensors;
    mine.elements += q.elements;
    groups.ofParameter[q.name] = at->second;
    groups.partOfParameter[q.name] = componentOf(q.layer);
  }

  const TrainedParts &model;
  const LearningRateOptions &rate;
  double weightDecay;
  const GroupOptions &options;
  std::map<std::pair<std::string, bool>, int32_t> numbers;
  ParameterGroups groups;
};

} // namespace

Result<GroupRule> parseGroupRule(const std::string &flag, const std::string &text) {
  const size_t at = text.rfind('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return invalid(flag + ": \"" + text + "\" is not PATTERN=NUMBER");
  const std::string number = text.substr(at + 1);
  char *end = nullptr;
  const double value = std::strtod(number.c_str(), &end);
  if (*end != 0 || !std::isfinite(value) || value < 0)
    return invalid(flag + " " + text + ": " + number + " is not a finite number of at least 0");
  return GroupRule{text.substr(0, at), value};
}

std::vector<UpdateRate> ParameterGroups::ratesAt(int64_t step, int64_t steps) const {
  std::vector<UpdateRate> rates;
  for (const ParameterGroup &group : list)
    rates.push_back({learningRateAt(group.rate, step, steps), group.weightDecay});
  return rates;
}

std::vector<std::pair<std::string, double>> ParameterGroups::learningRatesAt(int64_t step,
                                                                             int64_t steps) const {
  std::vector<std::pair<std::string, double>> rates;
  std::set<std::string> told;
  for (const ParameterGroup &group : list)
    if (ruled && group.label != othersLabel && told.insert(group.label).second)
      rates.emplace_back(group.label, learningRateAt(group.rate, step, steps));
  return rates;
}

std::string ParameterGroups::table() const {
  size_t width = 5;
  auto nameOfRow = [](const ParameterGroup &group) {
    return group.label + (group.decay ? "" : ", one dimension");
  };
  for (const ParameterGroup &group : list)
    width = std::max(width, nameOfRow(group).size());
  auto row = [&](const std::string &name, const std::string &lr, const std::string &decay,
                 const std::string &warmup, const std::string &tensors, const std::string &count) {
    char text[160];
    std::snprintf(text, sizeof text, "  %10s  %12s  %7s  %7s  %15s", lr.c_str(), decay.c_str(),
                  warmup.c_str(), tensors.c_str(), count.c_str());
    return "\n  " + name + std::string(width - name.size(), ' ') + text;
  };
  std::string text = "what trains, by learning rate and weight decay";
  text += row("group", "lr", "weight decay", "warm-up", "tensors", "parameters");
  for (const ParameterGroup &group : list)
    text += row(nameOfRow(group), numberText(group.rate.peak), numberText(group.weightDecay),
                std::to_string(group.rate.warmupSteps), std::to_string(group.tensors),
                withCommas(group.elements));
  return text;
}

Result<ParameterGroups> groupParameters(const TrainedParts &model, const LearningRateOptions &rate,
                                        double weightDecay, const GroupOptions &options) {
  return Grouping(model, rate, weightDecay, options).run();
}

} // namespace omnibal::rt
