#include "runtime/data/pictures/GridFile.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"

namespace omnibal::rt {
namespace {

constexpr int64_t largest = 4096;

Result<int64_t> side(const nlohmann::json &root, const char *field, const std::string &label) {
  nlohmann::json value = root.value(field, nlohmann::json());
  if (value.is_object() && value.contains("height") && value.contains("width") &&
      value["height"] == value["width"])
    value = nlohmann::json(value["height"]);
  if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 || value.get<uint64_t>() > largest)
    return invalid(label + ": " + field + " must be a whole number from 1 to " +
                   std::to_string(largest));
  return value.get<int64_t>();
}

} // namespace

Result<std::optional<PictureGrid>> readPictureGrid(const std::string &path) {
  OMNIBAL_ASSIGN_OR_RETURN(std::string text, readWholeFile(path));
  return parsePictureGrid(text, path);
}

Result<std::optional<PictureGrid>> parsePictureGrid(const std::string &text,
                                                    const std::string &label) {
  OMNIBAL_ASSIGN_OR_RETURN(nlohmann::json root, parseJson(text, label));
  if (!root.is_object())
    return invalid(label + ": not a JSON object");
  if (root.contains("image_processor") && root["image_processor"].is_object())
    root = nlohmann::json(root["image_processor"]); // the combined processor_config.json
  if (!root.contains("merge_size"))
    return std::optional<PictureGrid>();
  PictureGrid grid;
  OMNIBAL_ASSIGN_OR_RETURN(grid.patch, side(root, "patch_size", label));
  OMNIBAL_ASSIGN_OR_RETURN(grid.merge, side(root, "merge_size", label));
  if (root.contains("temporal_patch_size")) {
    OMNIBAL_ASSIGN_OR_RETURN(grid.temporal, side(root, "temporal_patch_size", label));
  }
  return std::optional(grid);
}

Status checkSameUnits(const std::string &path, const PictureGrid &program) {
  OMNIBAL_ASSIGN_OR_RETURN(std::optional<PictureGrid> file, readPictureGrid(path));
  auto describe = [](const PictureGrid &g) {
    return "patches of " + std::to_string(g.patch) + " pixels, " + std::to_string(g.merge) + " x " +
           std::to_string(g.merge) + " of them a token, " + std::to_string(g.temporal) +
           " copies of a picture";
  };
  if (file && (file->patch != program.patch || file->merge != program.merge ||
               file->temporal != program.temporal))
    return invalid(path + ": " + describe(*file) + "; but the program was compiled for " +
                   describe(program) + "; take the file of that model");
  return Status::ok();
}

} // namespace omnibal::rt
