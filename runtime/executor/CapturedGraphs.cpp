#include "runtime/executor/CapturedGraphs.h"
#include "runtime/device/PartMove.h"

namespace omnibal::rt {
namespace {

struct Dependence {
  bool tiles = false, tokens = false, labels = false, samples = false, pictures = false,
       moves = false;
  bool operator==(const Dependence &) const = default;
  void add(const Extent &e) {
    tiles |= e.growsWithTiles();
    tokens |= e.growsWithTokens();
  }
};

/// Sizes in attributes are numbers, or lists as extents are.
void addAttribute(const nlohmann::json &value, Dependence &found) {
  if (!value.is_structured())
    return;
  auto number = [&](size_t i) { return value[i].is_number() && value[i] != 0; };
  if (value.is_array() && value.size() == 3)
    found.add({0, number(1), number(2)});
  if (value.is_array() && value.size() == 5)
    found.add({0, number(1), number(2), number(3), number(4)});
  for (const nlohmann::json &element : value)
    addAttribute(element, found);
}

bool ofPictures(const Function &function, const View &borders) {
  return borders.buffer >= 0 &&
         bordersNamed(function.buffers[borders.buffer].name) != Borders::Samples;
}

Dependence dependenceOf(const Function &function) {
  Dependence found;
  for (const Buffer &buffer : function.buffers)
    for (const Extent &e : buffer.shape)
      found.add(e);
  for (const KernelCall &call : function.calls) {
    found.moves |= PartMove::isKernel(call.kernel);
    for (const auto &[name, view] : call.operands) {
      found.labels |= name == "targets";
      if (name == "cu_seqlens")
        (ofPictures(function, view) ? found.pictures : found.samples) = true;
      found.add(view.offset);
      for (const auto *extents : {&view.shape, &view.strides})
        for (const Extent &e : *extents)
          found.add(e);
    }
    addAttribute(call.attributes, found);
  }
  return found;
}

/// Returns where the calls' operands lie for a micro-batch, as far as that depends on it.
std::vector<int64_t> offsetsOf(const Program &program, const Mode &mode,
                               const std::vector<LayerCall> &calls, const Segment &segment,
                               int32_t microbatch) {
  std::vector<int64_t> offsets;
  for (size_t i = segment.begin; i < segment.end; ++i) {
    for (const Location &l : calls[i].bindings)
      if (l.space == Space::Region)
        offsets.push_back(mode.regions[l.index].offsets[microbatch]);
    if (program.functions[calls[i].function].workspaceBytes > 0)
      offsets.push_back(mode.regions[calls[i].workspaceRegion].offsets[microbatch]);
  }
  return offsets;
}

} // namespace

std::vector<Segment> cutIntoSegments(const Program &program, const Mode &mode,
                                     const std::vector<LayerCall> &calls,
                                     const std::set<size_t> &ends) {
  std::vector<Segment> segments;
  std::map<int32_t, Dependence> known;
  Dependence last;
  for (size_t i = 0; i < calls.size(); ++i) {
    auto [found, fresh] = known.try_emplace(calls[i].function);
    if (fresh)
      found->second = dependenceOf(program.functions[calls[i].function]);
    const Dependence &d = found->second;
    if (i == 0 || !(d == last) || ends.count(i - 1))
      segments.push_back({i, i, d.tiles, d.tokens, d.labels, d.samples, d.pictures, d.moves, {}});
    last = d;
    segments.back().end = i + 1;
  }
  for (Segment &segment : segments) {
    std::map<std::vector<int64_t>, int32_t> places;
    for (int32_t m = 0; m < mode.microbatches; ++m)
      segment.places.push_back(
          places.try_emplace(offsetsOf(program, mode, calls, segment, m), m).first->second);
  }
  return segments;
}

GraphKey graphKey(const Action &action, size_t number, const Segment &segment, int64_t tiles,
                  int64_t rows, const Load &load, bool bySamples) {
  const bool samples = segment.samples && bySamples, pictures = segment.pictures && bySamples;
  return {action.index,
          static_cast<int64_t>(action.kind),
          static_cast<int64_t>(number),
          segment.places[action.microbatch],
          segment.tiles ? tiles : -1,
          segment.tokens ? rows : -1,
          segment.labels ? labelBuckets(load.labels) : -1,
          samples ? load.samples : -1,
          samples ? load.longest : -1,
          pictures ? load.segments.count : -1,
          pictures ? load.segments.longest : -1,
          pictures ? load.windows.count : -1,
          pictures ? load.windows.longest : -1};
}

Status CapturedGraphs::run(const GraphKey &key, const void *mode, Backend &backend,
                           const std::function<Status()> &work) {
  const int most = backend.graphs();
  if (most == 0)
    return work();
  auto [found, fresh] = byKey.try_emplace({mode, key});
  if (fresh) {
    entries.push_front({found->first, nullptr, false});
    found->second = entries.begin();
    makeRoom(most);
    return work();
  }
  entries.splice(entries.begin(), entries, found->second);
  Entry &entry = entries.front();
  if (!entry.work && !entry.declined) {
    OMNIBAL_RETURN_IF_ERROR(record(entry, backend, work));
    makeRoom(most);
  }
  return entry.declined ? work() : backend.enqueue(*entry.work);
}

Status CapturedGraphs::record(Entry &entry, Backend &backend, const std::function<Status()> &work) {
  if (!backend.beginCapture()) {
    entry.declined = true;
    return Status::ok();
  }
  Status status = work();
  OMNIBAL_ASSIGN_OR_RETURN(entry.work, backend.endCapture());
  if (!status) // unrecorded it goes well, or says what is wrong
    entry.work = nullptr;
  entry.declined = !entry.work;
  recorded += entry.work != nullptr;
  return Status::ok();
}

void CapturedGraphs::makeRoom(int most) {
  auto last = entries.end();
  while (recorded > most) {
    --last;
    recorded -= last->work != nullptr;
    last->work = nullptr;
  }
  while (static_cast<int64_t>(entries.size()) > rememberedKeys + int64_t{most} * keysAGraph) {
    recorded -= entries.back().work != nullptr;
    byKey.erase(entries.back().key);
    entries.pop_back();
  }
}

} // namespace omnibal::rt
