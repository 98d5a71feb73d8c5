#include "importers/onnx/PictureFacts.h"
#include "dialects/omnibal/ir/BatchValues.h"
#include "importers/onnx/Diagnostics.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "runtime/support/AtomicFile.h"
#include "runtime/support/Json.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cmath>

using namespace mlir;

namespace omnibal::onnx {
namespace {

constexpr int64_t largestSide = 4096;

struct PictureFacts {
  int64_t patch = 0, merge = 0, temporal = 0, window = 0, gridSide = 0;
  std::string interpolation = "bilinear"; ///< or "bicubic"
  bool alignCorners = true;

  bool isBicubic() const { return interpolation == "bicubic"; }
  /// Entries of the learned table that a patch is made of.
  int64_t taps() const { return isBicubic() ? 16 : 4; }
};

/// Graph inputs as the importer made them.
class Inputs {
public:
  explicit Inputs(func::FuncOp function) : function(function) {}

  std::optional<unsigned> find(StringRef name) {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (nameOf(i) == name)
        return i;
    return std::nullopt;
  }
  /// The first input that follows from pictures' sizes.
  StringRef firstFact() {
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      StringRef name = nameOf(i), stem = name;
      if (isPictureFact(name) ||
          (stem.consume_back("_ids") && isPictureFact((stem + "_cu_seqlens").str())))
        return name;
    }
    return {};
  }
  RankedTensorType typeOf(unsigned i) {
    return cast<RankedTensorType>(function.getArgument(i).getType());
  }
  /// k of a first dimension `k*units`.
  int64_t rowsPerUnit(unsigned i) {
    auto dims = function.getArgAttrOfType<ArrayAttr>(i, "omnibal.dims");
    int64_t factor = 1;
    if (dims && !dims.empty())
      cast<StringAttr>(dims[0]).getValue().split('*').first.trim().getAsInteger(10, factor);
    return factor;
  }

private:
  StringRef nameOf(unsigned i) {
    auto name = function.getArgAttrOfType<StringAttr>(i, "omnibal.input");
    return name ? name.getValue() : StringRef();
  }
  func::FuncOp function;
};

/// The JSON object in `file`, null where the file is absent.
FailureOr<nlohmann::json> readObject(StringRef file, Location where) {
  if (!llvm::sys::fs::exists(file))
    return nlohmann::json();
  rt::Result<std::string> text = rt::readWholeFile(file.str());
  if (!text)
    return notSupported(where) << text.status().message(), failure();
  rt::Result<nlohmann::json> value = rt::parseJson(*text, file.str());
  if (!value)
    return notSupported(where) << value.status().message(), failure();
  if (!value->is_object())
    return notSupported(where) << file << ": not a JSON object", failure();
  return std::move(*value);
}

/// The first of the fields that is a whole number, else `otherwise`.
int64_t numberOf(const nlohmann::json &object, ArrayRef<const char *> fields, int64_t otherwise) {
  for (const char *field : fields)
    if (auto found = object.find(field); found != object.end())
      if (std::optional<int64_t> number = rt::integerOf(*found))
        return *number;
  return otherwise;
}

PictureFacts fromConfiguration(const nlohmann::json &vision) {
  PictureFacts facts;
  facts.patch = numberOf(vision, {"patch_size"}, 0);
  facts.merge = numberOf(vision, {"spatial_merge_size", "merge_size"}, 1);
  facts.temporal = numberOf(vision, {"temporal_patch_size"}, 1);
  facts.window = numberOf(vision, {"window_size"}, 0);
  int64_t positions = numberOf(vision, {"num_position_embeddings"}, 0);
  facts.gridSide = static_cast<int64_t>(std::llround(std::sqrt(std::max<int64_t>(positions, 0))));
  return facts;
}

PictureFacts fromOwn(const nlohmann::json &pictures) {
  PictureFacts facts{numberOf(pictures, {"patch"}, 0), numberOf(pictures, {"merge"}, 1),
                     numberOf(pictures, {"temporal"}, 1), numberOf(pictures, {"window"}, 0),
                     numberOf(pictures, {"grid_side"}, 0)};
  if (auto found = pictures.find("interpolation"); found != pictures.end() && found->is_string())
    facts.interpolation = found->get<std::string>();
  if (auto found = pictures.find("align_corners"); found != pictures.end() && found->is_boolean())
    facts.alignCorners = found->get<bool>();
  return facts;
}

FailureOr<PictureFacts> readFacts(StringRef modelPath, StringRef input, Location where) {
  auto beside = [&](StringRef name) {
    SmallString<256> path(llvm::sys::path::parent_path(modelPath));
    llvm::sys::path::append(path, name);
    return path;
  };
  auto own = readObject(beside("omnibal.json"), where);
  auto theirs = readObject(beside("config.json"), where);
  if (failed(own) || failed(theirs))
    return failure();
  if (auto pictures = own->find("pictures"); pictures != own->end() && pictures->is_object())
    return fromOwn(*pictures);
  if (auto vision = theirs->find("vision_config"); vision != theirs->end() && vision->is_object())
    return fromConfiguration(*vision);
  return notSupported(where) << "the graph input '" << input << "' follows from the sizes of "
                             << "pictures, but neither omnibal.json (`pictures`) nor config.json "
                             << "(`vision_config`) beside the model says the sizes of patches; "
                             << "put config.json there",
         failure();
}

/// A graph whose tokens attend to pictures does not say which token stands for one.
LogicalResult attachImageToken(ModuleOp module, StringRef modelPath) {
  Location where = module.getLoc();
  SmallString<256> path(llvm::sys::path::parent_path(modelPath));
  llvm::sys::path::append(path, "omnibal.json");
  auto own = readObject(path, where);
  if (failed(own))
    return failure();
  int64_t token = numberOf(*own, {"image_token_id"}, -1);
  if (token < 0)
    return notSupported(where) << "the graph input '" << seenPicturesInput
                               << "' follows from where "
                               << "pictures stand among the tokens, but omnibal.json beside the "
                               << "model does not say which token marks them (`image_token_id`)",
           failure();
  Builder builder(module.getContext());
  module->setAttr("omnibal.image_token_id", builder.getI64IntegerAttr(token));
  module->setAttr("omnibal.tokens_per_tile", builder.getI64IntegerAttr(1));
  return success();
}

/// The graph's own shapes say how many entries of the table a patch is made of.
LogicalResult checkTaps(const PictureFacts &facts, Inputs &inputs, Location where) {
  if (facts.interpolation != "bilinear" && !facts.isBicubic())
    return notSupported(where) << "omnibal.json beside the model gives '" << facts.interpolation
                               << "' as interpolation of the table of positions; it must be "
                               << "bilinear or bicubic";
  for (StringRef name : {"image_interp_indices", "image_interp_weights"}) {
    auto input = inputs.find(name);
    if (!input)
      continue;
    RankedTensorType type = inputs.typeOf(*input);
    if (type.getRank() != 2 || type.getDimSize(1) != facts.taps())
      return notSupported(where)
             << "the graph input '" << name << "' has type " << type << ", but " << facts.taps()
             << " entries of the table of positions make a patch by " << facts.interpolation
             << " interpolation; omnibal.json beside the model says which it is (`pictures`: "
             << "`interpolation`, `align_corners`)";
  }
  return success();
}

LogicalResult check(const PictureFacts &facts, Inputs &inputs, Location where) {
  for (auto [name, side] :
       {std::pair("patch", facts.patch), {"merge", facts.merge}, {"temporal", facts.temporal}})
    if (side < 1 || side > largestSide)
      return notSupported(where) << "the configuration beside the model gives " << side << " as "
                                 << name << " size of pictures; it must lie in 1 to "
                                 << largestSide;
  auto pixels = inputs.find("pixel_values");
  if (!pixels || inputs.typeOf(*pixels).getRank() != 2)
    return notSupported(where) << "a model of pictures of any size needs the graph input "
                               << "'pixel_values' of patches [patches, values]";
  int64_t values = 3 * facts.temporal * facts.patch * facts.patch;
  if (inputs.typeOf(*pixels).getDimSize(1) != values ||
      inputs.rowsPerUnit(*pixels) != facts.merge * facts.merge)
    return notSupported(where) << "the graph input 'pixel_values' has "
                               << inputs.rowsPerUnit(*pixels) << " patches a unit of "
                               << inputs.typeOf(*pixels).getDimSize(1) << " values, but the "
                               << "configuration beside the model gives "
                               << facts.merge * facts.merge << " of " << values << " (patch "
                               << facts.patch << ", merge " << facts.merge << ", temporal "
                               << facts.temporal << ")";
  return success();
}
} // namespace

LogicalResult attachPictureFacts(ModuleOp module, StringRef modelPath) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main)
    return success();
  Inputs inputs(main);
  if (inputs.find(seenPicturesInput) && failed(attachImageToken(module, modelPath)))
    return failure();
  StringRef fact = inputs.firstFact();
  if (fact.empty())
    return success();
  Location where = module.getLoc();
  auto facts = readFacts(modelPath, fact, where);
  if (failed(facts) || failed(check(*facts, inputs, where)) ||
      failed(checkTaps(*facts, inputs, where)))
    return failure();
  // A configuration may name what the graph does not use.
  bool windows = inputs.find("image_window_index") || inputs.find("image_window_ids");
  bool table = inputs.find("image_interp_indices").has_value();
  Builder builder(module.getContext());
  auto number = [&](StringRef name, int64_t value) {
    return builder.getNamedAttr(name, builder.getI64IntegerAttr(value));
  };
  SmallVector<NamedAttribute> entries = {
      number("patch", facts->patch), number("merge", facts->merge),
      number("temporal", facts->temporal), number("window", windows ? facts->window : 0),
      number("grid_side", table ? facts->gridSide : 0)};
  if (table && facts->isBicubic())
    entries.push_back(
        builder.getNamedAttr("interpolation", builder.getStringAttr(facts->interpolation)));
  if (table && !facts->alignCorners)
    entries.push_back(builder.getNamedAttr("align_corners", builder.getBoolAttr(false)));
  module->setAttr("omnibal.pictures", builder.getDictionaryAttr(entries));
  return success();
}

} // namespace omnibal::onnx
