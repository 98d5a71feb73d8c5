#include "runtime/training/calibration/CalibrationTable.h"
#include "runtime/device/Load.h"
#include "runtime/support/Formats.h"
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

namespace omnibal::rt {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

json toJson(const std::optional<MeasuredLink> &link) {
  return link ? json::array({link->latencyNs, link->bytesPerSecond}) : json();
}

std::optional<MeasuredLink> linkFromJson(const json &j) {
  if (j.is_null())
    return std::nullopt;
  return MeasuredLink{j[0].get<double>(), j[1].get<double>()};
}

void keepSlower(std::optional<MeasuredLink> &mine, const std::optional<MeasuredLink> &theirs) {
  if (!mine || !theirs) {
    mine = mine ? mine : theirs;
    return;
  }
  mine->latencyNs = std::max(mine->latencyNs, theirs->latencyNs);
  mine->bytesPerSecond = std::min(mine->bytesPerSecond, theirs->bytesPerSecond);
}

/// What the system calls the processor.
std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (size_t at = line.find(": "); at != std::string::npos)
        return line.substr(at + 2);
  return "unknown";
}

/// Six digits are more than a measurement has, and read well.
double rounded(double value) {
  if (value == 0)
    return 0;
  double unit = std::pow(10.0, std::floor(std::log10(std::abs(value))) - 5);
  return std::round(value / unit) * unit;
}

ordered_json functionEntry(const std::string &digest, const MeasuredFunction &measured,
                           const TimeFit::Use &use) {
  TimeFit fit = fitTimes(measured.loads, use);
  ordered_json entry = {{"digest", digest},
                        {"name", measured.name},
                        {"layer", measured.layer},
                        {"fixed_ns", rounded(fit.ns[TimeFit::Fixed])},
                        {"tile_ns", rounded(fit.ns[TimeFit::Tile])},
                        {"token_ns", rounded(fit.ns[TimeFit::Token])},
                        {"square_ns", rounded(fit.ns[TimeFit::Square])},
                        {"label_ns", rounded(fit.ns[TimeFit::Label])}};
  if (use[TimeFit::TileSquare])
    entry["tile_square_ns"] = rounded(fit.ns[TimeFit::TileSquare]);
  entry["error"] = rounded(fit.error);
  ordered_json &points = entry["measured"] = ordered_json::array();
  for (const TimedLoad &load : measured.loads) {
    points.push_back(
        {load.tiles, load.tokens, load.squaredTokens, load.labels, std::llround(load.ns)});
    if (use[TimeFit::TileSquare])
      points.back().push_back(load.squaredTiles);
  }
  return entry;
}

ordered_json linkEntry(const MeasuredLink &link) {
  return {{"latency_ns", std::llround(link.latencyNs)},
          {"bytes_per_s", std::llround(link.bytesPerSecond)}};
}

} // namespace

json Measurements::toJson() const {
  json list = json::array();
  for (const auto &[digest, f] : functions) {
    json loads = json::array();
    for (size_t i = 0; i < f.loads.size(); ++i)
      loads.push_back({f.loads[i].tiles, f.loads[i].tokens, f.loads[i].squaredTokens,
                       f.loads[i].labels, f.loads[i].ns, f.loads[i].squaredTiles, f.calls[i]});
    list.push_back({digest, f.name, f.layer, loads});
  }
  return {{"functions", list},
          {"noise", noise},
          {"action_ns", actionNs},
          {"link", rt::toJson(link)},
          {"reduction", rt::toJson(reduction)}};
}

Measurements Measurements::fromJson(const json &j) {
  Measurements m;
  for (const json &entry : j.at("functions")) {
    MeasuredFunction &f = m.functions[entry.at(0).get<std::string>()];
    f.name = entry.at(1).get<std::string>();
    f.layer = entry.at(2).get<std::string>();
    for (const json &l : entry.at(3)) {
      f.loads.push_back({l.at(0).get<int64_t>(), l.at(1).get<int64_t>(), l.at(2).get<int64_t>(),
                         l.at(3).get<int64_t>(), l.at(4).get<double>(), l.at(5).get<int64_t>()});
      f.calls.push_back(l.at(6).get<double>());
    }
  }
  m.noise = j.at("noise").get<double>();
  m.actionNs = j.at("action_ns").get<double>();
  m.link = linkFromJson(j.at("link"));
  m.reduction = linkFromJson(j.at("reduction"));
  return m;
}

void MeasuredFunction::add(const TimedLoad &load, double callsOfLoad) {
  auto key = [](const TimedLoad &l) {
    return std::tuple(l.tiles, l.tokens, l.squaredTokens, l.labels, l.squaredTiles);
  };
  const auto found = std::find_if(loads.begin(), loads.end(),
                                  [&](const TimedLoad &l) { return key(l) == key(load); });
  if (found == loads.end()) {
    loads.push_back(load);
    calls.push_back(callsOfLoad);
    return;
  }
  double &before = calls[found - loads.begin()];
  const double all = before + callsOfLoad;
  if (all > 0)
    found->ns = (found->ns * before + load.ns * callsOfLoad) / all;
  before = all;
}

void Measurements::add(const Measurements &other) {
  for (const auto &[digest, theirs] : other.functions) {
    auto [found, fresh] = functions.try_emplace(digest, theirs);
    for (size_t i = 0; !fresh && i < theirs.loads.size(); ++i)
      found->second.add(theirs.loads[i], theirs.calls[i]);
  }
  noise = std::max(noise, other.noise);
  actionNs = std::max(actionNs, other.actionNs);
  keepSlower(link, other.link);
  keepSlower(reduction, other.reduction);
}

TimeFit::Use termsOf(const Function &function) {
  TimeFit::Use use = {true};
  for (const Buffer &buffer : function.buffers)
    for (const Extent &e : buffer.shape) {
      use[TimeFit::Tile] |= e.growsWithTiles();
      use[TimeFit::Token] |= e.growsWithTokens();
    }
  for (const KernelCall &call : function.calls) {
    bool attention = call.kernel.starts_with("attention");
    for (const auto &[operand, view] : call.operands) {
      bool tokens = std::any_of(view.shape.begin(), view.shape.end(),
                                [](const Extent &e) { return e.growsWithTokens(); });
      use[TimeFit::Square] |= tokens && operand == "q" && attention;
      use[TimeFit::Label] |= tokens && operand == "targets";
      // Windows have a largest size: what they take follows the number of units.
      use[TimeFit::TileSquare] |=
          attention && operand == "cu_seqlens" &&
          bordersNamed(function.buffers[view.buffer].name) == Borders::Segments;
    }
  }
  return use;
}

std::string calibrationTable(const Program &program, const Measurements &measurements,
                             double labelsPerToken, int threads, const std::string &device) {
  ordered_json table;
  table["schema"] = formats::calibration;
  table["program"] = {{"model", program.model},     {"target", program.target},
                      {"compute", program.compute}, {"cpu", program.cpu},
                      {"stages", program.stages},   {"data_parallel", program.dataParallel},
                      {"threads", threads}};
  if (program.modelParallel > 1)
    table["program"]["model_parallel"] = program.modelParallel;
  table["machine"] = {{"processor", program.target == "host" ? processorName() : device},
                      {"cores", std::max(1u, std::thread::hardware_concurrency())}};
  table["noise"] = rounded(measurements.noise);
  table["labels_per_token"] = rounded(labelsPerToken);
  table["action_ns"] = std::llround(measurements.actionNs);
  if (measurements.link)
    table["link"] = linkEntry(*measurements.link);
  if (measurements.reduction)
    table["data_parallel"] = linkEntry(*measurements.reduction);
  ordered_json &functions = table["functions"] = ordered_json::array();
  for (const auto &[digest, measured] : measurements.functions) {
    auto function = std::find_if(program.functions.begin(), program.functions.end(),
                                 [&](const Function &f) { return f.digest == digest; });
    if (function == program.functions.end())
      continue;
    functions.push_back(functionEntry(digest, measured, termsOf(*function)));
  }
  // One function a line: short enough to read and to compare.
  std::string text = "{\n";
  for (const auto &[key, value] : table.items()) {
    text += " " + json(key).dump() + ": ";
    if (key == "functions") {
      text += "[";
      for (size_t i = 0; i < value.size(); ++i)
        text += (i ? ",\n  " : "\n  ") + value[i].dump();
      text += "\n ]\n";
    } else {
      text += value.dump() + ",\n";
    }
  }
  return text + "}\n";
}

} // namespace omnibal::rt
