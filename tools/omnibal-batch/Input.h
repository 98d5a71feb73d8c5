//===- Input.h - Sample lengths from a table or from shards ---------------------------------===//
#ifndef TOOLS_OMNIBAL_BATCH_INPUT_H
#define TOOLS_OMNIBAL_BATCH_INPUT_H

#include "runtime/batching/io/BatchesFolder.h"
#include "runtime/data/pictures/PictureTransform.h"
#include "runtime/program/PictureGrid.h"
#include <optional>
#include <string>
#include <vector>

namespace omnibal::rt {

/// What preprocessor_config.json says of the pictures of shards: units of those that have sizes of
/// their own, and what becomes of those that shards hold as they are.
struct ShardPictures {
  std::optional<PictureGrid> grid;
  std::optional<PictureTransform> transform;
};
/// Neither where `preprocess` is empty.
Result<ShardPictures> readShardPictures(const std::string &preprocess);

/// One table (runtime/batching/io/LengthsCsv.h), or WebDataset shards and folders of them: sample n
/// is then the n-th of the data set, as omnibal-run numbers them. With a grid pictures of shards
/// have their own sizes and count as many tiles as they have units, and their squares are known.
/// Where the sizes of pictures are not known although `cost` depends on them, the user is told.
Result<SampleLengths> readLengths(const std::vector<std::string> &inputs,
                                  const ShardPictures &pictures, const LoadCost &cost);
/// That message: what is taken for the sizes of the pictures of this table.
std::string unknownPictures(const std::string &table);

/// "FILE=WEIGHT", FILE as above.
struct WeightedInput {
  std::string path;
  double weight = 0;
};
Result<std::vector<WeightedInput>> parseMix(const std::vector<std::string> &mix);
/// Weights from later epochs on, EPOCH=WEIGHT,WEIGHT,...
Result<std::vector<MixPhase>> parseMixPhases(const std::vector<std::string> &texts);

/// All data sets one after the other; `mix` gets their sizes and weights, and as many samples an
/// epoch as they have together.
Result<SampleLengths> readMix(const std::vector<WeightedInput> &inputs,
                              const ShardPictures &pictures, const LoadCost &cost, Mix &mix);

bool isShards(const std::string &path);
/// "-" is the standard input.
std::string tablePath(const std::string &input);

} // namespace omnibal::rt
#endif // TOOLS_OMNIBAL_BATCH_INPUT_H
