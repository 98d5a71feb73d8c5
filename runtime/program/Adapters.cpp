#include "runtime/program/Adapters.h"
#include <cmath>

namespace omnibal::rt {

double Adapters::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rankStabilized ? std::sqrt(r) : r);
}

std::vector<AdapterTensor> adapterTensors(const Adapters &adapters) {
  // PEFT's model is a wrapper of a wrapper.
  const std::string outer = "base_model.model.";
  std::vector<AdapterTensor> tensors;
  for (const LinearAdapter &linear : adapters.linears) {
    tensors.push_back({linear.a, outer + linear.module + ".lora_A.weight"});
    tensors.push_back({linear.b, outer + linear.module + ".lora_B.weight"});
    if (adapters.dora)
      tensors.push_back({linear.magnitude, outer + linear.module + ".lora_magnitude_vector"});
  }
  for (const SavedParameter &saved : adapters.saved)
    tensors.push_back({saved.parameter,
                       outer + saved.module + saved.parameter.substr(saved.parameter.rfind('.'))});
  return tensors;
}

nlohmann::json adaptersToJson(const Adapters &adapters) {
  nlohmann::json linears = nlohmann::json::array(), saved = nlohmann::json::array();
  for (const LinearAdapter &linear : adapters.linears) {
    linears.push_back({{"weight", linear.weight},
                       {"module", linear.module},
                       {"a", linear.a},
                       {"b", linear.b},
                       {"in_out", linear.inOut}});
    if (adapters.dora)
      linears.back()["magnitude"] = linear.magnitude;
  }
  for (const SavedParameter &each : adapters.saved)
    saved.push_back({{"parameter", each.parameter}, {"module", each.module}});
  nlohmann::json all = {{"rank", adapters.rank},
                        {"alpha", adapters.alpha},
                        {"rank_stabilized", adapters.rankStabilized},
                        {"linears", linears},
                        {"saved", saved}};
  if (adapters.dropout > 0)
    all["dropout"] = adapters.dropout;
  if (adapters.dora)
    all["dora"] = true;
  return all;
}

Adapters adaptersFromJson(JsonField f) {
  f.onlyKeys({"rank", "alpha", "rank_stabilized", "dropout", "dora", "linears", "saved"});
  Adapters adapters;
  adapters.rank = f["rank"].integer();
  adapters.alpha = f["alpha"].number();
  adapters.rankStabilized = f["rank_stabilized"].flag();
  if (f.has("dropout"))
    adapters.dropout = f["dropout"].number(0, 1);
  adapters.dora = f.has("dora") && f["dora"].flag();
  adapters.linears = f["linears"].list([&](JsonField each) {
    if (adapters.dora)
      each.onlyKeys({"weight", "module", "a", "b", "in_out", "magnitude"});
    else
      each.onlyKeys({"weight", "module", "a", "b", "in_out"});
    return LinearAdapter{
        each["weight"].text(), each["module"].text(),
        each["a"].text(),      each["b"].text(),
        each["in_out"].flag(), adapters.dora ? each["magnitude"].text() : std::string()};
  });
  adapters.saved = f["saved"].list([](JsonField each) {
    each.onlyKeys({"parameter", "module"});
    SavedParameter saved{each["parameter"].text(), each["module"].text()};
    if (saved.parameter.find('.') == std::string::npos)
      each["parameter"].fail("the name of a parameter in a module is expected");
    return saved;
  });
  return adapters;
}

} // namespace omnibal::rt
