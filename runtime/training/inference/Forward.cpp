//===- Forward.cpp - The graph's own inputs and outputs ----------------------------------===//
//
// Row b of input_ids [B, S] is one sample: its tokens are those where attention_mask is not 0
// (padding on either side). The rows run packed; a token output [.., N, ..] comes back as
// [.., B, S, ..] with zeros at padded positions, an image output [V, ..] with all tiles. Pictures
// of their own sizes: ForwardPictures.h.
//
//===-------------------------------------------------------------------------------------------------------===//
#include "runtime/checkpoint/SharedTensorFile.h"
#include "runtime/data/DataLoader.h"
#include "runtime/data/pictures/SeenPictures.h"
#include "runtime/program/Names.h"
#include "runtime/training/inference/ForwardPictures.h"
#include "runtime/training/session/Session.h"
#include <algorithm>
#include <cstring>
#include <set>

namespace omnibal::rt {
namespace {

/// The input of models whose tokens attend to pictures, as their processor gives it.
const std::string seenPicturesInput = "cross_attention_mask";

struct Row {
  std::string key;
  int64_t number = 0;
  std::vector<int64_t> at; ///< column of each token
  std::vector<int32_t> ids;
  std::map<std::string, std::vector<int32_t>> tokenInputs;
  int64_t tiles = 0, firstTile = 0;
  std::span<const PictureUnits> pictures; ///< of Inputs::pictures
};

struct Inputs {
  int64_t rows = 0, columns = 0, tiles = 0;
  std::vector<Row> list;
  const StoredTensor *pixels = nullptr;
  std::vector<PictureUnits> pictures; ///< of a model of dynamic resolution
  int64_t rowsPerTile = 1;            ///< of pixel_values
};

Result<std::vector<int32_t>> readTokens(const SafetensorsFile &file, const std::string &name,
                                        const Inputs &inputs) {
  const StoredTensor *t = file.find(name);
  if (!t || t->shape != std::vector<int64_t>{inputs.rows, inputs.columns})
    return invalid(file.path() + ": \"" + name + "\" of shape " +
                   toString(std::vector<int64_t>{inputs.rows, inputs.columns}) + " is expected");
  std::vector<int32_t> values(t->elements);
  OMNIBAL_RETURN_IF_ERROR(convertTensor(*t, DType::I32, values.data()).context(file.path()));
  return values;
}

int64_t placeholdersOf(const Program &p, const Row &row) {
  return p.info.imageTokenId < 0 ? 0
                                 : std::count(row.ids.begin(), row.ids.end(), p.info.imageTokenId);
}

/// Does the same with pictures of their own sizes: each row has as many as make up its
/// placeholders.
Status assignPictures(const Program &p, const std::string &path, Inputs &in) {
  size_t next = 0;
  for (Row &row : in.list) {
    const size_t first = next;
    row.firstTile = in.tiles;
    for (int64_t placeholders = placeholdersOf(p, row);
         row.tiles < placeholders && next < in.pictures.size(); ++next)
      row.tiles += in.pictures[next].count();
    row.pictures = std::span(in.pictures).subspan(first, next - first);
    in.tiles += row.tiles;
    if (p.info.imageTokenId >= 0)
      OMNIBAL_RETURN_IF_ERROR(checkImageTokens(row.ids, p.info.imageTokenId, row.pictures)
                                  .context(path + ": " + row.key + " of input_ids"));
  }
  if (next < in.pictures.size())
    return invalid(path + ": there are " + std::to_string(in.pictures.size()) +
                   " pictures, but input_ids has placeholders for " + std::to_string(next));
  const int64_t patches = in.pixels ? in.pixels->shape[0] : 0;
  if (patches != in.tiles * in.rowsPerTile)
    return invalid(path + ": pixel_values has " + std::to_string(patches) +
                   " patches, but its pictures' sizes give " +
                   std::to_string(in.tiles * in.rowsPerTile));
  return Status::ok();
}

/// Pictures belong to the rows in order; a row's placeholders tell how many it has.
Status assignTiles(const Program &p, const std::string &path, Inputs &in) {
  for (Row &row : in.list) {
    int64_t placeholders = placeholdersOf(p, row);
    if (placeholders > 0 && (p.info.tokensPerTile <= 0 || placeholders % p.info.tokensPerTile))
      return invalid(path + ": " + row.key + " of input_ids has " + std::to_string(placeholders) +
                     " image tokens, which is no multiple of " +
                     std::to_string(p.info.tokensPerTile));
    row.tiles = placeholders > 0 ? placeholders / p.info.tokensPerTile : 0;
    row.firstTile = in.tiles;
    in.tiles += row.tiles;
  }
  int64_t have = in.pixels ? in.pixels->shape[0] : 0;
  if (have != in.tiles)
    return invalid(path + ": pixel_values has " + std::to_string(have) +
                   " pictures, but input_ids has placeholders for " + std::to_string(in.tiles));
  return Status::ok();
}

/// cross_attention_mask [rows, tokens, pictures] of the file, where it has one, against which
/// pictures each token sees.
Status checkSeenPictures(const Program &p, const SafetensorsFile &file, const Inputs &in) {
  const StoredTensor *mask = file.find(seenPicturesInput);
  if (!mask)
    return Status::ok();
  const int64_t pictures = mask->shape.size() == 3 ? mask->shape[2] : 0;
  OMNIBAL_ASSIGN_OR_RETURN(const auto given,
                           readIntegers(file, seenPicturesInput, in.rows * in.columns * pictures));
  for (const Row &row : in.list) {
    const SeenPictures seen = seenPictures(row.ids, p.info.imageTokenId, 0);
    for (size_t t = 0; t < row.at.size(); ++t)
      for (int64_t picture = 0; picture < pictures; ++picture) {
        const bool sees = seen.seen[t] && seen.begins[t] <= picture && picture < seen.ends[t];
        if (given[(row.number * in.columns + row.at[t]) * pictures + picture] != sees)
          return invalid(file.path() + ": " + seenPicturesInput + " of " + row.key + ", token " +
                         std::to_string(t) + ", is not what the places of the image tokens give; " +
                         "leave it out, it is derived from these");
      }
  }
  return Status::ok();
}

/// position_ids [3, rows, tokens] and mm_token_type_ids [rows, tokens] of the file, where it has
/// them, against those of the rows.
Status checkPositions(const Program &p, const SafetensorsFile &file, const Inputs &in) {
  const int64_t cells = in.rows * in.columns;
  std::vector<int32_t> positions, kinds;
  if (file.find("position_ids")) {
    OMNIBAL_ASSIGN_OR_RETURN(positions, readIntegers(file, "position_ids", 3 * cells));
  }
  if (file.find("mm_token_type_ids")) {
    OMNIBAL_ASSIGN_OR_RETURN(kinds, readIntegers(file, "mm_token_type_ids", cells));
  }
  for (const Row &row : in.list) {
    TokenPositions expected;
    appendPositions(row.ids, p.info.imageTokenId, row.pictures, expected);
    for (size_t t = 0; t < row.at.size(); ++t) {
      const int64_t at = row.number * in.columns + row.at[t];
      bool same = kinds.empty() || kinds[at] == (row.ids[t] == p.info.imageTokenId ? 1 : 0);
      for (size_t axis = 0; axis < 3 && !positions.empty(); ++axis)
        same &= positions[int64_t(axis) * cells + at] == expected[axis][t];
      if (!same)
        return invalid(file.path() + ": position_ids or mm_token_type_ids of " + row.key +
                       ", token " + std::to_string(t) +
                       ", is not what the pictures' sizes give; leave them out, they are derived "
                       "from these");
    }
  }
  return Status::ok();
}

Result<Inputs> readInputs(const Program &p, const SafetensorsFile &file) {
  Inputs in;
  const StoredTensor *ids = file.find("input_ids");
  if (!ids || ids->shape.size() != 2)
    return invalid(file.path() + ": \"input_ids\" of shape [rows, tokens] is expected");
  in.rows = ids->shape[0];
  in.columns = ids->shape[1];
  std::set<std::string> known = {"input_ids", "attention_mask", "pixel_values"};
  if (packingRules(p, p.caps()).seesPictures)
    known.insert(seenPicturesInput);
  known.insert(p.info.tokenInputs.begin(), p.info.tokenInputs.end());
  if (p.info.grid)
    known.insert(pictureInputNames().begin(), pictureInputNames().end());
  for (const StoredTensor &t : file.tensors())
    if (!known.count(t.name))
      return invalid(file.path() + ": \"" + t.name + "\" is no input of the program (it reads " +
                     "input_ids, attention_mask, pixel_values and per-token inputs); remove it");
  OMNIBAL_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, readTokens(file, "input_ids", in));
  std::vector<int32_t> mask(tokens.size(), 1);
  if (file.find("attention_mask")) {
    OMNIBAL_ASSIGN_OR_RETURN(mask, readTokens(file, "attention_mask", in));
  }
  std::map<std::string, std::vector<int32_t>> extra;
  for (const std::string &name : p.info.tokenInputs) {
    OMNIBAL_ASSIGN_OR_RETURN(extra[name], readTokens(file, name, in));
  }
  for (int64_t b = 0; b < in.rows; ++b) {
    Row row;
    row.number = b;
    row.key = "row " + std::to_string(b);
    for (int64_t s = 0; s < in.columns; ++s)
      if (int64_t i = b * in.columns + s; mask[i] != 0) {
        row.at.push_back(s);
        row.ids.push_back(tokens[i]);
        for (auto &[name, values] : extra)
          row.tokenInputs[name].push_back(values[i]);
      }
    if (!row.at.empty() && row.at.back() - row.at.front() + 1 != int64_t(row.at.size()))
      return invalid(file.path() + ": attention_mask of row " + std::to_string(b) +
                     " has a hole; only padding at the ends is understood");
    if (!row.at.empty())
      in.list.push_back(std::move(row));
  }
  in.pixels = file.find("pixel_values");
  if (in.pixels) {
    std::vector<int64_t> expected = p.info.tileShape;
    if (p.info.grid)
      expected.erase(expected.begin()); // patches, not units, are its rows
    expected.insert(expected.begin(), in.pixels->shape.empty() ? 0 : in.pixels->shape[0]);
    if (in.pixels->shape != expected)
      return invalid(file.path() + ": pixel_values has shape " + toString(in.pixels->shape) +
                     ", but the model's " + (p.info.grid ? "units" : "pictures") + " are " +
                     toString(p.info.tileShape));
  }
  if (!p.info.grid) {
    OMNIBAL_RETURN_IF_ERROR(assignTiles(p, file.path(), in));
    OMNIBAL_RETURN_IF_ERROR(checkSeenPictures(p, file, in));
    return in;
  }
  in.rowsPerTile = p.info.grid->patchesPerUnit();
  OMNIBAL_ASSIGN_OR_RETURN(in.pictures, readPictures(file, *p.info.grid));
  OMNIBAL_RETURN_IF_ERROR(assignPictures(p, file.path(), in));
  OMNIBAL_RETURN_IF_ERROR(checkPictureInputs(file, in.pictures, *p.info.grid));
  OMNIBAL_RETURN_IF_ERROR(checkPositions(p, file, in));
  return in;
}

/// One run of the mode: its micro-batches are given.
class GivenMicrobatches final : public MicrobatchSource {
public:
  Result<const PackedMicrobatch *> get(int32_t microbatch) override { return &list[microbatch]; }
  std::vector<PackedMicrobatch> list;
};

Result<PackedMicrobatch> packRows(const Program &p, const Inputs &in,
                                  const std::vector<int64_t> &rows, bool pixels) {
  std::vector<SampleView> views;
  for (int64_t r : rows) {
    const Row &row = in.list[r];
    SampleView view{row.key, row.ids, {}, {}, row.tiles, row.pictures};
    for (const auto &[name, values] : row.tokenInputs)
      view.tokenInputs[name] = values;
    views.push_back(std::move(view));
  }
  OMNIBAL_ASSIGN_OR_RETURN(PackedMicrobatch packed, pack(views, packingRules(p, p.caps())));
  if (pixels && packed.tiles > 0) {
    int64_t tile = in.pixels->elements / in.pixels->shape[0] * in.rowsPerTile;
    packed.pixels.resize(packed.tiles * tile);
    OMNIBAL_RETURN_IF_ERROR(convertTensor(*in.pixels, DType::F32, packed.pixels.data(),
                                          in.list[rows[0]].firstTile * tile, packed.tiles * tile));
  }
  return packed;
}

/// One output of the graph, put together from the micro-batches.
struct Output {
  std::vector<int64_t> shape;
  int64_t outer = 1, inner = 1; ///< elements before and after the symbolic dimension
  Extent symbolic;
  bool tokens = false;
  std::vector<float> data;

  static Result<Output> create(const BatchValue &value, const Inputs &in) {
    Output o;
    int at = -1;
    for (size_t d = 0; d < value.shape.size(); ++d)
      if (!value.shape[d].isStatic())
        at = at < 0 ? static_cast<int>(d) : -2;
    Extent e = at >= 0 ? value.shape[at] : Extent{};
    o.tokens = e == Extent{0, 0, 1};
    bool isFloat = value.dtype == DType::F32 || value.dtype == DType::BF16;
    if (at < 0 || !isFloat || (!o.tokens && (e.constant || e.perToken)))
      return invalid(
          "output \"" + value.name +
          "\": --forward returns floating point outputs with one token or image dimension");
    o.symbolic = e;
    for (int d = 0; d < static_cast<int>(value.shape.size()); ++d) {
      int64_t n = value.shape[d].constant;
      if (d < at)
        o.outer *= n;
      if (d > at)
        o.inner *= n;
      // The packed row's own dimension of 1 becomes the rows.
      if (d != at)
        o.shape.push_back(n);
      else if (o.tokens)
        o.shape.insert(o.shape.end(), {in.rows, in.columns});
      else
        o.shape.push_back(e.perTile * in.tiles);
    }
    if (o.tokens && at == 1 && value.shape[0] == Extent{1, 0, 0})
      o.shape.erase(o.shape.begin());
    o.data.assign(o.outer * (o.tokens ? in.rows * in.columns : e.perTile * in.tiles) * o.inner, 0);
    return o;
  }

  void collect(const Inputs &in, const std::vector<int64_t> &rows, const BatchValue &value,
               const std::byte *bytes, const PackedMicrobatch &batch) {
    std::vector<float> wide;
    auto *values = reinterpret_cast<const float *>(bytes);
    if (value.dtype == DType::BF16) {
      auto *stored = reinterpret_cast<const BFloat16 *>(bytes);
      wide.resize(outer * symbolic.evaluate(batch.tiles, batch.tokens) * inner);
      std::transform(stored, stored + wide.size(), wide.begin(),
                     [](BFloat16 number) { return number.toFloat(); });
      values = wide.data();
    }
    int64_t from = symbolic.evaluate(batch.tiles, batch.tokens);
    int64_t to = tokens ? in.rows * in.columns : symbolic.perTile * in.tiles;
    for (int64_t o = 0; o < outer; ++o) {
      const float *source = values + o * from * inner;
      float *target = data.data() + o * to * inner;
      for (int64_t r : rows) {
        const Row &row = in.list[r];
        int64_t count = tokens ? row.at.size() : symbolic.perTile * row.tiles;
        int64_t start =
            tokens ? row.number * in.columns + row.at[0] : symbolic.perTile * row.firstTile;
        std::memcpy(target + start * inner, source, count * inner * sizeof(float));
        source += count * inner;
      }
    }
  }
};

} // namespace

Status forward(Session &s) {
  const Program &p = s.program();
  const Stage &stage = s.executor->stageInfo();
  auto mode = stage.modes.find("forward");
  if (mode == stage.modes.end())
    return invalid("the program has no mode \"forward\"; compile it again");
  OMNIBAL_ASSIGN_OR_RETURN(auto file, SafetensorsFile::open(s.options.forward));
  auto inputs = readInputs(p, *file);
  OMNIBAL_RETURN_IF_ERROR(s.agree(inputs.status()));
  const Inputs &in = *inputs;

  std::vector<std::pair<int64_t, int64_t>> loads;
  for (const Row &row : in.list)
    loads.push_back({row.tiles, static_cast<int64_t>(row.ids.size())});
  auto groups = cutInOrder(loads, p.caps().tiles, p.caps().tokens);
  // One replica runs; the others keep step with empty micro-batches.
  bool works = s.executor->dataRank("forward") == 0, pixels = readsPixels(stage, "forward");
  std::map<std::string, Output> outputs;
  if (s.executor->isFirstHolder())
    for (const BatchValue &value : mode->second.results) {
      OMNIBAL_ASSIGN_OR_RETURN(outputs[value.name], Output::create(value, in));
    }
  size_t perRun = mode->second.microbatches;
  for (size_t first = 0; first < groups.size(); first += perRun) {
    GivenMicrobatches source;
    for (size_t m = 0; m < perRun; ++m) {
      auto rows = works && first + m < groups.size() ? groups[first + m] : std::vector<int64_t>();
      OMNIBAL_ASSIGN_OR_RETURN(PackedMicrobatch batch, packRows(p, in, rows, pixels));
      source.list.push_back(std::move(batch));
    }
    ResultSink sink = [&](int32_t m, const BatchValue &result, const std::byte *bytes,
                          const PackedMicrobatch &batch) {
      if (works && first + m < groups.size())
        outputs.at(result.name).collect(in, groups[first + m], result, bytes, batch);
      return Status::ok();
    };
    OMNIBAL_RETURN_IF_ERROR(s.executor->run("forward", source, sink));
  }

  std::vector<TensorHeader> layout;
  for (const Stage *other : p.firstParts())
    for (const BatchValue &value : other->modes.at("forward").results) {
      OMNIBAL_ASSIGN_OR_RETURN(Output shape, Output::create(value, in));
      layout.push_back({value.name, StoredType::F32, shape.shape});
    }
  std::vector<NamedTensor> mine;
  for (auto &[name, output] : outputs)
    mine.push_back({name, output.shape, output.data.data(), false});
  return writeSharedTensorFile({s.options.output, layout}, mine, s.leads(), s.agree);
}

} // namespace omnibal::rt
