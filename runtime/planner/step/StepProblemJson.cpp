//===- StepProblemJson.cpp ---------------------------------------------------------------===//
#include "runtime/planner/step/StepProblemJson.h"
#include "runtime/planner/step/StepJsonText.h"
#include "runtime/planner/step/StepTimes.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Formats.h"
#include "runtime/support/TextLines.h"
#include <algorithm>
#include <set>

namespace omnibal::planner {
using nlohmann::json;
using rt::JsonField;
using rt::Status;

namespace {

/// Stands in `memory_bytes` where there is no limit, as in plan problems.
constexpr int64_t noStepMemoryLimit = (int64_t{1} << 53) - 1;
constexpr int64_t mostOfAKind = 1 << 16, mostUnits = 1 << 22, mostVariants = 64;
constexpr int32_t mostDecimals = 9;
constexpr __int128 mostTotal = __int128{1} << 62;

constexpr std::array<std::string_view, 3> componentWords = {"vision", "language", "mixed"};
constexpr std::array<std::string_view, 4> beginWords = {"receive", "receive_grad", "F", "I"};
constexpr std::array<std::string_view, 4> endWords = {"F", "I", "W", "send"};
constexpr std::array<const char *, 4> functionKeys = {"forward", "backward", "input_grad",
                                                      "weight_grad"};
constexpr std::array<std::pair<const char *, Decimal TimeModel::*>, 5> terms = {{
    {"fixed_ns", &TimeModel::fixed},
    {"tile_ns", &TimeModel::tile},
    {"token_ns", &TimeModel::token},
    {"square_ns", &TimeModel::square},
    {"label_ns", &TimeModel::label},
}};

template <typename Enum, size_t N>
std::string_view wordFor(Enum value, const std::array<std::string_view, N> &words) {
  return words[static_cast<size_t>(value)];
}

SizeModel readSize(const JsonField &field) {
  std::vector<JsonField> parts = field.tuple(3);
  int64_t most = int64_t{1} << 50;
  return {stepInteger(parts[0], 0, most), stepInteger(parts[1], 0, most),
          stepInteger(parts[2], 0, most)};
}

TimeModel readTime(const JsonField &field) {
  TimeModel time;
  field.onlyKeys({"fixed_ns", "tile_ns", "token_ns", "square_ns", "label_ns"});
  for (const auto &[key, member] : terms) {
    if (!field.has(key))
      continue;
    std::optional<Decimal> value = decimalOf(field[key].json());
    if (!value || value->scale > mostDecimals)
      field[key].fail("a number of at least 0 with at most 18 digits, 9 of them decimal places, "
                      "is expected");
    else
      time.*member = *value;
  }
  return time;
}

Block readBlock(const JsonField &field) {
  field.onlyKeys({"bytes", "from", "to"});
  Block block{readSize(field["bytes"]), wordOf<BlockBegin>(field["from"], beginWords),
              wordOf<BlockEnd>(field["to"], endWords)};
  bool backward = block.begin == BlockBegin::ReceiveGrad || block.begin == BlockBegin::InputGrad;
  if (backward && block.end == BlockEnd::Forward)
    field.fail("a block cannot begin with the backward and end with the forward");
  return block;
}

StepVariant readVariant(const JsonField &field) {
  StepVariant variant;
  field.onlyKeys({"name", "forward", "backward", "input_grad", "weight_grad", "blocks"});
  variant.name = field["name"].text();
  for (size_t kind = 0; kind < functionKeys.size(); ++kind)
    variant.times[kind] = readTime(field[functionKeys[kind]]);
  variant.blocks = field["blocks"].list(readBlock);
  return variant;
}

StepChunk readChunk(const JsonField &field, const StepProblem &problem) {
  StepChunk chunk;
  field.onlyKeys({"component", "rank", "variants"});
  chunk.component = wordOf<ChunkComponent>(field["component"], componentWords);
  chunk.stage = stepInteger(field["rank"], 0, problem.stages - 1);
  chunk.variants = field["variants"].list(readVariant);
  if (chunk.variants.empty() || chunk.variants.size() > static_cast<size_t>(mostVariants))
    field["variants"].fail("1 to " + std::to_string(mostVariants) + " variants are expected");
  return chunk;
}

void readEdges(const JsonField &field, StepProblem &problem) {
  auto last = static_cast<int64_t>(problem.chunks.size()) - 1;
  std::set<std::pair<int64_t, int64_t>> ends;
  field.each([&](const JsonField &element) {
    element.onlyKeys({"from", "to", "bytes", "grad_bytes"});
    StepEdge edge{stepInteger(element["from"], 0, last), stepInteger(element["to"], 0, last),
                  readSize(element["bytes"]), readSize(element["grad_bytes"])};
    if (element.failed())
      return;
    if (edge.from >= edge.to)
      return element.fail("an edge leads to a later chunk");
    auto isVision = [&](int64_t chunk) {
      return problem.chunks[chunk].component == ChunkComponent::Vision;
    };
    if (isVision(edge.to) && !isVision(edge.from))
      return element.fail("a chunk of the vision component is fed by such chunks only");
    if (!ends.insert({edge.from, edge.to}).second)
      return element.fail("a second edge between the same chunks; add their bytes");
    problem.edges.push_back(edge);
  });
}

void readLink(const JsonField &field, Link &link) {
  field.onlyKeys({"latency_ns", "bytes_per_s"});
  link.latencyNs = stepInteger(field["latency_ns"], 0, int64_t{1} << 50);
  link.bytesPerSecond = stepInteger(field["bytes_per_s"], 1, std::numeric_limits<int64_t>::max());
}

void readMemory(const JsonField &field, StepProblem &problem) {
  if (!field.json().is_array())
    problem.memoryBytes = {stepInteger(field, 0, noStepMemoryLimit)};
  else
    problem.memoryBytes = field.list(
        [](const JsonField &element) { return stepInteger(element, 0, noStepMemoryLimit); });
  size_t count = problem.memoryBytes.size();
  if (count != 1 && count != static_cast<size_t>(problem.stages))
    field.fail("one value or one a rank is expected");
  auto isNone = [](int64_t bytes) { return bytes == noStepMemoryLimit; };
  if (std::all_of(problem.memoryBytes.begin(), problem.memoryBytes.end(), isNone))
    problem.memoryBytes.clear();
}

void readStatic(const JsonField &field, StepProblem &problem) {
  field.onlyKeys({"variants", "actions"});
  problem.fixed.variants = field["variants"].list([](const JsonField &chunk) {
    return chunk.list(
        [](const JsonField &variant) { return stepInteger(variant, 0, mostVariants); });
  });
  problem.fixed.actions =
      field["actions"].list([](const JsonField &stage) { return stage.list(readStepAction); });
}

/// What whole steps come to with every load at the caps: one total of times, one of bytes. Both are
/// kept far below what the planner's sums of int64 hold.
class CapTotals {
public:
  explicit CapTotals(const StepProblem &problem)
      : problem(problem), tiles(problem.tilesCap), tokens(problem.tokensCap + problem.rowBucket),
        parts(problem.microbatches * problem.mostParts) {}

  /// Says what is too much; empty where nothing is.
  std::string tooMuch() {
    for (const StepChunk &chunk : problem.chunks) {
      __int128 most = 0;
      for (const StepVariant &variant : chunk.variants) {
        if (!addTimes(variant))
          return "the times of a step at the caps leave 62 bits";
        most = std::max(most, bytesOf(variant));
      }
      if (!add(bytes, most))
        return "the blocks of a step at the caps leave 62 bits";
    }
    for (const StepEdge &edge : problem.edges)
      if (!addMessage(edge.bytes) || !addMessage(edge.gradBytes))
        return "the messages of a step at the caps leave 62 bits";
    return "";
  }

private:
  /// Each part of a micro-batch may have the amount again; false where the total leaves 62 bits.
  bool add(__int128 &total, __int128 amount) const {
    total += std::min(amount, mostTotal) * parts;
    return total < mostTotal;
  }

  bool addTimes(const StepVariant &variant) {
    for (const TimeModel &time : variant.times)
      for (__int128 term :
           {termOf(time.fixed, 1), termOf(time.tile, tiles), termOf(time.token, tokens),
            termOf(time.square, tokens * tokens), termOf(time.label, tokens)})
        if (!add(ns, term))
          return false;
    return true;
  }

  static __int128 termOf(const Decimal &term, __int128 amount) {
    __int128 divisor = 1;
    for (int32_t i = 0; i < term.scale; ++i)
      divisor *= 10;
    return term.digits * amount / divisor + 1;
  }

  __int128 at(const SizeModel &size) const {
    return size.constant + size.tile * tiles + size.token * tokens;
  }

  __int128 bytesOf(const StepVariant &variant) const {
    __int128 sum = 0;
    for (const Block &block : variant.blocks)
      sum += at(block.bytes) + problem.alignment;
    return sum;
  }

  bool addMessage(const SizeModel &size) {
    const Link &link = problem.link;
    return at(size) < mostTotal &&
           add(ns, link.latencyNs + at(size) * 1'000'000'000 / link.bytesPerSecond + 1);
  }

  const StepProblem &problem;
  const __int128 tiles, tokens, parts;
  __int128 ns = 0, bytes = 0;
};

/// Whether tables of the problem's units, variants and messages have numbers of 32 bits and fit
/// memory.
bool isSmallEnough(const StepProblem &problem) {
  auto chunks = static_cast<int64_t>(problem.chunks.size());
  if (chunks < 1 || chunks > mostOfAKind)
    return false;
  size_t variants = 0;
  for (const StepChunk &chunk : problem.chunks)
    variants += chunk.variants.size();
  auto rows = static_cast<int64_t>(std::max(variants, problem.edges.size()));
  return rows <= mostUnits / (problem.microbatches * problem.mostParts);
}

/// Whether the static lists run to their end; which loads they run with does not matter.
bool canFinish(const StepProblem &problem) {
  StepLoads loads;
  loads.microbatches.resize(problem.microbatches);
  for (MicrobatchLoad &microbatch : loads.microbatches)
    microbatch.load.tiles = problem.tilesCap;
  StepModel model(problem);
  StepUnits units(model, loads, wholeMicrobatches(loads));
  return timesOf(units, staticLists(units)).has_value();
}

/// Each unit of whole micro-batches has one forward and one backward, on its chunk's stage.
std::string staticProblem(const StepProblem &problem) {
  const StaticPlan &plan = problem.fixed;
  size_t chunks = problem.chunks.size();
  auto microbatches = static_cast<size_t>(problem.microbatches);
  if (plan.variants.size() != chunks || plan.actions.size() != static_cast<size_t>(problem.stages))
    return "`variants` needs a list a chunk and `actions` a list a rank";
  for (size_t c = 0; c < chunks; ++c) {
    if (plan.variants[c].size() != microbatches)
      return "`variants` needs a number a micro-batch in every list";
    for (int64_t variant : plan.variants[c])
      if (variant >= static_cast<int64_t>(problem.chunks[c].variants.size()))
        return "chunk " + std::to_string(c) + " has no variant " + std::to_string(variant);
  }
  std::vector<std::array<int, 4>> seen(chunks * microbatches);
  for (size_t s = 0; s < plan.actions.size(); ++s)
    for (const StepAction &a : plan.actions[s]) {
      std::string name = std::string(1, letterOf(a.kind)) + " of micro-batch " +
                         std::to_string(a.microbatch) + ", chunk " + std::to_string(a.chunk);
      if (a.part != 0 || static_cast<size_t>(a.chunk) >= chunks ||
          static_cast<size_t>(a.microbatch) >= microbatches ||
          problem.chunks[a.chunk].stage != static_cast<int64_t>(s))
        return "`actions` of rank " + std::to_string(s) + " has " + name +
               ", which is not its own or not of a whole micro-batch";
      std::array<int, 4> &counts = seen[a.chunk * microbatches + a.microbatch];
      int kind = static_cast<int>(a.kind);
      bool afterForward = counts[0] == 1, afterInput = counts[2] == 1;
      if (++counts[kind] > 1 || (a.kind != ActionKind::Forward && !afterForward) ||
          (a.kind == ActionKind::WeightGrad && !afterInput) || counts[1] + counts[2] > 1)
        return "`actions` of rank " + std::to_string(s) + " has " + name +
               " a second time or too early";
    }
  auto mayLack = [&](size_t chunk) {
    return problem.tilesCap == 0 && problem.chunks[chunk].component == ChunkComponent::Vision;
  };
  for (size_t unit = 0; unit < seen.size(); ++unit)
    if (seen[unit][1] == 0 && seen[unit][3] == 0 && !mayLack(unit / microbatches))
      return "`actions` lacks the backward of micro-batch " + std::to_string(unit % microbatches) +
             ", chunk " + std::to_string(unit / microbatches);
  return canFinish(problem) ? "" : "`actions` cannot finish: ranks wait for each other";
}

void readFields(const JsonField &top, StepProblem &problem) {
  top.onlyKeys({"schema", "ranks", "microbatches", "tiles_cap", "tokens_cap", "row_bucket",
                "chunks", "edges", "link", "memory_bytes", "alignment", "sub_microbatches",
                "weight_gradients", "static"});
  if (std::string schema = top["schema"].text(); schema != rt::formats::stepProblem)
    top["schema"].fail("it is \"" + schema + "\", expected " + rt::formats::stepProblem);
  problem.stages = stepInteger(top["ranks"], 1, mostOfAKind);
  problem.microbatches = stepInteger(top["microbatches"], 1, mostOfAKind);
  problem.tilesCap = stepInteger(top["tiles_cap"], 0, int64_t{1} << 30);
  problem.tokensCap = stepInteger(top["tokens_cap"], 1, int64_t{1} << 30);
  if (top.has("row_bucket"))
    problem.rowBucket = stepInteger(top["row_bucket"], 1, int64_t{1} << 30);
  problem.chunks =
      top["chunks"].list([&](const JsonField &chunk) { return readChunk(chunk, problem); });
  readEdges(top["edges"], problem);
  readLink(top["link"], problem.link);
  readMemory(top["memory_bytes"], problem);
  problem.alignment = stepInteger(top["alignment"], 1, int64_t{1} << 30);
  JsonField parts = top["sub_microbatches"];
  parts.onlyKeys({"most", "least_tiles"});
  problem.mostParts = stepInteger(parts["most"], 1, 64);
  problem.leastTiles = stepInteger(parts["least_tiles"], 1, int64_t{1} << 30);
  constexpr std::array<std::string_view, 2> orders = {"free", "ascending"};
  problem.ascendingWeightGradients = wordOf<int>(top["weight_gradients"], orders) == 1;
  readStatic(top["static"], problem);
}

rt::Result<StepProblem> stepProblemOf(const json &value, const std::string &where) {
  StepProblem problem;
  Status error = Status::ok();
  JsonField top(value, where, error);
  readFields(top, problem);
  OMNIBAL_RETURN_IF_ERROR(error);
  if (!isSmallEnough(problem))
    return rt::invalid(where +
                       ": 1 chunk or more is expected, and neither variants nor edges times "
                       "micro-batches times sub-micro-batches may be above " +
                       std::to_string(mostUnits));
  if (std::string why = CapTotals(problem).tooMuch(); !why.empty())
    return rt::invalid(where + ": " + why);
  if (std::string why = staticProblem(problem); !why.empty())
    return rt::invalid(where + ": static: " + why);
  return problem;
}

} // namespace

rt::Result<StepProblem> parseStepProblem(std::string_view text, const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(text, where));
  return stepProblemOf(value, where);
}

rt::Result<StepProblem> readStepProblem(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, readJson(path));
  return stepProblemOf(value, path);
}

namespace {

void writeSize(rt::JsonWriter &out, std::string_view key, const SizeModel &size) {
  out.attribute(key, std::vector<int64_t>{size.constant, size.tile, size.token});
}

void writeVariant(rt::JsonWriter &out, const StepVariant &variant) {
  out.attribute("name", variant.name);
  for (size_t kind = 0; kind < functionKeys.size(); ++kind)
    out.attributeObject(functionKeys[kind], [&] {
      for (const auto &[key, member] : terms)
        if (const Decimal &term = variant.times[kind].*member; term.digits != 0)
          out.rawAttribute(key, term.text());
    });
  out.attributeObjects("blocks", variant.blocks, [&](const Block &block) {
    writeSize(out, "bytes", block.bytes);
    out.attribute("from", wordFor(block.begin, beginWords));
    out.attribute("to", wordFor(block.end, endWords));
  });
}

void writeChunk(rt::JsonWriter &out, const StepChunk &chunk) {
  out.attribute("component", wordFor(chunk.component, componentWords));
  out.attribute("rank", chunk.stage);
  out.attributeObjects("variants", chunk.variants,
                       [&](const StepVariant &variant) { writeVariant(out, variant); });
}

} // namespace

std::string writeStepProblem(const StepProblem &problem) {
  rt::JsonWriter out;
  out.object([&] {
    out.attribute("schema", rt::formats::stepProblem);
    out.attribute("ranks", problem.stages);
    out.attribute("microbatches", problem.microbatches);
    out.attribute("tiles_cap", problem.tilesCap);
    out.attribute("tokens_cap", problem.tokensCap);
    out.attribute("row_bucket", problem.rowBucket);
    out.attributeObjects("chunks", problem.chunks,
                         [&](const StepChunk &chunk) { writeChunk(out, chunk); });
    out.attributeObjects("edges", problem.edges, [&](const StepEdge &edge) {
      out.attribute("from", edge.from);
      out.attribute("to", edge.to);
      writeSize(out, "bytes", edge.bytes);
      writeSize(out, "grad_bytes", edge.gradBytes);
    });
    out.attributeObject("link", [&] {
      out.attribute("latency_ns", problem.link.latencyNs);
      out.attribute("bytes_per_s", problem.link.bytesPerSecond);
    });
    out.attribute("memory_bytes", problem.memoryBytes.empty()
                                      ? std::vector<int64_t>{noStepMemoryLimit}
                                      : problem.memoryBytes);
    out.attribute("alignment", problem.alignment);
    out.attributeObject("sub_microbatches", [&] {
      out.attribute("most", problem.mostParts);
      out.attribute("least_tiles", problem.leastTiles);
    });
    out.attribute("weight_gradients", problem.ascendingWeightGradients ? "ascending" : "free");
    out.attributeObject("static", [&] {
      out.attribute("variants", problem.fixed.variants);
      writeStepActions(out, problem.fixed.actions);
    });
  });
  return out.take() + "\n";
}

std::string misfit(const StepProblem &problem, const StepLoads &loads) {
  if (loads.microbatches.size() != static_cast<size_t>(problem.microbatches))
    return "it has " + std::to_string(loads.microbatches.size()) + " micro-batches, the problem " +
           std::to_string(problem.microbatches);
  for (size_t m = 0; m < loads.microbatches.size(); ++m) {
    const auto &[load, cuts] = loads.microbatches[m];
    std::string name = "micro-batch " + std::to_string(m) + " has ";
    if (load.tiles < 0 || load.tiles > problem.tilesCap)
      return name + std::to_string(load.tiles) + " tiles; the cap is " +
             std::to_string(problem.tilesCap);
    if (load.tokens < 0 || load.tokens > problem.tokensCap)
      return name + std::to_string(load.tokens) + " tokens; the cap is " +
             std::to_string(problem.tokensCap);
    if (load.labels < 0 || load.labels > load.tokens || load.squares < 0 ||
        load.squares > load.tokens * load.tokens)
      return name + "more labels than tokens, or more squares than its tokens squared";
    int64_t before = 0;
    for (int64_t cut : cuts.value_or(std::vector<int64_t>())) {
      if (cut <= before || cut >= load.tiles)
        return name + "cuts that do not ascend between 0 and its tiles";
      before = cut;
    }
  }
  return "";
}

rt::Result<StepLoads> parseStepLoads(std::string_view line, const StepProblem &problem,
                                     const std::string &where) {
  OMNIBAL_ASSIGN_OR_RETURN(json value, parseJson(line, where));
  StepLoads loads;
  Status error = Status::ok();
  JsonField top(value, where, error);
  top.onlyKeys({"step", "microbatches"});
  constexpr int64_t most = int64_t{1} << 60;
  loads.step = stepInteger(top["step"], 0, most);
  loads.microbatches = top["microbatches"].list([&](const JsonField &field) {
    field.onlyKeys({"tiles", "tokens", "squares", "labels", "cuts"});
    MicrobatchLoad entry;
    entry.load = {stepInteger(field["tiles"], 0, most), stepInteger(field["tokens"], 0, most),
                  stepInteger(field["squares"], 0, most), stepInteger(field["labels"], 0, most)};
    if (field.has("cuts"))
      entry.cuts =
          field["cuts"].list([&](const JsonField &cut) { return stepInteger(cut, 0, most); });
    return entry;
  });
  OMNIBAL_RETURN_IF_ERROR(error);
  if (std::string why = misfit(problem, loads); !why.empty())
    return rt::invalid(where + ": " + why);
  return loads;
}

rt::Result<std::vector<StepLoads>> readStepLoads(const std::string &path,
                                                 const StepProblem &problem) {
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<rt::TextLine> lines, rt::readTextLines(path, "a step"));
  std::vector<StepLoads> loads;
  for (const rt::TextLine &line : lines) {
    OMNIBAL_ASSIGN_OR_RETURN(StepLoads step, parseStepLoads(line.text, problem, line.where));
    loads.push_back(std::move(step));
  }
  return loads;
}

std::string writeStepLoads(const StepLoads &loads) {
  rt::JsonWriter out;
  out.object([&] {
    out.attribute("step", loads.step);
    out.attributeArray("microbatches", [&] {
      for (const auto &[load, cuts] : loads.microbatches)
        out.object([&, &load = load, &cuts = cuts] {
          out.attribute("tiles", load.tiles);
          out.attribute("tokens", load.tokens);
          out.attribute("squares", load.squares);
          out.attribute("labels", load.labels);
          if (cuts)
            out.attribute("cuts", *cuts);
        });
    });
  });
  return out.take() + "\n";
}

} // namespace omnibal::planner
