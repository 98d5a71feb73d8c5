#include "runtime/program/MovesText.h"
#include "runtime/device/PartMove.h"
#include "runtime/program/Names.h"
#include "runtime/program/Sizes.h"
#include "runtime/support/NumberText.h"
#include <cctype>
#include <map>
#include <sstream>

namespace omnibal::rt {
namespace {

/// Moves that send, by kernel, and what they send together.
struct Sent {
  std::map<std::string, int64_t> moves;
  int64_t rounds = 0, bytes = 0;

  friend bool operator==(const Sent &, const Sent &) = default;
};

struct LayerFacts {
  std::vector<std::string> held;
  Sent forward, backward;

  friend bool operator==(const LayerFacts &, const LayerFacts &) = default;
};

/// Of the whole value each of k parts sends (k - 1) / k, a sum twice as much.
int64_t bytesSent(PartMoveKind kind, const Function &function, const KernelCall &call,
                  const SymbolValues &at, int64_t parts) {
  auto bytesOf = [&](std::string_view operand) {
    for (const auto &[name, view] : call.operands)
      if (name == operand)
        return bytesAt(function.buffers[view.buffer].dtype, view.shape, at);
    return int64_t{0};
  };
  const int64_t src = bytesOf("src");
  return kind == PartMoveKind::AllReduce       ? 2 * (src - src / parts)
         : kind == PartMoveKind::AllGather     ? src * (parts - 1)
         : kind == PartMoveKind::ReduceScatter ? src - bytesOf("dst")
                                               : src - src / parts;
}

void addMoves(const Function &function, const SymbolValues &at, int64_t parts, Sent &sent) {
  for (const KernelCall &call : function.calls) {
    const std::optional<PartMoveKind> kind = PartMove::kindOf(call.kernel);
    if (!kind || !PartMove::sends(*kind))
      continue;
    ++sent.moves[call.kernel];
    sent.rounds += *kind == PartMoveKind::AllReduce ? 2 : 1;
    sent.bytes += bytesSent(*kind, function, call, at, parts);
  }
}

/// The name within its layer: behind the last number.
std::string nameWithin(const std::string &parameter) {
  for (size_t end = parameter.size(); end-- > 1;)
    if (parameter[end] == '.' && std::isdigit(static_cast<unsigned char>(parameter[end - 1])))
      return parameter.substr(end + 1);
  return parameter;
}

void addHeld(const Stage &stage, const LayerCall &call, std::vector<std::string> &held) {
  for (const Location &l : call.bindings) {
    if (l.space != Space::Parameter || !stage.parameters[l.index].held)
      continue;
    const HeldUnits &units = *stage.parameters[l.index].held;
    held.push_back(nameWithin(stage.parameters[l.index].name) + " split(" +
                   std::to_string(units.dim) + " : " + std::to_string(units.units) +
                   (units.inner > 1 ? " x " + std::to_string(units.inner) : "") + ")");
  }
}

std::string textOf(const Sent &sent, const MoveTime &timeOf) {
  if (sent.rounds == 0)
    return "nothing";
  std::string text;
  for (const auto &[kernel, count] : sent.moves)
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kernel;
  text += ": " + bytesToString(sent.bytes);
  return timeOf ? text + ", " + milliseconds(timeOf(sent.rounds, sent.bytes), 3) + " ms" : text;
}

/// By layer, in the order of forwards.
std::vector<std::pair<std::string, LayerFacts>> layersOf(const Program &program, const Stage &stage,
                                                         const Mode &mode, const SymbolValues &at,
                                                         int64_t parts) {
  std::vector<std::pair<std::string, LayerFacts>> layers;
  for (const Chunk &chunk : mode.chunks)
    for (const LayerCall &forward : chunk.forward) {
      if (chunk.variant > 0)
        continue;
      LayerFacts facts;
      addHeld(stage, forward, facts.held);
      addMoves(program.functions[forward.function], at, parts, facts.forward);
      const bool inHalves = chunk.backward.empty();
      for (ActionKind kind : {ActionKind::Backward, ActionKind::InputGrad, ActionKind::WeightGrad})
        for (const LayerCall &call : chunk.calls(kind))
          if (call.layer == forward.layer && (kind == ActionKind::Backward) != inHalves)
            addMoves(program.functions[call.function], at, parts, facts.backward);
      layers.push_back({forward.layer, std::move(facts)});
    }
  return layers;
}

} // namespace

std::string movesText(const Program &program, const std::string &mode, const MoveTime &timeOf) {
  const MicrobatchCaps caps = program.capsOf(mode);
  if (program.entries() == 1 || caps.parts == 1)
    return "";
  const SymbolValues at =
      SymbolValues::of(caps.tiles, program.roundedTokens(caps.tokens), caps.parts - 1, caps.parts);
  std::ostringstream out;
  out << "what each of " << caps.parts << " parts holds and sends of a full micro-batch, mode "
      << mode << ":\n";
  for (int32_t s = 0; s < program.stages; ++s) {
    const Stage &stage = program.stageOf(s, caps.parts - 1);
    auto found = stage.modes.find(mode);
    if (found == stage.modes.end())
      continue;
    const auto layers = layersOf(program, stage, found->second, at, caps.parts);
    for (size_t i = 0; i < layers.size();) {
      size_t end = i + 1;
      while (end < layers.size() && layers[end].second == layers[i].second)
        ++end;
      const LayerFacts &facts = layers[i].second;
      out << "  stage " << s << ", " << layers[i].first
          << (end > i + 1 ? " to " + layers[end - 1].first : "") << "\n    holds ";
      for (const std::string &held : facts.held)
        out << (&held == facts.held.data() ? "" : ", ") << held;
      out << (facts.held.empty() ? "all of its parameters" : "") << "\n    sends forward "
          << textOf(facts.forward, timeOf) << "; backward " << textOf(facts.backward, timeOf)
          << "\n";
      i = end;
    }
  }
  return out.str();
}

} // namespace omnibal::rt
