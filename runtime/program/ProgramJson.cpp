//===- ProgramJson.cpp - Programs to JSON and back ---------------------------------------===//
//
// Sizes are an integer or [constant, per tile, per token]; views, locations, pieces and actions are
// short arrays, because there are many of them. docs/program.md describes every field.
//
//===-------------------------------------------------------------------------------------------===//
#include "runtime/program/Names.h"
#include "runtime/program/ProgramIO.h"
#include "runtime/support/JsonField.h"

namespace omnibal::rt {
namespace {

using nlohmann::json;
using Field = JsonField;

template <typename T, typename F> json listOf(const std::vector<T> &values, F f) {
  json result = json::array();
  for (const T &value : values)
    result.push_back(f(value));
  return result;
}

json write(const Extent &e) {
  if (e.isStatic())
    return e.constant;
  return e.writtenNumbers();
}
json write(const std::vector<Extent> &shape) {
  return listOf(shape, [](const Extent &e) { return write(e); });
}
json write(const Location &l) { return json::array({nameOf(l.space), l.index, write(l.offset)}); }
json write(const View &v) {
  return json::array({v.buffer, write(v.offset), write(v.shape), write(v.strides)});
}
json write(const Buffer &b) {
  json j = {{"name", b.name},
            {"role", nameOf(b.role)},
            {"dtype", nameOf(b.dtype)},
            {"shape", write(b.shape)}};
  if (b.role == Role::Temporary)
    j["offset"] = b.offset;
  return j;
}
json write(const KernelCall &c) {
  return {
      {"kernel", c.kernel},
      {"operands",
       listOf(c.operands, [](const auto &o) { return json::array({o.first, write(o.second)}); })},
      {"attributes", c.attributes},
      {"label", c.label}};
}
json write(const Function &f) {
  return {{"name", f.name},
          {"formals", f.formals},
          {"workspace_bytes", f.workspaceBytes},
          {"digest", f.digest},
          {"buffers", listOf(f.buffers, [](const Buffer &b) { return write(b); })},
          {"calls", listOf(f.calls, [](const KernelCall &c) { return write(c); })}};
}
json write(const BatchValue &v) {
  return {{"name", v.name},
          {"dtype", nameOf(v.dtype)},
          {"shape", write(v.shape)},
          {"region", v.region},
          {"offset", v.offset}};
}
json write(const std::vector<LayerCall> &calls) {
  return listOf(calls, [](const LayerCall &c) -> json {
    return {{"layer", c.layer},
            {"function", c.function},
            {"bindings", listOf(c.bindings, [](const Location &l) { return write(l); })},
            {"workspace", json::array({c.workspaceRegion, c.workspaceOffset})}};
  });
}
json write(const Chunk &c) {
  json chunk = {{"id", c.id},
                {"layers", c.layers},
                {"forward", write(c.forward)},
                {"backward", write(c.backward)},
                {"input_grad", write(c.inputGrad)},
                {"weight_grad", write(c.weightGrad)}};
  if (c.variant > 0)
    chunk["variant"] = c.variant;
  return chunk;
}
json write(const Transfer &t) {
  return {{"id", t.id},
          {"gradient", t.gradient},
          {"from", json::array({t.fromStage, t.fromChunk, t.sendRegion})},
          {"to", json::array({t.toStage, t.toChunk, t.recvRegion})},
          {"pieces", listOf(t.pieces, [](const Piece &p) {
             return json::array({p.name, nameOf(p.dtype), write(p.shape), write(p.sendOffset),
                                 write(p.recvOffset)});
           })}};
}
json write(const Region &r) {
  json region = {{"name", r.name}, {"bytes", r.bytes}, {"offsets", r.offsets}};
  if (r.block) {
    region["block"] = json::array({r.block->chunk, r.block->numbers});
    region["size"] = write(r.block->bytes);
  }
  return region;
}
json write(const Mode &m) {
  auto values = [](const std::vector<BatchValue> &list) {
    return listOf(list, [](const BatchValue &v) { return write(v); });
  };
  json mode = {{"microbatches", m.microbatches},
               {"regions", listOf(m.regions, [](const Region &r) { return write(r); })},
               {"batch_values", values(m.batchValues)},
               {"results", values(m.results)},
               {"chunks", listOf(m.chunks, [](const Chunk &c) { return write(c); })},
               {"transfers", listOf(m.transfers, [](const Transfer &t) { return write(t); })},
               {"actions", listOf(m.actions, [](const Action &a) {
                  return json::array({nameOf(a.kind), a.microbatch, a.index});
                })}};
  if (m.stepBytes > 0)
    mode["step_memory"] = json::array({m.stepOffset, m.stepBytes});
  return mode;
}
json write(const TrainMode &m) {
  return {{"tiles_cap", m.tilesCap},
          {"tokens_cap", m.tokensCap},
          {"microbatches", m.microbatches},
          {"schedule", m.schedule}};
}
json write(const PictureGrid &g) {
  json grid = {{"patch", g.patch},
               {"merge", g.merge},
               {"temporal", g.temporal},
               {"window", g.window},
               {"grid_side", g.gridSide}};
  if (g.interpolation != PictureGrid().interpolation)
    grid["interpolation"] = nameOf(g.interpolation);
  if (g.alignCorners != PictureGrid().alignCorners)
    grid["align_corners"] = g.alignCorners;
  return grid;
}
json write(const Bucket &b) {
  if (!b.share)
    return json(b.parameters);
  const BucketShare &share = *b.share;
  json bucket = {{"parameters", b.parameters},
                 {"bounds", share.bounds},
                 {"offsets", {share.moment1Offset, share.moment2Offset, share.masterOffset}}};
  if (share.averageOffset >= 0)
    bucket["average"] = share.averageOffset;
  return bucket;
}
json write(const Parameter &p) {
  json parameter = {
      {"name", p.name},
      {"dtype", nameOf(p.dtype)},
      {"shape", p.shape},
      {"trainable", p.trainable},
      {"decay", p.decay},
      {"counted", p.counted},
      {"transposed", p.transposed},
      {"shared_group", p.sharedGroup},
      {"offsets", {p.dataOffset, p.gradOffset, p.moment1Offset, p.moment2Offset, p.masterOffset}}};
  if (p.orthogonalized)
    parameter["orthogonalized"] = true;
  if (p.quantization != Quantization::None)
    parameter["quantized"] = nameOf(p.quantization);
  if (p.averageOffset >= 0)
    parameter["average"] = p.averageOffset;
  if (p.held)
    parameter["held"] = {p.held->dim, p.held->units, p.held->inner, p.held->begin, p.held->end};
  return parameter;
}
json write(const Stage &s) {
  json modes = json::object();
  for (const auto &[name, mode] : s.modes)
    modes[name] = write(mode);
  return {{"id", s.id},
          {"arena_bytes", s.arenaBytes},
          {"persistent_bytes", s.persistentBytes},
          {"reserved_bytes", s.reservedBytes},
          {"parameters", listOf(s.parameters, [](const Parameter &p) { return write(p); })},
          {"constants", listOf(s.constants,
                               [](const Constant &c) -> json {
                                 return {{"name", c.name},
                                         {"dtype", nameOf(c.dtype)},
                                         {"shape", c.shape},
                                         {"offset", c.offset}};
                               })},
          {"buckets", listOf(s.buckets, [](const Bucket &b) { return write(b); })},
          {"modes", modes}};
}

template <typename T, typename F> std::string lines(const std::vector<T> &values, F f) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i ? ",\n" : "\n") + f(values[i]).dump(-1, ' ', false, json::error_handler_t::replace);
  return text + "\n]\n";
}

// Reading.

template <typename E> E readName(Field f, const char *what) {
  std::string name = f.text();
  if (auto value = fromName<E>(name))
    return *value;
  f.fail(std::string("\"") + name + "\" is no " + what);
  return E{};
}
Extent readExtent(Field f) {
  if (!f.json().is_array())
    return {f.integer()};
  const size_t numbers = f.json().size() == 5 ? 5 : 3; // v and n are there where they count
  std::vector<int64_t> written;
  for (const Field &number : f.tuple(numbers))
    written.push_back(number.integer());
  return Extent::of(written);
}
std::vector<Extent> readShape(Field f) { return f.list(readExtent); }
std::vector<int64_t> readIntegers(Field f) {
  return f.list([](Field e) { return e.integer(); });
}
Location readLocation(Field f) {
  auto t = f.tuple(3);
  return {readName<Space>(t[0], "space"), t[1].small(), readExtent(t[2])};
}
View readView(Field f) {
  auto t = f.tuple(4);
  return {t[0].small(), readExtent(t[1]), readShape(t[2]), readShape(t[3])};
}
Buffer readBuffer(Field f) {
  f.onlyKeys({"name", "role", "dtype", "shape", "offset"});
  Buffer b;
  b.name = f["name"].text();
  b.role = readName<Role>(f["role"], "role");
  b.dtype = readName<DType>(f["dtype"], "dtype");
  b.shape = readShape(f["shape"]);
  if (b.role == Role::Temporary)
    b.offset = f["offset"].integer();
  return b;
}
KernelCall readCall(Field f) {
  f.onlyKeys({"kernel", "operands", "attributes", "label"});
  KernelCall c;
  c.kernel = f["kernel"].text();
  c.operands = f["operands"].list([](Field e) {
    auto t = e.tuple(2);
    return std::make_pair(t[0].text(), readView(t[1]));
  });
  c.attributes = f["attributes"].json();
  if (!c.attributes.is_object())
    f["attributes"].fail("an object is expected");
  c.label = f["label"].text();
  return c;
}
Function readFunction(Field f) {
  f.onlyKeys({"name", "formals", "workspace_bytes", "digest", "buffers", "calls"});
  Function r;
  r.name = f["name"].text();
  r.formals = f["formals"].small();
  r.workspaceBytes = f["workspace_bytes"].integer();
  r.digest = f["digest"].text();
  r.buffers = f["buffers"].list(readBuffer);
  r.calls = f["calls"].list(readCall);
  return r;
}
BatchValue readBatchValue(Field f) {
  f.onlyKeys({"name", "dtype", "shape", "region", "offset"});
  BatchValue v;
  v.name = f["name"].text();
  v.dtype = readName<DType>(f["dtype"], "dtype");
  v.shape = readShape(f["shape"]);
  v.region = f["region"].small();
  v.offset = f["offset"].integer();
  return v;
}
LayerCall readLayerCall(Field f) {
  f.onlyKeys({"layer", "function", "bindings", "workspace"});
  LayerCall c;
  c.layer = f["layer"].text();
  c.function = f["function"].small();
  c.bindings = f["bindings"].list(readLocation);
  auto t = f["workspace"].tuple(2);
  c.workspaceRegion = t[0].small();
  c.workspaceOffset = t[1].integer();
  return c;
}
Chunk readChunk(Field f) {
  f.onlyKeys({"id", "layers", "forward", "backward", "input_grad", "weight_grad", "variant"});
  Chunk c;
  c.id = f["id"].small();
  if (f.has("variant"))
    c.variant = f["variant"].small();
  c.layers = f["layers"].list([](Field e) { return e.text(); });
  c.forward = f["forward"].list(readLayerCall);
  c.backward = f["backward"].list(readLayerCall);
  c.inputGrad = f["input_grad"].list(readLayerCall);
  c.weightGrad = f["weight_grad"].list(readLayerCall);
  return c;
}
Transfer readTransfer(Field f) {
  f.onlyKeys({"id", "gradient", "from", "to", "pieces"});
  Transfer t;
  t.id = f["id"].small();
  t.gradient = f["gradient"].flag();
  auto from = f["from"].tuple(3), to = f["to"].tuple(3);
  t.fromStage = from[0].small();
  t.fromChunk = from[1].small();
  t.sendRegion = from[2].small();
  t.toStage = to[0].small();
  t.toChunk = to[1].small();
  t.recvRegion = to[2].small();
  t.pieces = f["pieces"].list([](Field e) {
    auto p = e.tuple(5);
    return Piece{p[0].text(), readName<DType>(p[1], "dtype"), readShape(p[2]), readExtent(p[3]),
                 readExtent(p[4])};
  });
  return t;
}
Region readRegion(Field f) {
  f.onlyKeys({"name", "bytes", "offsets", "block", "size"});
  Region r{f["name"].text(), f["bytes"].integer(), readIntegers(f["offsets"]), {}};
  if (f.has("block") || f.has("size")) {
    auto t = f["block"].tuple(2);
    r.block = StepBlock{t[0].small(), t[1].list([](Field e) { return e.small(); }),
                        readExtent(f["size"])};
  }
  return r;
}
Mode readMode(Field f) {
  f.onlyKeys({"microbatches", "regions", "batch_values", "results", "chunks", "transfers",
              "actions", "step_memory"});
  Mode m;
  m.microbatches = f["microbatches"].small();
  m.regions = f["regions"].list(readRegion);
  m.batchValues = f["batch_values"].list(readBatchValue);
  m.results = f["results"].list(readBatchValue);
  m.chunks = f["chunks"].list(readChunk);
  m.transfers = f["transfers"].list(readTransfer);
  m.actions = f["actions"].list([](Field e) {
    auto t = e.tuple(3);
    return Action{readName<ActionKind>(t[0], "action"), t[1].small(), t[2].small()};
  });
  if (f.has("step_memory")) {
    auto t = f["step_memory"].tuple(2);
    m.stepOffset = t[0].integer();
    m.stepBytes = t[1].integer();
  }
  return m;
}
Parameter readParameter(Field f) {
  f.onlyKeys({"name", "dtype", "shape", "trainable", "decay", "counted", "transposed",
              "shared_group", "offsets", "held", "orthogonalized", "quantized", "average"});
  Parameter p;
  p.name = f["name"].text();
  p.dtype = readName<DType>(f["dtype"], "dtype");
  p.shape = readIntegers(f["shape"]);
  p.trainable = f["trainable"].flag();
  p.decay = f["decay"].flag();
  p.counted = f["counted"].flag();
  p.transposed = f["transposed"].flag();
  p.sharedGroup = f["shared_group"].small();
  auto t = f["offsets"].tuple(5);
  p.dataOffset = t[0].integer();
  p.gradOffset = t[1].integer();
  p.moment1Offset = t[2].integer();
  p.moment2Offset = t[3].integer();
  p.masterOffset = t[4].integer();
  if (f.has("orthogonalized"))
    p.orthogonalized = f["orthogonalized"].flag();
  if (f.has("quantized")) {
    const std::optional<Quantization> kind = quantizationNamed(f["quantized"].text());
    if (!kind)
      f["quantized"].fail("int8 or nf4 is expected");
    p.quantization = kind.value_or(Quantization::None);
  }
  if (f.has("average"))
    p.averageOffset = f["average"].integer();
  if (f.has("held")) {
    auto h = f["held"].tuple(5);
    p.held =
        HeldUnits{h[0].integer(), h[1].integer(), h[2].integer(), h[3].integer(), h[4].integer()};
  }
  return p;
}
Bucket readBucket(Field f) {
  auto numbers = [](Field list) { return list.list([](Field i) { return i.small(); }); };
  if (!f.has("parameters"))
    return {numbers(f), std::nullopt};
  f.onlyKeys({"parameters", "bounds", "offsets", "average"});
  Bucket bucket{numbers(f["parameters"]), BucketShare{}};
  bucket.share->bounds = readIntegers(f["bounds"]);
  auto t = f["offsets"].tuple(3);
  bucket.share->moment1Offset = t[0].integer();
  bucket.share->moment2Offset = t[1].integer();
  bucket.share->masterOffset = t[2].integer();
  if (f.has("average"))
    bucket.share->averageOffset = f["average"].integer();
  return bucket;
}
Stage readStage(Field f) {
  f.onlyKeys({"id", "arena_bytes", "persistent_bytes", "reserved_bytes", "parameters", "constants",
              "buckets", "modes", "part"});
  Stage s;
  s.id = f["id"].small();
  if (f.has("part"))
    s.part = f["part"].small();
  s.arenaBytes = f["arena_bytes"].integer();
  s.persistentBytes = f["persistent_bytes"].integer();
  s.reservedBytes = f["reserved_bytes"].integer();
  s.parameters = f["parameters"].list(readParameter);
  s.constants = f["constants"].list([](Field e) {
    e.onlyKeys({"name", "dtype", "shape", "offset"});
    return Constant{e["name"].text(), readName<DType>(e["dtype"], "dtype"),
                    readIntegers(e["shape"]), e["offset"].integer()};
  });
  s.buckets = f["buckets"].list(readBucket);
  f["modes"].members([&](const std::string &name, Field m) { s.modes[name] = readMode(m); });
  return s;
}
PictureGrid readGrid(Field f) {
  f.onlyKeys(
      {"patch", "merge", "temporal", "window", "grid_side", "interpolation", "align_corners"});
  PictureGrid grid{f["patch"].integer(), f["merge"].integer(), f["temporal"].integer(),
                   f["window"].integer(), f["grid_side"].integer()};
  if (f.has("interpolation"))
    grid.interpolation = readName<Interpolation>(f["interpolation"], "interpolation");
  if (f.has("align_corners"))
    grid.alignCorners = f["align_corners"].flag();
  return grid;
}
/// What a manifest says once where there is one train mode.
TrainMode readOnlyTrainMode(Field f) {
  TrainMode mode;
  mode.tilesCap = f["tiles_cap"].integer();
  mode.tokensCap = f["tokens_cap"].integer();
  mode.microbatches = f["microbatches"].small();
  mode.schedule = f["schedule"].text();
  return mode;
}
TrainMode readTrainMode(Field f) {
  f.onlyKeys({"name", "tiles_cap", "tokens_cap", "degree", "microbatches", "schedule"});
  TrainMode mode = readOnlyTrainMode(f);
  mode.name = f["name"].text();
  mode.degree = static_cast<int32_t>(f["degree"].integer(1, mostParts));
  return mode;
}
std::vector<TrainMode> readTrainModes(Field f) {
  std::vector<TrainMode> modes = f.list(readTrainMode);
  if (modes.empty() || (modes.size() == 1 && modes[0].degree <= 1))
    f.fail("at least two are expected, or one with a degree above 1");
  modes.resize(std::max<size_t>(modes.size(), 1));
  return modes;
}
void readSettings(Field f, Program &p) {
  p.target = f["target"].text();
  p.compute = f["compute"].text();
  p.cpu = f["cpu"].text();
  p.model = f["model"].text();
  p.rowBucket = f["row_bucket"].small();
  p.stages = f["stages"].small();
  p.dataParallel = f["data_parallel"].small();
  if (f.has("model_parallel"))
    p.modelParallel = static_cast<int32_t>(f["model_parallel"].integer(2, mostParts));
  if (f.has("rank_order"))
    p.rankOrder = readName<RankOrder>(f["rank_order"], "order of ranks");
  if (f.has("zero"))
    p.zero = f["zero"].small();
  if (f.has("optimizer"))
    p.optimizer = readName<OptimizerKind>(f["optimizer"], "optimizer");
  if (f.has("ema"))
    p.averages = f["ema"].flag();
  p.trainModes = f.has("train_modes") ? readTrainModes(f["train_modes"])
                                      : std::vector<TrainMode>{readOnlyTrainMode(f)};
  if (f.has("adapters"))
    p.adapters = adaptersFromJson(f["adapters"]);
  Field i = f["info"];
  i.onlyKeys({"image_token_id", "tokens_per_tile", "tile_shape", "token_inputs", "vocabulary",
              "positions", "prefix_inputs", "incremental", "router_loss_coefficient",
              "preference_beta", "pictures"});
  p.info.imageTokenId = i["image_token_id"].integer();
  p.info.tokensPerTile = i["tokens_per_tile"].integer();
  p.info.tileShape = readIntegers(i["tile_shape"]);
  p.info.tokenInputs = i["token_inputs"].list([](Field e) { return e.text(); });
  p.info.vocabulary = i["vocabulary"].integer();
  if (i.has("positions"))
    p.info.positions = i["positions"].integer();
  if (i.has("prefix_inputs"))
    p.info.prefixInputs = i["prefix_inputs"].list([](Field e) { return e.text(); });
  if (i.has("incremental"))
    p.info.incremental = i["incremental"].flag();
  if (i.has("router_loss_coefficient"))
    p.info.routerLossCoefficient = i["router_loss_coefficient"].number();
  if (i.has("preference_beta"))
    p.info.preferenceBeta = i["preference_beta"].number();
  if (i.has("pictures"))
    p.info.grid = readGrid(i["pictures"]);
}

} // namespace

std::string functionsToJson(const Program &program) {
  return lines(program.functions, [](const Function &f) { return write(f); });
}
std::string stagesToJson(const Program &program) {
  return lines(program.stageList, [&](const Stage &s) {
    json stage = write(s);
    if (program.entries() > 1)
      stage["part"] = s.part;
    return stage;
  });
}
json settingsToJson(const Program &p) {
  json info = {{"image_token_id", p.info.imageTokenId},
               {"tokens_per_tile", p.info.tokensPerTile},
               {"tile_shape", p.info.tileShape},
               {"token_inputs", p.info.tokenInputs},
               {"vocabulary", p.info.vocabulary}};
  if (p.info.positions > 0)
    info["positions"] = p.info.positions;
  if (!p.info.prefixInputs.empty())
    info["prefix_inputs"] = p.info.prefixInputs;
  if (p.info.incremental)
    info["incremental"] = true;
  if (p.info.routerLossCoefficient != 0)
    info["router_loss_coefficient"] = p.info.routerLossCoefficient;
  if (p.info.learnsFromPairs())
    info["preference_beta"] = p.info.preferenceBeta;
  if (p.info.grid)
    info["pictures"] = write(*p.info.grid);
  json settings = {{"target", p.target},
                   {"compute", p.compute},
                   {"cpu", p.cpu},
                   {"model", p.model},
                   {"row_bucket", p.rowBucket},
                   {"stages", p.stages},
                   {"data_parallel", p.dataParallel},
                   {"info", info}};
  if (!p.hasLengthGroups())
    settings.update(write(p.trainModes[0]));
  else
    settings["train_modes"] = listOf(p.trainModes, [](const TrainMode &mode) {
      json j = write(mode);
      j["name"] = mode.name;
      j["degree"] = mode.degree;
      return j;
    });
  if (p.modelParallel > 1)
    settings["model_parallel"] = p.modelParallel;
  if (p.rankOrder != RankOrder::Stage)
    settings["rank_order"] = nameOf(p.rankOrder);
  if (p.zero > 0)
    settings["zero"] = p.zero;
  if (p.optimizer != OptimizerKind::AdamW)
    settings["optimizer"] = nameOf(p.optimizer);
  if (p.averages)
    settings["ema"] = true;
  if (!p.adapters.empty())
    settings["adapters"] = adaptersToJson(p.adapters);
  return settings;
}

Result<Program> programFromJson(const json &settings, const json &functions) {
  Program p;
  Status error;
  readSettings(Field(settings, "manifest", error), p);
  p.functions = Field(functions, "functions", error).list(readFunction);
  OMNIBAL_RETURN_IF_ERROR(error);
  return p;
}

Result<Stage> stageFromJson(const json &stage, const std::string &where) {
  Status error;
  Stage result = readStage(Field(stage, where, error));
  OMNIBAL_RETURN_IF_ERROR(error);
  return result;
}

} // namespace omnibal::rt
